"""Profiles as a person meets them: below a verdict, and what `doctor` says of counters."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from tests.gpu.played import GPU
from tests.search import toy

from kernelwright.cli import doctor_gpu
from kernelwright.cli.views.verdicts import show
from kernelwright.errors import CannotDecide
from kernelwright.judge.gpu.ncu import NOT_INSTALLED, NOT_PERMITTED
from kernelwright.judge.verdict import LaunchProfile, Profile, author_view


def shown(profile: Profile) -> str:
    verdict = toy.verdict_of(toy.candidate_of((1,) * 8), [("a", 2.0, False), ("b", 2.0, True)])
    first, other = verdict.workloads
    told = verdict.model_copy(update={"workloads": (first.model_copy(update={"profile": profile}), other)})
    out = io.StringIO()
    show(Console(file=out, width=200), author_view(told))
    return out.getvalue()


def test_a_profile_is_shown_with_what_it_means() -> None:
    text = shown(Profile(launches=(LaunchProfile(kernel="run[bold]", seconds=1e-5, of_dram=0.9, registers=40),)))
    assert "profile of a: DRAM is busy (90% of its peak)" in text
    assert "1 | run[bold] | 10 µs | 90% | 40" in text


def test_a_missing_one_is_shown_with_the_reason() -> None:
    assert f"no profile: {NOT_INSTALLED}" in shown(Profile(missing=NOT_INSTALLED))


@pytest.mark.parametrize(
    ("missing", "ok", "found", "fix"),
    [
        ("", True, "counters may be read", ""),
        (NOT_PERMITTED, False, "ERR_NVGPUCTRPERM", "NVreg_RestrictProfilingToAdminUsers=0"),
        (NOT_INSTALLED, False, "ncu is not installed", "CUDA_HOME"),
        ("ncu told of no launch", False, "no launch", ""),
    ],
)
def test_doctor_says_whether_counters_may_be_read(
    missing: str, ok: bool, found: str, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_gpu, "helper_kernels", lambda architecture: b"")
    monkeypatch.setattr(doctor_gpu, "why_not", lambda helpers, index: missing)
    finding = doctor_gpu._counters(GPU)
    assert finding.ok is ok and found in finding.found and fix in finding.fix


def test_doctor_survives_a_launcher_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def unstarted(helpers: bytes, index: int) -> str:
        raise CannotDecide("the launcher did not start")

    monkeypatch.setattr(doctor_gpu, "helper_kernels", lambda architecture: b"")
    monkeypatch.setattr(doctor_gpu, "why_not", unstarted)
    assert "did not start" in doctor_gpu._counters(GPU).found
