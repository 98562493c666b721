"""The honest judgings: what is judged, and how it is counted."""

from __future__ import annotations

import pytest
from benchmarks.shared.honest_corpus import HONEST, tasks
from benchmarks.shared.honest_judgings import shown, summary

from kernelwright.tasks.declarations import DTYPES, FLOATS

KERNELS = sorted(HONEST.glob("kernels/*/*"))


def test_there_are_small_tasks_enough() -> None:
    assert len(tasks()) >= 25


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_kernel_lies_in_the_folder_of_a_task(path: object) -> None:
    assert path.parent.name in tasks()  # type: ignore[attr-defined]


def test_tasks_have_every_kind_of_number() -> None:
    texts = " ".join(path.read_text() for path in tasks().values())
    assert [dtype for dtype in (*FLOATS, "int8", "int32", "int64", "bool") if f'"{dtype}"' not in texts] == []
    assert set(FLOATS) <= set(DTYPES)


def test_what_was_not_accepted_is_kept_with_its_evidence() -> None:
    good = {"task": "a", "kernel": "a/1", "candidate": "x", "outcome": "accepted", "seconds": 1.0, "dtypes": ["bool"]}
    bad = {**good, "kernel": "a/2", "outcome": "rejected", "seconds": 3.0, "verdict": {"reason": "wrong"}}
    report = summary([good, good, bad])
    assert report["outcomes"] == {"accepted": 2, "rejected": 1}
    assert report["by_kernel"] == {"a/1": {"accepted": 2}, "a/2": {"rejected": 1}}
    assert report["not_accepted"] == [bad]
    assert (report["kernels"], report["tasks"], report["seconds_median"]) == (2, 1, 1.0)
    assert [line for line in shown(report) if "wrong" in line] == ["rejected: a/2: wrong null"]
