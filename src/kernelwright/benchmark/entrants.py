"""Who is measured: candidates from a folder, or a proposer with a search for each sample. Both end in a row."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from kernelwright.benchmark.results import RejectionClass, RowOutcome, SampleCost, SampleRow
from kernelwright.benchmark.rows import WORDS, BoundOf, no_bound, rejections, row_of
from kernelwright.benchmark.suites import SuiteTask
from kernelwright.contracts.candidate import Candidate, CandidateError
from kernelwright.contracts.registry import read_source
from kernelwright.contracts.tunables import render
from kernelwright.errors import KernelwrightError
from kernelwright.judge.settings import MOST_UPCOMING, ProgressCallback
from kernelwright.judge.wording import shortened
from kernelwright.proposers.templates.graph import CannotExpressError
from kernelwright.search.config import SearchConfig
from kernelwright.search.core import budget as budgets
from kernelwright.search.core.events import Event, StopReason
from kernelwright.search.core.state import State
from kernelwright.search.judging import JudgeClient, JudgeSettings, judge_fully
from kernelwright.search.models import Recorded
from kernelwright.search.progress import progress_of
from kernelwright.search.proposing import kind_named
from kernelwright.search.run import look
from kernelwright.search.session import RunSession, begin, carry_on, resumed
from kernelwright.search.summary import proof_of, why_no_best
from kernelwright.search.task import ResolvedTask
from kernelwright.tasks.resolve import absolute_reference

UNFINISHED = (None, StopReason.interrupted, StopReason.failed)


@dataclass(frozen=True)
class OpenedTask:
    """A task of the suite that was resolved, with the bounds of its workloads where a verdict does not bring them."""

    task: SuiteTask
    about: ResolvedTask | None = None
    bound: BoundOf = no_bound

    @property
    def reference(self) -> str:
        return absolute_reference(self.task.reference)


@dataclass(frozen=True)
class Attempt:
    """One sample of one task. `run` is the folder of a search that was begun before; `note_run` keeps that of a new
    one, before anything is spent on it."""

    opened: OpenedTask
    sample: int
    environment: int
    progress: ProgressCallback
    run: str = ""
    note_run: Callable[[str], None] = lambda name: None

    def row(self, outcome: RowOutcome, why: str, **others: object) -> SampleRow:
        """One that has no verdict."""
        return SampleRow.model_validate(
            {
                "task": self.opened.task.name,
                "sample": self.sample,
                "outcome": outcome,
                "why": shortened(why, WORDS),
                "environment": self.environment,
                "at": time.time(),
                **others,
            }
        )


class Entrant(Protocol):
    def take(self, attempt: Attempt) -> SampleRow:
        """The row of a sample. A KernelwrightError means that there is no verdict, for no fault of the candidate."""


@dataclass(frozen=True)
class CandidateEntrant:
    """The candidates of a folder, each judged with all that a claim needs."""

    paths: dict[str, tuple[Path, ...]]
    judge: JudgeClient
    settings: JudgeSettings
    contract: str | None = None

    def take(self, attempt: Attempt) -> SampleRow:
        path, *later = self.paths[attempt.opened.task.name][attempt.sample :]
        try:
            candidate = self._read(path)
        except CandidateError as error:
            return attempt.row(
                RowOutcome.rejected,
                str(error),
                name=path.name,
                reason="not_a_source",
                rejections={RejectionClass.build: 1},
            )
        began = time.monotonic()
        until = began + self.settings.deadline
        self.judge.expect(attempt.opened.reference, self._readable(later), self.settings.final)
        judged = judge_fully(
            self.judge,
            attempt.opened.reference,
            candidate,
            self.settings,
            attempt.progress,
            lambda: time.monotonic() < until,
        )
        seconds = time.monotonic() - began
        return row_of(
            judged.verdict,
            task=attempt.opened.task.name,
            sample=attempt.sample,
            cost=SampleCost(evaluations=judged.judgings, wall_seconds=seconds, device_seconds=seconds),
            at=time.time(),
            environment=attempt.environment,
            bound=attempt.opened.bound,
            certificates=judged.certificates,
        )

    def _read(self, path: Path) -> Candidate:
        return render(read_source(path, self.contract))

    def _readable(self, paths: Sequence[Path]) -> list[Candidate]:
        """The first of them; why another cannot be read is said in its own row."""
        found = []
        for path in paths[:MOST_UPCOMING]:
            with suppress(CandidateError):
                found.append(self._read(path))
        return found


@dataclass(frozen=True)
class _SearchProgressView:
    """Tells what a search does in the lines of a benchmark."""

    tell: ProgressCallback

    def __call__(self, event: Event, state: State) -> None:
        found = progress_of(event, state)
        if found is not None:
            self.tell(str(found))

    def progress(self, text: str) -> None:
        self.tell(text)


@dataclass(frozen=True)
class ProposerEntrant:
    """A search for each sample, with the seed after the one before. What it answers with is its best; or else the
    fastest that was accepted, which is then judged with all that a claim needs."""

    config: SearchConfig
    budget: str
    judge: Callable[[], JudgeClient]
    settings: JudgeSettings

    def take(self, attempt: Attempt) -> SampleRow:
        began = time.monotonic()
        try:
            session = self._session(attempt, began)
        except CannotExpressError as error:
            return attempt.row(RowOutcome.nothing, str(error))
        state = look(session.folder)
        if state.stopped is None or state.stopped.reason in UNFINISHED:
            state = carry_on(
                session,
                self.budget,
                _SearchProgressView(attempt.progress),
                no_server=self.config.no_server,
                settings=None,
                recorded=Recorded(self.config.record, self.config.replay),
                isolation=self.config.accepted,
            )
        if state.stopped is not None and state.stopped.reason is StopReason.interrupted:
            raise KeyboardInterrupt(state.stopped.detail)
        return self._row(attempt, state)

    def _session(self, attempt: Attempt, began: float) -> RunSession:
        folder = self.config.runs / attempt.run
        if attempt.run and folder.is_dir():
            return resumed(folder, began)
        seeded = replace(
            self.config, task=attempt.opened.reference, seed=self.config.seed + attempt.sample, budget=self.budget
        )
        session = begin(seeded, began, attempt.opened.about)
        attempt.note_run(session.folder.name)
        return session

    def _row(self, attempt: Attempt, state: State) -> SampleRow:
        rejected = rejections(entry.verdict for entry in state.entries.values() if entry.verdict is not None)
        cost = SampleCost(
            evaluations=state.spent.evaluations,
            wall_seconds=state.spent.wall,
            device_seconds=state.spent.device,
            tokens=state.tokens,
            usd=state.spent.usd,
            unpriced_calls=state.unpriced,
        )
        if state.best is not None:
            found = proof_of(state.run, state.entries[state.best])
            if found.proof is None:
                return attempt.row(RowOutcome.failed, found.why, cost=cost, rejections=rejected)
            verdict, names = found.proof.verdict, found.proof.names
        elif state.leader is not None:
            candidate = state.entries[state.leader].proposal.candidate
            attempt.progress("the search has no best; judging the fastest that was accepted")
            began = time.monotonic()
            judged = judge_fully(
                self.judge(), attempt.opened.reference, candidate, self.settings, attempt.progress, lambda: False
            )
            verdict, names = judged.verdict, judged.certificates
            cost = _with_judging(cost, judged.judgings, time.monotonic() - began)
        else:
            why = "; ".join(why_no_best(state))
            return attempt.row(RowOutcome.nothing, why, cost=cost, rejections=rejected)
        return row_of(
            verdict,
            task=attempt.opened.task.name,
            sample=attempt.sample,
            cost=cost,
            at=time.time(),
            environment=attempt.environment,
            bound=attempt.opened.bound,
            certificates=names,
            others=rejected,
        )


def _with_judging(cost: SampleCost, judgings: int, seconds: float) -> SampleCost:
    more = {
        "evaluations": cost.evaluations + judgings,
        "wall_seconds": cost.wall_seconds + seconds,
        "device_seconds": cost.device_seconds + seconds,
    }
    return cost.model_copy(update=more)


def asks_models(config: SearchConfig) -> bool:
    return kind_named(config.proposer).asks_models


def with_budget(settings: JudgeSettings, budget: str, workloads: int = 6) -> JudgeSettings:
    """A judging of a candidate within the wall time of a budget, if that has one."""
    wall = budgets.parse(budget).wall if budget else None
    if wall is None and budget:
        raise KernelwrightError(f"--budget {budget}: the candidates of a folder are judged within a time, such as 60s")
    return settings if wall is None else settings.within(wall, workloads)
