"""The judge on a played GPU, for candidates that leave a step to torch: the label, and torch alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from kernelwright.contracts import Candidate, nvrtc
from kernelwright.contracts.cuda.toolchain.build import CudaToolchain
from kernelwright.contracts.model import BuildFailure, GpuBuild
from kernelwright.contracts.program import LibraryStep
from kernelwright.isolation.levels import Isolation, Level, capabilities
from kernelwright.isolation.roles import Role
from kernelwright.judge.controller import Judge
from kernelwright.judge.settings import Settings
from kernelwright.judge.timing.measure import Sampling
from kernelwright.judge.verdict import Outcome, Reason, SpeedStatus, Stage, author_view
from tests.gpu.played import CUDA, PUBLIC_ELEMENTS, PlayedLauncher, play
from tests.gpu.test_played import TASK, Bench, kernel

pytestmark = pytest.mark.skipif(bool(nvrtc.available()), reason=nvrtc.available())


def leaving_to_torch(build: Any) -> Any:
    """Programs get a step of torch's behind their launches: `addmm`, or on workloads that are not public `mm`."""

    def built(self: Any, candidate: Candidate, signatures: Any) -> GpuBuild | BuildFailure:
        made = build(self, candidate, signatures)
        if isinstance(made, BuildFailure):
            return made
        elements = (math.prod(one.tensors[0].shape) for one in signatures)
        named = ["addmm" if count in PUBLIC_ELEMENTS else "mm" for count in elements]
        programs = [
            replace(one, program=replace(one.program, steps=(*one.program.steps, LibraryStep(name, "{}", (), (), ()))))
            for one, name in zip(made.built, named, strict=True)
        ]
        return replace(made, built=tuple(programs))

    return built


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    task = tmp_path_factory.mktemp("task") / "twice.py"
    task.write_text(TASK)
    settings = Settings(baselines=("eager",), effort=Sampling(least=6, most=6), device=CUDA, domain=False)
    with pytest.MonkeyPatch.context() as patched:
        asked = play(patched)
        patched.setattr(CudaToolchain, "build", leaving_to_torch(CudaToolchain.build))
        with Judge(settings) as judge:
            yield Bench(judge, str(task), asked)
    assert PlayedLauncher.up == 0


def test_a_kernel_beside_torch_is_accepted_with_the_label(bench: Bench) -> None:
    verdict = bench.verdict(kernel("honest"))
    assert verdict.verdict is Outcome.accepted, verdict.evidence
    assert set(verdict.library) == {"addmm", "mm"}
    assert author_view(verdict).library == ("addmm",)  # which operator is asked for might tell a hidden size
    assert {one.speed for one in verdict.workloads} == {SpeedStatus.measured}
    assert "library" in verdict.stage_seconds and "safety" in verdict.stage_seconds


def test_torch_alone_is_rejected(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlayedLauncher, "torch_gives", "honest")
    verdict = bench.verdict(kernel("honest"))
    assert (verdict.verdict, verdict.stage, verdict.reason) == (Outcome.rejected, Stage.compare, Reason.library_alone)
    assert not verdict.workloads


def test_a_fault_of_the_call_with_torch_is_the_candidates(bench: Bench) -> None:
    verdict = bench.verdict(kernel("illegal"))
    assert (verdict.verdict, verdict.stage, verdict.reason) == (Outcome.rejected, Stage.safety, Reason.illegal_access)


@pytest.mark.skipif(capabilities().level is not Level.full, reason="this machine does not reach full")
def test_where_torch_cannot_be_confined_such_candidates_alone_are_undecided(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        bench.judge._shop._isolation,  # type: ignore[attr-defined]
        Role.torch_launcher,
        Isolation(Role.torch_launcher, Level.none, "it does not start"),
    )
    demanding = replace(bench.judge.settings, isolation=Level.full)
    verdict = bench.judge.judge(bench.task, kernel("honest"), settings=demanding)
    assert verdict.verdict is Outcome.undecided
    assert "launcher with torch reaches none" in str(verdict.evidence)
