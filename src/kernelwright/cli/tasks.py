"""`kernelwright tasks`: what there is to compute."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer
from pydantic import BaseModel
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kernelwright.cli.lint import lint_tasks
from kernelwright.cli.output import console, print_json
from kernelwright.tasks.describe import TaskInfo, describe
from kernelwright.tasks.model import TaskError

tasks = typer.Typer(help="Show the tasks.", no_args_is_help=True)
tasks.command("lint")(lint_tasks)
SCHEMA_VERSION = 1


class TaskReport(BaseModel):
    schema_version: int = SCHEMA_VERSION
    command: str
    tasks: list[dict[str, Any]]


@tasks.command("list")
def list_tasks(
    json: Annotated[bool, typer.Option("--json", help="Print JSON (see docs/json.md).")] = False,
) -> None:
    """The built-in tasks."""
    from kernelwright.tasks.resolve import builtin_names  # imports torch, which takes seconds

    found = [info for name in builtin_names() for info in _both_directions(name)]
    if json:
        print_json(TaskReport(command="tasks list", tasks=[asdict(info) for info in found]))
        return
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for title in ("task", "what it computes", "public workloads"):
        table.add_column(title)
    for info in found:
        table.add_row(info.name, escape(info.doc.strip().splitlines()[0] if info.doc else ""), str(len(info.public)))
    console().print(table)


def _both_directions(name: str) -> list[TaskInfo]:
    from kernelwright.tasks.resolve import resolve

    infos = [describe(resolve(name))]
    try:
        infos.append(describe(resolve(f"{name}:backward")))
    except TaskError:  # argmax and in-place tasks have no gradient
        return infos
    return infos


@tasks.command("show")
def show_task(
    task: Annotated[str, typer.Argument(help="A built-in task, NAME:backward, or a task file.")],
    json: Annotated[bool, typer.Option("--json", help="Print JSON (see docs/json.md).")] = False,
) -> None:
    """One task: its arguments, how they are drawn, and where it has to hold."""
    from kernelwright.tasks.resolve import resolve  # imports torch, which takes seconds

    info = describe(resolve(task))
    if json:
        print_json(TaskReport(command="tasks show", tasks=[asdict(info)]))
        return
    _show(console(), info)


def _show(out: Console, info: TaskInfo) -> None:
    out.print(f"[bold]{escape(info.name)}[/]  [dim]{info.direction}[/]\n{escape(info.doc.strip())}\n")
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
    out.print(f"input families:   {', '.join(info.families)}")
    for result, comparator in info.comparators:
        out.print(f"comparison:       {result}: {comparator}")
