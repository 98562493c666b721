"""`kernelwright runs`: past searches, and those under way."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel
from rich.table import Table

from kernelwright.archives import cached_folder, split_name
from kernelwright.cli.optimize import Root
from kernelwright.cli.results.compare import compare_runs
from kernelwright.cli.views.output import console, plain, print_json
from kernelwright.cli.views.search_report import report, show
from kernelwright.errors import KernelwrightError
from kernelwright.judge.wording import about_times
from kernelwright.search.config import DEFAULT_ROOT
from kernelwright.search.core.state import State
from kernelwright.search.journal import NAME as JOURNAL
from kernelwright.search.journal import JournalError, being_written
from kernelwright.search.origin import begun_here
from kernelwright.search.run import look
from kernelwright.search.session import find, runs_in

runs = typer.Typer(help="List, show and compare runs of `optimize`.", no_args_is_help=True)
runs.command("compare")(compare_runs)
SCHEMA_VERSION = 1
Json = Annotated[bool, typer.Option("--json", help="Print JSON (see docs/json.md).")]


class ListedRun(BaseModel):
    """`fault` says why a run cannot be read; the rest is null then. `estimate` is the fastest's: it claims nothing."""

    run: str
    begun_here: bool | None = None
    task: str | None = None
    standing: str | None = None
    evaluations: int | None = None
    score: float | None = None
    estimate: float | None = None
    fault: str | None = None


class RunsReport(BaseModel):
    schema_version: int = SCHEMA_VERSION
    command: str = "runs list"
    runs: list[ListedRun]


@runs.command("list")
def list_runs(root: Root = DEFAULT_ROOT, json: Json = False) -> None:
    """List the runs in a directory."""
    found = [_listed(path) for path in runs_in(root)]
    if json:
        print_json(RunsReport(runs=found))
        return
    if not found:
        console().print(f"no runs in {plain(str(root))}; `kernelwright optimize TASK` starts one")
        return
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for title in ("run", "task", "standing", "evaluations", "best"):
        table.add_column(title)
    for one in found:
        count = "" if one.evaluations is None else str(one.evaluations)
        standing = one.fault or one.standing or ""
        table.add_row(plain(one.run), plain(one.task or ""), plain(standing), count, _best(one))
    console().print(table)


@runs.command("show")
def show_run(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run: its directory, its name, or ARCHIVE.tar.xz::NAME.")],
    root: Root = DEFAULT_ROOT,
    json: Json = False,
) -> None:
    """Show the result of a run, or its progress."""
    archived = split_name(run)
    folder = cached_folder(*archived) if archived else find(run, root)
    if archived and not (folder / JOURNAL).exists():
        raise KernelwrightError(
            f"{run}: contains kernels and certificates, not a run; `kernelwright replay {archived[0]}` lists them"
        )
    state = look(folder)
    if json:
        print_json(report(state, folder, "runs show"))
    else:
        show(console(), state, folder, resume=archived is None)


def _best(one: ListedRun) -> str:
    if one.score is not None:
        return f"{one.score:.2f}×{'' if one.begun_here else ' (claimed elsewhere)'}"
    return "" if one.estimate is None else f"none; {about_times(one.estimate)} (estimate)"


def _listed(path: Path) -> ListedRun:
    try:
        state = look(path)
    except JournalError as error:
        return ListedRun(run=str(path), fault=str(error))
    best = state.entries[state.best] if state.best is not None else None
    leader = state.entries[state.leader] if state.leader is not None else None
    return ListedRun(
        run=str(path),
        begun_here=begun_here(path),
        task=state.run.task_name,
        standing=_standing(state, path),
        evaluations=state.spent.evaluations,
        score=best.score if best is not None else None,
        estimate=leader.estimate if leader is not None else None,
    )


def _standing(state: State, path: Path) -> str:
    if state.stopped is not None:
        return f"stopped: {state.stopped.reason.replace('_', ' ')}"
    return "running" if being_written(path) else "killed; resume it with --resume"
