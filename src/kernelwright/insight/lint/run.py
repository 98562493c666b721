"""Applies every rule to a task, cheap ones first, and keeps the worst finding of each kind."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from kernelwright.devices.cpu import CpuPeaks, cpu_peaks
from kernelwright.devices.lock import working
from kernelwright.insight.lint.arguments import argument_findings
from kernelwright.insight.lint.finding import LintFinding, Rule, Severity
from kernelwright.insight.lint.reference import dead_findings, determinism_findings, slowness_findings
from kernelwright.insight.lint.results import ResultObservation, observe, result_findings
from kernelwright.insight.lint.trials import OTHERS, Trial, draw, probing_workloads, seed_for, trial, tried_workloads
from kernelwright.tasks.drawing import signature
from kernelwright.tasks.hidden import hidden_workloads
from kernelwright.tasks.model import Task, TaskError, Workload
from kernelwright.tasks.small_sizes import is_light, smallest_workload

TRIVIAL = (Rule.zeros_accepted, Rule.constant_accepted)
VARYING = (Rule.nearly_constant, Rule.repeated, Rule.mostly_constant)
OF_FAMILIES = 2  # for a suite: every other one
MOST_ELEMENTS = 1 << 28  # of a problem whose parameters alone are large: its results are looked at, and no more
HIDDEN = 1  # workloads of lint's own key, which tells nothing about a judge's


def lint(task: Task, seed: int = 0, peaks: CpuPeaks | None = None, *, timed: bool = True) -> tuple[LintFinding, ...]:
    """All findings, worst first. `seed` chooses the values that are drawn, and should not change what is found. Without
    `timed` nothing is timed, and one small workload is looked at with every other input family."""
    own, task = task, at_lintable_size(task)
    workloads = (*tried_workloads(task), *probing_workloads(task))
    if not workloads and not timed and (large := smallest_workload(task)) and _elements(task, large) <= MOST_ELEMENTS:
        few = replace(task, families=task.families[::OF_FAMILIES])
        return _worst([*found_by_name(task, own), *_workload_findings(few, large, seed)])
    if not workloads:
        raise TaskError(f"{own.name}: no workload of it is small enough to be looked at here")
    if not timed:
        task = replace(task, families=task.families[::OF_FAMILIES])
    found = found_by_name(task, own)
    with working():
        looked_at = _smallest(task, workloads) if not timed else workloads[0]
        first = draw(task, looked_at, task.families[0], seed)
        found += determinism_findings(task, first.inputs)
    if any(finding.rule is Rule.not_deterministic and finding.severity is Severity.error for finding in found):
        return _worst(found)  # whatever else would be seen might be its chance
    found += _small_findings(task, seed)
    if not timed:
        return _worst([*found, *_workload_findings(task, _smallest(task, workloads), seed)])
    unseen = hidden_workloads(task, seed_for(seed, "hidden").to_bytes(8), count=HIDDEN)
    for workload in (*tried_workloads(task), *(one for one in unseen if is_light(task, one))):
        found += _workload_findings(task, workload, seed)
    found += slowness_findings(task, peaks or cpu_peaks(), tried_workloads(task))
    return _worst(found)


def found_by_name(task: Task, own: Task) -> list[LintFinding]:
    """What is known without computing anything."""
    return [*range_findings(task), *opt_out_findings(task), *imported_findings(task, own)]


def _elements(task: Task, workload: Workload) -> int:
    return sum(math.prod(tensor.shape) for tensor in signature(task, workload).tensors)


def _smallest(task: Task, workloads: Sequence[Workload]) -> Workload:
    return min(workloads, key=lambda workload: _elements(task, workload))


def _small_findings(task: Task, seed: int) -> Iterator[LintFinding]:
    """What takes many evaluations is tried on small workloads."""
    for number, workload in enumerate(probing_workloads(task)):
        with working():
            trials = [trial(task, workload, family, seed, OTHERS) for family in task.families]
            yield from argument_findings(task, trials)
            if number == 0:
                yield from dead_findings(task, trials[0])


def _workload_findings(task: Task, workload: Workload, seed: int) -> Iterator[LintFinding]:
    """One family at a time: results of full size are large."""
    seen = []
    for family in task.families:
        with working():
            seen.append(_seen(task, trial(task, workload, family, seed), seed))
    yield from _judged(task, workload, seen)


def _seen(task: Task, each: Trial, seed: int) -> dict[str, ResultObservation]:
    return {name: observe(each, name, seed) for name in task.result_names}


def _judged(task: Task, workload: Workload, seen: list[dict[str, ResultObservation]]) -> Iterator[LintFinding]:
    for name in task.result_names:
        yield from result_findings(task, name, [each[name] for each in seen], workload.label)


def _worst(findings: Iterable[LintFinding]) -> tuple[LintFinding, ...]:
    """One finding for each rule and subject, since a rule says much the same on every workload; and no word on how
    little a result varies where a constant passes for it.
    """
    kept: dict[tuple[Rule, str], LintFinding] = {}
    order = list(Severity)
    for finding in sorted(findings, key=lambda each: order.index(each.severity)):
        kept.setdefault((finding.rule, finding.subject), finding)
    constant = {f.subject for f in kept.values() if f.rule in TRIVIAL and f.severity is Severity.error}
    return tuple(f for f in kept.values() if f.rule not in VARYING or f.subject not in constant)


NEEDED_HIDDEN = 16  # as many as the judge draws
HIDDEN_RANGES = "hidden ranges"


def range_findings(task: Task) -> Iterator[LintFinding]:
    ranges = dict(task.hidden)
    points = math.prod(high - low + 1 for low, high in ranges.values())
    public = {tuple(sorted(sizes.items())) for sizes in task.public}
    inside = sum(all(ranges[name][0] <= size <= ranges[name][1] for name, size in point) for point in public)
    if points - inside < NEEDED_HIDDEN:
        message = f"hold {points - inside} workloads that are not public (needed: {NEEDED_HIDDEN})"
        yield LintFinding(Rule.hidden_range, Severity.error, HIDDEN_RANGES, message, float(points - inside))
        return
    for name, (low, high) in ranges.items():
        shown = {sizes[name] for sizes in task.public}
        unseen = sum(value not in shown for value in range(low, min(high, low + len(shown)) + 1))
        if low == high:
            message = f"is always {low} (a kernel may count on it)"
            yield LintFinding(Rule.fixed_size, Severity.note, f"size {name}", message, float(low))
        elif not unseen:
            message = f"has {high - low + 1} hidden values, all of them public (needed: others)"
            yield LintFinding(Rule.fixed_size, Severity.warning, f"size {name}", message, float(high - low + 1))


def opt_out_findings(task: Task) -> Iterator[LintFinding]:
    if task.unchecked:
        message = f"{', '.join(task.unchecked)} are not checked (the task opts out of them)"
        count = float(len(task.unchecked))
        yield LintFinding(Rule.unchecked_values, Severity.note, "special values", message, count)


def imported_findings(task: Task, own: Task) -> Iterator[LintFinding]:
    """What an imported task takes otherwise than its file, and at which sizes it is looked at here."""
    for note in own.notes:
        yield LintFinding(Rule.imported, Severity.note, "the problem", note[0].lower() + note[1:].rstrip("."), 0.0)
    if task is not own:
        label = task.public_workloads()[0].label
        yield LintFinding(Rule.imported, Severity.note, "sizes", f"looked at {label}, since its own are large", 0.0)


def at_lintable_size(task: Task) -> Task:
    """Where no public workload can be looked at on a CPU, at sizes between the least and the first public ones."""
    if tried_workloads(task):
        return task
    own = dict(task.public[0])
    sizes, divisor = own, 1
    while not _is_small(task, sizes) and any(sizes[name] > low for name, (low, _) in task.hidden.items()):
        divisor *= 2
        sizes = {name: max(task.hidden[name][0], value // divisor) for name, value in own.items()}
    return task if sizes == own else replace(task, public=[sizes])


def _is_small(task: Task, sizes: Mapping[str, int]) -> bool:
    return is_light(task, Workload(tuple(sizes.items()), task.dtypes[0]))
