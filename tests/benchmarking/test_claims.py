"""Judging kernels again never loses them, whatever the verdict is."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

import pytest
from benchmarks import claims_gpu
from benchmarks.record import RESULTS

from kernelwright.contracts import Candidate
from kernelwright.judge import certificate
from kernelwright.judge.verdict import Outcome, Verdict

REF = "linear@rows=64,features=128,units=10"
KEPT = RESULTS / "optimized" / "cuda" / REF


class Judge:
    """Says what it is told to say, of a verdict that was given once."""

    def __init__(self, outcome: Outcome) -> None:
        (path, *_) = sorted(KEPT.glob("*.json"))
        change = {"verdict": outcome, "certificate": "fresh"}
        self.verdict: Verdict = certificate.read(path).verdict.model_copy(update=change)

    def judge(self, ref: str, candidate: Candidate, **_: Any) -> Verdict:
        return self.verdict


@pytest.fixture
def options(tmp_path: Path) -> argparse.Namespace:
    """The sources are the very folder that claims go to."""
    shutil.copytree(KEPT, tmp_path / "optimized" / "cuda" / REF)
    return argparse.Namespace(out=tmp_path, sources=tmp_path / "optimized" / "cuda", baselines=[])


def listed(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("outcome", [Outcome.rejected, Outcome.undecided])
def test_what_was_kept_stays_where_it_is_not_accepted(options: argparse.Namespace, outcome: Outcome) -> None:
    before = listed(options.sources / REF)
    found = claims_gpu.claimed(Judge(outcome), REF, options)  # type: ignore[arg-type]
    assert found["public"]["verdict"] == outcome and "certificates" not in found
    assert listed(options.sources / REF) == before


def test_what_is_accepted_takes_its_place(
    options: argparse.Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = tmp_path / "fresh.json"
    fresh.write_text("{}")
    monkeypatch.setattr(certificate, "find", lambda name: fresh)
    source = (options.sources / REF / "kernel.cu").read_bytes()
    found = claims_gpu.claimed(Judge(Outcome.accepted), REF, options)  # type: ignore[arg-type]
    assert listed(options.sources / REF) == {"kernel.cu": source, "fresh.json": b"{}"}
    assert set(found["certificates"]) == {"fresh.json"}
    assert [path.name for path in options.sources.iterdir()] == [REF]
