"""Contractions in CUDA on the emulator: every way to read an operand, every method, and taken by the GPU's compiler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from kernelwright.contracts import nvrtc
from kernelwright.contracts.cuda.source import split
from kernelwright.contracts.cuda.toolchain.evaluate import evaluate_plans
from kernelwright.contracts.cuda.toolkit import include_directories
from kernelwright.contracts.target import HOPPER
from kernelwright.proposers.templates import make
from kernelwright.proposers.templates.cuda.candidate import steps_of
from kernelwright.proposers.templates.cuda.contractions.nested import NestedContraction
from kernelwright.proposers.templates.patterns.contractions import ContractionStep
from kernelwright.proposers.templates.patterns.heavy import ConvolutionStep
from kernelwright.proposers.templates.patterns.nests import NestStep
from kernelwright.tasks import Task, tensor
from kernelwright.tasks.backward import derive_backward
from tests.proposers.templates.emulated import emulated_errors, source_of

TENSORS = {"method": "tf32x3", "block": "64x64", "depth": 16, "stages": 2}
GROUPS = {"method": "wgmma"}


@dataclass(frozen=True)
class Case:
    function: Callable[..., Any]
    inputs: dict[str, tuple[Any, ...]]
    sizes: dict[str, int] = field(default_factory=lambda: {"b": 2, "n": 11})
    backward: bool = False

    def task(self, dtype: str = "float32") -> Task:
        ranges = {name: (max(1, size - 1), size + 2) for name, size in self.sizes.items()}
        given = {name: tensor(*shape) for name, shape in self.inputs.items()}
        made = Task(self.function, given, [self.sizes], ranges, "contracted", dtypes=(dtype,))
        return derive_backward(made) if self.backward else made


def conv(rank: int, *, turned: bool = False, **options: Any) -> Callable[..., Any]:
    function = getattr(F, f"conv_transpose{rank}d" if turned else f"conv{rank}d")
    return lambda x, w: function(x, w, **options)


FORWARD = {
    "1-D, stride, dilation": Case(
        conv(1, stride=2, padding=3, dilation=2), {"x": ("b", 3, "n"), "w": (9, 3, 5)}, {"b": 3, "n": 23}
    ),
    "2-D, groups": Case(conv(2, padding=1, groups=3), {"x": ("b", 6, "n", 7), "w": (27, 2, 3, 3)}),
    "2-D, pointwise": Case(conv(2), {"x": ("b", 20, 4, "n"), "w": (9, 20, 1, 1)}),
    "2-D, uneven": Case(conv(2, stride=(1, 3), padding=(0, 2)), {"x": ("b", 5, "n", 10), "w": (17, 5, 2, 3)}),
    "2-D, eleven taps": Case(conv(2, padding=5, stride=4), {"x": ("b", 3, "n", 12), "w": (9, 3, 11, 11)}),
    "3-D": Case(
        conv(3, stride=(1, 2, 1), padding=1), {"x": ("b", 3, 4, 5, "n"), "w": (10, 3, 3, 3, 2)}, {"b": 1, "n": 6}
    ),
    "transposed 1-D, dilation": Case(
        conv(1, turned=True, stride=3, dilation=2, padding=1), {"x": ("b", 5, "n"), "w": (5, 9, 4)}
    ),
    "transposed 1-D, dilation shares a factor with the stride": Case(
        conv(1, turned=True, stride=4, dilation=2, padding=2), {"x": ("b", 5, "n"), "w": (5, 9, 3)}
    ),
    "transposed 2-D, groups": Case(
        conv(2, turned=True, stride=2, padding=1, output_padding=1, groups=2),
        {"x": ("b", 6, "n", 5), "w": (6, 8, 3, 3)},
    ),
    "transposed 2-D, stride beyond the window": Case(
        conv(2, turned=True, stride=3), {"x": ("b", 3, "n", 2), "w": (3, 8, 2, 2)}, {"b": 2, "n": 3}
    ),
    "transposed 3-D": Case(
        conv(3, turned=True, stride=2, padding=1), {"x": ("b", 4, 3, 2, "n"), "w": (4, 9, 3, 3, 3)}, {"b": 1, "n": 4}
    ),
    "depthwise": Case(conv(2, padding=2, groups=7), {"x": ("b", 7, "n", 9), "w": (7, 1, 5, 5)}),
    "stack": Case(torch.bmm, {"x": ("b", 9, "n"), "y": ("b", "n", 10)}, {"b": 3, "n": 21}),
    "stack, both transposed": Case(
        lambda x, y: x.transpose(1, 2) @ y.transpose(1, 2), {"x": ("b", "n", 9), "y": ("b", 12, "n")}, {"b": 2, "n": 20}
    ),
    "stack, heads": Case(
        lambda x, y: torch.einsum("bthd,bshd->bhts", x, y),
        {"x": ("b", "n", 2, 8), "y": ("b", 12, 2, 8)},
        {"b": 2, "n": 9},
    ),
    "stack, broadcast": Case(lambda x, y: x @ y, {"x": ("b", 3, 9, "n"), "y": (3, "n", 16)}, {"b": 2, "n": 17}),
    "einsum over two": Case(
        lambda x, y: torch.einsum("bijk,jkl->bil", x, y), {"x": ("b", 9, 3, "n"), "y": (3, "n", 11)}, {"b": 2, "n": 5}
    ),
}
BACKWARD = {
    "1-D, stride, dilation": FORWARD["1-D, stride, dilation"],
    "2-D, groups": FORWARD["2-D, groups"],
    "3-D": FORWARD["3-D"],
    "transposed 2-D, groups": FORWARD["transposed 2-D, groups"],
    "stack": FORWARD["stack"],
}
CASES = FORWARD | {f"{name}: gradients": replace(case, backward=True) for name, case in BACKWARD.items()}
QUICK = ("3-D", "transposed 2-D, groups", "stack, heads", "2-D, groups: gradients")


def quick(names: tuple[str, ...] = QUICK) -> list[Any]:
    return [name if name in names else pytest.param(name, marks=pytest.mark.slow) for name in CASES]


@pytest.mark.parametrize("name", quick())
def test_tensor_cores_are_right(name: str) -> None:
    case = CASES[name]
    templates = make(case.task(), "cuda")
    steps = steps_of(templates.plan)
    assert not any(isinstance(step, NestStep) and step.reduces for step in steps)
    assert any(isinstance(step, ContractionStep | ConvolutionStep) for step in steps)
    assert emulated_errors(case.task(), source_of(templates, TENSORS), case.sizes) == []


@pytest.mark.parametrize("name", quick(("transposed 1-D, dilation", "depthwise")))
def test_direct_sums_are_right(name: str) -> None:
    case = CASES[name]
    source = source_of(make(case.task(), "cuda"), {"method": "direct"})
    assert emulated_errors(case.task(), source, case.sizes) == []


WIDE = {
    "2-D": Case(conv(2, padding=1), {"x": ("b", 5, "n", 6), "w": (40, 5, 3, 3)}, {"b": 1, "n": 7}),
    "2-D: gradients": Case(
        conv(2, stride=2, padding=1), {"x": ("b", 36, "n", 6), "w": (40, 36, 3, 3)}, {"b": 1, "n": 7}, backward=True
    ),
    "stack": Case(torch.bmm, {"x": ("b", 70, "n"), "y": ("b", "n", 40)}, {"b": 2, "n": 36}),
}


@pytest.mark.parametrize("name", [n if n == "2-D" else pytest.param(n, marks=pytest.mark.slow) for n in WIDE])
def test_warpgroups_are_right(name: str) -> None:
    case = WIDE[name]
    assert emulated_errors(case.task(), source_of(make(case.task(), "cuda"), GROUPS), case.sizes) == []


@pytest.mark.parametrize("method", ["direct", "tf32x3"])
def test_a_nan_reaches_the_results_that_it_reaches_in_torch_and_no_others(method: str) -> None:
    """Also none by way of padding, of the rest of a tile, or of taps between the places of a transposed one."""

    def both(x: Any, w: Any) -> Any:
        return F.conv_transpose2d(F.conv2d(x, w, padding=2), w, stride=2)

    task = Case(both, {"x": ("b", 3, "n", 5), "w": (9, 3, 3, 3)}).task()
    source = source_of(make(task, "cuda"), {"method": method})
    assert emulated_errors(task, source, {"b": 2, "n": 7}, planted={"x": float("nan")}) == []


def test_blocks_share_the_depth_of_a_tile() -> None:
    case = Case(conv(1, padding=1), {"x": ("b", 9, "n"), "w": (10, 9, 3)}, {"b": 40, "n": 12}, backward=True)
    source = source_of(make(case.task(), "cuda"), TENSORS | {"split": 1})
    assert "contracted" in source
    assert emulated_errors(case.task(), source, case.sizes) == []


@pytest.mark.skipif(bool(nvrtc.available()), reason="NVRTC is missing")
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", quick(("3-D",)))
def test_the_gpu_compiler_takes_it(name: str, architecture: str) -> None:
    templates = make(CASES[name].task(), "cuda")
    target = replace(HOPPER, architecture=architecture)
    for genes in ({}, {"border": 18, "method": "wgmma"}):
        sources = split(source_of(templates, genes))
        plans = evaluate_plans(sources.plan, templates.signatures, target)
        assert isinstance(plans, tuple), plans
        for plan in plans:
            options = [f"--gpu-architecture={architecture}", f"--std={plan.options.std}"]
            options += [f"-D{key}={value}" for key, value in plan.definitions]
            options += [f"-I{folder}" for folder in include_directories()]
            assert nvrtc.compile_cuda(sources.kernel, "kernel.cu", options, plan.kernels).cubin


NARROW = {
    "stack, columns along the depth": Case(
        lambda x, y: x @ y.transpose(1, 2), {"x": ("b", 40, "n"), "y": ("b", 34, "n")}, {"b": 2, "n": 72}
    ),
    "stack, rows across the depth": Case(
        lambda x, y: x.transpose(1, 2) @ y, {"x": ("b", "n", 40), "y": ("b", "n", 72)}, {"b": 1, "n": 70}
    ),
    "stack of odd sizes": Case(torch.bmm, {"x": ("b", 37, "n"), "y": ("b", "n", 67)}, {"b": 1, "n": 33}),
    "convolution": Case(conv(2, padding=1), {"x": ("b", 6, "n", 7), "w": (33, 6, 3, 3)}, {"b": 1, "n": 9}),
}


@pytest.mark.parametrize("method", ["direct", "mma", "wgmma"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", NARROW)
def test_sixteen_bits_are_right(name: str, dtype: str, method: str) -> None:
    case = NARROW[name]
    task = case.task(dtype)
    source = source_of(make(task, "cuda"), {"method": method})
    assert emulated_errors(task, source, case.sizes) == []


@pytest.mark.parametrize("method", ["direct", "mma", "wgmma"])
def test_a_layer_of_sixteen_bits_is_one_launch(method: str) -> None:
    """Torch adds the bias in float32: operands are read as 16 bits all the same, and what follows is done at once."""
    case = Case(
        lambda x, w, b: F.gelu(F.linear(x, w, b)), {"x": ("b", "n"), "w": (72, "n"), "b": (72,)}, {"b": 41, "n": 80}
    )
    task = case.task("bfloat16")
    templates = make(task, "cuda")
    (step,) = steps_of(templates.plan)
    assert isinstance(step, ContractionStep) and step.epilogue is not None
    assert {operand.dtype for operand in step.form.operands} == {"bfloat16"}
    assert emulated_errors(task, source_of(templates, {"method": method}), case.sizes) == []


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_only_a_generic_step_says_is_done_at_once_too(dtype: str) -> None:
    case = Case(
        lambda x, y, z: torch.atan(x @ y) * z[:1],
        {"x": ("b", 9, "n"), "y": ("b", "n", 10), "z": (9, 10)},
        {"b": 2, "n": 12},
    )
    task = case.task(dtype)
    templates = make(task, "cuda")
    (step,) = steps_of(templates.plan)
    assert isinstance(step, NestedContraction)
    assert emulated_errors(task, source_of(templates, {}), case.sizes) == []
