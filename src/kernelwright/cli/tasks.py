"""`kernelwright tasks`: what there is to compute, and whether a task can be cheated or means anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kernelwright.cli.views.output import Progress, complain, console, harmless, plain, print_json
from kernelwright.insight.lint.finding import LintFinding, Severity
from kernelwright.insight.lint.suite import SECONDS, SuiteRow, lint_suite
from kernelwright.tasks.catalogue import TaskInfo, catalogue, describe, folder_suite, of_suite
from kernelwright.tasks.imported.forms import bundle_of
from kernelwright.tasks.model import TaskError
from kernelwright.tasks.resolve import TRUST_TASK

tasks = typer.Typer(help="List, show and lint tasks.", no_args_is_help=True)
SCHEMA_VERSION = 1
HINT = (
    "`kernelwright tasks show NAME` shows a task. NAME:backward is its gradient, NAME@rows=64,cols=1000 sets its sizes."
)
COLOUR = {Severity.error: "red", Severity.warning: "yellow", Severity.note: "dim"}


class TaskReport(BaseModel):
    schema_version: int = SCHEMA_VERSION
    command: str
    tasks: list[dict[str, Any]]


@tasks.command("list")
def list_tasks(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="FOLDER", help="List the tasks in this folder instead, in any form (docs/tasks.md)."),
    ] = None,
    suite: Annotated[
        str | None, typer.Option(help="Only the tasks of this suite, with their public workloads.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON (see docs/json.md).")] = False,
) -> None:
    """List the built-in tasks, or the problems in a folder."""
    if folder is not None:
        _list_problems(folder, json=json)
        return
    found = catalogue() if suite is None else of_suite(suite)
    if json:
        print_json(TaskReport(command="tasks list", tasks=[asdict(info) for info in found]))
        return
    console().print(_overview(found) if suite is None else _workloads(found))
    if suite is None:
        console().print(f"\n  {HINT}", soft_wrap=True)


def _list_problems(folder: Path, *, json: bool) -> None:
    """By their files alone: nothing is traced."""
    found = folder_suite(folder)
    if json:
        print_json(TaskReport(command="tasks list", tasks=[{"name": ref} for ref in found]))
        return
    for ref in found:
        console().print(escape(ref), soft_wrap=True, highlight=False)


def _overview(found: Sequence[TaskInfo]) -> Table:
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for title in ("task", "gradient", "what it computes"):
        table.add_column(title)
    names = {info.name for info in found}
    for info in found:
        if info.direction == "backward":
            continue
        summary = info.doc.strip().splitlines()[0] if info.doc else ""
        table.add_row(info.name, "yes" if f"{info.name}:backward" in names else "no", escape(summary))
    return table


def _workloads(found: Sequence[TaskInfo]) -> Table:
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for title in ("task", "public workloads on a CPU", "on a GPU"):
        table.add_column(title)
    for info in found:
        on_gpu = info.cuda_public or info.public
        table.add_row(info.name, escape("\n".join(info.public)), escape("\n".join(on_gpu)))
    return table


@tasks.command("show")
def show_task(
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK", help="A built-in task, its gradient (NAME:backward), a task file, or a KernelBench file."
        ),
    ],
    trust_task: Annotated[bool, typer.Option("--trust-task", help=TRUST_TASK)] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON (see docs/json.md).")] = False,
) -> None:
    """Show one task: its arguments, how they are drawn, and its sizes."""
    from kernelwright.tasks.resolve import resolve  # imports torch, which takes seconds

    info = describe(resolve(task, trust_task=trust_task))
    if json:
        print_json(TaskReport(command="tasks show", tasks=[asdict(info)]))
        return
    _show(console(), info)


def _show(out: Console, info: TaskInfo) -> None:
    out.print(f"[bold]{escape(info.name)}[/]  [dim]{info.direction}[/]\n{escape(harmless(info.doc.strip()))}\n")
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for title in ("argument", "role", "shape", "dtype", "drawn"):
        table.add_column(title)
    for argument in info.arguments:
        shape = " × ".join(argument.dims)
        drawn = argument.draw if argument.value is None else f"= {argument.value}"
        table.add_row(argument.name, argument.role, escape(shape), argument.dtype, escape(drawn))
    for output in info.outputs:
        table.add_row(output, "output", "", "", "")
    out.print(table)
    out.print(f"\npublic workloads: {'; '.join(info.public)}")
    out.print(f"hidden ranges:    {', '.join(f'{name} {low} to {high}' for name, low, high in info.hidden)}")
    if info.cuda_public:
        out.print(f"public on a GPU:  {'; '.join(info.cuda_public)}")
        out.print(f"hidden on a GPU:  {', '.join(f'{name} {low} to {high}' for name, low, high in info.cuda_hidden)}")
    out.print(f"input families:   {', '.join(info.families)}")
    for result, comparator in info.comparators:
        out.print(f"comparison:       {result}: {comparator}")


class LintedTask(BaseModel):
    """`fault` says in one line why a task could not be loaded or run; then there are no findings."""

    task: str
    findings: list[dict[str, Any]] = []
    fault: str | None = None


class LintReport(BaseModel):
    schema_version: int = SCHEMA_VERSION
    command: str = "tasks lint"
    seed: int
    clean: bool
    tasks: list[LintedTask]


@tasks.command("lint")
def lint_tasks(
    task: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TASK",
            help="Built-in tasks, NAME:backward, task files, or folders of problems. Default: all built-in tasks.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed for the values.")] = 0,
    keep: Annotated[
        Path | None,
        typer.Option(help="For folders: append each row to this file, and continue after the rows in it."),
    ] = None,
    seconds: Annotated[float, typer.Option(min=1, help="For folders: time limit for one problem.")] = SECONDS,
    trust_task: Annotated[bool, typer.Option("--trust-task", help=TRUST_TASK)] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON (see docs/json.md).")] = False,
) -> None:
    """Find weaknesses that make a task easy to cheat.

    Also finds tasks whose speedups mean little. Each problem of a folder is one row, tried at small sizes. Exit code
    0: no errors; 1: errors; 2: a task cannot be loaded or run.
    """
    results: list[LintedTask] = []
    for name in task or [info.name for info in catalogue()]:
        if _is_suite(name):
            results += _linted_suite(Path(name), seed, keep, seconds, quiet=json)
        else:
            results.append(_linted(name, seed, quiet=json, trust_task=trust_task))
    errors = sum(finding["severity"] == Severity.error for result in results for finding in result.findings)
    faults = sum(result.fault is not None for result in results)
    if json:
        print_json(LintReport(seed=seed, clean=not errors and not faults, tasks=results))
    raise typer.Exit(2 if faults else 1 if errors else 0)


def _is_suite(name: str) -> bool:
    """A folder that is not itself a task."""
    path = Path(name)
    return "/" in name and path.is_dir() and bundle_of(path) is None


def _linted_suite(folder: Path, seed: int, keep: Path | None, seconds: float, *, quiet: bool) -> list[LintedTask]:
    found = []
    for row in lint_suite(folder_suite(folder), seed, keep, seconds):
        found.append(LintedTask(task=row.task, findings=list(row.findings), fault=row.fault))
        if not quiet:
            _show_row(row, folder)
    if not quiet:
        counts = [sum(map(test, found)) for test in (_is_faulty, _has_errors)]
        clean = len(found) - sum(counts)
        console().print(f"{len(found)} problems: {clean} without errors, {counts[1]} mean little, {counts[0]} unknown")
    return found


def _is_faulty(linted: LintedTask) -> bool:
    return linted.fault is not None


def _has_errors(linted: LintedTask) -> bool:
    return any(finding["severity"] == Severity.error for finding in linted.findings)


def _show_row(row: SuiteRow, folder: Path) -> None:
    """`19_ReLU.py  error  zeros-accepted, insensitive (input x)`."""
    name = Path(row.task).relative_to(folder) if Path(row.task).is_relative_to(folder) else row.task
    if row.fault is not None:
        console().print(f"{plain(str(name))}  [dim]unknown  {plain(row.fault)}[/]", soft_wrap=True)
        return
    worst = [one for one in row.findings if one["severity"] != Severity.note]
    level = Severity(worst[0]["severity"]) if worst else None
    rules = ", ".join(f"{one['rule']} ({one['subject']})" for one in worst if one["severity"] == level)
    colour = "dim" if level is None else COLOUR[level]
    console().print(f"{plain(str(name))}  [{colour}]{level or 'clean'}[/]  {plain(rules)}".rstrip(), soft_wrap=True)


def _linted(name: str, seed: int, *, quiet: bool, trust_task: bool) -> LintedTask:
    from kernelwright.insight.lint.run import lint  # imports torch, which takes seconds
    from kernelwright.tasks.resolve import resolve

    try:
        with Progress(quiet=quiet) as progress:
            progress.start(name)
            progress("computing on every public workload and input family, which may take a minute")
            task = resolve(name, trust_task=trust_task)
            findings = lint(task, seed)
    except TaskError as error:
        complain(str(error))
        return LintedTask(task=name, fault=str(error))
    if not quiet:
        _show_findings(task.name, findings)
    return LintedTask(task=task.name, findings=[asdict(finding) for finding in findings])


def _show_findings(task: str, findings: tuple[LintFinding, ...]) -> None:
    out = console()
    for finding in findings:
        line = escape(finding.line(task))
        out.print(f"[{COLOUR[finding.severity]}]{line}[/]", soft_wrap=True)
    if all(finding.severity is Severity.note for finding in findings):
        out.print(f"{escape(task)}  clean", soft_wrap=True)
