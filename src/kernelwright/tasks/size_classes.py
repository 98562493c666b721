"""Classes of sizes: what about a size decides which path of a kernel runs.

Kernels branch on what divides a size (vectors of 2, 4, 8, tiles of 16 to 128), on whether one element is left over or
missing, and on the ends of a range. A *size class* names one such property. A size is in several classes at once;
values that are in exactly the same classes, and leave the same remainder modulo 8, form a *size group*, of which any
value may stand for the others: a vectorised kernel has a tail of its own for each remainder.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

TILE = 128
VECTOR = 8
LARGEST_POWER = 7  # 128 and every multiple of it are one class
COARSE = ("odd", "tail", "tail", "vector", "vector", "tile", "tile", "tile")  # by how often 2 divides a size

ABOVE, BELOW = f"1 above a multiple of {TILE}", f"1 below a multiple of {TILE}"
LEAST, MOST, ONE = "at its least", "at its most", "of 1"


@dataclass(frozen=True)
class SizeGroup:
    """Values in the same classes: `remainder` modulo `modulus`, from `least` to `most`, both of which are values.

    The odd values beside no multiple of 128 are the groups that are not all of their progression.
    """

    classes: tuple[str, ...]
    coarse: tuple[str, ...]
    least: int
    most: int
    modulus: int = 1
    remainder: int = 0

    def near(self, value: float) -> int:
        """A value of the group close to the given one."""
        found = min(max(math.floor(value), self.least), self.most)
        found -= (found - self.remainder) % self.modulus
        if self.modulus == VECTOR and self.least < found < self.most:
            found += {1: VECTOR, TILE - 1: -VECTOR}.get(found % TILE, 0)
        return max(found, self.least)

    def draw(self, rng: random.Random) -> int:
        """Uniform in the logarithm, as sizes are."""
        return self.near(self.least * ((self.most + 1) / self.least) ** rng.random())

    def at(self, height: float) -> int:
        """The value so high in the group: 0 for its least, 1 for its most."""
        return self.near(between(self.least, self.most, height))

    def lowered(self, value: int, height: float) -> int:
        """From the least of the group (height 0) to `value` (height 1)."""
        return self.near(between(self.least, value, height))


def between(low: int, high: int, height: float) -> int:
    """From `low` (height 0) to `high` (height 1), evenly in the logarithm."""
    return min(high, max(low, round(low * (high / low) ** height))) if height else low


GroupKey = tuple[tuple[str, ...], int]


def group_key(value: int, low: int, high: int) -> GroupKey:
    """What the values of one group have in common: their classes, and the remainder modulo 8."""
    return classes_of(value, low, high), value % VECTOR


def classes_of(value: int, low: int, high: int) -> tuple[str, ...]:
    """Every size class of a value of the range from `low` to `high`."""
    power = _power(value)
    found = [_power_class(power)]
    found += [name for name, rest in ((ABOVE, 1), (BELOW, TILE - 1)) if value % TILE == rest]
    return (*found, *_ends(value, low, high), *((ONE,) if value == 1 else ()))


def coarse_classes_of(value: int, low: int, high: int) -> tuple[str, ...]:
    """Six classes in place of thirteen, so that forty points can hold every pair."""
    return (COARSE[_power(value)], *_ends(value, low, high))


def size_groups(low: int, high: int) -> tuple[SizeGroup, ...]:
    """The groups that the range from `low` to `high` has; its two ends are groups of their own."""
    ends = [_single(value, low, high) for value in dict.fromkeys((low, high))]
    return (*ends, *_inner(low, high))


def _single(value: int, low: int, high: int) -> SizeGroup:
    return SizeGroup(classes_of(value, low, high), coarse_classes_of(value, low, high), value, value, 1, 0)


def _inner(low: int, high: int) -> Iterator[SizeGroup]:
    progressions = [(TILE, 1), (TILE, TILE - 1)]
    progressions += [(VECTOR, remainder) for remainder in (1, 3, 5, 7, 2, 6)]
    progressions += [(2 << power, 1 << power) for power in range(2, LARGEST_POWER)]
    progressions += [(TILE, 0)]
    for modulus, remainder in progressions:
        first = low + 1 + (remainder - low - 1) % modulus
        last = high - 1 - (high - 1 - remainder) % modulus
        if modulus == VECTOR and remainder % 2:
            first += VECTOR if first % TILE in (1, TILE - 1) else 0
            last -= VECTOR if last % TILE in (1, TILE - 1) else 0
        if first <= last:
            names = classes_of(first, low, high), coarse_classes_of(first, low, high)
            yield SizeGroup(*names, first, last, modulus, remainder)


def _power(value: int) -> int:
    return min((value & -value).bit_length() - 1, LARGEST_POWER)


def _power_class(power: int) -> str:
    if power == 0:
        return "odd"
    return f"divisible by {1 << power}" + ("" if power == LARGEST_POWER else f" and not by {2 << power}")


def _ends(value: int, low: int, high: int) -> tuple[str, ...]:
    return tuple(name for name, end in ((LEAST, low), (MOST, high)) if value == end)
