"""Operations are followed to the results, through views, in-place steps and Python."""

from __future__ import annotations

from typing import Any

import torch

from kernelwright.tasks import Task, tensor
from kernelwright.tasks.trace import record, record_sizes


def square_task(reference: Any, **changes: Any) -> Task:
    fields: dict[str, Any] = {
        "reference": reference,
        "inputs": {"x": tensor("n", "n"), "w": tensor("n", "n")},
        "public": [{"n": 8}],
        "hidden": {"n": (4, 40)},
        "name": "square",
    }
    return Task(**{**fields, **changes})


def dead_names(reference: Any, **changes: Any) -> list[str]:
    task = square_task(reference, **changes)
    inputs = {name: torch.randn(8, 8) for name in task.inputs}
    return [operation.name for operation in record(task, inputs).dead]


def test_what_reaches_no_result_is_dead() -> None:
    def reference(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        w.exp().sum()
        return x * w

    assert dead_names(reference) == ["exp", "sum"]


def test_a_step_through_a_view_is_alive() -> None:
    def reference(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        out = torch.zeros_like(x)
        out[:, 0] = w.sum(1)
        out[1:].mul_(2)
        return out + x

    assert dead_names(reference) == []


def test_a_step_in_place_on_an_argument_is_alive() -> None:
    def reference(x: torch.Tensor, w: torch.Tensor) -> None:
        x.view(-1).add_(w.view(-1).exp())

    assert dead_names(reference, inout=("x",), outputs=()) == []


def test_a_value_that_python_looked_at_is_alive() -> None:
    def reference(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x + 1 if w.sum().item() > 0 else x - 1

    assert dead_names(reference) == []


def test_a_part_of_a_result_that_nobody_takes_is_no_dead_step() -> None:
    def reference(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        values, _ = x.max(-1, keepdim=True)
        return values * w

    assert dead_names(reference) == []


def test_products_are_counted_where_they_are_needed() -> None:
    def reference(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        torch.mm(w, w)
        return torch.mm(x, x)

    task = square_task(reference)
    trace = record_sizes(task, task.public_workloads()[0])
    assert trace.flops == 2 * 8**3
    assert trace.read == ("x",)
