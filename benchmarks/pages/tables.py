"""Markdown tables, and in words where results come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


def source(record: dict[str, Any], command: str = "") -> str:
    """The command and commit of a result; older ones may lack the commit."""
    text = f"`{record.get('command', command)}`"
    if "commit" in record:
        text += f" at {record['commit']}{' with changes' if record.get('dirty') else ''}"
    return text


def sources(report: dict[str, Any]) -> str:
    """Those of the sections of a report, each once."""
    runs: dict[str, list[str]] = {}
    for section, where in report.get("taken", {}).items():
        runs.setdefault(source(where, report.get("command", "")), []).append(section)
    return "; ".join(f"{', '.join(sections)} by {how}" for how, sections in runs.items())


def machines(report: dict[str, Any]) -> str:
    """Those that the sections were taken on; of older sections the one of the whole report."""
    whole = report.get("machine", {})
    found = [where.get("machine", whole) for where in report.get("taken", {}).values()] or [whole]
    return "; ".join(dict.fromkeys(f"{one.get('cpu', '?')}, {one.get('cores', '?')} cores" for one in found))
