"""A final: who is called best, and why. A lucky timing is not a win.

A challenger is judged afresh with hidden workloads and sanitizers. If it is accepted and every speed is measured, the
reigning best is judged afresh as well, on the challenger's hidden workloads. The challenger wins only if it is faster
by the whole interval over all workloads, and not slower over the hidden ones. Where the reigning best is rejected, who
was proved before takes its place, and the challenger has a final against that one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kernelwright.contracts import Candidate
from kernelwright.errors import DeadlinePassed
from kernelwright.judge.settings import Progress
from kernelwright.judge.verdict import IntervalValue, JudgeEvidence, Outcome, Verdict, author_view
from kernelwright.search.judging import JudgeClient, Judged, Terms, judge_fully
from kernelwright.search.score import ratio, score


@dataclass(frozen=True)
class Decision:
    """`ratio` is how much faster than the reigning best; None where nobody can tell."""

    won: bool
    why: str
    score: float | None
    incumbent_score: float | None = None
    ratio: IntervalValue | None = None
    lucky: bool = False  # it is not even faster on public workloads, where it had seemed so


@dataclass(frozen=True)
class Final:
    challenger: Judged
    incumbent: Judged | None
    decision: Decision


def contest(
    judge: JudgeClient,
    task: str,
    challenger: Candidate,
    incumbent: Candidate | None,
    terms: Terms,
    progress: Progress,
    affords: Callable[[int], bool] = lambda judgings: True,
    heir: int | None = None,
) -> Final:
    """`affords` tells whether so many judgings more are within the budget; `heir` is best if the incumbent is wrong."""
    others = 0 if incumbent is None else 1
    first = judge_fully(judge, task, challenger, terms, progress, lambda: affords(1 + others))
    if incumbent is None or score(first.verdict) is None:
        return Final(first, None, decide(first.verdict, None))
    try:
        second = judge_fully(judge, task, incumbent, terms, progress, lambda: affords(1), hidden_of=challenger.id)
    except DeadlinePassed as error:  # which the challenger can do nothing about
        return Final(first, None, _without_the_best(first.verdict, str(error), None))
    return Final(first, second, decide(first.verdict, second.verdict, heir))


def decide(challenger: Verdict, incumbent: Verdict | None, heir: int | None = None) -> Decision:
    value = score(challenger)
    if challenger.verdict is not Outcome.accepted:
        return Decision(False, f"{challenger.verdict}: {_why(challenger)}", None)
    if value is None:
        return Decision(False, "the machine is too noisy to tell its speed", None)
    if incumbent is None:
        return Decision(True, "the first whose speed was measured on every workload", value)
    other, paired = score(incumbent), ratio(challenger, incumbent)
    if incumbent.verdict is Outcome.rejected:
        why = f"the reigning best was rejected when judged again: {_why(incumbent)}"
        if heir is None:
            return Decision(True, why, value)
        return Decision(False, f"{why}; {heir:04d}, proved before, is the best again", value)
    if incumbent.verdict is Outcome.undecided:
        return _without_the_best(challenger, _why(incumbent), paired)
    if other is None or paired is None:
        return Decision(False, "the machine is too noisy to tell it from the reigning best", value, other)
    seen = ratio(challenger, incumbent, hidden=False)
    lucky = seen is not None and seen.low <= 1
    if paired.low <= 1:
        return Decision(False, "not faster than the reigning best by the whole interval", value, other, paired, lucky)
    unseen = ratio(challenger, incumbent, hidden=True)
    if unseen is not None and unseen.high < 1:
        return Decision(False, "slower than the reigning best on hidden workloads", value, other, paired)
    return Decision(True, f"{paired.low:.3f} times as fast as the reigning best, at least", value, other, paired)


def _without_the_best(challenger: Verdict, why: str, paired: IntervalValue | None) -> Decision:
    """What the reigning best was not shown to be again, the challenger was; so it is enough to be faster."""
    won = paired is not None and paired.low > 1
    return Decision(won, f"the reigning best could not be judged again: {why}", score(challenger), None, paired)


def _why(verdict: Verdict) -> str:
    seen = author_view(verdict)
    return seen.evidence.message if isinstance(seen.evidence, JudgeEvidence) else str(seen.reason)
