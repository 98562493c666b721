"""Hidden workloads are secret, awkward or aligned, of fitting size, and the same for the same key."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kernelwright.tasks import TaskError, tensor
from kernelwright.tasks.hidden import hidden_workloads, is_prime, lighter_workload, sample_hidden, small_workloads, work
from kernelwright.tasks.model import Task, Workload
from kernelwright.tasks.resolve import resolve

from .samples import small_task

KEY = b"a judge's key"


def row_task(**changes: object) -> Task:
    ranges = {"rows": (200, 9000), "cols": (300, 9000)}
    public = [{"rows": 1024, "cols": 2048}, {"rows": 192, "cols": 12000}, {"rows": 8192, "cols": 256}]
    return small_task(**{"public": public, "hidden": ranges, **changes})


def is_awkward(value: int) -> bool:
    beside_power = any(value + off > 2 and (value + off) & (value + off - 1) == 0 for off in (-1, 1))
    return is_prime(value) or beside_power or value % 8 != 0


def test_the_key_and_the_name_decide_and_nothing_else() -> None:
    pool = hidden_workloads(row_task(), KEY)
    assert hidden_workloads(row_task(), KEY) == pool
    assert not set(hidden_workloads(row_task(), b"another")) & set(pool)
    assert not set(hidden_workloads(row_task(name="other"), KEY)) & set(pool)


@settings(max_examples=15)
@given(st.binary(min_size=1, max_size=40))
def test_any_key_gives_sixteen_different_fitting_workloads(key: bytes) -> None:
    task = row_task()
    pool = hidden_workloads(task, key)
    assert len(set(pool)) == 16
    for workload in pool:
        sizes = workload.size_map
        assert workload.hidden
        assert sizes not in task.public
        assert 200 <= sizes["rows"] <= 9000 and 300 <= sizes["cols"] <= 9000
        assert 0.5 <= work(task, sizes) / work(task, task.public[0]) <= 1.5
        for name, value in sizes.items():
            assert is_awkward(value) or value not in {public[name] for public in task.public}


def test_every_kind_of_size_occurs() -> None:
    cols = [workload.size_map["cols"] for workload in hidden_workloads(row_task(), KEY)]
    assert any(is_prime(value) for value in cols)
    assert any((value - 1).bit_count() == 1 or (value + 1).bit_count() == 1 for value in cols)
    assert any(value % 64 == 0 for value in cols)
    assert any(value % 16 == 8 for value in cols)
    assert len({value.bit_length() for value in cols}) >= 3


def test_sizes_are_awkward_and_aligned_together_and_apart() -> None:
    pool = hidden_workloads(row_task(), KEY)
    aligned = {tuple(value % 8 == 0 for value in workload.size_map.values()) for workload in pool}
    assert aligned == {(False, False), (False, True), (True, False), (True, True)}


@settings(max_examples=15)
@given(st.binary(min_size=1, max_size=40), st.text(max_size=20))
def test_every_candidate_meets_every_size_aligned_where_nobody_published_it_and_odd(key: bytes, candidate: str) -> None:
    task = row_task()
    sample = [workload.size_map for workload in sample_hidden(hidden_workloads(task, key), key, candidate)]
    for name in task.hidden:
        known = {sizes[name] for sizes in task.public}
        assert any(sizes[name] % 64 == 0 and sizes[name] not in known for sizes in sample)
        assert any(sizes[name] % 2 == 1 for sizes in sample)
    assert any(all(size % 8 for size in sizes.values()) for sizes in sample)


@pytest.mark.parametrize("ref", ["conv_relu_pool", "linear@rows=64,features=128,units=10", "unet_linear"])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_many_and_narrow_ranges_too_show_every_size_aligned_and_odd(ref: str, device: str) -> None:
    task = resolve(ref, device)
    for candidate in ("one", "another"):
        sample = [workload.size_map for workload in sample_hidden(hidden_workloads(task, KEY), KEY, candidate)]
        for name in task.hidden:
            assert any(sizes[name] % 8 == 0 for sizes in sample)
            assert any(sizes[name] % 2 == 1 for sizes in sample)


def test_every_dtype_has_awkward_and_aligned_workloads() -> None:
    pool = hidden_workloads(row_task(dtypes=("float32", "bfloat16")), KEY)
    for dtype in ("float32", "bfloat16"):
        cols = [workload.size_map["cols"] for workload in pool if workload.dtype == dtype]
        assert any(value % 8 == 0 for value in cols) and any(value % 8 for value in cols)


ranges = st.tuples(st.integers(1, 300), st.integers(0, 300)).map(lambda p: (p[0], p[0] + p[1]))


@settings(max_examples=30)
@given(ranges, ranges, st.integers(1, 300), st.integers(1, 300), st.integers(1, 8))
def test_the_rules_hold_for_any_range(
    rows: tuple[int, int], cols: tuple[int, int], public_rows: int, public_cols: int, count: int
) -> None:
    public = [{"rows": public_rows, "cols": public_cols}]
    space = (rows[1] - rows[0] + 1) * (cols[1] - cols[0] + 1)
    inside = rows[0] <= public_rows <= rows[1] and cols[0] <= public_cols <= cols[1]
    assume(space > inside)
    task = small_task(public=public, hidden={"rows": rows, "cols": cols})
    pool = hidden_workloads(task, KEY, count)
    assert len(pool) == count
    assert len(set(pool)) == min(count, space - inside)
    for workload in pool:
        sizes = workload.size_map
        assert sizes not in task.public
        assert rows[0] <= sizes["rows"] <= rows[1] and cols[0] <= sizes["cols"] <= cols[1]


def test_a_range_that_holds_only_the_public_workload_is_refused() -> None:
    task = small_task(public=[{"rows": 8, "cols": 8}], hidden={"rows": (8, 8), "cols": (8, 8)})
    with pytest.raises(TaskError, match="widen them"):
        hidden_workloads(task, KEY)


def test_a_range_of_one_value_keeps_it() -> None:
    pool = hidden_workloads(small_task(hidden={"rows": (32, 32), "cols": (4, 400)}), KEY)
    assert {workload.size_map["rows"] for workload in pool} == {32}


def test_sizes_that_make_no_tensor_are_never_drawn() -> None:
    task = small_task(
        inputs={"x": tensor("rows - cols")},
        reference=lambda x: x + 1,
        public=[{"rows": 100, "cols": 40}],
        hidden={"rows": (20, 200), "cols": (20, 200)},
    )
    assert all(w.size_map["rows"] > w.size_map["cols"] for w in hidden_workloads(task, KEY))


def test_a_task_may_say_what_its_work_is() -> None:
    task = row_task(work="rows * rows * cols")
    usual = sorted(work(task, sizes) for sizes in task.public)[1]
    for workload in hidden_workloads(task, KEY):
        assert 0.5 <= work(task, workload.size_map) / usual <= 1.5


def test_dtypes_take_turns() -> None:
    pool = hidden_workloads(row_task(dtypes=("float32", "bfloat16")), KEY, 6)
    assert [workload.dtype for workload in pool] == ["float32", "bfloat16"] * 3


POOL = tuple(Workload((("n", n),), hidden=True) for n in range(16))


def test_a_candidate_always_gets_the_same_sample() -> None:
    sample = sample_hidden(POOL, KEY, "candidate")
    assert sample_hidden(POOL, KEY, "candidate") == sample
    assert len(set(sample)) == 3


def test_candidates_get_samples_that_cover_the_pool() -> None:
    seen = {w for index in range(60) for w in sample_hidden(POOL, KEY, f"candidate {index}")}
    assert seen == set(POOL)
    assert sample_hidden(POOL, KEY, "a", 16) != sample_hidden(POOL, b"other key", "a", 16)


def test_a_sample_is_never_larger_than_the_pool() -> None:
    assert set(sample_hidden(POOL[:2], KEY, "candidate")) == set(POOL[:2])


def test_primes() -> None:
    assert [n for n in range(30) if is_prime(n)] == [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]


def area(workload: Workload) -> float:
    return math.prod(workload.size_map.values())


@settings(max_examples=15)
@given(st.binary(min_size=1, max_size=40), st.floats(1e6, 1e7))  # the middle of what the ranges hold
def test_a_lighter_workload_is_hidden_awkward_and_as_heavy_as_it_may_be(key: bytes, most: float) -> None:
    task = row_task()
    found = lighter_workload(task, key, area, most)
    assert found is not None and found.hidden and all(map(is_awkward, found.size_map.values()))
    assert found == lighter_workload(task, key, area, most)
    assert most / 4 < area(found) <= most


def test_where_nothing_is_as_light_as_that_it_is_the_lightest_and_never_a_public_one() -> None:
    task = small_task(public=[{"rows": 2048, "cols": 8}], hidden={"rows": (2048, 3000), "cols": (8, 8)})
    found = lighter_workload(task, KEY, area, 1.0)
    assert found is not None and 2048 < found.size_map["rows"] < 2100 and is_awkward(found.size_map["rows"])
    only = small_task(public=[{"rows": 8, "cols": 8}], hidden={"rows": (8, 8), "cols": (8, 8)})
    assert lighter_workload(only, KEY, area, 1e9) is None


def test_small_workloads_are_awkward_and_of_little_work() -> None:
    found = small_workloads(row_task(), 3)
    assert len(set(found)) == 3 and not any(workload.hidden for workload in found)
    for workload in found:
        assert all(is_awkward(size) for size in workload.size_map.values())
        assert work(row_task(), workload.size_map) < work(row_task(), {"rows": 1024, "cols": 2048}) / 4
