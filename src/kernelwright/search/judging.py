"""What a driver asks of a judge: quick judgings while it searches, and finals with all that a claim needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from kernelwright.contracts import Candidate
from kernelwright.contracts.registry import fingerprint
from kernelwright.devices.names import CPU, Device
from kernelwright.errors import DeadlineExceeded
from kernelwright.isolation.levels import Level
from kernelwright.judge.server.client import ServerJudge
from kernelwright.judge.settings import ProgressCallback, Settings
from kernelwright.judge.timing.measure import Sampling
from kernelwright.judge.verdict import Outcome, Verdict
from kernelwright.search.core.best import Decision, decide_final, decide_without_best, unproved_domain
from kernelwright.search.core.score import pooled, score


class JudgeClient(Protocol):
    def expect(self, task: str, candidates: Sequence[Candidate], settings: Settings) -> None:
        """What will be judged after the next candidate, so that it can be built meanwhile. A hint: it may change."""

    def judge(
        self, task: str, candidate: Candidate, settings: Settings, progress: ProgressCallback, deadline: float
    ) -> Verdict:
        """The verdict, or DeadlineExceeded after so many seconds of judging; waiting for others is not counted."""


QUICK = Sampling(least=6, most=18, step=6, seconds=2.0)
TRIALS_PART = 0.7  # of the time for a final: the rest is for builds, compiled baselines, checks and sanitizers
FINAL = Sampling(least=12, most=400, step=12, seconds=40.0)
LEAST_SECONDS = 2.0  # for a workload of a final, however little time is left


@dataclass(frozen=True)
class JudgeSettings:
    """How candidates of a run are judged. A final is repeated while the machine is too noisy to tell."""

    quick: Settings = field(
        default_factory=lambda: Settings(effort=QUICK, public_only=True, safety=False, domain=False)
    )
    final: Settings = field(default_factory=lambda: Settings(effort=FINAL, certify=True))
    attempts: int = 3
    deadline: float = 600.0

    def using(
        self, threads: int, baselines: tuple[str, ...], device: Device = CPU, *, profile: bool = False
    ) -> JudgeSettings:
        """With `profile` both kinds of judging ask for it: the later verdict takes the earlier one's place in prompts,
        and the judge profiles a candidate once."""
        quick, final = (
            replace(settings, threads=threads, baselines=baselines, device=device, profile=profile)
            for settings in (self.quick, self.final)
        )
        return replace(self, quick=quick, final=final)

    def accepting(self, isolation: Level) -> JudgeSettings:
        """Where a process reaches less than this isolation level, nothing is judged."""
        quick, final = (replace(settings, isolation=isolation) for settings in (self.quick, self.final))
        return replace(self, quick=quick, final=final)

    def within(self, seconds: float, workloads: int) -> JudgeSettings:
        """Finals that spend no more than this on trials of so many workloads in all. On a quiet machine they need a
        fraction of it. Builds, checks and sanitizers take time as well: the deadline holds for all of it."""
        effort = self.final.effort
        share = max(LEAST_SECONDS, TRIALS_PART * seconds / max(1, workloads))
        final = replace(self.final, effort=replace(effort, seconds=min(effort.seconds, share)))
        return replace(self, final=final, deadline=min(self.deadline, max(LEAST_SECONDS, seconds)))

    def until(self, seconds: float) -> JudgeSettings:
        """With a deadline that is not beyond the end of the budget."""
        return replace(self, deadline=min(self.deadline, max(LEAST_SECONDS, seconds)))


@dataclass
class Counted:
    """A judge, and how often it was asked. A judging that passes its deadline counts."""

    judge_client: JudgeClient
    judgings: int = 0

    def expect(self, task: str, candidates: Sequence[Candidate], settings: Settings) -> None:
        self.judge_client.expect(task, candidates, settings)

    def judge(
        self, task: str, candidate: Candidate, settings: Settings, progress: ProgressCallback, deadline: float
    ) -> Verdict:
        self.judgings += 1
        return self.judge_client.judge(task, candidate, settings, progress, deadline)


@dataclass(frozen=True)
class Judged:
    verdict: Verdict
    certificates: tuple[str, ...]
    judgings: int


def judge_quickly(
    judge: JudgeClient, task: str, candidate: Candidate, settings: JudgeSettings, progress: ProgressCallback
) -> Judged:
    verdict = judge.judge(task, candidate, settings.quick, progress, settings.deadline)
    return Judged(verdict, _names(verdict), 1)


def judge_fully(
    judge: JudgeClient,
    task: str,
    candidate: Candidate,
    settings: JudgeSettings,
    progress: ProgressCallback,
    may_repeat: Callable[[], bool] = lambda: True,
    hidden_of: str = "",
) -> Judged:
    """In fresh processes, on public and hidden workloads and over the domain, with sanitizers; again while some speeds
    are undecided.

    A machine so noisy that no speed at all was measured is left alone for now.
    """
    full = replace(settings.final, hidden_of=hidden_of)
    verdict = judge.judge(task, candidate, full, progress, settings.deadline)
    names, judgings = _names(verdict), 1
    while judgings < settings.attempts and _partly_undecided(verdict) and may_repeat():
        again = judge.judge(task, candidate, full, progress, settings.deadline)
        names, judgings = names + _names(again), judgings + 1
        verdict = pooled(verdict, again)
    return Judged(verdict, names, judgings)


def _partly_undecided(verdict: Verdict) -> bool:
    settled = [result.settled for result in verdict.workloads]
    return verdict.verdict is Outcome.accepted and any(settled) and not all(settled)


def _names(verdict: Verdict) -> tuple[str, ...]:
    return (verdict.certificate,) if verdict.certificate else ()


@dataclass(frozen=True)
class Final:
    challenger: Judged
    best: Judged | None
    decision: Decision


def hold_final(
    judge: JudgeClient,
    task: str,
    challenger: Candidate,
    best: Candidate | None,
    settings: JudgeSettings,
    progress: ProgressCallback,
    affords: Callable[[int], bool] = lambda judgings: True,
    successor: int | None = None,
) -> Final:
    """Both sides with one judge, and so on one device. `affords` says whether so many judgings more are within the
    budget; `successor` is best if the best is rejected."""
    others = 0 if best is None else 1
    first = judge_fully(judge, task, challenger, settings, progress, lambda: affords(1 + others))
    if best is None or score(first.verdict) is None or unproved_domain(first.verdict):
        return Final(first, None, decide_final(first.verdict, None))
    try:
        second = judge_fully(
            judge, task, best, settings, progress, lambda: affords(1), hidden_of=fingerprint(challenger)
        )
    except DeadlineExceeded as error:  # for which the challenger is not to blame
        return Final(first, None, decide_without_best(first.verdict, str(error)))
    return Final(first, second, decide_final(first.verdict, second.verdict, successor))


@dataclass(frozen=True)
class OnDevice:
    """The server of a device on this machine as a `JudgeClient`. It is another process: a driver can leave it at a
    deadline."""

    server: ServerJudge
    device: Device | None = None  # in place of the settings', where several judges are given the same job

    def expect(self, task: str, candidates: Sequence[Candidate], settings: Settings) -> None:
        self.server.expect(task, candidates, settings)

    def judge(
        self, task: str, candidate: Candidate, settings: Settings, progress: ProgressCallback, deadline: float
    ) -> Verdict:
        there = settings if self.device is None else replace(settings, device=self.device)
        return self.server.judge(task, candidate, progress, there, deadline)
