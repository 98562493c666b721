"""What a verdict says, in words: for people, prompts and tools alike."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kernelwright.judge.verdict import (
    AuthorVerdict,
    BuildEvidence,
    DomainCheck,
    DomainFailure,
    DomainView,
    ErrorReport,
    Evidence,
    JudgeEvidence,
    MismatchEvidence,
    Outcome,
    OutsideWriteEvidence,
    PrecisionEvidence,
    ProcessEvidence,
    Reason,
    SanitizerEvidence,
    SpeedStanding,
    SpeedStatus,
    Stage,
    Verdict,
    WorkloadResult,
)

# of g++ and clang (kernel.cpp:3:5: error: …), NVRTC (kernel.cu(3): error: …) and linkers
_ERROR = re.compile(r"[:(]\d+\)?: (?:fatal |catastrophic )?error\b|undefined (?:reference|symbol)")
SENTENCES = {
    Reason.right: "correct and safe in every trial",
    Reason.does_not_build: "it does not build",
    Reason.build_took_too_long: "the compiler did not finish in time",
    Reason.does_not_load: "it builds, but does not load",
    Reason.crashed: "it crashed",
    Reason.ended_itself: "it ended its own process instead of returning",
    Reason.timed_out: "it did not return in time",
    Reason.ran_while_stopped: "it kept running while the judge had stopped it",
    Reason.launch_failed: "a kernel could not be launched as planned",
    Reason.illegal_access: "it accessed memory that is not its own",
    Reason.out_of_memory: "it asked for more memory than there is",
    Reason.dirty_workspace: "it did not reset a workspace to zero",
    Reason.wrote_outside: "it wrote outside an output",
    Reason.unwritten: "it left elements of an output unwritten",
    Reason.nan_or_inf: "its NaN or infinities are not where the reference has them",
    Reason.imprecise: "its errors are larger than the task's precision allows",
    Reason.wrong: "its result is wrong",
    Reason.unsafe: "the sanitizers found a fault",
    Reason.library_alone: "a library computes the result without it",
    Reason.judge_failed: "the judge could not do its work",
}


UNDECIDED = {
    SpeedStatus.noisy: "the machine is too noisy",
    SpeedStatus.wide: "the interval is too wide",
    SpeedStatus.short: "too short to time reliably",
    SpeedStatus.near_overhead: "close to the cost of an empty trial",
    SpeedStatus.clocks_disagree: "a second clock disagrees",
    SpeedStatus.investigate: "faster than the device can be; investigate",
    SpeedStatus.not_measured: "there is no baseline",
}


NOT_CHECKED = "domain not checked"
DOMAIN_CHECK = "domain check: "


def outcome_words(verdict: DomainView) -> str:
    """The outcome in words. A candidate that was checked on part of the domain is not plainly accepted."""
    return f"{verdict.verdict} (partial domain)" if verdict.partial_domain else str(verdict.verdict)


def domain_words(verdict: DomainView) -> str:
    """What the domain check covered, in one line; empty where the candidate did not get that far."""
    if verdict.domain is None:
        return NOT_CHECKED if verdict.verdict is Outcome.accepted else ""
    return f"{DOMAIN_CHECK}{_domain(verdict.domain)}"


def _domain(checked: DomainCheck) -> str:
    covered = (
        (checked.classes, checked.classes_possible, "size classes"),
        (checked.coarse_pairs, checked.coarse_pairs_possible, "coarse pairs"),
        (checked.fine_pairs, checked.fine_pairs_possible, "fine pairs"),
    )
    counts = [f"{found} of {possible} {what}" for found, possible, what in covered if possible]
    made = f"correct in {counted(checked.calls, 'untimed call')} at {counted(checked.points, 'check point')}"
    parts = [f"{made} ({', '.join(counts)})" if counts else made]
    if checked.missing:
        parts.append(f"not checked: {', '.join(checked.missing)}")
    if checked.values:
        parts.append(f"special values: {', '.join(map(_spaced, checked.values))}")
    if checked.opted_out:
        parts.append(f"the task opts out of: {', '.join(map(_spaced, checked.opted_out))}")
    return "; ".join((*parts, f"took {duration(checked.seconds)}"))


def _spaced(name: str) -> str:
    return "NaN" if name == "nan" else name.replace("_", " ")


def unseen_words(verdict: Verdict | AuthorVerdict) -> str:
    """Where a candidate failed out of its author's sight, in words that both views may have; empty where it did not."""
    failed = verdict.failed_on_hidden if isinstance(verdict, Verdict) else verdict.hidden.failed
    if not failed:
        return ""
    if verdict.domain_failure is not None:
        return failure_words(verdict.domain_failure)
    return "in the domain check" if verdict.stage is Stage.domain else "on a hidden workload"


def failure_words(failure: DomainFailure) -> str:
    if not failure.special:
        return "in the domain check, on ordinary values at sizes other than the public ones"
    sizes = "" if failure.ordinary_right else ", at sizes where ordinary values were not tried before"
    return f"in the domain check, on special values: {_spaced(failure.special)}{sizes}"


def library_words(operators: Sequence[str]) -> str:
    """What torch carries out for a candidate; empty where all launches are its own."""
    return f"library: torch ({', '.join(operators)})" if operators else ""


FINDINGS = {
    "float32": "its errors are typical of float32",
    "biased": "its errors are biased: their mean is not what honest kernels have",
    "coarse": "its errors are well above those of eager and of a sequential float32 sum: some step is too coarse",
    "tf32": "its errors match products of TF32 factors",
    "2xtf32": "its errors match products with one factor of 11 bits (2xTF32, fp16 in two parts)",
    "bf16x3": "its errors match products of 16-bit factors (bf16x3)",
    "indistinguishable": "its errors do not reveal the precision in which it computes",
}


FOUND_IN = {
    "judging": "over all trials",
    "workload": "in the trials of one workload",
    "points": "over check points",
    "point": "at one check point",
}


def error_words(report: ErrorReport) -> str:
    """The errors of a result in one line, beside eager's; a rounding is that of every step, once."""
    return (
        f"{report.result}: rms {report.rms:.2g} roundings (eager {report.eager_rms:.2g}), "
        f"mean {report.mean:+.2g} (eager {report.eager_mean:+.2g}), "
        f"at most {report.ulp:,.0f} ulp (eager {report.eager_ulp:,.0f}), {report.share:.0%} of the tolerance"
    )


def precision_words(verdict: Verdict | AuthorVerdict) -> str:
    """The size of errors beside eager's, and what they show; of every result. Empty where none were gathered."""
    return "; ".join(
        f"{one.result}: rms {one.rms:.2g} u (eager {one.eager_rms:.2g}), {one.finding}" for one in verdict.errors
    )


def finding_words(report: ErrorReport, task: str) -> str:
    """What the errors show, where that is not simply float32; for one number, which task shows more."""
    if report.finding != "indistinguishable":
        return FINDINGS.get(report.finding, report.finding)
    least = report.smallest_bias
    words = "indistinguishable" + (f" (a bias below {least:.1g} would not be seen)" if least is not None else "")
    instead = f"{task}:backward"
    return f"{words}; judge {instead} as well" if report.scalar and ":" not in task else words


def speed_words(result: WorkloadResult) -> str:
    """A speed in a few words, against the baseline over which least may be claimed."""
    best = result.best_baseline
    if best is None or result.standing is None:
        return f"undecided: {UNDECIDED.get(result.speed, str(result.speed))}"
    low = f"{best.speedup.low:.2f}×"
    match result.standing:
        case SpeedStanding.faster:
            return f"{low} over {best.baseline}"
        case SpeedStanding.slower:
            return f"slower than {best.baseline}: {low}"
        case SpeedStanding.no_difference:
            return f"no difference from {best.baseline}: {low}"


def evidence_lines(evidence: Evidence) -> list[str]:
    """A line that begins with `|` is the compiler's, a sanitizer's or the candidate's own, which may say anything."""
    match evidence:
        case BuildEvidence():
            return [f"| {line}" for line in evidence.lines]
        case MismatchEvidence():
            return _mismatch_lines(evidence)
        case OutsideWriteEvidence():
            return [f"{evidence.tensor}: written {evidence.side}, in trial {evidence.trial} of {evidence.workload}"]
        case ProcessEvidence():
            place = f"in trial {evidence.trial} of {evidence.workload}"
            return [f"it {evidence.ending} {place}", *(f"| {line}" for line in evidence.output)]
        case SanitizerEvidence():
            return [f"on {evidence.workload}", *(f"| {line.strip()}" for line in evidence.lines)]
        case PrecisionEvidence():
            report = evidence.report
            found = f"{report.result}: {FINDINGS[report.finding]} ({FOUND_IN[report.found_in]})"
            return [found, error_words(report)]
        case JudgeEvidence():
            return [evidence.message]


def first_error(lines: Sequence[str]) -> str:
    """The line that says what is wrong: a compiler's first error, since what stands before it says only where."""
    return next((line for line in lines if _ERROR.search(line)), lines[0])


def key_line(evidence: Evidence) -> str:
    """The one line that tells most: the compiler's or the sanitizers' first error, else where it begins."""
    lines = [text for line in evidence_lines(evidence) if (text := line.removeprefix("| ").strip())]
    if not lines:
        return ""
    tools = isinstance(evidence, BuildEvidence | SanitizerEvidence)  # a candidate may call anything an error
    return first_error(lines) if tools else lines[0]


def _mismatch_lines(evidence: MismatchEvidence) -> list[str]:
    index = ", ".join(map(str, evidence.index))
    values = f"{evidence.family}, {evidence.special}" if evidence.special else evidence.family
    return [
        f"{evidence.result}[{index}] is {evidence.got}, expected {evidence.expected}"
        + (f" ± {evidence.tolerance:.2g}" if evidence.tolerance is not None else ""),
        f"{evidence.wrong:,} of {evidence.total:,} elements are wrong"
        + (f", {evidence.unwritten:,} were never written" if evidence.unwritten else ""),
        f"inputs: {values}; workload: {evidence.workload}; trial {evidence.trial}",
    ]


_COUNTER = re.compile(r": (?:trial \d+|\d+ of \d+ points)$")


def stage_words(progress: str) -> str:
    """A progress text without its counter: the stage. Printed after every trial it would drown everything else."""
    return _COUNTER.sub("", progress)


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def shortened(text: str, most: int) -> str:
    """In one line of at most so many characters, cut between words."""
    text = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    if len(text) <= most:
        return text
    cut = text[: most - 1]
    words = cut.rpartition(" ")[0] if text[most - 1] != " " else cut
    return f"{(words if len(words) > most // 2 else cut).rstrip(' ,;:')}…"


def duration(seconds: float) -> str:
    """A time with three significant figures and a unit that suits it."""
    if seconds < 1e-12:
        return "0 s"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def about_times(speedup: float) -> str:
    """A rough speedup, which is never 0.00×: of a slow candidate two figures are left."""
    return f"about {speedup:.2f}×" if speedup >= 0.1 else f"about {speedup:.2g}×"


def byte_count(count: float) -> str:
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count:.0f} bytes"
