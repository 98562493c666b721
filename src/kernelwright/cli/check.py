"""`kernelwright check`: is CUDA source right, found out on an emulator. Never how fast."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from kernelwright.cli.views.output import Progress, console, print_json
from kernelwright.cli.views.verdicts import MAX_LINES
from kernelwright.contracts import Candidate, CandidateError
from kernelwright.contracts.registry import contract_named, contracts, read_source
from kernelwright.contracts.tunables import render
from kernelwright.isolation import levels
from kernelwright.judge.emulate.check import MOST_ELEMENTS, Checker, CheckOutcome, CheckReport, CheckResult
from kernelwright.judge.verdict import Stage
from kernelwright.judge.wording import SENTENCES, counted, evidence_lines, library_words

COLOURS = {CheckOutcome.right: "green", CheckOutcome.faulty: "red", CheckOutcome.unchecked: "yellow"}


def check(
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK", help="A built-in task, its gradient (NAME:backward), a task file, or a KernelBench file."
        ),
    ],
    sources: Annotated[
        list[Path],
        typer.Argument(help="GPU kernels in the form of their contract: a file, or a directory.", metavar="SOURCE"),
    ],
    largest: Annotated[
        int, typer.Option(min=1, help="Skip workloads with more elements than this, inputs and outputs together.")
    ] = MOST_ELEMENTS,
    isolation: Annotated[
        levels.Level,
        typer.Option(
            envvar=levels.ACCEPTED_VARIABLE, help="Refuse to run with less isolation than this (docs/isolation.md)."
        ),
    ] = levels.Level.full,
    json: Annotated[bool, typer.Option("--json", help="Print JSON (see docs/json.md).")] = False,
) -> None:
    """Test CUDA kernels on an emulator, without a GPU.

    Says whether a kernel is correct, never how fast it is. Exit code 0: all right; 1: some faulty; 2: bad usage;
    3: some unchecked.
    """
    candidates = [render(_read(path)) for path in sources]
    results = []
    with Checker(most_elements=largest, isolation=isolation) as checker, Progress(quiet=json) as progress:
        progress.start(task)
        progress("opening the task")
        checker.open(task)
        for candidate in candidates:
            progress.start(candidate.name)
            results.append(checker.check(task, candidate, progress))
            progress.clear()
            if not json:
                _show(console(), results[-1])
    if json:
        print_json(CheckReport(task=task, results=tuple(results)))
    raise typer.Exit(_exit_code(results))


def _read(path: Path) -> Candidate:
    candidate = read_source(path)
    if not contract_named(candidate.contract).emulated:
        *names, last = (contract.name for contract in contracts() if contract.emulated)
        emulated = f"{', '.join(names)} or {last}"
        raise CandidateError(
            f"{path}: is a {candidate.contract} candidate, and check takes {emulated}: use `kernelwright judge`"
        )
    return candidate


def _show(out: Console, result: CheckResult) -> None:
    head = f"[bold {COLOURS[result.outcome]}]{result.outcome.upper()}[/]  {escape(result.name)}"
    out.print(f"{head}  [dim]{result.candidate}[/]\n  {escape(_sentence(result))}")
    if result.evidence is not None:
        for line in evidence_lines(result.evidence)[:MAX_LINES]:
            out.print(f"    {escape(line)}", style="dim" if line.startswith("|") else "", soft_wrap=True)
    remarks = [f"emulated {result.target}", f"sandbox {result.sandbox}"]
    if _was_called(result):
        remarks.append(f"sanitizers {result.sanitizers}")
    if result.library:
        remarks.append(library_words(result.library))
    if result.too_large:
        remarks.append(f"too large to emulate: {', '.join(result.too_large)}")
    out.print(f"  [dim]{escape('; '.join(remarks))}[/]\n")


def _sentence(result: CheckResult) -> str:
    if result.outcome is CheckOutcome.unchecked:
        return result.message
    if result.outcome is CheckOutcome.faulty:
        assert result.reason is not None
        return f"on an emulator: {SENTENCES[result.reason]}"
    public = any(one.public for one in result.workloads)
    count = counted(len(result.workloads), "workload" if public else "small workload")
    return f"correct on an emulator, on {count}{'' if public else ', none of them public'}; not timed"


def _was_called(result: CheckResult) -> bool:
    return bool(result.workloads) or (result.reason is not None and result.stage is not Stage.build)


def _exit_code(results: list[CheckResult]) -> int:
    outcomes = {result.outcome for result in results}
    if CheckOutcome.faulty in outcomes:
        return 1
    return 3 if CheckOutcome.unchecked in outcomes else 0
