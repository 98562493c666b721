"""From a verdict to a row of results, without anything that would tell what a hidden workload was."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable

from kernelwright.benchmark.results import (
    ErrorRow,
    RejectionClass,
    RowOutcome,
    SampleCost,
    SampleRow,
    SpeedOver,
    WorkloadRow,
)
from kernelwright.insight.bottleneck import BEATEN
from kernelwright.judge.baseline_names import claimable
from kernelwright.judge.gpu.limits import sol_score
from kernelwright.judge.verdict import (
    AuthorVerdict,
    ErrorReport,
    Outcome,
    Reason,
    SpeedStatus,
    Verdict,
    WorkloadResult,
    author_view,
)
from kernelwright.judge.wording import key_line, shortened, unseen_words

WORDS = 300  # characters of why
CLASSES: dict[Reason, RejectionClass] = {
    Reason.does_not_build: RejectionClass.build,
    Reason.build_took_too_long: RejectionClass.build,
    Reason.does_not_load: RejectionClass.build,
    Reason.crashed: RejectionClass.crash,
    Reason.launch_failed: RejectionClass.crash,
    Reason.out_of_memory: RejectionClass.crash,
    Reason.timed_out: RejectionClass.deadline,
    Reason.illegal_access: RejectionClass.memory,
    Reason.wrote_outside: RejectionClass.memory,
    Reason.unsafe: RejectionClass.memory,
    Reason.ended_itself: RejectionClass.protocol,
    Reason.dirty_workspace: RejectionClass.protocol,
    Reason.ran_while_stopped: RejectionClass.protocol,
    Reason.imprecise: RejectionClass.precision,
    Reason.library_alone: RejectionClass.build,
    Reason.unwritten: RejectionClass.wrong,
    Reason.nan_or_inf: RejectionClass.wrong,
    Reason.wrong: RejectionClass.wrong,
}
BoundOf = Callable[[WorkloadResult], float | None]
"""The bound of a workload in seconds, where the verdict does not bring it."""


def no_bound(_: WorkloadResult) -> float | None:
    return None


def rejection_class(verdict: Verdict | AuthorVerdict) -> RejectionClass | None:
    """None unless it was rejected."""
    if verdict.verdict is not Outcome.rejected:
        return None
    hidden = verdict.failed_on_hidden if isinstance(verdict, Verdict) else verdict.hidden.failed
    return RejectionClass.wrong_hidden if hidden else CLASSES[verdict.reason]


def rejections(verdicts: Iterable[Verdict | AuthorVerdict]) -> dict[RejectionClass, int]:
    found = Counter(kind for verdict in verdicts if (kind := rejection_class(verdict)) is not None)
    return {kind: found[kind] for kind in RejectionClass if found[kind]}


def row_of(
    verdict: Verdict,
    *,
    task: str,
    sample: int,
    cost: SampleCost,
    at: float,
    environment: int,
    bound: BoundOf = no_bound,
    certificates: tuple[str, ...] = (),
    others: dict[RejectionClass, int] | None = None,
) -> SampleRow:
    """`others` are the rejections of a search on its way, in place of the candidate's own."""
    author = author_view(verdict)
    busy = [one.interference.other_cores for one in verdict.workloads if one.interference is not None]
    return SampleRow(
        task=task,
        sample=sample,
        outcome=RowOutcome(verdict.verdict.value),
        candidate=verdict.candidate,
        name=shortened(verdict.name, WORDS),
        contract=verdict.contract,
        stage=author.stage.value,
        reason=author.reason.value,
        why=_why(author),
        right_on_public=_right_on_public(verdict),
        partial_domain=verdict.partial_domain,
        workloads=_workloads(verdict, bound),
        errors=tuple(_error(one) for one in verdict.public_errors if _finite(one)),
        library=author.library,
        left_out=verdict.baselines_left_out,
        rejections=rejections([verdict]) if others is None else others,
        suspect=any(one.speed is SpeedStatus.investigate for one in verdict.workloads),
        cost=cost,
        certificates=certificates,
        other_cores=round(max(busy), 2) if busy else None,
        environment=environment,
        at=at,
    )


def _why(verdict: AuthorVerdict) -> str:
    if verdict.verdict is Outcome.accepted:
        return ""
    if unseen := unseen_words(verdict):
        return f"failed {unseen}"
    return shortened(key_line(verdict.evidence), WORDS) if verdict.evidence is not None else ""


def _right_on_public(verdict: Verdict) -> bool | None:
    if verdict.verdict is Outcome.undecided:
        return None
    return verdict.verdict is Outcome.accepted or verdict.failed_on_hidden


def _workloads(verdict: Verdict, bound: BoundOf) -> tuple[WorkloadRow, ...]:
    public = [one for one in verdict.workloads if not one.hidden]
    hidden = sorted((one for one in verdict.workloads if one.hidden), key=_claimed)  # their order tells nothing then
    numbered = [(f"hidden {number}", one) for number, one in enumerate(hidden, 1)]
    return tuple(_workload(name, one, bound) for name, one in (*((one.label, one) for one in public), *numbered))


def _claimed(result: WorkloadResult) -> float:
    best = result.best_baseline
    return best.speedup.low if best is not None else 0.0


def _workload(name: str, result: WorkloadResult, bound: BoundOf) -> WorkloadRow:
    measured = result.speed is SpeedStatus.measured
    seconds = result.seconds
    least = result.bound.seconds if result.bound is not None else bound(result) if seconds else None
    of_bound = least / seconds if least and seconds and measured else None
    fastest = result.fastest_baseline
    sol = None
    if of_bound is not None and of_bound <= BEATEN and least and seconds and fastest is not None:
        sol = sol_score(seconds, fastest.seconds, least)
    return WorkloadRow(
        name=name,
        dtype=result.dtype,
        hidden=result.hidden,
        speed=result.speed,
        seconds=None if result.hidden else seconds,
        baselines=tuple(
            SpeedOver(
                baseline=one.baseline,
                claimable=claimable(one.baseline),
                seconds=None if result.hidden else one.seconds,
                speedup=one.speedup,
            )
            for one in result.baselines
            if one.speedup.low > 0
        ),
        of_bound=of_bound,
        sol=sol,
    )


def _finite(report: ErrorReport) -> bool:
    return all(map(math.isfinite, (report.rms, report.eager_rms, report.ulp, report.eager_ulp, report.share)))


def _error(report: ErrorReport) -> ErrorRow:
    return ErrorRow(
        result=report.result,
        rms=report.rms,
        eager_rms=report.eager_rms,
        ulp=report.ulp,
        eager_ulp=report.eager_ulp,
        share=report.share,
        finding=report.finding,
    )
