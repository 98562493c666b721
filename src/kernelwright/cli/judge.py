"""`kernelwright judge`: is it right, is it safe, how fast."""

from __future__ import annotations

from contextlib import AbstractContextManager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Protocol

import typer

from kernelwright.cli.output import console, print_json
from kernelwright.cli.progress import Progress
from kernelwright.cli.verdicts import show
from kernelwright.contracts import contract_named
from kernelwright.contracts.candidate import Candidate, read_candidate
from kernelwright.errors import KernelwrightError
from kernelwright.judge import sandbox
from kernelwright.judge.baselines import BASELINES
from kernelwright.judge.controller import Judge
from kernelwright.judge.measure import Effort
from kernelwright.judge.service.client import WarmJudge
from kernelwright.judge.settings import Settings
from kernelwright.judge.verdict import Outcome, Report, Verdict, author_view

JUDGED = ("cpp",)


class View(StrEnum):
    author = "author"
    auditor = "auditor"


def judge(
    task: Annotated[str, typer.Argument(help="A built-in task, its derived gradient (NAME:backward), or a task file.")],
    sources: Annotated[list[Path], typer.Argument(help="Candidates: one source file each.", metavar="SOURCE...")],
    contract: Annotated[str, typer.Option(help="The form that the candidates take.")] = "cpp",
    public_only: Annotated[bool, typer.Option("--public-only", help="Leave hidden workloads out.")] = False,
    trials: Annotated[
        int | None, typer.Option(min=2, help="Trials per workload; by default as many as the noise demands.")
    ] = None,
    view: Annotated[View, typer.Option(help="What to show of hidden workloads.")] = View.author,
    baseline: Annotated[
        list[str] | None, typer.Option(help="Compare with this baseline only (eager, compile); repeatable.")
    ] = None,
    threads: Annotated[int, typer.Option(min=0, help="Threads for candidate and baselines; 0: all cores.")] = 0,
    safety: Annotated[bool, typer.Option(help="Run the sanitizers.")] = True,
    require_sandbox: Annotated[
        sandbox.Level | None, typer.Option(help="Refuse to run where the sandbox is weaker than this.")
    ] = None,
    own_oracle: Annotated[
        bool,
        typer.Option(
            "--own-oracle", envvar="KERNELWRIGHT_OWN_ORACLE", help="Use an oracle that ends with this command."
        ),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON (see docs/json.md).")] = False,
) -> None:
    """Judge candidates for a task: is each right, is it safe, how fast is it."""
    if contract_named(contract).name not in JUDGED:
        raise KernelwrightError(
            f"this version judges {', '.join(JUDGED)} candidates; {contract} is described and built"
        )
    candidates = [read_candidate(path, contract_named(contract).name) for path in sources]
    if require_sandbox is not None:
        sandbox.require(require_sandbox)
    settings = Settings(
        baselines=baselines_named(baseline),
        threads=threads,
        effort=Effort() if trials is None else Effort(trials, trials),
        public_only=public_only,
        safety=safety,
        certify=True,
    )
    judging = Judge(settings) if own_oracle else WarmJudge(settings, require_sandbox)
    verdicts = _judge_all(judging, task, candidates, quiet=json, view=view)
    if json:
        shown = tuple(v if view is View.auditor else author_view(v) for v in verdicts)
        print_json(Report(task=task, results=shown))
    raise typer.Exit(_exit_code(verdicts))


class AnyJudge(AbstractContextManager["AnyJudge"], Protocol):
    """A judge of this process, or one that was up before."""

    def open(self, task: str) -> object: ...

    def judge(self, task: str, candidate: Candidate, progress: Progress) -> Verdict: ...


def _judge_all(judge: AnyJudge, task: str, candidates: list[Candidate], *, quiet: bool, view: View) -> list[Verdict]:
    verdicts = []
    with judge as judging, Progress(quiet=quiet) as progress:
        progress.start(task)
        progress("opening the task")
        judging.open(task)
        for candidate in candidates:
            progress.start(candidate.name)
            verdict = judging.judge(task, candidate, progress)
            progress.clear()
            verdicts.append(verdict)
            if not quiet:
                show(console(), verdict if view is View.auditor else author_view(verdict))
    return verdicts


def baselines_named(chosen: list[str] | None) -> tuple[str, ...]:
    for name in chosen or ():
        if name not in BASELINES:
            raise KernelwrightError(f"unknown baseline {name!r}: choose from {', '.join(BASELINES)}")
    return tuple(name for name in BASELINES if not chosen or name in chosen)


def _exit_code(verdicts: list[Verdict]) -> int:
    outcomes = {verdict.verdict for verdict in verdicts}
    if Outcome.undecided in outcomes:
        return 3
    return 1 if Outcome.rejected in outcomes else 0
