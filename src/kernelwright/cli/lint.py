"""`kernelwright tasks lint`: can a task be cheated, and does it mean anything."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer
from pydantic import BaseModel
from rich.markup import escape

from kernelwright.cli.output import complain, console, print_json
from kernelwright.insight.lint.finding import LintFinding, Severity
from kernelwright.tasks.catalogue import catalogue
from kernelwright.tasks.model import TaskError

SCHEMA_VERSION = 1
COLOUR = {Severity.error: "red", Severity.warning: "yellow", Severity.note: "dim"}


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


def lint_tasks(
    task: Annotated[
        list[str] | None,
        typer.Argument(help="Built-in tasks, NAME:backward, or task files; all built-ins by default."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Chooses the values that are drawn.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON (see docs/json.md).")] = False,
) -> None:
    """Find what makes a task easy to cheat or its speedups meaningless. Exit code 1: there are errors."""
    results = [_linted(name, seed, quiet=json) for name in task or [info.name for info in catalogue()]]
    errors = sum(finding["severity"] == Severity.error for result in results for finding in result.findings)
    faults = sum(result.fault is not None for result in results)
    if json:
        print_json(LintReport(seed=seed, clean=not errors and not faults, tasks=results))
    raise typer.Exit(2 if faults else 1 if errors else 0)


def _linted(name: str, seed: int, *, quiet: bool) -> LintedTask:
    from kernelwright.insight.lint.run import lint  # imports torch, which takes seconds
    from kernelwright.tasks.resolve import resolve

    try:
        task = resolve(name)
        findings = lint(task, seed)
    except TaskError as error:
        complain(str(error))
        return LintedTask(task=name, fault=str(error))
    if not quiet:
        _show(task.name, findings)
    return LintedTask(task=task.name, findings=[asdict(finding) for finding in findings])


def _show(task: str, findings: tuple[LintFinding, ...]) -> None:
    out = console()
    for finding in findings:
        line = escape(finding.line(task))
        out.print(f"[{COLOUR[finding.severity]}]{line}[/]", soft_wrap=True)
    if all(finding.severity is Severity.note for finding in findings):
        out.print(f"{escape(task)}  clean", soft_wrap=True)
