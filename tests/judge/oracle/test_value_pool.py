"""The pool of values: nothing twice for one runner, nothing again that a verdict may tell, families in secret order."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from kernelwright.devices.names import Device
from kernelwright.judge.oracle.cpu_arena import CpuArena
from kernelwright.judge.oracle.device import CpuOracleDevice
from kernelwright.judge.oracle.pool import ValuePool
from kernelwright.judge.oracle.server import Oracle
from kernelwright.tasks.drawing import signature
from kernelwright.tasks.model import Task
from kernelwright.tasks.resolve import resolve

TEXT = """
from kernelwright.tasks import Task, tensor

def reference(x):
    return x * 2

task = Task(reference, inputs={"x": tensor("n")}, public=[{"n": SIZE}], hidden={"n": (50, 9000)})
"""


def task_of(folder: Path, size: int) -> Task:
    path = folder / f"double{size}.py"
    path.write_text(TEXT.replace("SIZE", str(size)))
    return resolve(str(path))


def pool_of(task: Task) -> ValuePool:
    return ValuePool(task, task.public_workloads()[0], b"k" * 32)


@pytest.fixture
def pool(tmp_path: Path) -> ValuePool:
    return pool_of(task_of(tmp_path, 8000))


def numbers(pool: ValuePool, runner: str, count: int) -> list[int]:
    return [item.number for item in islice(pool.trials(runner, 1 << 30), count)]


def test_a_runner_never_sees_a_pair_twice(pool: ValuePool) -> None:
    seen = numbers(pool, "a", 20)
    assert len(set(seen)) == 20


def test_pairs_are_reused_across_runners(pool: ValuePool) -> None:
    assert set(numbers(pool, "a", 12)) == set(numbers(pool, "b", 12))


def test_what_a_rejected_candidate_saw_never_comes_again(pool: ValuePool) -> None:
    first = set(numbers(pool, "a", 12))
    pool.forget()
    assert not first & set(numbers(pool, "b", 12))


def test_an_answer_that_fits_into_a_verdict_is_never_used_twice(tmp_path: Path) -> None:
    pool = pool_of(task_of(tmp_path, 100))
    assert not set(numbers(pool, "a", 12)) & set(numbers(pool, "b", 12))


def test_families_take_turns_in_an_order_that_differs_between_runners(pool: ValuePool) -> None:
    orders = []
    for runner in "abcdef":
        families = [item.family for item in islice(pool.trials(runner, 1 << 30), 6)]
        assert sorted(families) == sorted(map(str, pool.task.families))
        orders.append(tuple(families))
    assert len(set(orders)) > 1


def test_a_blank_arena_holds_nothing_of_a_trial(pool: ValuePool) -> None:
    workload = pool.workload
    bench = CpuArena(pool.task, workload, signature(pool.task, workload), pool)
    item = next(pool.trials("a", 1 << 30))
    bench.load(item, 0x7FF17FF1)
    assert bench._views["x"].equal(item.tensor("x"))
    bench.blank()
    assert bool(bench._views["x"].isnan().all())
    bench.close()


def test_memory_is_given_back_when_values_were_drawn_and_not_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_of(tmp_path, 8000)
    task = str(tmp_path / "double8000.py")
    oracle = Oracle(b"k" * 32, 1, Device("cpu"))
    tidied: list[bool] = []
    monkeypatch.setattr(CpuOracleDevice, "tidy", lambda self: tidied.append(True))
    (workload,) = [entry["workload"] for entry in oracle.open(task)["workloads"]]
    oracle.arena(task, workload)
    for runner, more in (("a", 12), ("b", 0)):
        oracle.begin(task, workload, runner, [])
        tidied.clear()
        for _ in range(12):
            oracle.load()
        assert len(tidied) == more


def test_the_workloads_of_a_judging_share_the_memory_for_pools(tmp_path: Path) -> None:
    path = tmp_path / "double.py"
    path.write_text(
        "from kernelwright.tasks import Task, tensor\n"
        'task = Task(lambda x: 2 * x, inputs={"x": tensor("n")}, public=[{"n": 8000}, {"n": 8001}], '
        'hidden={"n": (1, 9000)})\n'
    )
    oracle = Oracle(b"k" * 32, 1, Device("cpu"))
    workloads = [entry["workload"] for entry in oracle.open(str(path))["workloads"]]
    oracle.arena(str(path), workloads[0])
    oracle.begin(str(path), workloads[0], "first", [])
    oracle.load()
    (pool,) = oracle._pools.values()
    oracle._capacity = 10 * pool.bytes
    oracle.reserve(str(path), workloads, 0)
    for workload in workloads:
        oracle.arena(str(path), workload)
        oracle.begin(str(path), workload, "runner", [])
        for _ in range(20):
            oracle.load()
    assert all(0 < pool.bytes <= oracle._capacity / 2 for pool in oracle._pools.values())
