"""Tasks with 8-bit numbers: one rounding of the format is right, two are not, nor is another format's overflow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.torch_versions import NEEDS_E4M3

from kernelwright.judge.oracle.right.compare import check
from kernelwright.judge.oracle.right.tolerance import Within, expectations
from kernelwright.tasks import formats
from kernelwright.tasks.declarations import FAMILIES, Family
from kernelwright.tasks.dims import TaskError
from kernelwright.tasks.drawing import draw_inputs
from kernelwright.tasks.model import Workload
from kernelwright.tasks.reference import run_reference
from kernelwright.tasks.resolve import resolve

pytestmark = NEEDS_E4M3
TASKS = Path(__file__).parents[3] / "benchmarks" / "honest" / "tasks"
SENTINEL = 0x7FF17FF2
Tensors = dict[str, Any]
Judging = Callable[[Tensors], list[str]]


def trial(
    name: str, family: Family = Family.NORMAL, **planted: float
) -> tuple[Tensors, Callable[[Tensors], list[str]]]:
    """Inputs, of which some have a number at their first place, and which of some results are wrong for them."""
    task = resolve(str(TASKS / f"{name}.py"))
    workload = Workload(tuple(task.public[0].items()), task.dtypes[0])
    inputs = draw_inputs(task, workload, family, torch.Generator().manual_seed(3))
    for argument, value in planted.items():
        inputs[argument].view(-1)[0] = value  # type: ignore[union-attr]
    expected = expectations(task, inputs, workload)
    assert set(expected) == set(task.result_names)

    def wrong(results: Tensors) -> list[str]:
        return [name for name, value in results.items() if check(expected[name], value.contiguous(), SENTINEL)]

    return inputs, wrong


def scaled_product(inputs: Tensors, sums: torch.dtype = torch.float32) -> torch.Tensor:
    product = inputs["a"].to(sums) @ inputs["b"].to(sums).T
    return (product.float() * (inputs["scale_a"] * inputs["scale_b"].T)).bfloat16()


def rmsnorm(inputs: Tensors) -> Tensors:
    x, weight = inputs["x"], inputs["weight"]
    y = x * weight * (1 / (x * x).mean(-1, keepdim=True).add(inputs["eps"]).sqrt())
    scale = y.abs().amax(-1, keepdim=True).clamp_min(1e-10) / 448
    return {"q": (y * (1 / scale)).to(torch.float8_e4m3fn), "scale": scale}


@pytest.mark.parametrize("family", FAMILIES)
def test_other_arithmetic_with_one_rounding_is_right(family: Family) -> None:
    inputs, wrong = trial("scaled_mm", family)
    assert wrong({"out": scaled_product(inputs)}) == []
    inputs, wrong = trial("rmsnorm_fp8", family)
    assert wrong(rmsnorm(inputs)) == []


def test_torchs_own_scaled_product_is_right() -> None:
    inputs, wrong = trial("scaled_mm")
    one = torch.ones(())
    made = torch._scaled_mm(inputs["a"], inputs["b"].t(), scale_a=one, scale_b=one, out_dtype=torch.float32)
    assert wrong({"out": (made * inputs["scale_a"] * inputs["scale_b"].T).bfloat16()}) == []


@pytest.mark.parametrize("steps", [1, 2])
def test_a_result_that_is_steps_of_the_format_away_is_wrong(steps: int) -> None:
    """Also one step, but where the value before its rounding is near halfway."""
    inputs, wrong = trial("rmsnorm_fp8")
    made = rmsnorm(inputs)
    codes = made["q"].view(torch.uint8).clone()
    codes[:, 0] += torch.where(codes[:, 0] & 0x7F < 0x70, steps, -steps).to(torch.uint8)
    assert wrong(made | {"q": codes.view(torch.float8_e4m3fn)}) == ["q"]


def test_factors_that_were_rounded_to_8_bits_again_are_wrong() -> None:
    inputs, wrong = trial("scaled_mm")
    assert wrong({"out": scaled_product(inputs, torch.bfloat16)}) == ["out"]  # sums in 16 bits
    coarse = inputs | {"a": inputs["a"].float().to(torch.float8_e5m2)}
    assert wrong({"out": scaled_product(coarse)}) == ["out"]


def quantised(inputs: Tensors) -> Tensors:
    y = inputs["x"] / inputs["scale"]
    return {"fine": y.to(torch.float8_e4m3fn), "coarse": y.to(torch.float8_e5m2)}


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf, 1e9])
def test_overflow_and_nan_are_those_of_torch(value: float) -> None:
    inputs, wrong = trial("quantise_fp8", x=value)
    made = quantised(inputs)
    assert wrong(made) == []
    nan = torch.isnan(torch.tensor(value))
    others = {
        "fine": 0x7E if nan else 0x7F,  # the largest number for NaN, or NaN where torch saturates
        "coarse": 0x7B if nan else (0x7B if value > 0 else 0xFB),  # the largest number for NaN or an infinity
    }
    for name, code in others.items():
        codes = made[name].view(torch.uint8).clone()
        codes[0, 0] = code
        assert wrong({name: codes.view(made[name].dtype)}) == [name]


def test_whole_numbers_summed_in_few_bits_are_wrong() -> None:
    inputs, wrong = trial("int8_mm")
    scale = inputs["scale_a"] * inputs["scale_b"]
    exact = inputs["a"].int() @ inputs["b"].int().T
    assert wrong({"out": exact * scale}) == []
    assert wrong({"out": exact.to(torch.int16) * scale}) == ["out"]  # which wraps around
    assert wrong({"out": exact.clamp(-32768, 32767) * scale}) == ["out"]
    assert wrong({"out": exact.half() * scale}) == ["out"]


def test_bounds_of_a_result_in_8_bits_are_its_neighbours_at_most() -> None:
    """One rounding of the format is the whole allowance: a tolerance of steps would admit every neighbour."""
    task = resolve(str(TASKS / "rmsnorm_fp8.py"))
    workload = Workload(tuple(task.public[0].items()), task.dtypes[0])
    inputs = draw_inputs(task, workload, Family.NORMAL, torch.Generator().manual_seed(3))
    bounds = expectations(task, inputs, workload)["q"]
    assert isinstance(bounds, Within) and bounds.low.dtype == torch.float32
    low, high = (end.to(torch.float8_e4m3fn).view(torch.uint8).int() for end in (bounds.low, bounds.high))
    large = run_reference(task, inputs)["q"].float().abs() >= 1  # others are small beside what a row rounds
    assert int((low - high).abs()[large].max()) == 1
    assert float((low != high).float().mean()) < 0.01


def test_a_torch_that_makes_nan_of_what_is_too_large_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert formats.saturates()
    task = resolve(str(TASKS / "quantise_fp8.py"))
    workload = Workload(tuple(task.public[0].items()), task.dtypes[0])
    inputs = draw_inputs(task, workload, Family.NORMAL, torch.Generator().manual_seed(3))
    monkeypatch.setattr("kernelwright.tasks.reference.saturates", lambda: False)
    with pytest.raises(TaskError, match=r"float8_e4m3fn.*install torch 2.13 or newer"):
        run_reference(task, inputs)
