"""`kernelwright runs compare`: two runs side by side."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Literal

import typer
from pydantic import BaseModel
from rich.console import Console
from rich.table import Table

from kernelwright.cli.optimize import Root
from kernelwright.cli.views.output import console, plain, print_json, print_text
from kernelwright.judge.verdict import IntervalValue
from kernelwright.judge.wording import counted
from kernelwright.report.comparison import Faster, RunComparison, compare, compared_sources
from kernelwright.report.markdown import diff_lines, table
from kernelwright.report.model import SourceDiff
from kernelwright.report.subjects import one_run
from kernelwright.report.text import code_span, prose
from kernelwright.search.config import DEFAULT_ROOT

SCHEMA_VERSION = 1
SHOWN_DIFF = 60  # lines on a terminal
FASTER = {
    Faster.first: "the first is faster",
    Faster.second: "the second is faster",
    Faster.undecided: "not decided",
    Faster.not_compared: "not compared",
}


class ComparisonFormat(StrEnum):
    text = "text"
    md = "md"


class ComparisonReport(BaseModel):
    schema_version: int = SCHEMA_VERSION
    command: Literal["runs compare"] = "runs compare"
    comparison: RunComparison
    diff: list[str]
    diff_left_out: int


def compare_runs(
    first: Annotated[
        str, typer.Argument(metavar="RUN", help="A run: its directory, its name, or ARCHIVE.tar.xz::NAME.")
    ],
    second: Annotated[str, typer.Argument(metavar="RUN", help="Another run.")],
    root: Root = DEFAULT_ROOT,
    format: Annotated[ComparisonFormat, typer.Option(help="text for a terminal, md for a pull request.")] = (
        ComparisonFormat.text
    ),
    json: Annotated[bool, typer.Option("--json", help="Print JSON (see docs/json.md).")] = False,
) -> None:
    """Compare the best kernels of two runs.

    Shows what differs in how they were judged, which is faster on which workload, and the diff of their sources.
    """
    one, other = one_run(first, root), one_run(second, root)
    found, diff = compare(one, other), compared_sources(one, other)
    if json:
        print_json(ComparisonReport(comparison=found, diff=_marked(diff), diff_left_out=diff.left_out))
    elif format is ComparisonFormat.md:
        print_text("\n".join(_markdown(found, diff)) + "\n")
    else:
        _show(console(), found, diff)


def _show(out: Console, found: RunComparison, diff: SourceDiff) -> None:
    for which, one in (("first", found.first), ("second", found.second)):
        claim = "speed undecided" if one.score is None else f"{one.score:.2f}× over the best baseline"
        hidden = f"; {counted(one.hidden, 'hidden workload')}" if one.hidden else ""
        mean = f", mean claim {one.hidden_claim:.2f}×" if one.hidden and one.hidden_claim is not None else ""
        out.print(f"[bold]{which}[/]  {plain(one.name)}  {claim} ({one.standing}){hidden}{mean}", soft_wrap=True)
    for condition in found.differing:
        colour = "yellow" if condition.matters else "dim"
        out.print(
            f"  [{colour}]not the same[/]  {condition.what}: {plain(condition.first)}; {plain(condition.second)}",
            soft_wrap=True,
        )
    if not found.comparable:
        out.print("  [yellow]judged under different conditions, so their speeds are not compared[/]")
    shown = Table(box=None, padding=(0, 2), header_style="dim")
    for title in ("workload", "over", "first", "second", "second over first", ""):
        shown.add_column(title)
    for row in found.workloads:
        outcome = f"{FASTER[row.faster]}{f' ({row.why})' if row.why and row.faster is Faster.undecided else ''}"
        shown.add_row(
            plain(f"{row.workload} {row.dtype}"), plain(row.baseline or ""), plain(_interval(row.first)),
            plain(_interval(row.second)), plain(_interval(row.ratio)), outcome,
        )  # fmt: skip
    out.print(shown)
    for which, names in (("first", found.only_first), ("second", found.only_second)):
        if names:
            out.print(f"  [dim]only the {which} met[/]  {plain(', '.join(names))}", soft_wrap=True)
    if found.ratio is not None:
        out.print(f"  over all of them: {plain(_interval(found.ratio))}, {FASTER[found.faster]}")
    out.print(f"  [dim]sources[/]  {counted(diff.added, 'line')} added, {counted(diff.removed, 'line')} removed")
    for line, mark in zip(diff.lines[:SHOWN_DIFF], _marked(diff), strict=False):
        colour = {"added": "green", "removed": "red", "place": "cyan"}.get(line.kind, "dim")
        out.print(f"  [{colour}]{plain(mark)}[/]", soft_wrap=True)
    rest = len(diff.lines) - SHOWN_DIFF + diff.left_out
    if rest > 0:
        out.print(f"  [dim]{counted(rest, 'line')} more; --format md or --json has them[/]")


def _marked(diff: SourceDiff) -> list[str]:
    marks = {"added": "+", "removed": "-", "same": " ", "place": ""}
    return [f"{marks[line.kind]}{line.text}" for line in diff.lines]


def _interval(value: IntervalValue | None) -> str:
    return "" if value is None else f"{value.mid:.2f}× [{value.low:.2f}, {value.high:.2f}]"


def _markdown(found: RunComparison, diff: SourceDiff) -> Iterator[str]:
    yield f"## {code_span(found.first.name)} and {code_span(found.second.name)}"
    yield ""
    score = [f"{one.score:.2f}×" if one.score is not None else "undecided" for one in (found.first, found.second)]
    yield from table(
        ("what is not the same", "first", "second"),
        [
            ("claim", *score),
            ("proof", found.first.standing, found.second.standing),
            *(
                (
                    f"**{one.what}**" if one.matters else one.what,
                    code_span(one.first, cell=True),
                    code_span(one.second, cell=True),
                )
                for one in found.differing
            ),
        ],
    )
    yield ""
    if not found.comparable:
        yield "Judged under different conditions, so their speeds are not compared."
        yield ""
    yield from table(
        ("workload", "over", "first", "second", "second over first", "which is faster"),
        [
            (
                code_span(f"{row.workload} {row.dtype}", cell=True),
                code_span(row.baseline or "none", cell=True),
                _interval(row.first),
                _interval(row.second),
                _interval(row.ratio),
                FASTER[row.faster],
            )
            for row in found.workloads
        ],
    )
    yield ""
    if found.ratio is not None:
        yield f"Over all of them: {_interval(found.ratio)}, {prose(FASTER[found.faster])}."
        yield ""
    yield from diff_lines(diff)
