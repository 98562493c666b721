"""The pool of hidden workloads: what a program meets, when a workload is retired, and what outlives a process."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelwright.judge.oracle.hidden_pool import PLACES, REMEMBERED, RETIRE_AFTER, HiddenPool
from kernelwright.tasks import Task, tensor
from kernelwright.tasks.hidden import require_within
from kernelwright.tasks.model import Workload

KEY = b"k" * 32


def task(high: int = 9000) -> Task:
    return Task(
        reference=lambda x: 2 * x,
        inputs={"x": tensor("rows", "cols")},
        public=[{"rows": 1024, "cols": 1024}],
        hidden={"rows": (100, high), "cols": (100, high)},
        name="double",
    )


TASK = task()


def judged(pool: HiddenPool, program: str, *, failed: bool = False) -> tuple[Workload, ...]:
    found = pool.sample(TASK, program, 3)
    pool.used(TASK, program, failed=failed)
    return found


def current(pool: HiddenPool) -> set[Workload]:
    (state,) = pool._states.values()
    return {place.workload for place in state.places if place.workload is not None}


def test_a_program_meets_the_same_workloads_again_and_another_one_meets_others(tmp_path: Path) -> None:
    pool = HiddenPool(KEY, tmp_path)
    first = judged(pool, "one")
    assert len(set(first)) == 3
    for workload in first:
        require_within(TASK, workload)
        assert workload.hidden
    assert set(judged(pool, "two")) != set(first)
    assert judged(pool, "one") == judged(pool, "one", failed=True) == judged(pool, "one") == first


def test_what_is_foreseen_comes_and_is_not_counted_as_used() -> None:
    pool = HiddenPool(KEY, None)
    foreseen = pool.foreseen(TASK, "one", 3)
    (state,) = pool._states.values()
    assert not any(place.uses or place.unfinished for place in state.places)
    assert judged(pool, "one") == foreseen == pool.foreseen(TASK, "one", 3)
    judged(pool, "one", failed=True)
    assert pool.foreseen(TASK, "one", 3) == foreseen  # a program keeps its workloads
    begun = pool.sample(TASK, "two", 3)
    coming = pool.foreseen(TASK, "three", 3)
    pool.used(TASK, "two", failed=False)
    assert judged(pool, "three") == coming and begun


def test_it_outlives_the_process_and_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    first = judged(HiddenPool(KEY, tmp_path), "one", failed=True)
    again = HiddenPool(KEY, tmp_path)
    assert judged(again, "one") == first
    assert not set(first) & set(judged(again, "two"))
    (kept,) = tmp_path.glob("*.json")
    assert kept.stat().st_mode & 0o777 == 0o600


def test_another_key_or_other_ranges_have_a_pool_of_their_own(tmp_path: Path) -> None:
    first = judged(HiddenPool(KEY, tmp_path), "one")
    assert set(judged(HiddenPool(b"o" * 32, tmp_path), "one")) != set(first)
    assert set(HiddenPool(KEY, tmp_path).sample(task(high=8000), "one", 3)) != set(first)
    assert len(list(tmp_path.glob("*.json"))) == 3


def test_workloads_on_which_a_judging_failed_are_retired() -> None:
    pool = HiddenPool(KEY, None)
    first = judged(pool, "one", failed=True)
    for number in range(20):
        assert not set(first) & set(judged(pool, f"other {number}"))


def test_a_judging_that_never_ended_counts_as_failed() -> None:
    pool = HiddenPool(KEY, None)
    broken_off = pool.sample(TASK, "one", 3)
    for number in range(20):
        assert not set(broken_off) & set(judged(pool, f"other {number}"))


def test_a_judging_that_never_ended_is_not_made_good_by_another_of_the_same_program() -> None:
    pool = HiddenPool(KEY, None)
    broken_off = pool.sample(TASK, "one", 3)
    assert judged(pool, "one") == broken_off
    assert not set(broken_off) & current(pool)


def test_a_workload_is_used_a_number_of_times_and_no_more() -> None:
    pool = HiddenPool(KEY, None)
    first = judged(pool, "one")
    for _ in range(RETIRE_AFTER - 2):
        judged(pool, "one")
    assert set(first) <= current(pool)
    assert judged(pool, "one") == first
    assert not set(first) & current(pool)
    assert pool.turnovers(TASK) == 0
    for number in range(PLACES):
        judged(pool, f"other {number}", failed=True)
    assert pool.turnovers(TASK) >= 2


def test_the_programs_that_were_judged_last_are_remembered(tmp_path: Path) -> None:
    pool = HiddenPool(KEY, None)
    for number in range(REMEMBERED + 20):
        pool.sample(TASK, f"program {number}", 3)
    (state,) = pool._states.values()
    assert len(state.programs) == REMEMBERED and "program 0" not in state.programs


@pytest.mark.parametrize("content", [b"", b"[]", b'{"places": [], "programs": {}}', b'{"places": [1]}', b"\xff"])
def test_a_damaged_file_is_begun_anew(tmp_path: Path, content: bytes) -> None:
    first = judged(HiddenPool(KEY, tmp_path), "one")
    (kept,) = tmp_path.glob("*.json")
    kept.write_bytes(content)
    assert judged(HiddenPool(KEY, tmp_path), "one") == first  # the first generation follows from the key


def test_where_nothing_can_be_written_a_judging_goes_on(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    pool = HiddenPool(KEY, gone)
    first = judged(pool, "one", failed=True)
    assert judged(pool, "one") == first
    assert not set(first) & set(judged(pool, "two"))
    assert not gone.exists()


def test_a_task_of_few_sizes_still_has_hidden_workloads() -> None:
    few = Task(
        reference=lambda x: 2 * x, inputs={"x": tensor("n")}, public=[{"n": 3}], hidden={"n": (2, 5)}, name="few"
    )
    pool = HiddenPool(KEY, None)
    for number in range(40):
        found = pool.sample(few, f"program {number}", 3)
        pool.used(few, f"program {number}", failed=number % 2 == 0)
        assert {workload.size_map["n"] for workload in found} <= {2, 4, 5}
