"""Markdown tables, and in words where results come from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from kernelwright.judge.verdict import Verdict

LEAST_RMS = 0.1  # units: what eager loses where it loses nothing
ERRORS = "errors, u (eager's)"
ABOUT_ERRORS = (
    "“Errors” are the root mean square over a judging, in units of one rounding of every step, and in brackets "
    "eager's; then what they show. [Precision](precision.md) has the rules."
)
AS_GIVEN = (
    "Commands that made stored data are quoted as they were given, at the commit beside them where it was recorded. "
    "Scripts that they name in `benchmarks` itself are in its folders `cpu`, `gpu` and `search` today."
)


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


NONE = "-"


def without_empty(head: tuple[str, ...], rows: Sequence[tuple[str, ...]], name: str) -> str:
    """A table without a column of that name that says nothing in any row: older results do not have it."""
    place = head.index(name)
    if any(row[place] != NONE for row in rows):
        return table(head, rows)
    return table((*head[:place], *head[place + 1 :]), [(*row[:place], *row[place + 1 :]) for row in rows])


def errors(verdict: Verdict | None) -> str:
    """Of the result that is worst beside eager: the size of its errors, eager's, and what they show."""
    if verdict is None or not verdict.errors:
        return NONE
    worst = max(verdict.errors, key=lambda one: one.rms / max(one.eager_rms, LEAST_RMS))
    return f"{worst.rms:.2g} ({worst.eager_rms:.2g}), {worst.finding}"


def bullets(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def joined(parts: Iterable[str]) -> str:
    """As a page: never more than one empty line between two parts."""
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).rstrip() + "\n"


def rounded(value: float | None) -> str:
    """To four digits."""
    return "-" if value is None else f"{float(f'{value:.4g}'):g}"


def source(record: dict[str, Any], command: str = "") -> str:
    """The command and commit of a result; older ones may lack the commit."""
    text = f"`{record.get('command', command)}`"
    if "commit" in record:
        text += f" at {record['commit']}{' with changes' if record.get('dirty') else ''}"
    return text


def sources(report: dict[str, Any]) -> str:
    """Those of the sections of a report, each once, as a list."""
    runs: dict[str, list[str]] = {}
    for section, where in report.get("taken", {}).items():
        runs.setdefault(source(where, report.get("command", "")), []).append(section)
    return bullets(f"{', '.join(sections)}: {how}" for how, sections in runs.items())


def machines(report: dict[str, Any]) -> str:
    """Those that the sections were taken on; of older sections the one of the whole report."""
    whole = report.get("machine", {})
    found = [where.get("machine", whole) for where in report.get("taken", {}).values()] or [whole]
    return "; ".join(dict.fromkeys(f"{one.get('cpu', '?')}, {one.get('cores', '?')} cores" for one in found))
