"""What a search came to: for people at the end of `optimize` and in `runs show`, and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from pydantic import BaseModel
from rich.console import Console
from rich.table import Table

from kernelwright.cli.views.output import plain
from kernelwright.judge.verdict import AuthorVerdict, SpeedStatus, Verdict, WorkloadResult
from kernelwright.judge.wording import counted, domain_words, duration, library_words, precision_words
from kernelwright.search.core.events import StopReason
from kernelwright.search.core.state import State
from kernelwright.search.directory import BEST
from kernelwright.search.journal import read
from kernelwright.search.models import CallOutcomes, call_outcomes
from kernelwright.search.origin import begun_here
from kernelwright.search.session import larger_budget
from kernelwright.search.summary import (
    beats_baseline,
    gain_over_start,
    generic_steps,
    lineage,
    money,
    no_gain,
    proof_of,
    refused_words,
    reviewed,
    suspects,
    time_spent,
    undecided_finals,
    why_no_best,
    why_stopped,
)

SCHEMA_VERSION = 1
MOST_LINES = 6  # of one kind, on a terminal; JSON has them all
NEXT_WHEN_NOISY = "pause other work on this machine, then resume the run: its finals are held again"


class BestReport(BaseModel):
    """`proved`: certificates that are here, signed by a trusted key, prove the score; `unproved` says why not, and the
    best is a claim of the journal then. `verdict` is the auditor's view, from the certificates; else the author's."""

    number: int
    candidate: str
    origin: str
    note: str
    score: float | None
    proved: bool
    unproved: str = ""
    lineage: tuple[int, ...]
    certificates: tuple[str, ...]
    verdict: Verdict | AuthorVerdict | None
    gain_over_start: str | None
    review: str | None = None
    beats_baseline: bool = False  # whether it is shown to be faster than the best baseline
    chosen: str = ""  # why its parents were chosen


class RunReport(BaseModel):
    schema_version: int = SCHEMA_VERSION
    command: Literal["optimize", "runs show"]
    run: str
    begun_here: bool  # by this installation; everything in another's run is what its journal claims
    task: str
    contract: str
    device: str
    proposer: str
    policy: str
    policy_parameters: dict[str, int | float] = {}
    seed: int
    stopped: str | None
    detail: str
    evaluations: int
    wall_seconds: float
    device_seconds: float
    seconds_spent_on: dict[str, float] = {}
    candidates: int
    refused: int
    duplicates: int = 0  # of the refused, those that are the same program as an earlier candidate
    calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    unpriced_calls: int = 0
    outcomes: dict[str, int] = {}
    matches: dict[str, int] = {}
    leader: int | None
    generic: tuple[str, ...] = ()  # steps of the best (else of the first candidate) that are correct and not fast
    best: BestReport | None


def report(state: State, folder: Path, command: Literal["optimize", "runs show"]) -> RunReport:
    run, stopped, calls = state.run, state.stopped, call_outcomes(read(folder))
    return RunReport(
        command=command,
        run=str(folder),
        begun_here=begun_here(folder),
        task=run.task_name,
        contract=run.contract,
        device=run.device,
        proposer=run.proposer,
        policy=run.policy,
        policy_parameters=run.policy_parameters,
        seed=run.seed,
        stopped=stopped.reason.value if stopped else None,
        detail=stopped.detail if stopped else "",
        evaluations=state.spent.evaluations,
        wall_seconds=state.spent.wall,
        device_seconds=state.spent.device,
        seconds_spent_on=asdict(state.times),
        candidates=len(state.entries),
        refused=state.refused,
        duplicates=state.duplicates,
        calls=state.calls,
        tokens=state.tokens,
        usd=state.spent.usd,
        unpriced_calls=state.unpriced,
        outcomes=calls.outcomes,
        matches=calls.matches,
        leader=state.leader,
        generic=generic_steps(state),
        best=_best(state),
    )


def _best(state: State) -> BestReport | None:
    if state.best is None:
        return None
    entry = state.entries[state.best]
    check = proof_of(state.run, entry)
    proof = check.proof
    return BestReport(
        number=entry.number,
        candidate=entry.proposal.candidate.id,
        origin=entry.proposal.origin,
        note=entry.proposal.note,
        score=entry.score,
        proved=proof is not None,
        unproved=check.why,
        lineage=tuple(one.number for one in lineage(state, entry)),
        certificates=proof.names if proof else (),
        verdict=proof.verdict if proof else entry.verdict,
        gain_over_start=gain_over_start(state),
        review=reviewed(entry),
        beats_baseline=beats_baseline(state),
        chosen=entry.chosen,
    )


def show(out: Console, state: State, folder: Path, *, resume: bool = True) -> None:
    found = report(state, folder, "runs show")
    out.print(f"[bold]{plain(found.task)}[/]  {plain(why_stopped(state))}", soft_wrap=True)
    if not found.begun_here:
        out.print(
            "  [yellow]another installation started this run[/]: what follows is only what its journal claims",
            soft_wrap=True,
        )
    out.print(
        f"  {counted(found.evaluations, 'evaluation')}, {duration(found.wall_seconds)}, "
        f"{counted(found.candidates, 'candidate')}, "
        f"{refused_words(found.refused, found.duplicates)}"
    )
    out.print(f"  [dim]time[/]     {plain(time_spent(state))}", soft_wrap=True)
    if found.calls:
        out.print(f"  {plain(money(state))}")
        answered = CallOutcomes(found.outcomes, found.matches).line
        if answered:
            out.print(f"  {plain(answered)}", soft_wrap=True)
    for line in suspects(state):
        out.print(f"  [yellow]{plain(line)}[/]", soft_wrap=True)
    if found.best is None:
        none, *further = why_no_best(state)
        out.print(f"  [yellow]no best[/]: {plain(none)}", soft_wrap=True)
        for line in further:
            out.print(f"  {plain(line)}", soft_wrap=True)
        if undecided_finals(state):
            out.print(f"  [dim]next[/]     {NEXT_WHEN_NOISY}", soft_wrap=True)
    else:
        _show_best(out, found.best, folder, begun_here=found.begun_here)
    for place, line in enumerate(shortened_list(found.generic)):
        out.print(f"  [dim]{'' if place else 'generic':8}[/] {plain(line)}", soft_wrap=True)
    out.print(f"  [dim]files[/]    {plain(str(folder))}", soft_wrap=True)
    if resume:
        out.print(f"  [dim]resume[/]   {plain(how_to_resume(state, folder))}", soft_wrap=True)


def shortened_list(lines: Sequence[str]) -> list[str]:
    """The first few, and how many more there are."""
    more = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], *([f"and {counted(more, 'line')} more"] if more > 0 else [])]


def how_to_resume(state: State, folder: Path) -> str:
    """The command as it can be pasted. A run whose budget is used up needs a larger one, or it would do nothing."""
    task = "" if begun_here(folder) else "TASK "
    command = f"kernelwright optimize {task}--resume {shlex.quote(str(folder))}"
    if state.stopped is None or state.stopped.reason is not StopReason.budget:
        return command
    return f"{command} --budget {larger_budget(folder)}"


def _show_best(out: Console, best: BestReport, folder: Path, *, begun_here: bool) -> None:
    slower = no_gain(best.score, best.verdict)
    colour = "yellow" if slower or not best.proved else "green"
    claimed = "" if best.proved or begun_here else "claimed "
    out.print(
        f"  [bold {colour}]{claimed}best {best.number:04d}[/]  {best.score:.2f}× over the best baseline "
        f"(mean of lower ends){'; not proved faster' if slower else ''}"
    )
    if slower:
        out.print(f"  [yellow]{plain(slower)}[/]", soft_wrap=True)
    if best.unproved:
        out.print(f"  [yellow]not proved here[/]: {plain(best.unproved)}", soft_wrap=True)
    if best.verdict is not None:
        out.print(_table(best.verdict.workloads))
        if best.verdict.domain is not None:
            out.print(f"  [dim]{plain(domain_words(best.verdict))}[/]", soft_wrap=True)
        if best.verdict.library:
            out.print(f"  [dim]library[/]  {plain(library_words(best.verdict.library))}", soft_wrap=True)
        if errors := precision_words(best.verdict):
            out.print(f"  [dim]errors[/]   {plain(errors)}", soft_wrap=True)
    if best.gain_over_start:
        out.print(f"  [dim]gain[/]     {plain(best.gain_over_start)}", soft_wrap=True)
    if best.review:
        out.print(f"  [dim]review[/]   {plain(best.review)}", soft_wrap=True)
    out.print(f"  [dim]kernel[/]   {plain(best.note or best.origin)}", soft_wrap=True)
    if len(best.lineage) > 1:
        if best.chosen:
            out.print(f"  [dim]parents[/]  {plain(best.chosen)}", soft_wrap=True)
        out.print(f"  [dim]lineage[/]  {' → '.join(f'{number:04d}' for number in best.lineage)}", soft_wrap=True)
    out.print(f"  [dim]source[/]   {plain(str(folder / BEST))}", soft_wrap=True)
    for name in best.certificates:
        out.print(f"  [dim]replay[/]   kernelwright replay {plain(name)}", soft_wrap=True)


def _table(results: tuple[WorkloadResult, ...]) -> Table:
    names = [one.baseline for one in results[0].baselines] if results else []
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for title in ("", "workload", "kernel", *(f"over {plain(name)}" for name in names)):
        table.add_column(title, justify="left" if title in ("", "workload") else "right")
    for result in results:
        speeds = {one.baseline: one.speedup for one in result.baselines}
        cells = [
            plain(f"{found.low:.2f}× [{found.low:.2f}, {found.high:.2f}]") if (found := speeds.get(name)) else ""
            for name in names
        ]
        where = "hidden" if result.hidden else ""
        mark = "" if result.speed is SpeedStatus.measured else f" ({result.speed})"
        table.add_row(where, plain(result.label + mark), duration(result.seconds) if result.seconds else "", *cells)
    return table
