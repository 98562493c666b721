"""Bounds on JSON that a stranger wrote, before anything is made of it: depth, lengths, numbers and letters.

What a field may be beyond that is said by its model.
"""

from __future__ import annotations

import math
from typing import Any

MAX_DEPTH = 24
MAX_ITEMS = 2_000_000  # of a certificate: all values of all its parts
MAX_STRING = 4 << 20
MAX_KEY = 256
MAX_INTEGER = 1 << 63


class OutOfBoundsError(ValueError):
    """JSON that is larger, deeper or otherwise than any of ours."""


def require_bounded(value: Any) -> None:
    """Without recursion, since the depth is the stranger's to choose."""
    waiting: list[tuple[Any, int]] = [(value, 0)]
    items = 0
    while waiting:
        one, depth = waiting.pop()
        items += 1
        if depth > MAX_DEPTH:
            raise OutOfBoundsError(f"it has more than {MAX_DEPTH} levels")
        if items > MAX_ITEMS:
            raise OutOfBoundsError(f"it has more than {MAX_ITEMS:,} values")
        match one:
            case dict():
                for key in one:
                    _require_text(key, MAX_KEY)
                waiting.extend((part, depth + 1) for part in one.values())
            case list():
                waiting.extend((part, depth + 1) for part in one)
            case str():
                _require_text(one, MAX_STRING)
            case bool() | None:
                pass
            case int():
                if abs(one) >= MAX_INTEGER:
                    raise OutOfBoundsError("it has a whole number of more than 63 bits")
            case float():
                if not math.isfinite(one):
                    raise OutOfBoundsError("it has a number that is not finite")


def _require_text(text: str, most: int) -> None:
    if len(text) > most:
        raise OutOfBoundsError(f"it has a text of more than {most:,} letters")
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise OutOfBoundsError("it has a text that is not Unicode")
