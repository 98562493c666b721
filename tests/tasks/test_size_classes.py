"""Size classes: every value of a range is in exactly one group, and groups draw their own values alone."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from kernelwright.tasks.size_classes import (
    ABOVE,
    BELOW,
    LEAST,
    MOST,
    ONE,
    classes_of,
    coarse_classes_of,
    group_key,
    size_groups,
)

RANGES = st.tuples(st.integers(1, 2000), st.one_of(st.integers(0, 9), st.integers(0, 700))).map(
    lambda pair: (pair[0], pair[0] + pair[1])
)


def test_a_size_is_in_every_class_that_it_belongs_to() -> None:
    assert classes_of(96, 8, 500) == ("divisible by 32 and not by 64",)
    assert classes_of(384, 8, 384) == ("divisible by 128", MOST)
    assert classes_of(257, 8, 500) == ("odd", ABOVE)
    assert classes_of(127, 127, 500) == ("odd", BELOW, LEAST)
    assert classes_of(1, 1, 1) == ("odd", ABOVE, LEAST, MOST, ONE)
    assert [coarse_classes_of(value, 5, 999) for value in (7, 6, 12, 8, 48, 96, 999)] == [
        ("odd",),
        ("tail",),
        ("tail",),
        ("vector",),
        ("vector",),
        ("tile",),
        ("odd", MOST),
    ]


@given(RANGES)
def test_groups_are_the_values_that_are_in_the_same_classes(bounds: tuple[int, int]) -> None:
    together: dict[tuple[tuple[str, ...], int], list[int]] = {}
    for value in range(bounds[0], bounds[1] + 1):
        together.setdefault(group_key(value, *bounds), []).append(value)
    groups = size_groups(*bounds)
    assert {group_key(group.least, *bounds): (group.least, group.most) for group in groups} == {
        key: (values[0], values[-1]) for key, values in together.items()
    }
    assert len(groups) == len(together)


@given(RANGES, st.integers(0, 99), st.floats(0, 1))
def test_a_group_gives_values_of_its_own_only(bounds: tuple[int, int], seed: int, height: float) -> None:
    rng = random.Random(seed)
    for group in size_groups(*bounds):
        drawn = group.draw(rng)
        for value in (drawn, group.lowered(drawn, height), group.at(height)):
            assert group_key(value, *bounds) == group_key(group.least, *bounds)
            assert classes_of(value, *bounds) == group.classes
        assert (group.at(0.0), group.lowered(drawn, 0.0)) == (group.least, group.least)
