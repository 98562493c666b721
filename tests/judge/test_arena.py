"""The arena: where tensors lie, and that nobody but the oracle can write an input."""

from __future__ import annotations

import fcntl
import mmap
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.contracts.layout import ALIGNMENT, extent_bytes
from kernelwright.judge.arena import PAGE, ArenaLevel, Segment, layout_text, region_of
from kernelwright.tasks.dtypes import ITEM_BYTES
from kernelwright.tasks.model import ScalarSpec, Signature, TensorSpec


def contiguous(shape: tuple[int, ...], dtype: str = "float32", role: str = "input") -> TensorSpec:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return TensorSpec("x", dtype, shape, tuple(reversed(strides)), role)


@given(st.lists(st.integers(0, 40), max_size=4), st.sampled_from(sorted(ITEM_BYTES)))
def test_a_tensor_ends_within_256_bytes_of_its_guard(shape: list[int], dtype: str) -> None:
    region = region_of(contiguous(tuple(shape), dtype))
    assert region.bytes % PAGE == 0 and region.bytes > 0
    assert region.offset % ALIGNMENT == 0
    assert region.offset + region.extent <= region.bytes
    slack = region.bytes - region.offset - region.extent
    assert slack < ALIGNMENT or region.extent == 0
    assert region.offset < PAGE  # the guard before it is near, too


def test_the_extent_counts_strides() -> None:
    every_other = TensorSpec("x", "float32", (3, 4), (16, 2), "input")
    assert extent_bytes(every_other) == (2 * 16 + 3 * 2 + 1) * 4


def test_an_input_cannot_be_written_through_its_descriptor() -> None:
    segment = Segment(region_of(contiguous((100,))))
    try:
        assert segment.level is ArenaLevel.sealed
        fd = os.dup(segment.fd)
        with pytest.raises(PermissionError):
            os.pwrite(fd, b"x", 0)
        with pytest.raises(PermissionError):
            os.ftruncate(fd, 0)
        with pytest.raises(PermissionError):
            mmap.mmap(fd, PAGE)
        with pytest.raises(PermissionError):
            os.write(os.open(f"/proc/self/fd/{fd}", os.O_RDWR), b"x")
        with pytest.raises(PermissionError):
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
        os.close(fd)
        segment.map[:4] = b"okay"  # the oracle's own mapping still can
        reading = mmap.mmap(segment.fd, PAGE, prot=mmap.PROT_READ)
        assert reading[:4] == b"okay"
        reading.close()
    finally:
        segment.close()


def test_an_output_can_be_written_but_not_resized() -> None:
    segment = Segment(region_of(contiguous((100,), role="output")))
    try:
        os.pwrite(segment.fd, b"fine", 0)
        assert segment.map[:4] == b"fine"
        with pytest.raises(PermissionError):
            os.ftruncate(segment.fd, 1 << 20)
    finally:
        segment.close()


def test_the_layout_names_every_argument_in_order() -> None:
    signature = Signature(
        (
            contiguous((2, 3)),
            ScalarSpec("eps", 0.5),
            ScalarSpec("n", 7),
            ScalarSpec("flag", True),
            contiguous((), role="output"),
        )
    )
    lines = layout_text(signature, [11, 12]).splitlines()
    assert lines[0] == f"tensor 11 {PAGE} {PAGE - ALIGNMENT} 24 0 2 2 3 3 1"
    assert lines[1] == f"real {(0.5).hex()}"
    assert lines[2:4] == ["integer 7", "integer 1"]
    assert lines[4] == f"tensor 12 {PAGE} {PAGE - ALIGNMENT} 4 1 0"
