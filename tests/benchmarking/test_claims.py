"""Judging kernels again never loses them, whatever the verdict is."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest
from benchmarks.gpu import claims_gpu
from benchmarks.shared.kept import optimized, unpacked

from kernelwright.archives import pack, read_archive, write_archive
from kernelwright.contracts import Candidate
from kernelwright.judge import certificate
from kernelwright.judge.verdict import Outcome, Verdict

REF = "linear@rows=64,features=128,units=10"
KEPT = unpacked(optimized("cuda")) / REF


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
    """The sources are the very archive that claims go to."""
    archive = optimized("cuda", tmp_path)
    write_archive(archive, {f"{REF}/{name}": raw for name, raw in pack(KEPT).items()})
    return argparse.Namespace(out=tmp_path, sources=archive, baselines=[])


def listed(archive: Path) -> dict[str, bytes]:
    return dict(read_archive(archive).files)


@pytest.mark.parametrize("outcome", [Outcome.rejected, Outcome.undecided])
def test_what_was_kept_stays_where_it_is_not_accepted(options: argparse.Namespace, outcome: Outcome) -> None:
    before = listed(options.sources)
    found = claims_gpu.claimed(Judge(outcome), REF, options)  # type: ignore[arg-type]
    assert found["public"]["verdict"] == outcome and "certificates" not in found
    assert listed(options.sources) == before


def test_what_is_accepted_takes_its_place(
    options: argparse.Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = tmp_path / "fresh.json"
    fresh.write_text("{}")
    monkeypatch.setattr(certificate, "find", lambda name: fresh)
    source = (KEPT / "kernel.cu").read_bytes()
    found = claims_gpu.claimed(Judge(Outcome.accepted), REF, options)  # type: ignore[arg-type]
    assert listed(options.sources) == {f"{REF}/kernel.cu": source, f"{REF}/fresh.json": b"{}"}
    assert set(found["certificates"]) == {"fresh.json"}
