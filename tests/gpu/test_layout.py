"""Where things lie on a GPU: aligned, close to their guards, the same in every process."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.contracts.layout import ALIGNMENT, BASE, GRANULE, GUARD, SPAN, Access, lay_out, size_of
from kernelwright.tasks.model import Signature, TensorSpec


def vector(name: str, count: int, role: str = "input") -> TensorSpec:
    return TensorSpec(name, "float32", (count,), (1,), role)


@given(st.integers(0, 1 << 34))
def test_contents_end_close_to_the_guard_behind_them(extent: int) -> None:
    whole, offset = size_of(extent)
    assert whole % GRANULE == 0 and offset % ALIGNMENT == 0
    assert 0 <= whole - offset - extent < ALIGNMENT or extent == 0


@given(st.lists(st.integers(1, 1 << 24), min_size=1, max_size=6))
def test_blocks_are_apart_and_inside_the_reservation(counts: list[int]) -> None:
    layout = lay_out(Signature(tuple(vector(f"t{i}", count) for i, count in enumerate(counts))), (("scratch", 100),))
    end = BASE
    for place in (*layout.tensors, *layout.private):
        assert place.base - end >= GUARD and place.base % GRANULE == 0
        end = place.base + place.bytes
    assert end + GUARD <= BASE + SPAN


def test_tensors_do_not_move_when_scratch_is_added() -> None:
    signature = Signature((vector("x", 1000), vector("out", 1000, "output")))
    assert lay_out(signature).tensors == lay_out(signature, (("s", 1 << 20),)).tensors


def test_only_results_are_writable() -> None:
    roles = ("input", "constant", "inout", "output")
    layout = lay_out(Signature(tuple(vector(role, 10, role) for role in roles)))
    assert [place.access for place in layout.tensors] == [Access.read, Access.read, Access.write, Access.write]


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        lay_out(Signature((vector("x", 1 << 39),)))
