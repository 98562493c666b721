"""A verdict as a person reads it."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kernelwright.insight.bottleneck import profile_table, profiled
from kernelwright.judge.verdict import (
    AuthorVerdict,
    IntervalValue,
    Outcome,
    SpeedStatus,
    Stage,
    Verdict,
    WorkloadResult,
)
from kernelwright.judge.words import SENTENCES, duration, evidence_lines

COLOURS = {Outcome.accepted: "green", Outcome.rejected: "red", Outcome.undecided: "yellow"}
MAX_LINES = 14
ASKED_OF_CPU = "0.95 to 1.05"
ASKED_OF_GPU = "±1% (from 10 to 50 µs ±3%, below ±0.2 µs)"


def show(console: Console, verdict: Verdict | AuthorVerdict) -> None:
    colour = COLOURS[verdict.verdict]
    hidden = verdict.failed_on_hidden if isinstance(verdict, Verdict) else verdict.hidden.failed
    where = ", on a hidden workload" if hidden else ""
    head = f"[bold {colour}]{verdict.verdict.upper()}[/]  {escape(verdict.name)}  [dim]{verdict.candidate}[/]"
    console.print(f"{head}\n  {SENTENCES[verdict.reason]}{where}  [dim](stage: {verdict.stage})[/]")
    if verdict.evidence is not None:
        for line in evidence_lines(verdict.evidence)[:MAX_LINES]:
            console.print(f"    {escape(line)}", style="dim" if line.startswith("|") else "", soft_wrap=True)
    measured = [result for result in verdict.workloads if result.baselines]
    if measured:
        console.print(_table(measured))
    _remarks(console, verdict)
    console.print()


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
            _claim(result, best.speedup, best.baseline),
        )
    return table


def _bound_cells(result: WorkloadResult) -> tuple[str, str]:
    if result.bound is None:
        return "", ""
    return duration(result.bound.seconds), "" if result.bound.sol is None else f"{result.bound.sol:.2f}"


def _claim(result: WorkloadResult, speedup: IntervalValue, baseline: str) -> str:
    interval = f"[{speedup.low:.2f}, {speedup.high:.2f}]"
    if result.speed is SpeedStatus.measured:
        colour = "green" if speedup.low > 1 else "default"
        return f"[{colour}]{speedup.low:.2f}×[/] over {baseline} [dim]{escape(interval)}[/]"
    why = {
        SpeedStatus.noisy: "the machine is too noisy",
        SpeedStatus.short: "too short to rank here",
        SpeedStatus.clocks_disagree: "the clock outside of the device read another time",
        SpeedStatus.investigate: "faster than the device can be; investigate",
        SpeedStatus.not_measured: "no baseline",
    }[result.speed]
    return f"[yellow]undecided[/]: {why} [dim]{escape(interval)}[/]"


def _remarks(console: Console, verdict: Verdict | AuthorVerdict) -> None:
    results = verdict.workloads
    conditions = verdict.conditions
    remarks = [f"sandbox {conditions.sandbox}"]
    called = verdict.stage is not Stage.build
    if called:
        remarks += [f"arena {conditions.arena}", f"sanitizers {conditions.safety}"]
    if called and conditions.runner:
        remarks.append(f"launcher {conditions.runner}")
    if isinstance(verdict, AuthorVerdict) and verdict.hidden.judged and verdict.verdict is Outcome.accepted:
        remarks.append(f"right on {verdict.hidden.judged} hidden workloads too")
    precision = next((r.precision for r in results if r.precision), None)
    if precision:
        remarks.append(f"precision {precision}")
    if any(r.deterministic is False for r in results):
        remarks.append("not deterministic: the same inputs gave different bits")
    prepared = [r.prepare_seconds for r in results if r.prepare_seconds is not None]
    if prepared:
        remarks.append(f"preparation {duration(max(prepared))}, not counted above")
    console.print(f"  [dim]{'; '.join(remarks)}[/]")
    for line in _kernel_lines(results):
        console.print(f"  [dim]{escape(line)}[/]", soft_wrap=True)
    _profile(console, results)
    noisy = [r.aa for r in results if r.speed is SpeedStatus.noisy and r.aa is not None]
    if noisy:
        low, high = min(aa.low for aa in noisy), max(aa.high for aa in noisy)
        asked = ASKED_OF_GPU if conditions.device.startswith("cuda") else ASKED_OF_CPU
        console.print(
            f"  [dim]undecided, because the fastest baseline against itself gives {low:.2f} to {high:.2f} where "
            f"{asked} is asked for; a quieter machine or more --trials would tell[/]"
        )
    if verdict.certificate:
        console.print(f"  [dim]certificate {verdict.certificate}[/]")


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
