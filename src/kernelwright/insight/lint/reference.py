"""Rules about the reference as a program: is it a function of its inputs, does all of it matter, is it slow."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

import torch

from kernelwright.devices.cpu import CpuPeaks
from kernelwright.devices.lock import measuring
from kernelwright.insight.bottleneck import bound
from kernelwright.insight.lint.finding import LintFinding, Rule, Severity
from kernelwright.insight.lint.trials import Trial
from kernelwright.tasks.drawing import draw_inputs
from kernelwright.tasks.model import Task, TaskError, Workload
from kernelwright.tasks.reference import Argument, run_reference
from kernelwright.tasks.trace import record

AGAIN = 3
LAST_BITS = 1e-9
SLOW = 10.0
SHORTEST = 20e-6
MOST_CALLS, LONGEST = 7, 1.0

REFERENCE = "reference"


def determinism_findings(task: Task, inputs: Mapping[str, Argument]) -> Iterator[LintFinding]:
    """Bit for bit on the same inputs. Sums in another order differ in the last bits, also in those of float64.

    The judge's tolerance cannot be asked here: it is derived from the reference, and chance would widen it.
    """
    answers = [run_reference(task, inputs, torch.float64) for _ in range(1 + AGAIN)]
    eager = [run_reference(task, inputs) for _ in range(1 + AGAIN)]
    differing = sum(not _same(eager[0], other) for other in eager[1:])
    differing = max(differing, sum(not _same(answers[0], other) for other in answers[1:]))
    if differing:
        apart = max(_apart(answers[0], other) for other in answers[1:])
        severity = Severity.error if apart > LAST_BITS else Severity.warning
        message = f"{differing} of {AGAIN} repeated calls differ, by up to {apart:.1g} of their size (needed: none)"
        yield LintFinding(Rule.not_deterministic, severity, REFERENCE, message, differing / AGAIN)


def _same(one: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor]) -> bool:
    return all(torch.equal(_bits(one[name]), _bits(other[name])) for name in one)


def _apart(one: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor]) -> float:
    """The largest difference of each result beside its largest value."""

    def largest(values: torch.Tensor) -> float:
        return float(values.abs().nan_to_num().max()) if values.numel() else 0.0

    pairs = [(one[name].double(), other[name].double()) for name in one]
    return max((largest(a - b) / (largest(a) or 1.0) for a, b in pairs), default=0.0)


def dead_findings(task: Task, trial: Trial) -> Iterator[LintFinding]:
    """Only of what an author wrote: autograd, by design, computes a forward that its gradients may not need."""
    if task.direction == "backward" and hasattr(task.reference, "__wrapped__"):
        return
    try:
        dead = record(task, trial.drawn.inputs).dead
    except TaskError as error:
        message = f"its operations could not be followed, so dead ones are not known: {error}"
        yield LintFinding(Rule.dead_operations, Severity.note, REFERENCE, message, 0.0)
        return
    if dead:
        names = ", ".join(dict.fromkeys(operation.name for operation in dead))
        message = f"{len(dead)} operation(s) reach no result: {names} (needed: none)"
        yield LintFinding(Rule.dead_operations, Severity.error, REFERENCE, message, float(len(dead)))


def slowness_findings(task: Task, peaks: CpuPeaks, workloads: Sequence[Workload]) -> Iterator[LintFinding]:
    """Of the workload with the largest ratio, among the public ones that are small enough to be computed here."""
    ratios: list[tuple[float, Workload, float, float]] = []
    if not workloads:
        return
    for workload in workloads:
        least = bound(task, workload, peaks).seconds
        if least >= SHORTEST:
            eager = eager_seconds(task, workload)
            ratios.append((eager / least, workload, eager, least))
    if not ratios:
        message = f"no public workload has a bound of {1e6 * SHORTEST:.0f} µs, so speeds will be noise"
        yield LintFinding(Rule.too_short, Severity.warning, "public workloads", message, SHORTEST)
        return
    ratio, workload, eager, least = max(ratios, key=lambda found: found[0])
    if ratio >= SLOW:
        message = (
            f"eager takes {1e3 * eager:.2f} ms, {ratio:.0f} times the bound of {1e3 * least:.2f} ms "
            f"(speedups mean little from {SLOW:.0f} times), {workload.label}"
        )
        yield LintFinding(Rule.slow_eager, Severity.warning, REFERENCE, message, ratio)


def eager_seconds(task: Task, workload: Workload) -> float:
    """The best of a few calls: noise alone must not make a warning."""
    inputs = draw_inputs(task, workload, task.families[0], torch.Generator().manual_seed(0))
    times: list[float] = []
    with measuring():
        run_reference(task, inputs)
        while len(times) < MOST_CALLS and (len(times) < 2 or sum(times) < LONGEST):
            start = time.perf_counter()
            run_reference(task, inputs)
            times.append(time.perf_counter() - start)
    return min(times)


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)
