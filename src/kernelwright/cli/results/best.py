"""`kernelwright best`: the best proved kernel of each task, over all runs of a machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import BaseModel
from rich.console import Console
from rich.table import Table

from kernelwright.cli.views.output import console, plain, print_json
from kernelwright.judge.wording import counted
from kernelwright.report.best import BestKernel, BestOfMachine, best_of
from kernelwright.search.config import DEFAULT_ROOT, OPTIONS

SCHEMA_VERSION = 1


class BestListing(BaseModel):
    schema_version: int = SCHEMA_VERSION
    command: Literal["best"] = "best"
    kernels: tuple[BestKernel, ...]
    runs: int
    without_best: int
    unproved: tuple[tuple[str, str], ...]
    unread: tuple[tuple[str, str], ...]


def best(
    task: Annotated[
        str | None,
        typer.Argument(metavar="TASK", help="Only this task, with or without sizes and direction. Default: all."),
    ] = None,
    runs: Annotated[list[Path] | None, typer.Option(help="Directory of runs; repeatable.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON (see docs/json.md).")] = False,
) -> None:
    """List the best proved kernel of each task.

    One for each task, device and contract, and whether its proof is still current. Exit code 0: there is one; 1: there
    is none.
    """
    found = best_of(runs or [_default_root()], task)
    if json:
        print_json(BestListing(**{name: getattr(found, name) for name in BestOfMachine.model_fields}))
    else:
        _show(console(), found)
    raise typer.Exit(0 if found.kernels else 1)


def _default_root() -> Path:
    named = os.environ.get(OPTIONS["runs"].variable or "")
    return Path(named) if named else DEFAULT_ROOT


def _show(out: Console, found: BestOfMachine) -> None:
    if found.kernels:
        out.print(_table(found.kernels))
        for one in found.kernels:
            out.print(f"  [dim]{plain(one.task)}[/]  {plain(one.run)}", soft_wrap=True)
            for name in one.certificates:
                out.print(f"    [dim]replay[/]  kernelwright replay {plain(name)}", soft_wrap=True)
            for words in one.stale:
                out.print(f"    [yellow]{plain(words)}[/]", soft_wrap=True)
    else:
        out.print(f"no proved kernel in {counted(found.runs, 'run')}; `kernelwright runs list` shows them")
    for where, why in found.unproved:
        out.print(f"  [yellow]not proved[/]  {plain(where)}: {plain(why)}", soft_wrap=True)
    for where, why in found.unread:
        out.print(f"  [yellow]not read[/]  {plain(where)}: {plain(why)}", soft_wrap=True)
    if found.without_best:
        out.print(f"  [dim]{counted(found.without_best, 'run')} without a best kernel[/]")


def _table(kernels: tuple[BestKernel, ...]) -> Table:
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for title in ("task", "device", "contract", "over", "claim", "age", "proof"):
        table.add_column(title, justify="right" if title in ("claim", "age") else "left")
    for one in kernels:
        threads = f", {counted(one.threads, 'thread')}" if one.device.startswith("cpu") else ""
        table.add_row(
            plain(one.task),
            plain(f"{one.device}{threads}"),
            plain(one.contract),
            plain(", ".join(one.baselines)),
            f"{one.claim:.2f}×",
            "" if one.age_days is None else f"{one.age_days:.0f} d",
            "[green]current[/]" if one.current else f"[yellow]{one.judge.value.replace('_', ' ')}[/]",
        )
    return table
