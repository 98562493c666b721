"""Who is best: what a final decides, what a review can withhold, and who succeeds a best that turns out to be wrong.

Pure functions over values. `search.judging.hold_final` asks `decide_final`, and the driver `after_review`, before a
final is journalled; the state folds the journalled final with `after_final` and reads the best from the records with
`who_is_best`.

A challenger is judged afresh with hidden workloads, sanitizers and a check of the whole domain. If it is accepted, no
class of the domain is left unchecked and every speed is measured, the best is judged afresh as well, on the
challenger's hidden workloads. The challenger wins only if it is faster by the whole interval over all workloads, and
not slower over the hidden ones. Where the best is rejected, the candidate that was proved before it is best again, and
the challenger has a final against that one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kernelwright.judge.verdict import IntervalValue, JudgeEvidence, Outcome, Verdict, author_view
from kernelwright.judge.wording import unseen_words
from kernelwright.search.core.events import FinalHeld, Reviewed
from kernelwright.search.core.score import ratio, score

FINALS_PER_CANDIDATE = 2  # a second one where noise left the first undecided


@dataclass(frozen=True)
class Decision:
    """What a final came to. `ratio` is how much faster than the best; None where that is not known."""

    won: bool
    why: str
    score: float | None
    best_score: float | None = None
    ratio: IntervalValue | None = None
    estimate_refuted: bool = False  # it is not even faster on public workloads, where its estimate had said so


@dataclass(frozen=True)
class FinalRecord:
    """What finals have shown of a candidate."""

    score: float | None = None
    ratio: IntervalValue | None = None  # over the best at the time
    finals: int = 0
    last_at: int = 0  # how many candidates had been evaluated when the last one was planned
    open: bool = True  # whether a final may show something new: there was none, or none that was decided
    estimate_refuted: bool = False
    won: bool = False  # a final, even if another candidate was faster later
    lost_to: int | None = None  # which candidate was best after its last final
    proof: tuple[str, ...] = ()  # the certificates of the final that it won

    @property
    def may_have_another(self) -> bool:
        return self.open and self.finals < FINALS_PER_CANDIDATE


def decide_final(challenger: Verdict, best: Verdict | None, successor: int | None = None) -> Decision:
    """`successor` is the candidate that is best if the best is rejected."""
    value = score(challenger)
    if challenger.verdict is not Outcome.accepted:
        return Decision(False, f"{challenger.verdict}: {_why(challenger)}", None)
    if value is None:
        return Decision(False, "the machine is too noisy to measure its speed", None)
    if unproved := unproved_domain(challenger):
        return Decision(False, unproved, value)
    if best is None:
        return Decision(True, "the first with a measured speed on every workload", value)
    other, paired = score(best), ratio(challenger, best)
    if best.verdict is Outcome.rejected:
        why = f"the best was rejected when judged again: {_why(best)}"
        if successor is None:
            return Decision(True, why, value)
        return Decision(False, f"{why}; {successor:04d}, proved before, is the best again", value)
    if best.verdict is Outcome.undecided:
        return decide_without_best(challenger, _why(best), paired)
    if other is None or paired is None:
        return Decision(False, "the machine is too noisy to compare it with the best", value, other)
    public = ratio(challenger, best, hidden=False)
    refuted = public is not None and public.low <= 1
    if paired.low <= 1:
        return Decision(False, "not proved faster than the best", value, other, paired, refuted)
    unseen = ratio(challenger, best, hidden=True)
    if unseen is not None and unseen.high < 1:
        return Decision(False, "slower than the best on hidden workloads", value, other, paired)
    return Decision(True, f"at least {paired.low:.3f} times as fast as the best", value, other, paired)


def unproved_domain(verdict: Verdict) -> str:
    """Why an accepted candidate may not be best: it was not shown to be right wherever the task must hold. Empty where
    it was."""
    if verdict.domain is None:
        return "its domain was not checked"
    if verdict.partial_domain:
        return f"correct on part of the domain only; not checked: {', '.join(verdict.domain.missing)}"
    return ""


def decide_without_best(challenger: Verdict, why: str, paired: IntervalValue | None = None) -> Decision:
    """Where the best could not be judged again: the challenger is proved and the best is not, so faster is enough."""
    won = paired is not None and paired.low > 1
    return Decision(won, f"the best could not be judged again: {why}", score(challenger), None, paired)


def after_review(decision: Decision, review: Reviewed | None) -> Decision:
    """Reviewers can withhold a win, and nothing else."""
    if review is None or not review.suspected or not decision.won:
        return decision
    why = f"needs a human look: {review.against} of {review.votes} reviewers suspect that it cheats: {review.reason}"
    return replace(decision, won=False, why=why)


def who_is_best(records: Mapping[int, FinalRecord], without: int | None = None) -> int | None:
    """The highest score of those that won a final and were not found wrong since; `without` one, if it were not there.

    One that lost to another of them is left out: a final side by side tells more than scores of two finals.
    """
    proved = {
        number: record.score
        for number, record in records.items()
        if record.won and record.score is not None and number != without
    }
    unbeaten = [number for number in proved if records[number].lost_to not in proved]
    return max(unbeaten, key=lambda number: (proved[number], -number), default=None)


def after_final(records: Mapping[int, FinalRecord], final: FinalHeld, planned_at: int) -> dict[int, FinalRecord]:
    """The records that a final changes. `planned_at`: how many candidates had been evaluated when it was planned."""
    before = records.get(final.challenger, FinalRecord())
    ended_early = bool(final.best_rejected) and not final.won and final.score is not None
    lost_to = before.lost_to
    if final.won:
        lost_to = None
    elif final.best is not None and not final.best_rejected and not final.undecided and final.score is not None:
        lost_to = final.best
    changed = {
        final.challenger: replace(
            before,
            score=final.score,
            ratio=final.ratio,
            finals=before.finals + (not ended_early),  # it met no best that stands
            last_at=planned_at,
            open=final.undecided,
            estimate_refuted=final.estimate_refuted,
            won=before.won or final.won,
            lost_to=lost_to,
            proof=final.certificates if final.won else before.proof,
        )
    }
    if final.best is None:
        return changed
    if final.best_rejected:
        changed[final.best] = replace(records.get(final.best, FinalRecord()), score=None, open=False)
        changed |= _reopened({**records, **changed}, final.best)
    elif final.won:
        changed[final.best] = replace(records.get(final.best, FinalRecord()), lost_to=final.challenger)
    return changed


def _reopened(records: Mapping[int, FinalRecord], rejected: int) -> dict[int, FinalRecord]:
    """Those that lost to a best that was wrong. Their finals showed only that they are not faster than that one."""
    found = {number: replace(record, lost_to=None) for number, record in records.items() if record.lost_to == rejected}
    return {
        number: record if record.won else replace(record, finals=0, open=True, estimate_refuted=False)
        for number, record in found.items()
    }


def _why(verdict: Verdict) -> str:
    seen = author_view(verdict)
    if isinstance(seen.evidence, JudgeEvidence):
        return seen.evidence.message
    unseen = unseen_words(seen)
    return f"{seen.reason}, {unseen}" if unseen else str(seen.reason)
