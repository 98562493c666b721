"""Takes the error sample of a trial: what honest kernels lose on it, on random rows of its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import torch

from kernelwright.judge.oracle.errors.observations import STATISTICS, ErrorSample, figures_of, sample_index
from kernelwright.judge.oracle.errors.shortened import predicted_errors
from kernelwright.judge.oracle.errors.yardstick import sequential_results
from kernelwright.judge.oracle.flags import strict_flags
from kernelwright.judge.oracle.right.constants import CONSTANTS
from kernelwright.judge.oracle.right.scales import row_scale
from kernelwright.judge.oracle.right.tolerance import (
    UNIT,
    ErrorStudy,
    Expectation,
    Within,
    compute_dtype,
)
from kernelwright.tasks.declarations import Close
from kernelwright.tasks.formats import rounded
from kernelwright.tasks.model import Task, Workload
from kernelwright.tasks.reference import Argument, dtype_name, run_reference

Results = dict[str, torch.Tensor]


def error_unit(seen: ErrorStudy, name: str, index: torch.Tensor) -> torch.Tensor:
    """In what errors are measured, but for the rounding of the result itself: what one rounding of every step moves
    the element by, and what a mask that rounding decides would change. `tolerance` uses the study up: this is first."""
    unit = torch.take(seen.spread[name], index).double() / CONSTANTS.step
    if name in seen.jumps:
        jumps = seen.jumps[name].nan_to_num(0.0, 0.0, 0.0)
        jumps = jumps + row_scale(jumps, CONSTANTS.least_row)
        unit = torch.maximum(unit, torch.take(jumps, index).double())
    return unit.nan_to_num(0.0, 0.0, 0.0)


@dataclass
class ErrorSamples:
    """Where the results of one trial are sampled, and in what units; the rest is computed when a full judging asks."""

    seed: int
    index: Results
    unit: Results
    taken: dict[str, ErrorSample] = field(default_factory=dict)
    filtered: bool = False

    @property
    def nbytes(self) -> int:
        held = (*self.index.values(), *self.unit.values())
        return sum(one.nbytes for one in held) + sum(one.nbytes for one in self.taken.values())


def choose_samples(task: Task, seen: ErrorStudy, seed: int) -> ErrorSamples:
    """For every floating-point result that is compared by a tolerance. `seed` is secret."""
    generator = torch.Generator().manual_seed(seed)
    index: Results = {}
    unit: Results = {}
    for name, eager in seen.eager.items():
        close = isinstance(task.comparator(name, dtype_name(eager.dtype)), Close)
        if close and name in seen.spread and eager.numel():
            index[name] = sample_index(eager.shape, generator).to(eager.device)
            unit[name] = error_unit(seen, name, index[name]).float()
    return ErrorSamples(seed, index, unit)


@strict_flags()
def take_samples(
    task: Task,
    workload: Workload,
    inputs: Mapping[str, Argument],
    expected: Mapping[str, Expectation],
    chosen: ErrorSamples,
    *,
    filtered: bool,
) -> dict[str, ErrorSample]:
    """The samples of a trial, computed once and kept; with `filtered` also what shortened factors would do to it."""
    if not chosen.index or (chosen.taken and (chosen.filtered or not filtered)):
        return chosen.taken
    compute = compute_dtype(task, workload)
    call = partial(run_reference, task, inputs)
    if not chosen.taken:
        chosen.taken = _taken(call, compute, expected, chosen)
    if filtered:
        chosen.filtered = True
        if compute == torch.float32:
            _predict(call, chosen)
    return chosen.taken


def _taken(
    call: Callable[..., Results],
    compute: torch.dtype,
    expected: Mapping[str, Expectation],
    chosen: ErrorSamples,
) -> dict[str, ErrorSample]:
    exact, eager = call(torch.float64), call()
    some = next(iter(exact.values()))
    sequential = sequential_results(lambda: call(compute), UNIT[compute], chosen.seed % (1 << 62), some.device)
    taken = {}
    for name, index in chosen.index.items():
        bounds = expected[name]
        if not isinstance(bounds, Within):  # compared bit for bit: it has no errors
            continue
        dtype = eager[name].dtype
        reference = torch.take(exact[name], index).double()
        low, high = torch.take(bounds.low, index).double(), torch.take(bounds.high, index).double()
        tiny = torch.finfo(dtype).tiny
        size = reference.abs()
        # A kernel flushes what it computes with, not a float16, whose subnormal numbers are rounded like any others.
        form = torch.float64 if compute == torch.float64 else torch.float32
        least = max(CONSTANTS.flushed * torch.finfo(form).tiny, tiny * UNIT[dtype])
        unit = torch.maximum(size * UNIT[dtype], chosen.unit[name].double()).clamp_min(least)
        counts = (torch.isfinite(reference) & (reference != 0)).double()
        weight = torch.where(counts > 0, size / unit, 0.0)
        ulp = torch.exp2(torch.frexp(size.nan_to_num(1.0, 1.0, 1.0))[1].double()).mul_(UNIT[dtype])
        parts = (reference, unit, ulp.clamp_min(tiny), ((high - low) / 2).nan_to_num(0.0, 0.0, 0.0), counts, weight)
        rows = {
            kind: figures_of(torch.take(rounded(results[name], dtype), index), *parts)
            for kind, results in (("eager", eager), ("sequential", sequential))
        }
        factored = eager[name].dim() > 0 and eager[name].shape[-1] >= STATISTICS.least_row
        taken[name] = ErrorSample(index, *parts, rows["eager"], rows["sequential"], factored, UNIT[dtype])
    return taken


def _predict(call: Callable[..., Results], chosen: ErrorSamples) -> None:
    """For results in float32: in a narrower format a shortened factor does not show."""
    shown = {name: sample for name, sample in chosen.taken.items() if sample.roundoff == UNIT[torch.float32]}
    index = {name: sample.index for name, sample in shown.items()}
    exact = {name: sample.exact for name, sample in shown.items()}
    predicted = predicted_errors(lambda: call(torch.float64), index, exact) if shown else {}
    for name, sample in shown.items():
        errors = {form: moved[name].nan_to_num(0.0, 0.0, 0.0) for form, moved in predicted.items()}
        chosen.taken[name] = replace(sample, predicted=errors)
