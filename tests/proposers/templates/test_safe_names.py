"""Arguments with names that C++ or generated code has a use for."""

from __future__ import annotations

import re

import pytest
import torch

from kernelwright.proposers.model import Operator, Request
from kernelwright.proposers.templates import make
from kernelwright.proposers.templates.safe_names import other_names, reserved
from kernelwright.tasks import Task, tensor
from tests.proposers.templates.checking import errors

SIZES = {"rows": 5, "cols": 37}


def task_of(first: str, second: str, result: str) -> Task:
    inputs = {first: tensor("rows", "cols"), second: tensor("rows", "cols")}
    reference = lambda a, b: torch.softmax(a * b, -1) + a.sum(-1, keepdim=True)  # noqa: E731
    return Task(reference, inputs, [SIZES], {"rows": (1, 70), "cols": (2, 700)}, "named", outputs=(result,))


def source_of(task: Task, contract: str) -> str:
    (made,) = make(task, contract).propose(Request(Operator.fresh, 1, 0))
    return made.candidate.source


@pytest.mark.parametrize("names", [("new", "double", "default"), ("positive", "load", "V"), ("wide", "wide_", "most")])
def test_arguments_may_be_called_what_generated_code_uses(names: tuple[str, str, str]) -> None:
    task = task_of(*names)
    assert errors(task, source_of(task, "cpp"), SIZES) == []
    cuda = source_of(task, "cuda")
    taken = {name for name in names if name in reserved()}
    (plan,) = re.findall(r"^def plan\((.*)\):", cuda, re.MULTILINE)
    assert not taken & {name.strip() for name in plan.split(",")} and len(taken) >= 2


def test_other_names_are_free_and_usual_names_stay() -> None:
    assert other_names(["x", "weight", "out", "eps", "grad_out"]) == {}
    assert other_names(["load", "load_", "x"]) == {"load": "load__"}
    assert {"signum", "pick", "shuffled", "over_team", "W", "Found", "new"} <= reserved()
