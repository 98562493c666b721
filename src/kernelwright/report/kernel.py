"""A kernel as a report shows it: made from a verdict and the certificates that speak for it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from kernelwright.contracts import Candidate
from kernelwright.insight.bottleneck import profiled
from kernelwright.judge.certificate import Certificate
from kernelwright.judge.verdict import (
    NO_SAFETY,
    AuthorVerdict,
    Outcome,
    SpeedStanding,
    SpeedStatus,
    Verdict,
    WorkloadResult,
    author_view,
)
from kernelwright.judge.wording import DOMAIN_CHECK, UNDECIDED, counted, domain_words, finding_words, outcome_words
from kernelwright.report.differences import source_files
from kernelwright.report.model import (
    Audience,
    CertificateView,
    FurtherJudging,
    HiddenView,
    KernelView,
    ProfileView,
    ProofStanding,
    WorkloadView,
)
from kernelwright.search.core.score import beats_bound, fraction_of_bound
from kernelwright.search.summary import no_gain

BEATS_BOUND = "faster than the bound"


def kernel_view(
    verdict: Verdict | AuthorVerdict,
    candidate: Candidate | None,
    audience: Audience,
    *,
    standing: ProofStanding,
    why: str = "",
    score: float | None,
    number: int | None = None,
    origin: str = "",
    note: str = "",
    certificates: tuple[CertificateView, ...] = (),
    further: Mapping[str, Certificate] | None = None,
    bounds: Mapping[str, float] | None = None,
    review: str = "",
) -> KernelView:
    """`candidate` is None where there is a verdict and no source."""
    seen = verdict if isinstance(verdict, AuthorVerdict) else author_view(verdict)
    known = dict(bounds or {})
    hidden = _hidden(verdict, seen, score, audience, known)
    public = tuple(_workload(one, known) for one in seen.workloads)
    whole = isinstance(verdict, Verdict) and audience is Audience.auditor
    return KernelView(
        number=number,
        id=verdict.candidate,
        contract=verdict.contract,
        origin=origin,
        note=note,
        score=score,
        standing=standing,
        why=why,
        remark=no_gain(score, verdict) or "",
        outcome=outcome_words(verdict),
        holds=_holds(seen, hidden),
        limits=_limits(seen, certificates),
        public=public,
        hidden=hidden,
        further=tuple(_further(name, one, known) for name, one in (further or {}).items()),
        errors=verdict.errors if whole else seen.errors,
        of_bound=_of_bound(seen, known),
        profile=_profile(seen.workloads),
        conditions=seen.conditions,
        certificates=certificates,
        files=source_files(candidate) if candidate else (),
        review=review,
    )


def _workload(result: WorkloadResult, bounds: Mapping[str, float], name: str = "") -> WorkloadView:
    bare = result.model_copy(update={"raw_seconds": {}})
    least = result.bound.seconds if result.bound else None if result.hidden else bounds.get(result.label)
    return WorkloadView(name or result.label, bare, least)


def _hidden(
    verdict: Verdict | AuthorVerdict,
    seen: AuthorVerdict,
    score: float | None,
    audience: Audience,
    bounds: Mapping[str, float],
) -> HiddenView:
    judged = seen.hidden.judged
    claim = hidden_claim(score, seen.workloads, judged)
    if audience is Audience.author or isinstance(verdict, AuthorVerdict):
        return HiddenView(judged, claim)
    return HiddenView(judged, claim, tuple(_workload(one, bounds) for one in verdict.workloads if one.hidden))


def hidden_claim(score: float | None, public: Sequence[WorkloadResult], judged: int) -> float | None:
    """The mean claim on hidden workloads, from what an author has: the score is the mean over all workloads."""
    lows = [best.speedup.low for one in public if (best := one.best_baseline)]
    if score is None or score <= 0 or not judged or len(lows) != len(public) or min(lows, default=1.0) <= 0:
        return None
    rest = math.log(score) * (len(lows) + judged) - math.fsum(map(math.log, lows))
    return math.exp(rest / judged)


def _further(name: str, issued: Certificate, bounds: Mapping[str, float]) -> FurtherJudging:
    settings = issued.settings
    parts = [
        "public workloads alone" if settings.public_only else "hidden workloads, too",
        "with sanitizers" if settings.safety else "no sanitizers",
        f"over {', '.join(settings.baselines)}",
    ]
    shown = author_view(issued.verdict).workloads
    return FurtherJudging(name, ", ".join(parts), tuple(_workload(one, bounds) for one in shown))


def _holds(seen: AuthorVerdict, hidden: HiddenView) -> tuple[str, ...]:
    """What was shown, in sentences."""
    if seen.verdict is not Outcome.accepted:
        return ()
    trials = sum(one.trials for one in seen.workloads)
    where = f"{counted(len(seen.workloads), 'public workload')} ({counted(trials, 'trial')})"
    also = f" and {counted(hidden.judged, 'hidden one')} that its author never saw" if hidden.judged else ""
    found = [f"Correct in every trial of {where}{also}."]
    if seen.conditions.safety != NO_SAFETY:
        found.append(f"Safe: {seen.conditions.safety} found nothing.")
    if seen.domain is not None:
        found.append(f"Correct across the declared sizes: {domain_words(seen).removeprefix(DOMAIN_CHECK)}.")
    faster = [one for one in seen.workloads if one.standing is SpeedStanding.faster]
    if faster:
        least = min(best.speedup.low for one in faster if (best := one.best_baseline))
        found.append(f"Faster than every baseline on {_of(faster, seen.workloads)}: at least {least:.2f}×.")
    if seen.workloads and all(one.deterministic for one in seen.workloads):
        found.append("A repeated call gives the same bits.")
    return tuple(found)


def _limits(seen: AuthorVerdict, certificates: Sequence[CertificateView]) -> tuple[str, ...]:
    """Where it does not hold, and what was not looked at."""
    found = []
    if seen.verdict is not Outcome.accepted:
        found.append(f"It was {outcome_words(seen)}, so nothing is proved.")
    elif seen.domain is None:
        found.append("Sizes other than the judged ones: the declared domain was not checked.")
    elif seen.domain.missing:
        found.append(f"Size classes without a checked call: {', '.join(seen.domain.missing)}.")
    if seen.domain is not None and seen.domain.opted_out:
        found.append(f"Special values that the task opts out of: {', '.join(seen.domain.opted_out).replace('_', ' ')}.")
    for wanted, words in (
        (SpeedStanding.slower, "Slower than a baseline on"),
        (SpeedStanding.no_difference, "Not shown to be faster than every baseline on"),
    ):
        found += [f"{words} {one.label}." for one in seen.workloads if one.standing is wanted]
    found += [
        f"Speed undecided on {one.label}: {UNDECIDED.get(one.speed, str(one.speed))}."
        for one in seen.workloads
        if one.speed is not SpeedStatus.measured
    ]
    found += [f"Not compared with {line}." for line in seen.baselines_left_out]
    if seen.library:
        found.append(f"It is not all its own: torch carries out {', '.join(seen.library)} (library: torch).")
    if seen.conditions.safety == NO_SAFETY:
        found.append("No sanitizer was run.")
    if any(one.deterministic is False for one in seen.workloads):
        found.append("A repeated call may give different bits.")
    found += [
        f"Errors of {one.result}: {finding_words(one, seen.task)}."
        for one in seen.errors
        if one.finding == "indistinguishable" or one.imprecise
    ]
    threads = f", {counted(seen.conditions.threads, 'thread')}" if not seen.conditions.driver else ""
    found.append(f"Speeds are those of {seen.conditions.device}{threads}; on another device they are unknown.")
    below = sorted({words for one in certificates for words in one.below})
    if below:
        found.append(f"Judged on less than today's standard: {'; '.join(below)}.")
    return tuple(found)


def _of(some: Sequence[object], whole: Sequence[object]) -> str:
    if len(some) == len(whole):
        return "every public workload" if len(whole) > 1 else "the public workload"
    return f"{len(some)} of {len(whole)} public workloads"


def _of_bound(seen: AuthorVerdict, bounds: dict[str, float]) -> str:
    """The part of the bound's speed that it reaches, where the bound is one."""
    reached = fraction_of_bound(seen, bounds)
    if reached is None:
        return ""
    return BEATS_BOUND if beats_bound(seen, bounds) else f"{reached:.0%}"


def _profile(results: Sequence[WorkloadResult]) -> ProfileView | None:
    """Of the one public workload that was profiled."""
    for one in results:
        if one.profile is not None:
            told = profiled(one.profile.launches, one.bound.moved_bytes if one.bound else None)
            return ProfileView(one.label, one.profile.launches, told.sentence if told else "", one.profile.missing)
    return None
