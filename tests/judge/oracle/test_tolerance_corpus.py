"""Honest kernels pass with room to spare and downcasts do not: a small part of benchmarks/cpu/tolerance_corpus.py."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests"))

from tests.torch_versions import NEEDS_E4M3  # noqa: E402

from corpus.measure import Row, measure  # noqa: E402
from corpus.operations import OPERATIONS, Kind, small  # noqa: E402
from kernelwright.judge.oracle.right.constants import CONSTANTS  # noqa: E402
from kernelwright.tasks.declarations import FAMILIES  # noqa: E402

ROOM = 0.5
FEW = len(FAMILIES)  # one rotation: fp16 parts show in small values alone


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """Small tensors gain nothing from a second thread and wait for it on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


EVERY = [pytest.param(one, marks=NEEDS_E4M3 if one.name == "rmsnorm fp8" else (), id=one.name) for one in OPERATIONS]


@pytest.fixture(scope="module", params=EVERY)
def rows(request: pytest.FixtureRequest) -> list[Row]:
    return measure(request.param, range(1), [small(request.param)])


def test_honest_kernels_pass_with_room_to_spare(rows: list[Row]) -> None:
    honest = [row for row in rows if row.kind is Kind.HONEST]
    assert honest
    for row in honest:
        assert not any(row.rejected), row
        assert max(row.ratios) < ROOM, row


def test_downcasts_are_rejected_within_a_few_trials(rows: list[Row]) -> None:
    for row in rows:
        if row.kind is Kind.DOWNCAST:
            assert row.patience is not None and row.patience <= FEW, row


def test_the_written_results_are_of_these_constants() -> None:
    written = json.loads((ROOT / "benchmarks/results/tolerance_corpus.json").read_text())
    assert asdict(CONSTANTS) == written["constants"], "run benchmarks/cpu/tolerance_corpus.py again"
    assert written["summary"]["honest trials rejected"] == 0
    assert written["summary"]["largest honest ratio"] < 1
    assert written["summary"]["rotations that missed a downcast"] == 0
