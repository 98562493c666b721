"""A loaded kernel and an exported package with 8-bit floats in and out, and a cast in the reference."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import torch

from kernelwright.contracts import Candidate
from kernelwright.export.loading import load_proved
from kernelwright.export.package import export
from kernelwright.export.proof import Proved
from tests.export import making
from tests.torch_versions import NEEDS_E4M3

pytestmark = NEEDS_E4M3
HONEST = Path(__file__).parents[2] / "benchmarks" / "honest"


def proved(name: str, kernel: str) -> Proved:
    source = (HONEST / "kernels" / name / kernel).read_text(encoding="utf-8")
    return making.proved(str(HONEST / "tasks" / f"{name}.py"), Candidate("cpp", source, kernel))


def test_a_loaded_kernel_takes_and_gives_8_bit_floats() -> None:
    kernel = load_proved([proved("quantise_fp8", "plain.cpp")])
    x, scale = torch.randn(64, 512), torch.tensor([0.01])
    fine, coarse = kernel(x, scale)
    assert torch.equal(fine.float(), (x / scale).to(torch.float8_e4m3fn).float())
    assert torch.equal(coarse.float(), (x / scale).to(torch.float8_e5m2).float())
    assert kernel.counts == {"kernel": 1}
    reader = load_proved([proved("dequantise_fp8", "rows.cpp")])
    rows = torch.rand(64, 1) + 0.1
    assert torch.equal(reader(coarse, rows), (coarse.float() * rows).bfloat16())
    assert reader.counts == {"kernel": 1}


def test_an_exported_one_brings_the_cast_of_its_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export([proved("dequantise_fp8", "rows.cpp")], tmp_path / "package", "fp8_rows")
    (package,) = (tmp_path / "package").rglob("fp8_rows/__init__.py")
    monkeypatch.syspath_prepend(str(package.parent.parent))
    operation = importlib.import_module("fp8_rows").dequantise_fp8
    x, scale = torch.randn(64, 512).to(torch.float8_e5m2), torch.rand(64, 1) + 0.1
    right = (x.float() * scale).bfloat16()
    assert torch.equal(operation(x, scale), right)
    with pytest.warns(UserWarning, match="not contiguous"):  # so the reference answers
        assert torch.equal(operation(x.T.contiguous().T, scale), right)
