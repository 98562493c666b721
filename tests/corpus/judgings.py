"""Judges the errors of emulated kernels as a full judging does: all families, several workloads, many trials."""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from corpus import kernels
from corpus.arithmetic import Arithmetic, Tensor
from corpus.emulation import KERNELS, Emulation
from corpus.operations import CONV3X3, LAYERNORM, OPERATIONS, Kind, variants
from corpus.references import BUILTIN, SIZES, SMALL, builtin, gradients
from kernelwright.judge.oracle.errors.observations import Observation, observe
from kernelwright.judge.oracle.errors.rules import RULES, Examined, ResultErrors, TrialSet, examine
from kernelwright.judge.oracle.errors.samples import choose_samples, take_samples
from kernelwright.judge.oracle.right.tolerance import held_against, study_trial
from kernelwright.tasks.drawing import draw_inputs
from kernelwright.tasks.model import Task, Workload
from kernelwright.tasks.reference import Argument

Results = dict[str, Tensor]
Formula = Callable[[Mapping[str, Any]], Results]
SETS = (TrialSet.judging, TrialSet.workload, TrialSet.point)


@dataclass(frozen=True)
class Case:
    """A task at some sizes, with kernels for it beside those that are emulated for every reference."""

    task: Task
    workloads: tuple[Workload, ...]
    label: str
    formulas: Mapping[str, Formula] = field(default_factory=dict)
    emulated: bool = True


@dataclass
class Row:
    """What was seen of one kernel of a case in all judgings: over all trials, of each workload, and of each trial as if
    it were a check point. Of each there are so many sets (`judged`), in which the kernel was found `imprecise`; margins
    are the largest of any result, and 1 is the limit."""

    case: str
    kernel: str
    honest: bool
    judged: Counter[TrialSet] = field(default_factory=Counter)
    imprecise: Counter[TrialSet] = field(default_factory=Counter)
    margins: dict[TrialSet, dict[str, float]] = field(
        default_factory=lambda: {kind: dict.fromkeys(RULES, 0.0) for kind in SETS}
    )
    findings: set[str] = field(default_factory=set)

    def saw(self, kind: TrialSet, results: Sequence[Examined]) -> None:
        self.judged[kind] += 1
        self.imprecise[kind] += any(one.finding is not None for one in results)
        known = self.margins[kind]
        self.margins[kind] = {rule: max(known[rule], *(one.margins[rule] for one in results)) for rule in RULES}


def cases() -> Iterator[Case]:
    for task in SMALL:
        for label, sizes in SIZES.items():
            if label in ("long", "tall") and task.name in (
                "attention",
                "gram",
                "batch_norm",
                "group_norm",
                "conv1d",
                "bmm",
            ):
                continue
            if label == "tiny" and task.name in ("avg_pool", "batch_norm", "variance", "group_norm", "column_norm"):
                continue
            yield Case(task, _workloads(task, sizes), f"{task.name}, {label}")
    for task in gradients():
        yield Case(task, _workloads(task, SIZES["small"]), task.name)
    for name, sizes in BUILTIN.items():
        if sizes:
            task = builtin(name)
            yield Case(task, _workloads(task, (sizes,)), name)
    for operation in OPERATIONS:
        if operation.task.name in ("layernorm", "softmax", "conv3x3"):
            sizes = {"n": 2, "c": 16, "k": 8, "height": 16} if operation.task is CONV3X3 else {"rows": 64, "cols": 512}
            formulas = {v.name: v.run for v in variants(operation) if v.kind is Kind.HONEST and "," in v.name}
            if operation.task is LAYERNORM:
                formulas |= {name: _of(formula) for name, formula in NORMS.items()}
            label = f"{operation.task.name}, formulas"
            yield Case(operation.task, _workloads(operation.task, (sizes,)), label, formulas, emulated=False)


def measure(case: Case, seeds: Sequence[int], repeats: int = 2) -> list[Row]:
    rows: dict[str, Row] = {}
    for seed in seeds:
        judged = _judged(case, seed, repeats)
        for kernel in dict.fromkeys(kernel for _, kernel in judged):
            row = rows.setdefault(kernel, Row(case.label, kernel, kernel not in KERNELS or KERNELS[kernel].honest))
            results = [errors for (_, one), errors in judged.items() if one == kernel]
            narrow = case.task.dtypes[0] != "float32"
            found = [summary for errors in results if (summary := errors.conclude(narrow=narrow)) is not None]
            row.findings |= {str(summary.finding) for summary in found}
            for kind, sets in _sets(results).items():
                for one in sets:
                    row.saw(kind, [examine(trials, kind) for trials in one])
    return list(rows.values())


def _sets(results: Sequence[ResultErrors]) -> dict[TrialSet, list[list[list[Observation]]]]:
    """The trials of every result: all, by workload, and one by one."""
    by_workload = [list(errors.workloads.values()) for errors in results]
    flat = [[one for place in workloads for one in place] for workloads in by_workload]
    return {
        TrialSet.judging: [flat],
        TrialSet.workload: [list(one) for one in zip(*by_workload, strict=True)],
        TrialSet.point: [[[one] for one in trial] for trial in zip(*flat, strict=True)],
    }


def _judged(case: Case, seed: int, repeats: int) -> dict[tuple[str, str], ResultErrors]:
    """By result and kernel."""
    seen: dict[tuple[str, str], ResultErrors] = {}
    met: set[str] | None = None if case.emulated else set()
    for workload in case.workloads:
        for repeat in range(repeats):
            for family in case.task.families:
                key = zlib.crc32(f"{case.label} {workload.label} {family} {seed} {repeat}".encode())
                inputs = draw_inputs(case.task, workload, family, torch.Generator().manual_seed(key))
                samples, dtypes = _samples(case.task, workload, inputs, key)
                if met is None:
                    met = KERNELS["library"].run(case.task, inputs)[1]
                for name, run in _kernels(case, met):
                    results = run(inputs)
                    for result, sample in samples.items():
                        errors = seen.setdefault((result, name), ResultErrors())
                        errors.add(workload, observe(sample, results[result].to(dtypes[result])))
    return seen


def _samples(
    task: Task, workload: Workload, inputs: Mapping[str, Argument], key: int
) -> tuple[Any, dict[str, torch.dtype]]:
    noticed = study_trial(task, inputs, workload)
    dtypes = {name: value.dtype for name, value in noticed.eager.items()}
    chosen = choose_samples(task, noticed, key)
    expected = held_against(task, inputs, noticed)
    return take_samples(task, workload, inputs, expected, chosen, filtered=True), dtypes


def _kernels(case: Case, met: set[str]) -> Iterator[tuple[str, Formula]]:
    """Those that differ from others on a reference with these operations."""
    yield from case.formulas.items()
    if case.emulated:
        for name, kernel in KERNELS.items():
            if not kernel.needs or kernel.needs in met:
                yield name, partial(_emulated, kernel, case.task)


def _emulated(kernel: Emulation, task: Task, inputs: Mapping[str, Argument]) -> Results:
    return kernel.run(task, inputs)[0]


def _workloads(task: Task, sizes: Sequence[dict[str, int]]) -> tuple[Workload, ...]:
    return tuple(Workload(tuple(one.items()), task.dtypes[0]) for one in sizes)


def _of(formula: Callable[..., Tensor]) -> Formula:
    return lambda inputs: {"out": formula(*inputs.values())}


def _welford(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """Mean and squares in one pass, one element after the other."""
    mean, squares = torch.zeros_like(x[..., :1]), torch.zeros_like(x[..., :1])
    for k in range(x.shape[-1]):
        value = x[..., k : k + 1]
        distance = value - mean
        mean = mean + distance / (k + 1)
        squares = squares + distance * (value - mean)
    return (x - mean) * torch.rsqrt(squares / x.shape[-1] + kernels.EPS) * w + b


def _shifted_variance(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """One pass over values less the first of their row."""
    shift = x[..., :1]
    moved, count = x - shift, x.shape[-1]
    mean = Arithmetic().sum(moved, -1) / count
    variance = Arithmetic().sum(moved * moved, -1) / count - mean * mean
    return (moved - mean) * torch.rsqrt(variance.clamp_min(0) + kernels.EPS) * w + b


def _two_level(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """Statistics of parts of 32, put together as parallel kernels do."""
    parts = x.unflatten(-1, (-1, 32))
    means = parts.mean(-1)
    squares = (parts - means.unsqueeze(-1)).square().sum(-1)
    mean = means.mean(-1, keepdim=True)
    total = squares.sum(-1, keepdim=True) + 32 * (means - mean).square().sum(-1, keepdim=True)
    return (x - mean) * torch.rsqrt(total / x.shape[-1] + kernels.EPS) * w + b


NORMS = {"Welford": _welford, "shifted one-pass variance": _shifted_variance, "parallel variance": _two_level}


def finite(value: float) -> float:
    return float(f"{value:.3g}") if math.isfinite(value) else 1e9
