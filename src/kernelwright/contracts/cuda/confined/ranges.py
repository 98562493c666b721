"""Intervals of numbers: what an operation can give, and what its result says of its operands.

Intervals are never too narrow: what lies outside cannot happen. They may be too wide.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

MOST = 1 << 126
Interval = tuple[Any, Any]
ANY: Interval = (-MOST, MOST)
REALS = (-math.inf, math.inf)
TRUTH = (0, 1)
_CORNERS: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "min": min,
    "max": max,
    "floordiv": operator.floordiv,
    "truediv": operator.truediv,
}
_RISING: dict[str, Callable[[Any], Any]] = {"pos": operator.pos, "int": int, "ceil": math.ceil, "floor": math.floor}


def clipped(one: Interval, other: Interval | None) -> Interval:
    """What is in both. Where nothing is, the first: then no sizes come this way, and any answer is right."""
    if other is None:
        return one
    low, high = max(one[0], other[0]), min(one[1], other[1])
    return (low, high) if low <= high else one


def _endless(intervals: list[Interval]) -> bool:
    return any(abs(end) >= MOST for interval in intervals for end in interval)


def _whole(intervals: list[Interval]) -> bool:
    return all(isinstance(end, int) for interval in intervals for end in interval)


def interval_of(operation: str, given: list[Interval]) -> Interval:
    unknown = ANY if _whole(given) and operation != "truediv" else REALS
    if operation in ("lt", "le", "gt", "ge", "eq", "ne", "not", "bool"):
        return _truth(operation, given)
    if operation in ("float", "sqrt", "log2"):
        return REALS
    try:
        found = _bounded(operation, given)
    except (ArithmeticError, ValueError, TypeError):
        return unknown
    if found is None or any(end != end or (isinstance(end, int) and abs(end) > MOST) for end in found):
        return unknown
    return found


def _bounded(operation: str, given: list[Interval]) -> Interval | None:
    low, high = given[0]
    if operation in ("int", "ceil", "floor") and not _whole(given) and _endless(given):
        return ANY
    if operation in _RISING:
        return _RISING[operation](low), _RISING[operation](high)
    if operation == "neg":
        return -high, -low
    if operation == "abs":
        return (0 if low <= 0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))
    if operation == "bits":
        return (low.bit_length(), high.bit_length()) if low >= 0 else (0, 127)
    if len(given) == 1:
        return None
    return _of_two(operation, given[0], given[1])


def _of_two(operation: str, one: Interval, other: Interval) -> Interval | None:
    (low, high), (first, last) = one, other
    if operation in ("floordiv", "truediv", "mod") and first <= 0 <= last:
        return None
    if operation in _CORNERS:
        corners = [_CORNERS[operation](a, b) for a in one for b in other]
        return min(corners), max(corners)
    if operation == "mod" and first > 0:
        if first == last and low // first == high // first:
            return low % first, high % first
        return 0, last - 1 if _whole([other]) else last
    if operation in ("lshift", "rshift") and low >= 0 and 0 <= first <= last <= 126:
        shift = operator.lshift if operation == "lshift" else operator.rshift
        corners = [shift(a, b) for a in one for b in other]
        return min(corners), max(corners)
    if operation in ("and", "or", "xor") and low >= 0 and first >= 0:
        widest = (1 << max(high.bit_length(), last.bit_length())) - 1
        return 0, min(high, last) if operation == "and" else widest
    if operation == "pow" and first == last and 0 <= first <= 64 and low >= 0 and _whole([one, other]):
        return low**first, high**first
    return None


def _truth(operation: str, given: list[Interval]) -> Interval:
    low, high = given[0]
    if operation in ("not", "bool"):
        true = low > 0 or high < 0
        known = int(true) if true or low == high == 0 else None
        if known is None:
            return TRUTH
        return (known, known) if operation == "bool" else (1 - known, 1 - known)
    first, last = given[1]
    always = {
        "lt": (high < first, low >= last),
        "le": (high <= first, low > last),
        "gt": (low > last, high <= first),
        "ge": (low >= last, high < first),
        "eq": (low == high == first == last, high < first or low > last),
        "ne": (high < first or low > last, low == high == first == last),
    }[operation]
    return (1, 1) if always[0] else (0, 0) if always[1] else TRUTH


def inverse(node: Any, known: Interval, bounds: dict[int, Interval]) -> list[tuple[int, Interval]]:
    """What follows for operands of a node that is known to be in an interval; nothing where that is not plain."""
    operation, *operands = node
    low, high = known
    if operation == "neg":
        return [(operands[0], (-high, -low))]
    if operation == "pos":
        return [(operands[0], known)]
    if operation == "bits" and bounds[operands[0]][0] >= 0 and low >= 0 and high <= 126:
        return [(operands[0], (1 << low >> 1, (1 << high) - 1))]
    if len(operands) != 2 or not _whole([known, bounds[operands[0]], bounds[operands[1]]]):
        return []
    one, other = operands
    (first, last), (start, end) = bounds[one], bounds[other]
    if operation == "add":
        return [(one, (low - end, high - start)), (other, (low - last, high - first))]
    if operation == "sub":
        return [(one, (low + start, high + end)), (other, (first - high, last - low))]
    if operation == "max":
        return [(one, (-MOST, high)), (other, (-MOST, high)), *_only(one, other, bounds, low, "max")]
    if operation == "min":
        return [(one, (low, MOST)), (other, (low, MOST)), *_only(one, other, bounds, high, "min")]
    if operation == "mul" and start == end and start > 0:
        return [(one, (-(-low // start), high // start))]
    if operation == "mul" and first == last and first > 0:
        return [(other, (-(-low // first), high // first))]
    if operation == "floordiv" and start == end and start > 0:
        return [(one, (low * start, high * start + start - 1))]
    return []


def _only(one: int, other: int, bounds: dict[int, Interval], end: int, which: str) -> list[tuple[int, Interval]]:
    """Of a maximum that is at least `end`: where one operand cannot be, the other is."""
    found = []
    for mine, theirs in ((one, other), (other, one)):
        if which == "max" and bounds[theirs][1] < end:
            found.append((mine, (end, MOST)))
        if which == "min" and bounds[theirs][0] > end:
            found.append((mine, (-MOST, end)))
    return found
