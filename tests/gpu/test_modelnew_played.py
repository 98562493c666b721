"""ModelNew modules with steps of torch, from their source to their results, on a driver that is played: it knows the
kernels of tests/exploits_modelnew/copies_result.py and its kind by name, and torch works on the CPU."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from kernelwright.contracts.layout import lay_out
from kernelwright.contracts.model import GpuBuild, GpuBuilt
from kernelwright.isolation import gpu_access
from kernelwright.judge.verdict import Reason
from tests.contracts.test_modelnew import EXPLOITS, TRICKS, built, form, needs_both
from tests.gpu import driver
from tests.gpu.played import GPU
from tests.gpu.test_played_driver import WORD
from tests.gpu.test_torch_beside import PlayedShop, looked_at, started
from tests.gpu.test_torch_beside import pytestmark as without_cuda

pytest.importorskip("cuda.bindings.driver", reason="the CUDA bindings are missing: pip install -e '.[cuda]'")
pytestmark = [without_cuda, needs_both, pytest.mark.slow]
SCALE = 0.5


class Problem:
    """Values of tests/kernels_modelnew/scaled_linear.py in an arena, and what comes of them."""

    def __init__(self) -> None:
        self.draws = 0
        self.files, self.tensors = [], {}
        signature = form()
        self._kept = []
        for place, spec in zip(lay_out(signature).tensors, signature.tensors, strict=True):
            file = os.memfd_create(place.name)
            os.ftruncate(file, place.bytes)
            self.files.append(file)
            memory = mmap.mmap(file, place.bytes)
            self._kept.append(memory)
            flat = torch.frombuffer(memory, dtype=torch.float32, offset=place.offset, count=place.extent // 4)
            self.tensors[place.name] = flat.view(spec.shape)

    def load(self) -> str:
        self.draws += 1
        for name in ("x", "linear_weight", "linear_bias"):
            self.tensors[name].normal_()
        self.restore()
        return "ordinary"

    def restore(self) -> None:
        self.tensors["out"].fill_(torch.nan)

    def check(self) -> dict[str, str]:
        x, weight, bias, out = (self.tensors[name] for name in ("x", "linear_weight", "linear_bias", "out"))
        expected = torch.relu(torch.nn.functional.linear(x, weight, bias)) * SCALE
        return {} if torch.allclose(out, expected, rtol=1e-5, atol=1e-5) else {"result": "out"}


@pytest.fixture
def problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Problem]:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(driver.build(tmp_path, "GATE_PASSES")))
    monkeypatch.setattr(gpu_access.nvidia, "probe", lambda index: GPU)
    made = Problem()
    yield made
    for file in made.files:
        os.close(file)


def of(name: str) -> GpuBuilt:
    made = built((EXPLOITS / f"{name}.py").read_text())
    assert isinstance(made, GpuBuild), made
    return made.built[0]


def timed_calls(problem: Problem, what: GpuBuilt) -> list[bool]:
    """Whether each of a few calls on new values is right."""
    found = []
    with started() as launcher:
        launcher.open(what.program, what.modules, problem.files)
        for _ in range(3):
            problem.load()
            launcher.trial(WORD, 5.0)
            found.append(not problem.check())
    return found


@pytest.mark.parametrize("name", [name for name, about in TRICKS.items() if "on_gpu" in about])
def test_what_is_told_where_calls_are_timed(problem: Problem, name: str) -> None:
    what, reason = of(name), Reason(TRICKS[name]["on_gpu"])
    alone, _ = looked_at(PlayedShop(problem), what, problem.files)
    assert alone is (reason if reason is Reason.library_alone else None)
    assert timed_calls(problem, what) == [reason is Reason.library_alone] * 3


def test_the_honest_twin_is_right_and_not_torchs(problem: Problem) -> None:
    what = of("copies_result.twin")
    alone, _ = looked_at(PlayedShop(problem), what, problem.files)
    assert alone is None and timed_calls(problem, what) == [True] * 3
