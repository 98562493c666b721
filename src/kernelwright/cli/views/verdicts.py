"""A verdict as a person reads it."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kernelwright.devices.names import Kind
from kernelwright.insight.bottleneck import profile_table, profiled
from kernelwright.judge.timing.noise import advice, busiest, why_noisy
from kernelwright.judge.timing.statistics import WIDEST
from kernelwright.judge.verdict import (
    AuthorVerdict,
    IntervalValue,
    Outcome,
    SpeedStanding,
    SpeedStatus,
    Stage,
    Verdict,
    WorkloadResult,
)
from kernelwright.judge.wording import (
    SENTENCES,
    domain_words,
    duration,
    error_words,
    evidence_lines,
    finding_words,
    library_words,
    outcome_words,
    speed_words,
    unseen_words,
)

COLOURS = {Outcome.accepted: "green", Outcome.rejected: "red", Outcome.undecided: "yellow"}
MAX_LINES = 14
SPEED_COLOURS = {
    SpeedStanding.faster: "green",
    SpeedStanding.slower: "red",
    SpeedStanding.no_difference: "default",
    None: "yellow",
}


def show(console: Console, verdict: Verdict | AuthorVerdict) -> None:
    colour = "yellow" if verdict.partial_domain else COLOURS[verdict.verdict]
    unseen = unseen_words(verdict)
    where = f", {unseen}" if unseen else ""
    head = f"[bold {colour}]{outcome_words(verdict).upper()}[/]  {escape(verdict.name)}  [dim]{verdict.candidate}[/]"
    console.print(f"{head}\n  {SENTENCES[verdict.reason]}{where}  [dim](stage: {verdict.stage})[/]")
    if verdict.evidence is not None:
        for line in evidence_lines(verdict.evidence)[:MAX_LINES]:
            console.print(f"    {escape(line)}", style="dim" if line.startswith("|") else "", soft_wrap=True)
    if unseen and isinstance(verdict, AuthorVerdict):
        console.print(f"    [dim]{escape(_why_hidden(verdict))}[/]", soft_wrap=True)
    measured = [result for result in verdict.workloads if result.baselines]
    if measured:
        console.print(_table(measured))
    _remarks(console, verdict)
    console.print()


def _why_hidden(verdict: AuthorVerdict) -> str:
    """What the author of a candidate that failed out of sight can do."""
    ranges = "within the ranges that `kernelwright contract` lists"
    failure = verdict.domain_failure
    if failure is None:
        where = "sizes and special values" if verdict.stage is Stage.domain else "sizes"
        advice = f"Try other {where} {ranges}"
    elif failure.special:
        advice = "Compare with the reference on inputs that hold such values"
        advice += "" if failure.ordinary_right else f", and at other sizes {ranges}"
    else:
        advice = f"Try other sizes {ranges}"
    return (
        f"The failing inputs are hidden, so that no kernel is fitted to them. {advice}; --view auditor shows which "
        "ones failed."
    )


def _table(results: list[WorkloadResult]) -> Table:
    table = Table(box=None, padding=(0, 2), header_style="dim")
    bounded = any(result.bound for result in results)
    head = ["", "workload", "kernel", *(b.baseline for b in results[0].baselines), *(["bound", "SOL"] * bounded)]
    for title in (*head, "claimed speedup"):
        table.add_column(title, justify="left" if title in ("", "workload") else "right")
    for result in results:
        best = result.best_baseline
        assert best is not None and result.seconds is not None
        table.add_row(
            "hidden" if result.hidden else "",
            result.label,
            duration(result.seconds),
            *(f"{duration(b.seconds)}" for b in result.baselines),
            *(_bound_cells(result) if bounded else ()),
            _claim(result, best.speedup),
        )
    return table


def _bound_cells(result: WorkloadResult) -> tuple[str, str]:
    if result.bound is None:
        return "", ""
    return duration(result.bound.seconds), "" if result.bound.sol is None else f"{result.bound.sol:.2f}"


def _claim(result: WorkloadResult, speedup: IntervalValue) -> str:
    colour = SPEED_COLOURS[result.standing]
    interval = f"[{speedup.low:.2f}, {speedup.high:.2f}]"
    return f"[{colour}]{escape(speed_words(result))}[/] [dim]{escape(interval)}[/]"


def _remarks(console: Console, verdict: Verdict | AuthorVerdict) -> None:
    results = verdict.workloads
    conditions = verdict.conditions
    remarks = [f"sandbox {conditions.sandbox}"]
    called = verdict.stage is not Stage.build
    if called:
        remarks += [f"arena {conditions.arena}", f"sanitizers {conditions.safety}"]
    if called and conditions.runner:
        remarks.append(f"launcher {conditions.runner}")
    if verdict.library:
        remarks.append(library_words(verdict.library))
    if isinstance(verdict, AuthorVerdict) and verdict.hidden.judged and verdict.verdict is Outcome.accepted:
        remarks.append(f"correct on {verdict.hidden.judged} hidden workloads too")
    if any(r.deterministic is False for r in results):
        remarks.append("not deterministic: the same inputs gave different bits")
    prepared = [r.prepare_seconds for r in results if r.prepare_seconds is not None]
    if prepared:
        remarks.append(f"preparation {duration(max(prepared))}, not counted above")
    console.print(f"  [dim]{'; '.join(remarks)}[/]")
    for line in verdict.baselines_left_out:
        console.print(f"  [yellow]not compared with {escape(line)}[/]", soft_wrap=True)
    if checked := domain_words(verdict):
        colour = "dim" if verdict.domain is not None and not verdict.partial_domain else "yellow"
        console.print(f"  [{colour}]{escape(checked)}[/]", soft_wrap=True)
    for report in verdict.errors:
        line = f"errors: {error_words(report)}; {finding_words(report, verdict.task)}"
        console.print(f"  [dim]{escape(line)}[/]", soft_wrap=True)
    for line in _kernel_lines(results):
        console.print(f"  [dim]{escape(line)}[/]", soft_wrap=True)
    _profile(console, results)
    if verdict.verdict is not Outcome.rejected:  # the speed of a kernel that fails does not matter
        _noise(console, verdict)
    if verdict.certificate:
        console.print(f"  [dim]certificate {verdict.certificate}[/]")


def _noise(console: Console, verdict: Verdict | AuthorVerdict) -> None:
    """Why speeds are undecided, and what to do about it."""
    kind: Kind = "cuda" if verdict.conditions.device.startswith("cuda") else "cpu"
    lines = why_noisy(verdict.workloads, kind)
    lines += [f"clocks: {one.clock_disagreement}" for one in verdict.workloads if one.clock_disagreement]
    wide = [result for result in verdict.workloads if result.speed is SpeedStatus.wide]
    if wide:
        lines.append(
            f"the kernel's own times vary too much from call to call: the ends of its interval differ by more than a "
            f"factor of {WIDEST:g}"
        )
    if lines:
        busy = busiest()
        lines += [f"busy now: {', '.join(busy)}"] if busy else []
        lines.append(advice(kind, max(result.trials for result in verdict.workloads)))
    for line in lines:
        console.print(f"  [dim]{escape(line)}[/]", soft_wrap=True)


def _profile(console: Console, results: tuple[WorkloadResult, ...]) -> None:
    for result in results:
        if result.profile is None:
            continue
        if result.profile.missing:
            console.print(f"  [dim]no profile: {escape(result.profile.missing)}[/]", soft_wrap=True)
            continue
        found = profiled(result.profile.launches, result.bound.moved_bytes if result.bound else None)
        console.print(f"  profile of {escape(result.label)}: {escape(found.sentence) if found else ''}", soft_wrap=True)
        for line in profile_table(result.profile.launches):
            console.print(f"    [dim]{escape(line)}[/]", soft_wrap=True)


def _kernel_lines(results: tuple[WorkloadResult, ...]) -> list[str]:
    """What the kernels take of a multiprocessor, of the first workload that has any."""
    kernels = next((result.kernels for result in results if result.kernels), ())
    return [
        f"{one.kernel}: {one.registers} registers"
        + (f", {one.spill_stores + one.spill_loads} bytes spilled" if one.spill_stores + one.spill_loads else "")
        + f", {one.static_shared + one.dynamic_shared:,} bytes shared, {one.threads} threads, "
        f"occupancy {one.occupancy:.0%}"
        for one in kernels
    ]
