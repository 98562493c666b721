"""Recurrent layers are one step for each layer and direction, whatever the length of the sequence."""

from __future__ import annotations

import torch

from kernelwright.proposers.model import Operator, Request
from kernelwright.proposers.templates import make
from kernelwright.proposers.templates.patterns.recurrent import RecurrentStep
from kernelwright.tasks import Task, tensor
from tests.proposers.templates.checking import errors


def lstm(
    x: torch.Tensor,
    h: torch.Tensor,
    c: torch.Tensor,
    w: torch.Tensor,
    u: torch.Tensor,
    b: torch.Tensor,
    d: torch.Tensor,
) -> tuple[torch.Tensor, ...]:
    return torch.lstm(x, (h, c), [w, u, b, d], True, 1, 0.0, False, False, True)


def layer() -> Task:
    """Tensors are called as variables of generated code are."""
    inputs = {
        "x": tensor("rows", "times", "wide"),
        "h": tensor(1, "rows", "units"),
        "c": tensor(1, "rows", "units"),
        "w": tensor("4*units", "wide"),
        "u": tensor("4*units", "units"),
        "b": tensor("4*units"),
        "d": tensor("4*units"),
    }
    sizes = {"rows": 3, "times": 5, "wide": 7, "units": 6}
    ranges = dict.fromkeys(sizes, (1, 40))
    return Task(lstm, inputs, [sizes], ranges, "lstm", outputs=("y", "hn", "cn"))


def test_a_layer_is_right_at_other_lengths() -> None:
    task = layer()
    made = make(task, "cpp")
    assert sum(isinstance(step, RecurrentStep) for step in made.plan.steps) == 1
    source = made.propose(Request(Operator.fresh, 1, 0))[0].candidate.source
    for sizes in (dict(task.public[0]), {"rows": 1, "times": 1, "wide": 2, "units": 33}):
        assert not errors(task, source, sizes)
