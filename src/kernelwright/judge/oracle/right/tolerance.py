"""How far a right answer may lie from the reference: what every result of one trial is held against.

For each element, with u the unit roundoff of the precision in which an honest kernel computes:

    tolerance = slack * max(4 E, 2 e, max(r * |ref|, S, s)) + jumps

- ref: the reference in float64. e: the error of eager PyTorch on the same trial, E its clipped mean over the row.
- s: how far the element moves, on average over a few evaluations and times two, when the inputs and every step are
  disturbed by about 128 u (see `rounding`). The disturbance is as large as what is allowed, so nothing is
  extrapolated, and a jump counts once. S is its clipped mean over the row.
- r: S relative to the row's typical |ref|, and at least 128 u. Where one number scales a whole row (a sum, a norm),
  every element shares its rounding, also the one whose probes happen to cancel.
- jumps: what the other side of a mask would give, where rounding decides on the side (see `discontinuities`).

The row (the last axis) is the scale because a kernel rounds an element at the size of what went into it, not of
what was left of it; longer stretches would let a row of small values hide behind its neighbours. A result whose
elements never meet (see `flow`: an optimiser's moments) has no rows: E and S are 0, and r is 128 u. What only moves
data is compared bit for bit, and what also selects by value. Where a product has one or two terms (see `probe_rows`)
an eighth is allowed.

The bounds are rounded to the result's dtype to the nearest. Rounding is monotone: a value within the tolerance
before rounding is within the bounds after it, so the output's own format needs no allowance. Eager is evaluated in
float32 for results in a 16-bit format: a kernel rounds what it reads and what it writes, and nothing between, unless
the reference casts between its steps. In float64, where eager is the reference, its errors are those of float32 in
proportion to the units.

The constants are in `constants` and were fixed on the corpus of `benchmarks/cpu/tolerance_corpus.py`; docs/precision.md
has them with their margins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeGuard

import torch

from kernelwright.judge.oracle.flags import strict_flags
from kernelwright.judge.oracle.right.constants import CONSTANTS
from kernelwright.judge.oracle.right.discontinuities import Sites
from kernelwright.judge.oracle.right.flow import Flow, Step
from kernelwright.judge.oracle.right.formats import CastRecorder, WithoutNarrowing, WithoutWholeNumbers
from kernelwright.judge.oracle.right.probe_rows import probed_elements
from kernelwright.judge.oracle.right.rounding import Losses, Noise, RoundingProbe, SideProbe, SiteRecorder
from kernelwright.judge.oracle.right.scales import row_scale
from kernelwright.tasks.declarations import Chosen, Close, Exact, Rounded
from kernelwright.tasks.drawing import task_products
from kernelwright.tasks.dtypes import UNIT_OF
from kernelwright.tasks.formats import arithmetic, is_narrow, rounded
from kernelwright.tasks.model import Task, TaskError, Workload
from kernelwright.tasks.reference import Argument, dtype_name, guarded, run_reference, torch_dtype

# What a result is held against, in the form that is quickest to check: one type per kind of comparison.


@dataclass(frozen=True)
class Within:
    """Right where `low <= got <= high`, all in the result's dtype, or in float32 where torch only stores that. The
    reference lies halfway.

    Where the reference is NaN, `nan` is set and the bounds admit nothing else. Infinities bound themselves. Where `odd`
    is set, NaN and both infinities are right beside what the bounds admit. Bounds at both infinities together with
    `nan` leave an element unchecked.
    """

    low: torch.Tensor
    high: torch.Tensor
    nan: torch.Tensor | None = None
    odd: torch.Tensor | None = None

    @property
    def nbytes(self) -> int:
        masks = (mask.nbytes for mask in (self.nan, self.odd) if mask is not None)
        return self.low.nbytes + self.high.nbytes + sum(masks)

    @property
    def size(self) -> int:
        return self.low.numel()


@dataclass(frozen=True)
class BitExact:
    """Right where it has the same bits; one NaN is as good as another."""

    value: torch.Tensor

    @property
    def nbytes(self) -> int:
        return self.value.nbytes

    @property
    def size(self) -> int:
        return self.value.numel()


@dataclass(frozen=True)
class ChosenIndex:
    """Indices along `dim` of `source`, right where the value found there is `best`; distinct along `dim`.

    `source` belongs to the trial's inputs and is not counted again.
    """

    source: torch.Tensor
    best: torch.Tensor
    dim: int

    @property
    def nbytes(self) -> int:
        return self.best.nbytes

    @property
    def size(self) -> int:
        return self.best.numel()


Expectation = Within | BitExact | ChosenIndex


__all__ = [
    "ErrorStudy",
    "Expectation",
    "compute_dtype",
    "expectations",
    "held_against",
    "study",
    "study_trial",
    "tolerance",
]

UNIT = {torch_dtype(name): unit for name, unit in UNIT_OF.items()}

Arguments = Mapping[str, Argument]
Results = dict[str, torch.Tensor]
Call = Callable[[Arguments], Results]


def expectations(task: Task, inputs: Arguments, workload: Workload) -> dict[str, Expectation]:
    """What each result, by name, is held against."""
    return held_against(task, inputs, study_trial(task, inputs, workload))


def study_trial(task: Task, inputs: Arguments, workload: Workload) -> ErrorStudy:
    """Everything about one trial, with what depends on probe rows alone."""
    call = partial(run_reference, task)
    seen = study(call, inputs, compute_dtype(task, workload))
    if not seen.spread:
        return seen
    probed = probed_elements(task, workload, call, inputs)
    return replace(seen, probed=probed, mixed=task_products(task, workload).mixes)


def held_against(task: Task, inputs: Arguments, seen: ErrorStudy) -> dict[str, Expectation]:
    """The expectations that follow from a study, which is used up."""
    expected: dict[str, Expectation] = {}
    for name, eager in seen.eager.items():
        match task.comparator(name, dtype_name(eager.dtype)):
            case Exact():
                quantity = _before_rounding(task, inputs, name, seen) if name not in task.comparators else None
                expected[name] = BitExact(eager.contiguous()) if quantity is None else quantity
            case Chosen(source, dim):
                expected[name] = _choice(inputs[source], seen.exact[name], dim)
            case Rounded(exact):
                call = _unrounded(task, exact)
                expected[name] = _rounded(task, inputs, seen.compute, call, seen.exact[name], eager.dtype)
            case Close():
                expected[name] = _close(seen, name, task.precision.slack)
    return expected


def compute_dtype(task: Task, workload: Workload) -> torch.dtype:
    """The precision in which an honest kernel computes."""
    return torch.float64 if workload.dtype == "float64" else torch_dtype(task.precision.compute)


@dataclass(frozen=True)
class ErrorStudy:
    """Everything that was found out about one trial. `exact` has been rounded to the probes' dtype. `unrounded` is
    eager in the probes' dtype where the task's is narrower, so that nothing is rounded between the steps; in float64 it
    is `exact` with the errors that eager must be taken to have. `probed` are
    the elements that depend on probe rows alone; where products are `mixed`, their row shares its rounding."""

    compute: torch.dtype
    exact: Results
    eager: Results
    spread: Results
    jumps: Results
    flows: dict[str, Flow]
    unrounded: Results
    probed: Results = field(default_factory=dict)
    mixed: bool = False
    to_whole: bool = False  # whether the reference makes whole numbers from others

    @property
    def step(self) -> float:
        return _step(self.compute)


def _step(compute: torch.dtype) -> float:
    return min(CONSTANTS.step * UNIT[compute], CONSTANTS.coarsest)


@strict_flags()
def study(call: Call, inputs: Arguments, compute: torch.dtype) -> ErrorStudy:
    """Evaluates `call` exactly, eagerly and under probes."""
    form = torch.float64 if compute == torch.float64 else torch.float32
    wide = _converted(inputs, torch.float64)
    sites = Sites((value for value in wide.values() if isinstance(value, torch.Tensor)), form)
    with SiteRecorder(sites) as recorder:
        answer = call(wide)
    sites.complete()
    flows = recorder.flows.results(answer)
    exact = {name: _as(value, form if value.is_floating_point() else value.dtype) for name, value in answer.items()}
    del wide, answer
    with CastRecorder() as casts:
        eager = call(inputs)
    narrow = _converted(inputs, form)
    if not casts.rounds:
        call = _without_narrowing(call)
    if all(not _floating(value) or flows[name].step < Step.COMPUTED for name, value in eager.items()):
        return ErrorStudy(compute, exact, eager, {}, {}, flows, eager, to_whole=casts.to_whole)
    spread = _spread(call, narrow, exact, sites, compute)
    unrounded = eager
    if form == torch.float64:
        unrounded = _as_inexact(call, inputs, exact)
    elif any(is_narrow(value.dtype) for value in eager.values()) and not casts.rounds:
        unrounded = call(narrow)
    jumps = _jumps(call, narrow, sites)
    return ErrorStudy(compute, exact, eager, spread, jumps, flows, unrounded, to_whole=casts.to_whole)


def _without_narrowing(call: Call) -> Call:
    def wide(inputs: Arguments) -> Results:
        with WithoutNarrowing():  # type: ignore[no-untyped-call]
            return call(inputs)

    return wide


def _as_inexact(call: Call, inputs: Arguments, exact: Results) -> Results:
    """Eager in float64 as far from `exact` as its formula is in float32, in proportion to the units.

    The reference is eager itself there, and shows no error. Another formula is right all the same where the
    reference's own cancels (the tail of GELU by 1 + erf).
    """
    shorter = _converted(inputs, torch.float32)
    try:
        coarse, fine = call(shorter), call(_converted(shorter, torch.float64))
    except TaskError:  # values that float32 cannot hold
        return exact
    share = UNIT[torch.float64] / UNIT[torch.float32]
    return {
        name: value + _finite(coarse[name].double() - fine[name]).mul_(share) if _floating(value) else value
        for name, value in exact.items()
    }


def _spread(call: Call, narrow: Arguments, exact: Results, sites: Sites, compute: torch.dtype) -> Results:
    """How far the results move on average under probes.

    A probe that steps outside what the reference accepts (an index computed from values) says nothing.
    """
    spread = {name: torch.zeros_like(value) for name, value in exact.items() if _floating(value)}
    losses = Losses(UNIT[compute])
    for number in range(CONSTANTS.probes):
        noise = Noise(_step(compute), number)
        moved = {name: noise.applied(value) if _floating(value) else value for name, value in narrow.items()}
        with suppress(TaskError), RoundingProbe(sites, losses, noise):
            _add_distances(spread, call(moved), exact, 1 / CONSTANTS.probes)
    return spread


def _jumps(call: Call, narrow: Arguments, sites: Sites) -> Results:
    """The sum of what changes when near values go up, go down, or (lest several cancel) split at random."""
    near = [site.widen(CONSTANTS.reach / CONSTANTS.probes) for site in sites.found]
    if not any(near):
        return {}
    plain = call(narrow)
    jumps = {name: torch.zeros_like(value) for name, value in plain.items() if _floating(value)}
    for direction, seed in ((1.0, None), (-1.0, None), (1.0, 1), (-1.0, 1)):
        with suppress(TaskError), SideProbe(sites, direction, seed):
            _add_distances(jumps, call(narrow), plain, 1.0)
    return jumps


def _add_distances(sums: Results, moved: Results, still: Results, weight: float) -> None:
    for name, total in sums.items():
        total.add_((moved[name] - still[name]).abs_(), alpha=weight)


def _close(seen: ErrorStudy, name: str, slack: float) -> Expectation:
    """Bit for bit where data is moved, by value where it is also selected, and else within the tolerance."""
    eager = seen.eager[name].contiguous()
    match seen.flows[name].step:
        case Step.MOVED:
            return BitExact(eager)
        case Step.SELECTED:
            value = arithmetic(eager)
            return _with_gaps(value, torch.zeros_like(value), value.dtype)
        case Step.COMPUTED:
            return _within(seen, name, slack)


def _within(seen: ErrorStudy, name: str, slack: float) -> Within:
    exact, dtype = seen.exact[name], seen.eager[name].dtype
    allowed = tolerance(seen, name, slack)
    if bool(torch.isfinite(exact.sum())):
        return Within(rounded(exact - allowed, dtype), rounded(allowed.add_(exact), dtype))
    return _with_gaps(exact, allowed, dtype)


def _with_gaps(exact: torch.Tensor, allowed: torch.Tensor, dtype: torch.dtype) -> Within:
    """Bounds where the reference is not finite everywhere: infinities must be met, and NaN by NaN alone."""
    allowed = torch.where(torch.isfinite(exact), allowed, 0.0)
    low, high, nan = rounded(exact - allowed, dtype), rounded(exact + allowed, dtype), torch.isnan(exact)
    if not bool(nan.any()):
        return Within(low, high)
    return Within(low.masked_fill_(nan, torch.inf), high.masked_fill_(nan, -torch.inf), nan)


def tolerance(seen: ErrorStudy, name: str, slack: float) -> torch.Tensor:
    """How far from `seen.exact` each element of a result may lie. Uses up the study's share of that result.

    In place where it can be: these are passes over millions of elements, many times a minute.
    """
    exact = seen.exact[name]
    size = _finite(exact.abs())
    spread = _finite(seen.spread[name]).mul_(CONSTANTS.reach)
    error = _finite((seen.unrounded[name] - exact).abs_())
    probed = None if seen.flows[name].sums else seen.probed.get(name)
    if probed is not None:
        sharp = torch.maximum(size * seen.step, spread)
        if seen.mixed:
            torch.maximum(sharp, row_scale(spread, CONSTANTS.least_row, nonzero=True), out=sharp)
        sharp.mul_(CONSTANTS.probe_share)
    if seen.flows[name].separate:
        allowed = torch.maximum(size * seen.step, spread)
    else:
        allowed = _of_rows(seen.step, size, spread)
        torch.maximum(allowed, row_scale(error, CONSTANTS.least_eager) * CONSTANTS.eager, out=allowed)
    if probed is not None:
        allowed = torch.where(probed, torch.minimum(allowed, sharp), allowed)
    torch.maximum(allowed, error.mul_(CONSTANTS.own_eager), out=allowed)
    allowed.mul_(slack)
    if name in seen.jumps:
        jumps = _finite(seen.jumps[name])
        allowed.add_(jumps).add_(row_scale(jumps, CONSTANTS.least_row), alpha=CONSTANTS.jumps)
    return allowed.clamp_min_(CONSTANTS.flushed * torch.finfo(exact.dtype).tiny)


def _of_rows(step: float, size: torch.Tensor, spread: torch.Tensor) -> torch.Tensor:
    """max(r |ref|, S, s)."""
    scale = row_scale(spread, CONSTANTS.least_row, nonzero=True)
    relative = scale / row_scale(size, CONSTANTS.least_row, nonzero=True).clamp_min_(torch.finfo(size.dtype).tiny)
    allowed = torch.maximum(size * relative.clamp_(step, CONSTANTS.coarsest), spread)
    return torch.maximum(allowed, scale, out=allowed)


def _choice(source: Argument, chosen: torch.Tensor, dim: int) -> ChosenIndex:
    assert isinstance(source, torch.Tensor)
    places = chosen if chosen.dim() == source.dim() else chosen.unsqueeze(dim)
    return ChosenIndex(source, source.gather(dim, places.long()).view(chosen.shape), dim)


def _rounded(
    task: Task,
    inputs: Arguments,
    compute: torch.dtype,
    unrounded: Call,
    reference: torch.Tensor,
    dtype: torch.dtype,
) -> Within:
    """The reference, and the other side of a tie where the unrounded quantity is close enough to one."""
    seen = study(unrounded, inputs, compute)
    quantity = seen.exact["exact"].double()
    allowed = tolerance(seen, "exact", task.precision.slack).double()
    below = torch.floor(quantity)
    at_tie = (quantity - below - 0.5).abs() <= allowed
    wide = reference.double()
    low = torch.where(at_tie & (below == wide - 1), below, wide)
    high = torch.where(at_tie & (below + 1 == wide + 1), below + 1, wide)
    return Within(low.to(dtype), high.to(dtype))


def _unrounded(task: Task, exact: Callable[..., torch.Tensor]) -> Call:
    """What the task declares as the quantity that it rounds."""

    def call(arguments: Arguments) -> Results:
        return {"exact": guarded(task, "the unrounded quantity raised", exact, *arguments.values())}

    return call


def _before_rounding(task: Task, inputs: Arguments, name: str, seen: ErrorStudy) -> Within | None:
    """The same for an integer result of which the task declares nothing, found by leaving the reference's roundings
    out; None where the result is not that quantity rounded to the nearest whole number."""
    if not seen.to_whole:
        return None

    def call(arguments: Arguments) -> Results:
        with WithoutWholeNumbers():  # type: ignore[no-untyped-call]
            return {"exact": run_reference(task, arguments)[name]}

    result = seen.eager[name]
    try:
        quantity = call(_converted(inputs, torch.float64))["exact"]
    except TaskError:  # what it does with whole numbers it cannot do with others
        return None
    exact = seen.exact[name]
    if not quantity.is_floating_point() or not torch.equal(quantity.round().to(result.dtype), exact.to(result.dtype)):
        return None
    return _rounded(task, inputs, seen.compute, call, exact, result.dtype)


def _converted(inputs: Arguments, form: torch.dtype) -> dict[str, Argument]:
    return {name: value.to(form) if _floating(value) else value for name, value in inputs.items()}


def _floating(value: Argument) -> TypeGuard[torch.Tensor]:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _as(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Row-major, as results are in the arena, whatever strides the reference returns."""
    return value.to(dtype).contiguous()


def _finite(values: torch.Tensor) -> torch.Tensor:
    """Distances that are not finite (from, to or between infinities) allow nothing."""
    return values if bool(torch.isfinite(values.sum())) else values.nan_to_num_(0.0, 0.0, 0.0)
