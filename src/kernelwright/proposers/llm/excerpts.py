"""A source of any length as a prompt shows it: the beginning and the end, in whole lines, and how much is left out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

MOST_SOURCE = 48_000  # bytes, since these are what is paid for: more than anybody writes by hand
_HEAD = 36_000


@dataclass(frozen=True)
class Excerpt:
    text: str
    left_out: int  # characters


def is_cut(source: str) -> bool:
    return len(source.encode()) > MOST_SOURCE


def excerpt(source: str) -> Excerpt:
    """The end is shown because a plan stands there."""
    if not is_cut(source):
        return Excerpt(source, 0)
    lines = source.split("\n")
    head = _fitting(lines, _HEAD)
    tail = _fitting(reversed(lines[len(head) :]), MOST_SOURCE - _HEAD)[::-1]
    left_out = len(source) - sum(len(line) + 1 for line in (*head, *tail))
    gap = f"[here {left_out:,} characters are left out]"
    return Excerpt("\n".join([*head, gap, *tail]), left_out)


def _fitting(lines: Iterable[str], most: int) -> list[str]:
    """As many of the first lines as there is room for."""
    found: list[str] = []
    for line in lines:
        most -= len(line.encode()) + 1
        if most < 0:
            break
        found.append(line)
    return found
