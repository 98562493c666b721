"""A profile as lines of text: one for each launch, for people and prompts alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from kernelwright.judge.verdict import LaunchProfile
from kernelwright.judge.words import byte_count, duration

MOST_LAUNCHES = 8
NAME_LENGTH = 60
_COMMENT = re.compile(r"/\*.*?(\*/|$)|//.*", re.DOTALL)


def symbol(name: str) -> str:
    """A kernel's name as far as it names a kernel: comments in it could say anything."""
    plain = " ".join(_COMMENT.sub(" ", name).replace("`", "'").split())
    return plain if len(plain) <= NAME_LENGTH else f"{plain[: NAME_LENGTH - 1]}…"


def lines(launches: Sequence[LaunchProfile]) -> tuple[str, ...]:
    """A table without what no launch has; of many launches the longest, in order."""
    numbered = list(enumerate(launches, 1))
    longest = sorted(numbered, key=lambda item: -(item[1].seconds or 0.0))[:MOST_LAUNCHES]
    rows = [[f"{number}", *_cells(one)] for number, one in sorted(longest, key=lambda item: item[0])]
    head = ["launch", *_COLUMNS]
    kept = [index for index in range(len(head)) if any(row[index] for row in rows)]
    return tuple(" | ".join(row[index] or "-" for index in kept) for row in ([head, *rows] if rows else []))


def _cells(one: LaunchProfile) -> list[str]:
    return [make(one) for make in _COLUMNS.values()]


def _shown(value: float | None, form: Callable[[float], str]) -> str:
    return "" if value is None else form(value)


def _percent(value: float | None) -> str:
    return _shown(value, "{:.0%}".format)


_COLUMNS: dict[str, Callable[[LaunchProfile], str]] = {
    "kernel": lambda one: symbol(one.kernel).replace("|", "¦"),
    "time": lambda one: _shown(one.seconds, duration),
    "DRAM read": lambda one: _shown(one.dram_read_bytes, byte_count),
    "DRAM written": lambda one: _shown(one.dram_written_bytes, byte_count),
    "DRAM": lambda one: _percent(one.of_dram),
    "L2 hits": lambda one: _percent(one.l2_hits),
    "L2": lambda one: _percent(one.of_l2),
    "SM": lambda one: _percent(one.of_sm),
    "float32": lambda one: _percent(one.of_float32),
    "tensor": lambda one: _percent(one.of_tensor),
    "occupancy": lambda one: _percent(one.occupancy),
    "issuing": lambda one: _percent(one.issuing),
    "eligible warps": lambda one: _shown(one.eligible_warps, "{:.2f}".format),
    "registers": lambda one: _shown(one.registers, "{:.0f}".format),
    "waves": lambda one: _shown(one.waves, "{:.2f}".format),
    "bank conflicts": lambda one: _percent(one.bank_conflicts),
    "local memory": lambda one: _shown(one.local_bytes, byte_count),
    "stalls": lambda one: ", ".join(f"{stall.reason} {stall.share:.0%}" for stall in one.stalls),
}
