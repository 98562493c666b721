"""From what an author may know to what a prompt shows. The only place where a `ShownKernel` is made of a verdict.

It takes the author's view. An auditor's verdict is another type, which a type checker refuses here, and what is marked
as hidden is left out once more, so that a mistake elsewhere stays without effect.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from kernelwright.contracts import Candidate
from kernelwright.contracts.brief import brief
from kernelwright.contracts.registry import contract_named
from kernelwright.insight.bottleneck import MOST_LAUNCHES, Bottleneck, Peaks, bottleneck, profile_table, profiled
from kernelwright.judge.verdict import AuthorVerdict, Evidence, Outcome, SpeedStatus, WorkloadResult
from kernelwright.judge.wording import SENTENCES, evidence_lines, unseen_words
from kernelwright.proposers.llm.view import ShownDevice, ShownKernel, ShownTask, ShownTiming, ShownWorkload
from kernelwright.proposers.model import Parent
from kernelwright.tasks.model import ScalarSpec, Task, TensorSpec

EVIDENCE_LINES = 24
LINE_LENGTH = 300
ON_PUBLIC = "on the public workloads nothing was found"


def shown_task(task: Task, contract: str, reference: str = "") -> ShownTask:
    """The public side of a task. Imports torch, and follows the reference's shapes."""
    from kernelwright.tasks.cost import cost
    from kernelwright.tasks.drawing import signature

    workloads = []
    for workload in task.public_workloads():
        least = cost(task, workload)
        arguments = tuple(_argument(one) for one in signature(task, workload).arguments)
        workloads.append(
            ShownWorkload(
                label=workload.label, arguments=arguments, moved_bytes=least.moved, operations=least.operations
            )
        )
    text = brief(contract_named(contract), task)
    return ShownTask(reference=reference or task.name, brief=text, workloads=tuple(workloads))


def shown_kernel(
    parent: Parent, task: ShownTask, device: ShownDevice, bounds: Mapping[str, float] | None = None
) -> ShownKernel:
    """A candidate of before. `Parent.score` is not looked at: hidden workloads have a part in it."""
    verdict = parent.verdict
    public = [result for result in verdict.workloads if not result.hidden]
    timings = tuple(timing for result in public if (timing := _timing(result, task, device, bounds or {})) is not None)
    right = verdict.verdict is Outcome.accepted
    return ShownKernel(
        name=parent.proposal.candidate.name or parent.proposal.candidate.id,
        source=parent.proposal.candidate.source,
        note=parent.proposal.note,
        outcome=verdict.verdict.value,
        fault=fault_of(verdict),
        evidence=_evidence(verdict.evidence),
        failed_on_hidden=verdict.hidden.failed,
        failed_on_values=verdict.domain_failure is not None and bool(verdict.domain_failure.special),
        speedup=_mean([timing.speedup for timing in timings]) if right else None,
        timings=timings if right else (),
    )


def shown_source(candidate: Candidate, note: str = "") -> ShownKernel:
    """A candidate that has not been judged yet."""
    return ShownKernel(name=candidate.name or candidate.id, source=candidate.source, note=note)


def fault_of(verdict: AuthorVerdict) -> str:
    if verdict.verdict is Outcome.accepted:
        return ""
    sentence = SENTENCES[verdict.reason]
    unseen = unseen_words(verdict)
    return f"{sentence} {unseen}; {ON_PUBLIC}" if unseen else sentence


def _evidence(evidence: Evidence | None) -> tuple[str, ...]:
    return cut(evidence_lines(evidence)) if evidence is not None else ()


def cut(lines: Sequence[str]) -> tuple[str, ...]:
    """As much of a compiler's or a sanitizer's words as a prompt has room for."""
    return tuple(line[:LINE_LENGTH] for line in lines[:EVIDENCE_LINES])


def _timing(
    result: WorkloadResult, task: ShownTask, device: ShownDevice, bounds: Mapping[str, float]
) -> ShownTiming | None:
    best = result.best_baseline
    if best is None or not result.seconds:
        return None
    bound = result.bound.seconds if result.bound else bounds.get(result.label)
    found = _bottleneck(result, task, device, bound)
    launches = result.profile.launches if result.profile else ()
    needed = _needed(result, task)
    counted = profiled(launches, needed.moved_bytes if needed else None)
    return ShownTiming(
        label=result.label,
        seconds=result.seconds,
        baseline=best.baseline,
        baseline_seconds=best.seconds,
        speedup=best.speedup.mid,
        speedup_low=best.speedup.low,
        certain=result.speed is SpeedStatus.measured,
        bound_seconds=bound,
        bandwidth=found.bandwidth if found else None,
        of_bandwidth=found.of_bandwidth if found else None,
        operations=found.operations if found else None,
        of_operations=found.of_operations if found else None,
        launching=found.launching if found else 0.0,
        limit=found.limit.value if found else "",
        advice=found.sentence if found else "",
        kernels=result.kernels[:MOST_LAUNCHES],
        counters=profile_table(launches),
        counted=counted.sentence if counted else "",
    )


def _needed(result: WorkloadResult, task: ShownTask) -> ShownWorkload | None:
    return next((one for one in task.workloads if one.label == result.label), None)


def _bottleneck(result: WorkloadResult, task: ShownTask, device: ShownDevice, bound: float | None) -> Bottleneck | None:
    needed = _needed(result, task)
    if needed is None or not result.seconds:
        return None
    peaks = Peaks(device.bandwidth, device.operations, device.launch)
    return bottleneck(result.seconds, needed.moved_bytes, needed.operations, peaks, bound)


def _argument(argument: TensorSpec | ScalarSpec) -> str:
    if isinstance(argument, ScalarSpec):
        return f"{argument.name} = {argument.value!r}"
    shape = "×".join(map(str, argument.shape)) or "one element"
    dense = argument.strides == _dense(argument.shape)
    strided = "" if dense else f", strides {', '.join(map(str, argument.strides))}"
    return f"{argument.name}: {argument.dtype}, {shape} ({argument.role}{strided})"


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= size
    return tuple(strides)


def _mean(values: list[float]) -> float | None:
    logs = [math.log(value) for value in values if value > 0]
    return math.exp(math.fsum(logs) / len(logs)) if logs else None
