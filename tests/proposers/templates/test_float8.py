"""Templates with 8-bit numbers: products with scales, quantising, dequantising; C++, and CUDA on the emulator."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kernelwright.contracts import Candidate
from kernelwright.judge.emulate.check import Checker, CheckOutcome
from kernelwright.proposers.templates import make
from kernelwright.proposers.templates.patterns.contractions import ContractionStep
from kernelwright.tasks.capture import task_text
from kernelwright.tasks.declarations import Family
from kernelwright.tasks.drawing import run_reference
from kernelwright.tasks.resolve import resolve
from tests.proposers.templates.checking import errors, outputs
from tests.proposers.templates.emulated import emulated_errors, source_of

HONEST = Path(__file__).parents[3] / "benchmarks" / "honest"
SIZES = {
    "scaled_mm": {"m": 9, "k": 50, "n": 11},
    "int8_mm": {"m": 9, "k": 50, "n": 11},
    "rmsnorm_fp8": {"rows": 5, "cols": 67},
    "quantise_fp8": {"rows": 5, "cols": 67},
    "dequantise_fp8": {"rows": 5, "cols": 67},
}
TENSORS = {"method": "tf32x3", "block": "64x64", "depth": 32, "stages": 2}
NAMES = [n if n in ("scaled_mm", "rmsnorm_fp8") else pytest.param(n, marks=pytest.mark.slow) for n in SIZES]


def path(name: str) -> str:
    return str(HONEST / "tasks" / f"{name}.py")


@pytest.mark.parametrize("name", NAMES)
def test_the_c_plus_plus_is_right(name: str) -> None:
    task = resolve(path(name))
    source = source_of(make(task, "cpp"), {})
    assert errors(task, source, SIZES[name]) == []
    assert errors(task, source, dict(task.public[0]), Family.SHIFTED) == []


@pytest.mark.parametrize("name", NAMES)
def test_the_cuda_is_right_on_the_emulator(name: str) -> None:
    task = resolve(path(name))
    assert emulated_errors(task, source_of(make(task, "cuda"), {}), SIZES[name]) == []


@pytest.mark.parametrize("name", ["scaled_mm", "int8_mm"])
def test_a_product_with_scales_reads_its_operands_as_they_lie(name: str) -> None:
    """Scales are taken out of the sum, so that no operand is widened in memory first."""
    templates = make(resolve(path(name)), "cuda")
    (step,) = (step for step in templates.plan.steps if isinstance(step, ContractionStep))
    assert {operand.dtype for operand in step.form.operands} == ({"float8_e4m3fn"} if name == "scaled_mm" else {"int8"})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["scaled_mm", "int8_mm"])
def test_tensor_cores_get_them_widened(name: str) -> None:
    task = resolve(path(name))
    source = source_of(make(task, "cuda"), TENSORS)
    assert "What is stored in fewer bits is widened" in source
    assert emulated_errors(task, source, SIZES[name]) == []


def test_overflow_is_that_of_torch() -> None:
    task = resolve(path("quantise_fp8"))
    made = {name: got for name, got, _, _ in outputs(task, source_of(make(task, "cpp"), {}), SIZES["quantise_fp8"])}
    assert made["fine"].dtype == torch.float8_e4m3fn
    inputs = {"x": torch.full((5, 67), 1e9), "scale": torch.ones(1)}
    right = run_reference(task, inputs)
    assert float(right["fine"].float().max()) == 448.0 and bool(right["coarse"].float().isinf().all())
    assert emulated_errors(task, source_of(make(task, "cuda"), {}), SIZES["quantise_fp8"], {"x": 1e9}) == []


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "outcome"), [("", CheckOutcome.right), ("NOSAT", CheckOutcome.faulty)])
def test_check_tells_saturation_apart(checker: Checker, kernel: str, outcome: CheckOutcome) -> None:
    source = (HONEST / "kernels" / "quantise_fp8" / "plain.cu").read_text()
    if kernel:
        source = source.replace("__nv_fp8_e4m3(y)", "__nv_fp8_e4m3(0.0f)").replace(
            "fine[i] =", "fine[i].__x = __nv_cvt_float_to_fp8(y, __NV_NOSAT, __NV_E4M3); (void)"
        )
    assert checker.check(path("quantise_fp8"), Candidate("cuda", source)).outcome is outcome


def scaled_linear(x: torch.Tensor, w: torch.Tensor, sx: torch.Tensor, sw: torch.Tensor) -> torch.Tensor:
    return ((x.float() @ w.float().T) * sx * sw).to(torch.bfloat16)


def test_a_captured_function_takes_8_bit_arguments(tmp_path: Path) -> None:
    """Without casts changed: what the function names is widened in float64, and kept in the task's own dtypes."""
    x, w = (torch.randn(rows, 32).to(torch.float8_e4m3fn) for rows in (16, 24))
    sx, sw = torch.rand(16, 1) + 0.1, torch.rand(1) + 0.1
    file = tmp_path / "scaled.py"
    file.write_text(task_text(scaled_linear, (x, w, sx, sw)))
    task = resolve(str(file))
    inputs = dict(zip(task.inputs, (x, w, sx, sw), strict=True))
    assert torch.equal(run_reference(task, inputs)["out"], scaled_linear(x, w, sx, sw))
    right = (x.double() @ w.double().T) * sx.double() * sw.double()
    torch.testing.assert_close(run_reference(task, inputs, torch.float64)["out"], right)
    assert errors(task, source_of(make(task, "cpp"), {}), dict(task.public[0])) == []
