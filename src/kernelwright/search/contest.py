"""A final: who is called best, and why. A lucky timing is not a win.

A challenger is judged afresh with hidden workloads and sanitizers. If it is accepted and every speed is measured, the
reigning best is judged afresh as well, and the challenger wins only if both tell the same: its paired speed on the
workloads that both met is higher by the whole interval, and so is the score, in which its hidden workloads count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kernelwright.contracts import Candidate
from kernelwright.judge.settings import Progress
from kernelwright.judge.verdict import IntervalValue, JudgeEvidence, Outcome, Verdict, author_view
from kernelwright.search.judging import JudgeClient, Judged, Terms, judge_fully
from kernelwright.search.score import ratio, score


@dataclass(frozen=True)
class Decision:
    won: bool
    why: str
    score: float | None
    incumbent_score: float | None = None
    ratio: IntervalValue | None = None


@dataclass(frozen=True)
class Final:
    challenger: Judged
    incumbent: Judged | None
    decision: Decision

    @property
    def judgings(self) -> int:
        return self.challenger.judgings + (self.incumbent.judgings if self.incumbent else 0)


def contest(
    judge: JudgeClient,
    task: str,
    challenger: Candidate,
    incumbent: Candidate | None,
    terms: Terms,
    progress: Progress,
    may_repeat: Callable[[], bool] = lambda: True,
) -> Final:
    first = judge_fully(judge, task, challenger, terms, progress, may_repeat)
    if incumbent is None or score(first.verdict) is None:
        return Final(first, None, decide(first.verdict, None))
    second = judge_fully(judge, task, incumbent, terms, progress, may_repeat)
    return Final(first, second, decide(first.verdict, second.verdict))


def decide(challenger: Verdict, incumbent: Verdict | None) -> Decision:
    value = score(challenger)
    if challenger.verdict is not Outcome.accepted:
        return Decision(False, f"{challenger.verdict}: {_why(challenger)}", None)
    if value is None:
        return Decision(False, "the machine is too noisy to tell its speed", None)
    if incumbent is None:
        return Decision(True, "the first whose speed was measured on every workload", value)
    other, paired = score(incumbent), ratio(challenger, incumbent)
    if incumbent.verdict is Outcome.rejected:
        return Decision(True, f"the reigning best was rejected when judged again: {_why(incumbent)}", value)
    if incumbent.verdict is Outcome.undecided:
        won = paired is not None and paired.low > 1  # and what it was not shown to be, the challenger was
        why = f"the reigning best could not be judged again: {_why(incumbent)}"
        return Decision(won, why, value, None, paired)
    if other is None or paired is None:
        return Decision(False, "the machine is too noisy to tell it from the reigning best", value, other, paired)
    if paired.low <= 1:
        return Decision(False, "not faster than the reigning best by the whole interval", value, other, paired)
    if value <= other:
        return Decision(False, "not faster than the reigning best where hidden workloads count", value, other, paired)
    return Decision(True, f"{paired.low:.3f} times as fast as the reigning best, at least", value, other, paired)


def _why(verdict: Verdict) -> str:
    seen = author_view(verdict)
    return seen.evidence.message if isinstance(seen.evidence, JudgeEvidence) else str(seen.reason)
