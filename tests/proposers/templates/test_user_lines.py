"""Refusals and slow steps name the line of the code that the operation comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelwright.proposers.model import Operator, Request
from kernelwright.proposers.templates import make
from kernelwright.proposers.templates.graph import CannotExpressError
from kernelwright.proposers.templates.trace import read_graph
from kernelwright.tasks.backward import derive_backward
from kernelwright.tasks.loading import load_task
from kernelwright.tasks.model import Task

TEXT = """import torch
from kernelwright.tasks import Task, tensor


def inner(x):
    {inner}


def reference(x, y):
    z = torch.nn.functional.silu(x) * y
    w = inner(z)
    return w.softmax(-1)


task = Task(
    reference,
    inputs={{"x": tensor("r", "c"), "y": tensor("r", "c")}},
    public=[{{"r": 64, "c": 33}}],
    hidden={{"r": (10, 100), "c": (10, 100)}},
)
"""


def task_with(inner: str, folder: Path) -> Task:
    file = folder / "task.py"
    file.write_text(TEXT.format(inner=inner))
    return load_task(file)


def test_a_refusal_names_the_operation_the_line_and_who_else_may_write_it(tmp_path: Path) -> None:
    task = task_with("return torch.linalg.qr(x)[0]", tmp_path)
    with pytest.raises(CannotExpressError) as caught:
        make(task, "cpp")
    assert str(caught.value) == (
        f"task: no template covers the operation linalg_qr at {task.origin}:6: return torch.linalg.qr(x)[0]; "
        "another proposer may write it: --proposer llm asks a model, files asks you"
    )


def test_every_node_knows_its_line_also_those_of_a_gradient(tmp_path: Path) -> None:
    task = task_with("return torch.cumsum(x, -1)", tmp_path)
    for one in (task, derive_backward(task)):
        graph = read_graph(one)
        lines = {origin.operation: origin.line.line for origin in graph.origins if origin and origin.line}
        assert lines["cumsum"] == 6 and lines["sigmoid"] == 10 and lines["exp"] == 12
        assert all(origin is not None and origin.line is not None for origin in graph.origins[len(one.inputs) :])


def test_a_candidate_says_which_lines_it_computes_without_speed(tmp_path: Path) -> None:
    for inner, generic in (
        ("return torch.cumsum(x, -1)", (f"cumsum at {tmp_path}/task.py:6: return torch.cumsum(x, -1)",)),
        ("return x.abs() + 1", ()),
    ):
        proposal = make(task_with(inner, tmp_path), "cpp").propose(Request(Operator.fresh, 1, 0))[0]
        assert proposal.generic == generic
        assert str(tmp_path) not in proposal.candidate.source


def test_a_diagonal_that_is_filled_in_place_is_covered(tmp_path: Path) -> None:
    task = task_with("return (x @ x.T).fill_diagonal_(-1.0) @ x", tmp_path)
    assert make(task, "cpp").plan.steps


def test_sizes_that_depend_on_values_are_said_to(tmp_path: Path) -> None:
    task = task_with("return x.index_fill(0, torch.where(x.sum(-1) > 0)[0], 0.0)", tmp_path)
    with pytest.raises(
        CannotExpressError, match=r"task\.py:6: the size of what nonzero gives depends on values; another"
    ):
        make(task, "cpp")
