"""Moves are exact, selections have one value, and elements that never meet are compared by themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from kernelwright.judge.oracle.right.compare import check
from kernelwright.judge.oracle.right.tolerance import BitExact, Within, expectations
from kernelwright.tasks import Task, tensor
from kernelwright.tasks.backward import derive_backward
from kernelwright.tasks.declarations import Family
from kernelwright.tasks.drawing import draw_inputs
from kernelwright.tasks.reference import run_reference
from kernelwright.tasks.resolve import declared

SENTINEL = 0x7FF17FF2
Tensor = torch.Tensor


def make(reference: Callable[..., Any], *dims: tuple[Any, ...], **more: Any) -> Task:
    inputs = {name: tensor(*shape) for name, shape in zip("abc", dims, strict=False)}
    return Task(reference=reference, inputs=inputs, public=[{}], hidden={}, name="t", **more)


def drawn(task: Task, family: Family = Family.NORMAL) -> tuple[dict[str, Any], dict[str, Any]]:
    (workload, *_) = task.public_workloads()
    inputs = draw_inputs(task, workload, family, torch.Generator().manual_seed(0))
    return inputs, expectations(task, inputs, workload)


def six_bits_dropped(value: Tensor) -> Tensor:
    return (value.view(torch.int32) & ~0x3F).view(torch.float32)


MOVES: dict[str, Task] = {
    "transposed": make(lambda a: a.t().contiguous(), (40, 30)),
    "gathered": make(lambda a: a[torch.arange(39, -1, -1)], (40, 30)),
    "joined": make(lambda a, b: torch.cat((a, b.flip(0)), 1), (40, 30), (40, 20)),
    "padded": make(lambda a: F.pad(a, (1, 2)), (40, 30)),
    "repeated": make(lambda a: a.repeat(2, 3).roll(5, 0), (40, 30)),
    "bf16": make(lambda a: a.t().contiguous(), (40, 30), dtypes=("bfloat16",)),
}
SELECTS: dict[str, Task] = {
    "relu": make(torch.relu, (40, 30)),
    "clamp": make(lambda a: a.clamp(-0.3, 0.1), (40, 30)),
    "largest": make(lambda a, b: torch.maximum(a, b), (40, 30), (40, 30)),
    "pool": make(lambda a: F.max_pool2d(a, 2), (2, 3, 12, 12)),
    "masked": make(lambda a: torch.where(a > 0, a, 0.1), (40, 30)),
    "backward of a pool": derive_backward(make(lambda a: F.max_pool2d(a, 2), (2, 3, 12, 12))),
    "negated": make(torch.neg, (40, 30)),
}
COMPUTES: dict[str, Task] = {
    "scaled": make(lambda a: a.t() * 3, (40, 30)),
    "overlapping pool's backward": derive_backward(make(lambda a: F.max_pool2d(a, 3, 1), (2, 3, 12, 12))),
    "accumulated": make(
        lambda a: torch.zeros_like(a).index_put((torch.zeros(40, dtype=torch.long),), a, accumulate=True), (40, 30)
    ),
    "scattered": make(lambda a: torch.zeros_like(a).scatter_add(0, torch.zeros(40, 30, dtype=torch.long), a), (40, 30)),
    "through another format": make(lambda a: a.to(torch.float16).to(a.dtype), (40, 30)),
}


@pytest.mark.parametrize("name", MOVES)
def test_moves_are_compared_bit_for_bit(name: str) -> None:
    task = MOVES[name]
    inputs, expected = drawn(task)
    assert isinstance(expected["out"], BitExact)
    eager = run_reference(task, inputs)["out"].contiguous()
    assert check(expected["out"], eager, SENTINEL) is None
    if eager.dtype == torch.float32:
        assert check(expected["out"], six_bits_dropped(eager), SENTINEL) is not None


@pytest.mark.parametrize("name", SELECTS)
def test_selections_are_compared_by_value(name: str) -> None:
    task = SELECTS[name]
    inputs, expected = drawn(task)
    ((result, bounds),) = expected.items()
    assert isinstance(bounds, Within)
    eager = run_reference(task, inputs)[result].contiguous()
    assert check(bounds, eager, SENTINEL) is None
    assert check(bounds, torch.where(eager == 0, -eager, eager), SENTINEL) is None
    assert check(bounds, six_bits_dropped(eager), SENTINEL) is not None


def test_selections_let_nan_through() -> None:
    task = SELECTS["relu"]
    inputs, _ = drawn(task)
    inputs["a"][0, 0] = torch.nan
    expected = expectations(task, inputs, task.public_workloads()[0])["out"]
    right = torch.relu(inputs["a"])
    assert check(expected, right, SENTINEL) is None
    assert check(expected, right.nan_to_num(0.0), SENTINEL) is not None


@pytest.mark.parametrize("name", COMPUTES)
def test_what_adds_or_rounds_has_a_tolerance(name: str) -> None:
    task = COMPUTES[name]
    inputs, expected = drawn(task)
    ((result, bounds),) = expected.items()
    assert isinstance(bounds, Within) and bool((bounds.low < bounds.high).any())
    assert check(bounds, run_reference(task, inputs)[result].contiguous(), SENTINEL) is None


def test_each_result_is_looked_at_by_itself() -> None:
    task = make(lambda a: (a.t().contiguous(), a * 3, a.argmax(-1)), (40, 30), outputs=("moved", "scaled", "best"))
    _, expected = drawn(task)
    assert isinstance(expected["moved"], BitExact) and isinstance(expected["scaled"], Within)


def test_small_elements_of_a_state_do_not_hide_behind_large_ones() -> None:
    task = declared("adamw")
    workload = task.public_workloads()[0]
    sizes = type(workload)((("elements", 4096),), "float32")
    inputs = draw_inputs(task, sizes, Family.NORMAL, torch.Generator().manual_seed(0))
    for name, value in inputs.items():
        if isinstance(value, Tensor):
            value[7] = 1e-10 if name == "exp_avg_sq" else 1e-5
    expected = expectations(task, inputs, sizes)
    right = run_reference(task, inputs)
    for name in ("exp_avg", "exp_avg_sq", "param"):
        assert check(expected[name], right[name], SENTINEL) is None
        off = right[name].clone()
        off[7] *= 1.001
        assert check(expected[name], off, SENTINEL) is not None, name
    fused = (1 - 0.9) * inputs["grad"] + 0.9 * inputs["exp_avg"]
    assert check(expected["exp_avg"], fused, SENTINEL) is None


def test_elements_that_meet_share_their_row() -> None:
    """Where a row is scaled by its norm, every element carries the rounding of the norm and of the largest."""
    _, expected = drawn(make(lambda a: a - a.mean(-1, keepdim=True), (8, 500)))
    bounds = expected["out"]
    width = bounds.high.double() - bounds.low.double()
    assert float(width.min() / width.median()) > 0.2
