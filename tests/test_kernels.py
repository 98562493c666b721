"""Honest kernels treat special values as PyTorch does. They are called directly: a judging would take too long."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from kernelwright.contracts.candidate import read_candidate
from kernelwright.tasks.declarations import Family
from kernelwright.tasks.drawing import draw_inputs
from kernelwright.tasks.model import Workload
from kernelwright.tasks.reference import run_reference
from kernelwright.tasks.resolve import resolve
from tests.direct import call

KERNELS = Path(__file__).parent / "kernels"
SIZES = {
    "argmax": {"rows": 9, "cols": 41},
    "cross_entropy": {"rows": 7, "classes": 31},
    "cross_entropy:backward": {"rows": 7, "classes": 31},
    "maxpool2d": {"batch": 2, "channels": 3, "height": 9, "width": 11},
    "maxpool2d:backward": {"batch": 2, "channels": 3, "height": 9, "width": 11},
    "softmax": {"rows": 6, "cols": 45},
}
QUICK = {"argmax/simd", "cross_entropy/two_pass", "maxpool2d/simd", "maxpool2d_backward/simd", "softmax/online"}


def here_and_there(value: float) -> Callable[[torch.Tensor], None]:
    def plant(tensor: torch.Tensor) -> None:
        tensor.view(-1)[:: max(1, tensor.numel() // 5)] = value

    return plant


def everywhere(value: float) -> Callable[[torch.Tensor], None]:
    def plant(tensor: torch.Tensor) -> None:
        tensor.fill_(value)

    return plant


def ties(tensor: torch.Tensor) -> None:
    tensor.round_()


Planting = Callable[[torch.Tensor], None]
PLANTED: dict[str, Planting] = {
    "nan": here_and_there(torch.nan),
    "only nan": everywhere(torch.nan),
    "-inf": here_and_there(-torch.inf),
    "only -inf": everywhere(-torch.inf),
    "zeros": everywhere(0.0),
    "ties": ties,
}
IGNORED: dict[str, Planting] = {"some are -100": here_and_there(-100), "all are -100": everywhere(-100)}


def kernels() -> list[object]:
    found = [path for task in SIZES for path in sorted((KERNELS / task.replace(":", "_")).glob("*.cpp"))]
    names = [f"{path.parent.name}/{path.stem}" for path in found]
    marks = [[] if name in QUICK else [pytest.mark.slow] for name in names]
    return [pytest.param(path, id=name, marks=mark) for path, name, mark in zip(found, names, marks, strict=True)]


@pytest.mark.parametrize("path", kernels())
def test_a_kernel_treats_special_values_as_pytorch_does(path: Path) -> None:
    ref = path.parent.name.replace("_backward", ":backward")
    task, candidate = resolve(ref), read_candidate(path, "cpp")
    workload = Workload(tuple(SIZES[ref].items()))
    plain = draw_inputs(task, workload, Family.NORMAL, torch.Generator().manual_seed(3))
    first = next(iter(task.inputs))
    cases = [(first, name, plant) for name, plant in PLANTED.items()]
    cases += [("target", name, plant) for name, plant in IGNORED.items() if "target" in plain]
    for tensor, name, plant in cases:
        inputs = {key: value.clone() if isinstance(value, torch.Tensor) else value for key, value in plain.items()}
        planted = inputs[tensor]
        assert isinstance(planted, torch.Tensor)
        plant(planted)
        expected = run_reference(task, inputs)
        for result, got in call(task, candidate, workload, inputs).items():
            assert isinstance(got, torch.Tensor)
            assert torch.allclose(got, expected[result], rtol=1e-5, atol=1e-6, equal_nan=True), (name, result)
