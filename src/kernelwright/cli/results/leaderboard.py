"""`kernelwright leaderboard`: results files side by side."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import BaseModel

from kernelwright.benchmark.journal import read_results
from kernelwright.benchmark.leaderboard import Leaderboard
from kernelwright.benchmark.leaderboard import leaderboard as make_leaderboard
from kernelwright.benchmark.metrics import Metrics
from kernelwright.benchmark.pages import board_markdown, board_page
from kernelwright.benchmark.results import BenchmarkEnvironment
from kernelwright.cli.results.report import write_page
from kernelwright.cli.views.boards import show_board
from kernelwright.cli.views.output import console, plain, print_json, print_text

SCHEMA_VERSION = 1


class BoardFormat(StrEnum):
    text = "text"
    md = "md"
    html = "html"


class BoardEntry(BaseModel):
    entrant: str
    file: str
    judged: int
    planned: int
    unopened: dict[str, str]
    metrics: Metrics


class BoardReport(BaseModel):
    schema_version: int = SCHEMA_VERSION
    command: Literal["leaderboard"] = "leaderboard"
    suite: str
    environment: BenchmarkEnvironment
    baselines: tuple[str, ...]
    warnings: tuple[str, ...]
    entries: tuple[BoardEntry, ...]


def leaderboard(
    results: Annotated[list[Path], typer.Argument(help="Results files of `kernelwright bench`.", metavar="RESULTS...")],
    format: Annotated[
        BoardFormat, typer.Option(help="text for the terminal, md for Markdown, html for one self-contained page.")
    ] = BoardFormat.text,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write. Default: leaderboard.html for html, else the terminal."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON (see docs/json.md).")] = False,
) -> None:
    """Compare benchmark results on one suite.

    Shows correctness, fast_p, speedups, SOL score, hidden sizes, rejected cheats and cost. Results of different
    hardware, judges, suites or baselines are never compared.
    """
    board = make_leaderboard([read_results(path) for path in results])
    if json:
        print_json(_report(board))
    elif format is BoardFormat.text and output is None:
        show_board(console(), board)
    elif format is BoardFormat.md and output is None:
        print_text(board_markdown(board))
    else:
        target = output or Path("leaderboard.html")
        text = board_page(board) if format is BoardFormat.html else board_markdown(board)
        write_page(target, text)
        console().print(f"wrote {plain(str(target))} ({len(text.encode()) / 1000:,.0f} KB)", soft_wrap=True)


def _report(board: Leaderboard) -> BoardReport:
    return BoardReport(
        suite=board.suite,
        environment=board.environment,
        baselines=board.baselines,
        warnings=board.warnings,
        entries=tuple(
            BoardEntry(
                entrant=one.label,
                file=one.results.origin,
                judged=one.results.judged,
                planned=one.results.planned,
                unopened=one.results.unopened,
                metrics=one.metrics,
            )
            for one in board.ranked
        ),
    )
