"""The arena in use: no byte outside of an output can be written unseen, and none of it left over from before."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.judge.oracle.cpu_arena import CpuArena
from kernelwright.judge.oracle.pool import ValuePool
from kernelwright.judge.oracle.workload_arena import OutsideWrite, sentinel_word
from kernelwright.tasks import Task, tensor
from kernelwright.tasks.drawing import signature
from kernelwright.tasks.model import Workload


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


TASK = Task(
    double,
    inputs={"x": tensor("rows", "cols")},
    public=[{"rows": 3, "cols": 5}],
    hidden={"rows": (1, 60), "cols": (1, 60)},
)
sizes = st.tuples(st.integers(1, 60), st.integers(1, 60))


@contextmanager
def bench(rows: int, cols: int) -> Iterator[CpuArena]:
    workload = Workload((("rows", rows), ("cols", cols)))
    one = CpuArena(TASK, workload, signature(TASK, workload), ValuePool(TASK, workload, b"k" * 32))
    one.load(next(one.pool.trials("runner", 1 << 20)), sentinel_word(random.Random(rows * cols)))
    try:
        yield one
    finally:
        one.close()


def answer(one: CpuArena) -> None:
    one.results()[TASK.result_names[0]].copy_(2 * one.item.tensor("x"))


@settings(max_examples=60)
@given(size=sizes, data=st.data())
def test_any_byte_written_outside_of_an_output_is_seen(size: tuple[int, int], data: st.DataObject) -> None:
    with bench(*size) as one:
        answer(one)
        assert one.check() is None
        segment = one._segments[TASK.result_names[0]]
        region = segment.region
        outside = st.integers(0, region.bytes - 1).filter(
            lambda at: not region.offset <= at < region.offset + region.extent
        )
        place = data.draw(outside)
        old = segment.map[place]
        segment.map[place] = data.draw(st.integers(0, 255).filter(lambda byte: byte != old))
        assert isinstance(one.check(), OutsideWrite)


@settings(max_examples=40)
@given(size=sizes, data=st.data())
def test_any_element_left_unwritten_is_seen(size: tuple[int, int], data: st.DataObject) -> None:
    with bench(*size) as one:
        out = one.results()[TASK.result_names[0]]
        index = tuple(data.draw(st.integers(0, extent - 1)) for extent in size)
        poison = out[index].clone()
        answer(one)
        out[index] = poison
        fault = one.check()
        assert isinstance(fault, tuple) and fault[1].kind == "unwritten" and fault[1].index == index


@settings(max_examples=20)
@given(size=sizes)
def test_nothing_of_a_trial_is_left_for_the_next_runner(size: tuple[int, int]) -> None:
    with bench(*size) as one:
        answer(one)
        one.blank()
        assert all(bytes(segment.map) == b"\xff" * segment.region.bytes for segment in one._segments.values())


@settings(max_examples=20)
@given(size=sizes)
def test_restoring_poisons_every_output_again(size: tuple[int, int]) -> None:
    with bench(*size) as one:
        answer(one)
        one.restore()
        fault = one.check()
        assert isinstance(fault, tuple) and fault[1].unwritten == size[0] * size[1]


def test_a_sentinel_is_not_a_nan_that_a_processor_computes() -> None:
    """All ones is CUDA's, the others are those of x86: a kernel that gives one has written something."""
    words = {sentinel_word(random.Random(seed)) for seed in range(2000)}
    halves = {half for word in words for half in (word >> 16, word & 0xFFFF)}
    assert not halves & {0x7FFF, 0xFFFF, 0x7FC0, 0xFFC0, 0x7E00, 0xFE00}
    assert not words & {0x7FFFFFFF, 0x7FC00000, 0xFFC00000}
