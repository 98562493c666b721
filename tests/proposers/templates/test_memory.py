"""Buffers that are not needed at the same time lie in the same memory, and never those that are."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kernelwright.proposers.templates.plan import FEW, homes, residents

STEPS = st.lists(st.sets(st.integers(0, 15), max_size=4), max_size=30)


def test_a_chain_needs_two_pieces() -> None:
    names = [f"b{n}" for n in range(20)]
    chain = [{a, b} for a, b in pairwise(names)]
    assert len(residents(homes(chain, names))) == 2


def test_a_few_buffers_stay_apart() -> None:
    names = [f"b{n}" for n in range(FEW)]
    assert homes([{name} for name in names], names) == {name: name for name in names}


@given(STEPS)
def test_no_two_that_live_at_once_share(steps: list[set[int]]) -> None:
    uses = [{f"b{n}" for n in step} for step in steps]
    names = [f"b{n}" for n in range(16)]
    shared = homes(uses, names)
    life = {name: [n for n, use in enumerate(uses) if name in use] for name in names}
    for one in names:
        for other in names:
            if one < other and shared[one] == shared[other] and life[one] and life[other]:
                assert life[one][-1] < life[other][0] or life[other][-1] < life[one][0]
