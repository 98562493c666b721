"""What a driver asks of a judge, and how it asks: quickly while it searches, with all that a claim needs in a final."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from kernelwright.contracts import Candidate
from kernelwright.devices.names import CPU, Device
from kernelwright.isolation.levels import Level
from kernelwright.judge.measure import Effort
from kernelwright.judge.server.client import WarmJudge
from kernelwright.judge.settings import Progress, Settings
from kernelwright.judge.verdict import Outcome, Verdict
from kernelwright.search.score import pooled


class JudgeClient(Protocol):
    def judge(
        self, task: str, candidate: Candidate, settings: Settings, progress: Progress, deadline: float
    ) -> Verdict:
        """The verdict, or DeadlinePassed after so many seconds of judging; waiting for others is not counted."""


QUICK = Effort(least=6, most=18, step=6, seconds=2.0)
FINAL = Effort(least=12, most=400, step=12, seconds=40.0)
LEAST_SECONDS = 20.0  # for a workload of a final, however little time is left: what a slightly noisy CPU needs


@dataclass(frozen=True)
class Terms:
    """How candidates of a run are judged. A final is repeated while the machine is too noisy to tell."""

    quick: Settings = field(default_factory=lambda: Settings(effort=QUICK, public_only=True, safety=False))
    final: Settings = field(default_factory=lambda: Settings(effort=FINAL, certify=True))
    attempts: int = 3
    deadline: float = 600.0

    def using(self, threads: int, baselines: tuple[str, ...], device: Device = CPU, *, profile: bool = False) -> Terms:
        """With `profile` both kinds of judging ask for it: the later verdict takes the earlier one's place in prompts,
        and the judge profiles a candidate once."""
        quick, final = (
            replace(settings, threads=threads, baselines=baselines, device=device, profile=profile)
            for settings in (self.quick, self.final)
        )
        return replace(self, quick=quick, final=final)

    def accepting(self, isolation: Level) -> Terms:
        """Where a process reaches less than this isolation level, nothing is judged."""
        quick, final = (replace(settings, isolation=isolation) for settings in (self.quick, self.final))
        return replace(self, quick=quick, final=final)

    def within(self, seconds: float, workloads: int) -> Terms:
        """Finals that spend no more than this on trials of so many workloads in all, as long as that is enough to tell
        anything. On a quiet machine they need a fraction of it."""
        effort = self.final.effort
        share = max(LEAST_SECONDS, seconds / max(1, workloads))
        return replace(self, final=replace(self.final, effort=replace(effort, seconds=min(effort.seconds, share))))


@dataclass
class Counted:
    """A judge, and how often it was asked: a judging that passes its deadline was one, too."""

    judge_client: JudgeClient
    judgings: int = 0

    def judge(
        self, task: str, candidate: Candidate, settings: Settings, progress: Progress, deadline: float
    ) -> Verdict:
        self.judgings += 1
        return self.judge_client.judge(task, candidate, settings, progress, deadline)


@dataclass(frozen=True)
class Judged:
    verdict: Verdict
    certificates: tuple[str, ...]
    judgings: int


def judge_quickly(judge: JudgeClient, task: str, candidate: Candidate, terms: Terms, progress: Progress) -> Judged:
    verdict = judge.judge(task, candidate, terms.quick, progress, terms.deadline)
    return Judged(verdict, _names(verdict), 1)


def judge_fully(
    judge: JudgeClient,
    task: str,
    candidate: Candidate,
    terms: Terms,
    progress: Progress,
    may_repeat: Callable[[], bool] = lambda: True,
    hidden_of: str = "",
) -> Judged:
    """In fresh processes, on public and hidden workloads, with sanitizers; again while some speeds are undecided.

    A machine so noisy that no speed at all was measured is left alone for now.
    """
    settings = replace(terms.final, hidden_of=hidden_of)
    verdict = judge.judge(task, candidate, settings, progress, terms.deadline)
    names, judgings = _names(verdict), 1
    while judgings < terms.attempts and _partly_undecided(verdict) and may_repeat():
        again = judge.judge(task, candidate, settings, progress, terms.deadline)
        names, judgings = names + _names(again), judgings + 1
        verdict = pooled(verdict, again)
    return Judged(verdict, names, judgings)


def _partly_undecided(verdict: Verdict) -> bool:
    settled = [result.settled for result in verdict.workloads]
    return verdict.verdict is Outcome.accepted and any(settled) and not all(settled)


def _names(verdict: Verdict) -> tuple[str, ...]:
    return (verdict.certificate,) if verdict.certificate else ()


@dataclass(frozen=True)
class Remote:
    """A judge in another process, warm or of our own: what a driver uses, since it can be left at a deadline."""

    warm: WarmJudge

    def judge(
        self, task: str, candidate: Candidate, settings: Settings, progress: Progress, deadline: float
    ) -> Verdict:
        return self.warm.judge(task, candidate, progress, settings, deadline)
