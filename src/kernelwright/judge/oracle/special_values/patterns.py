"""What results are held against where special values were planted.

A pattern of NaN and infinities is demanded only where the reference in float64 and eager PyTorch agree on it, element
by element; elsewhere nothing is. Where steps compute, any value that is not finite is as good as another: algebra that
is equal otherwise turns one into the other. docs/decisions/0031-special-values.md has the rules and their reasons.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import torch

from kernelwright.judge.oracle.right.tolerance import (
    BitExact,
    ErrorStudy,
    Expectation,
    Within,
    compute_dtype,
    held_against,
    study,
    study_trial,
)
from kernelwright.judge.oracle.special_values.planting import Placement, SpecialValues
from kernelwright.judge.oracle.special_values.reference_calls import Calls
from kernelwright.tasks.declarations import Upstream, ValueKind
from kernelwright.tasks.drawing import signature, with_saved
from kernelwright.tasks.formats import arithmetic, arithmetic_dtype, is_narrow, rounded
from kernelwright.tasks.model import Task, TaskError, Workload
from kernelwright.tasks.reference import Argument, run_reference, torch_dtype

Results = dict[str, torch.Tensor]

# Finite values of these kinds, from which a reference makes NaN or infinities, do so by rounding (the noise of a row
# without variance divided by itself) or overflow, which come elsewhere in another kernel.
BY_ROUNDING = (
    ValueKind.constant_rows,
    ValueKind.ties,
    ValueKind.magnitudes,
    ValueKind.subnormals,
    ValueKind.products,
)


# Large, so that they decide every comparison, and of different size, so that their squares differ too.
SUBSTITUTES = (2.0**20, -1.7 * 2.0**11, 0.5)
UNLIKE = 7  # neighbours get different ones: a row of equal numbers may change nothing whatever the number is


@dataclass(frozen=True)
class Pattern:
    """Which elements of a result must not be finite, which are left unchecked, and which may be what the reference
    says or not finite."""

    odd: torch.Tensor
    free: torch.Tensor
    either: torch.Tensor


def pattern(exact: torch.Tensor, eager: torch.Tensor, task: Task, special: SpecialValues, calls: Calls) -> Pattern:
    """From the reference in float64, or what is left of it, and in the task's dtype."""
    kind = special.kind
    none = torch.zeros_like(eager, dtype=torch.bool)
    if not eager.is_floating_point():
        return Pattern(none, exact != eager, none)
    # What only the narrow format of a result cannot hold does not depend on formulas: every kernel rounds there.
    by_format = torch.isfinite(exact.float()) if is_narrow(eager.dtype) else none
    exact, eager = rounded(exact, eager.dtype), arithmetic(eager)
    odd = ~torch.isfinite(exact)
    free = odd != ~torch.isfinite(eager)
    if calls.moves:
        free |= odd & ~((exact == eager) | (torch.isnan(exact) & torch.isnan(eager)))
    if kind in BY_ROUNDING:
        free |= odd & ~by_format
    odd &= ~free & ~by_format
    if calls.convolves and exact.dim() > 2:  # transforms of tiles, or of whole planes, spread what is not finite
        spoilt = (odd | free).any(dim=-1, keepdim=True)
        for axis in range(2, exact.dim() - 1):
            spoilt = spoilt.any(dim=axis, keepdim=True)
        free |= spoilt & ~odd
    # A kernel may multiply the upstream gradient by the zero of a mask where the reference selects.
    upstream = any(isinstance(task.inputs[name], Upstream) for name in (special.tensor, *special.also))
    selected = kind in (ValueKind.nan, ValueKind.infinities) and upstream
    return Pattern(odd, free, (exact == 0) & ~free if selected else none)


def not_demanded(
    task: Task, inputs: Mapping[str, Argument], special: SpecialValues, results: Results
) -> dict[str, torch.Tensor]:
    """Elements about which planted NaN and infinities say nothing, found by planting other values in their place.

    A finite result that changes with those values was chosen by a comparison with NaN: on which side it falls depends
    on how the comparison is written (`z > 0`, `!(z <= 0)`). A result that is NaN and does not change has met NaN in
    products with zero only, which a kernel may skip. Comparisons with infinities are decided, products with zero not.
    """
    if special.kind not in (ValueKind.nan, ValueKind.infinities):
        return {}
    if special.kind is ValueKind.infinities and special.placement in (Placement.rows, Placement.everywhere):
        return {}  # a row of equal numbers may change nothing whatever the number is, as in a softmax
    changed = [_changed(task, inputs, special, of_nan) for of_nan in (True, False)]
    if changed[0] is None or changed[1] is None:
        return {}
    free = {}
    for name, result in results.items():
        finite, by_nan, by_any = torch.isfinite(arithmetic(result)), changed[0][name], changed[1][name]
        free[name] = (finite & by_nan) | (~finite & ~by_any)
    return free


def _changed(
    task: Task, inputs: Mapping[str, Argument], special: SpecialValues, of_nan: bool
) -> dict[str, torch.Tensor] | None:
    """Where results change with what stands in place of NaN, or of all that is not finite; None if it is refused."""
    others = []
    with suppress(TaskError):
        for turn in range(len(SUBSTITUTES)):
            other = {**inputs, **_substituted(inputs, special, turn, of_nan)}
            others.append(run_reference(task, with_saved(task, other), torch.float64))
    if len(others) < len(SUBSTITUTES):
        return None
    return {name: _changes([other[name].double() for other in others]) for name in others[0]}


def _substituted(
    inputs: Mapping[str, Argument], special: SpecialValues, turn: int, of_nan: bool
) -> dict[str, Argument]:
    """The tensors in which values were planted, with numbers in place of those that are not finite, or NaN: others in
    each turn, and not in proportion, so that a quotient of two changes, too."""
    found: dict[str, Argument] = {}
    for place, name in enumerate((special.tensor, *special.also)):
        value = inputs[name]
        assert isinstance(value, torch.Tensor)
        wide = arithmetic(value)
        planted = torch.isnan(wide) if of_nan else ~torch.isfinite(wide)
        steps = torch.arange(value.numel(), device=value.device).view(value.shape) + turn * (2 * place + 1)
        others = (steps % UNLIKE / UNLIKE + 1) * min(SUBSTITUTES[turn], torch.finfo(value.dtype).max / 2)
        found[name] = torch.where(planted, others.to(wide.dtype), wide).to(value.dtype)
    return found


def _changes(values: list[torch.Tensor]) -> torch.Tensor:
    """Where the values differ by more than the order of sums in float64 explains."""
    first = values[0]
    size = first.abs().nan_to_num(0.0, 0.0, 0.0)
    reach = 1e-9 * size + 1e-12 * size.amax() if size.numel() else size
    same = [((first - other).abs() <= reach) | (first == other) for other in values[1:]]
    return ~torch.stack(same).all(0)


def expected_pattern(
    task: Task, inputs: Mapping[str, Argument], workload: Workload, special: SpecialValues, calls: Calls
) -> dict[str, Expectation]:
    """Expectations by result; of a reference that refuses the values nothing is expected."""
    try:
        if special.kind is ValueKind.products:  # the sharp tolerance of probe rows is what shows short factors
            seen = study_trial(task, inputs, workload)
        else:
            seen = study(partial(run_reference, task), inputs, compute_dtype(task, workload))
        patterns = {name: pattern(seen.exact[name], eager, task, special, calls) for name, eager in seen.eager.items()}
        unsure = _unsure(seen)
        eager = {name: value.contiguous() for name, value in seen.eager.items()}
        held = held_against(task, inputs, seen)
    except TaskError:
        return _nothing(task, inputs, workload)
    flushed = special.placement is Placement.subnormal
    expected: dict[str, Expectation] = {}
    for name, expectation in held.items():
        if isinstance(expectation, BitExact) and (eager[name].is_floating_point() or bool(patterns[name].free.any())):
            expectation = _by_value(expectation.value, flushed)
        if isinstance(expectation, Within):
            expectation = _adjusted(expectation, patterns[name], unsure.get(name), eager[name], calls.moves)
        expected[name] = expectation
    for name, free in not_demanded(task, inputs, special, eager).items():
        expectation = expected[name]
        if isinstance(expectation, Within) and bool(free.any()):
            expected[name] = _freed(expectation, free)
    return expected


def _freed(expected: Within, free: torch.Tensor) -> Within:
    least, most = _ends(expected.low.dtype)
    nan = free if expected.nan is None else expected.nan | free
    return Within(expected.low.masked_fill(free, least), expected.high.masked_fill(free, most), nan, expected.odd)


def _unsure(seen: ErrorStudy) -> dict[str, torch.Tensor]:
    """Where probes met NaN or infinities: they do not say how far an element may move, which is not "nowhere"."""
    unsure = {name: ~torch.isfinite(spread) for name, spread in seen.spread.items()}
    for name, jumps in seen.jumps.items():
        unsure[name] |= ~torch.isfinite(jumps)
    return unsure


def _by_value(value: torch.Tensor, flushed: bool) -> Within:
    """By value and not by bits, since either zero is right; and a subnormal number may be flushed to zero."""
    if not value.is_floating_point():
        return Within(value, value)
    value = arithmetic(value)
    zero = torch.zeros_like(value)
    low, high = (torch.minimum(value, zero), torch.maximum(value, zero)) if flushed else (value, value)
    nan = torch.isnan(value)
    return Within(low.masked_fill(nan, torch.inf), high.masked_fill(nan, -torch.inf), nan)


def _adjusted(
    expected: Within, found: Pattern, unsure: torch.Tensor | None, eager: torch.Tensor, moves: bool
) -> Within:
    least, most = _ends(eager.dtype)
    low, high, nan, odd = expected.low.clone(), expected.high.clone(), expected.nan, None
    if eager.is_floating_point():
        largest = torch.finfo(eager.dtype).max
        strange = torch.isnan(low) | torch.isnan(high) | (torch.isinf(low) & torch.isinf(high) & (low < high))
        strange |= unsure if unsure is not None else torch.zeros_like(strange)
        strange &= torch.isfinite(arithmetic(eager))
        low.masked_fill_(strange, -largest)
        high.masked_fill_(strange, largest)
    if not moves and bool(found.odd.any()):
        odd, nan = found.odd, None
        low.masked_fill_(odd, most)
        high.masked_fill_(odd, least)
    if bool(found.either.any()):
        odd = found.either if odd is None else odd | found.either
    if nan is None and eager.dtype == torch.bool:  # bounds of booleans are compared, not clamped to
        nan = torch.zeros_like(found.free)
    return _freed(Within(low, high, nan, odd), found.free) if bool(found.free.any()) else Within(low, high, nan, odd)


def _ends(dtype: torch.dtype) -> tuple[float, float]:
    if dtype == torch.bool:
        return False, True
    if dtype.is_floating_point:
        return -torch.inf, torch.inf
    info = torch.iinfo(dtype)
    return info.min, info.max


def _nothing(task: Task, inputs: Mapping[str, Argument], workload: Workload) -> dict[str, Expectation]:
    device = next((value.device for value in inputs.values() if isinstance(value, torch.Tensor)), torch.device("cpu"))
    expected: dict[str, Expectation] = {}
    for spec in signature(task, workload).tensors:
        if spec.name in task.result_names:
            dtype = arithmetic_dtype(torch_dtype(spec.dtype))
            least, most = _ends(dtype)
            low, high = (torch.full(spec.shape, end, dtype=dtype, device=device) for end in (least, most))
            expected[spec.name] = Within(low, high, torch.ones_like(low, dtype=torch.bool))
    return expected
