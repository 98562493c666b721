"""Finds out from a reference which special values a kernel must get right; an author of a task writes nothing.

Values are tried one after the other at a small size, in float64 and in the task's dtype, and kept where the reference
takes them and both agree on the pattern of the results. Always on the CPU: a GPU answers a number that is out of range
with an assertion that ends the process. `planting` plants what was found, `patterns` says what is then expected.
"""

from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import torch

from kernelwright.judge.oracle.flags import strict_flags
from kernelwright.judge.oracle.right.constants import CONSTANTS
from kernelwright.judge.oracle.right.formats import WithoutNarrowing
from kernelwright.judge.oracle.right.fused import TakenApart
from kernelwright.judge.oracle.right.tolerance import UNIT, Expectation
from kernelwright.judge.oracle.special_values.patterns import expected_pattern, not_demanded, pattern
from kernelwright.judge.oracle.special_values.planting import Placement, Scale, SpecialValues, planted
from kernelwright.judge.oracle.special_values.proposals import draw_of, proposals, together
from kernelwright.judge.oracle.special_values.reference_calls import UNKNOWN, Calls, calls_of
from kernelwright.judge.oracle.special_values.uses import with_each_use_rounded
from kernelwright.tasks.declarations import (
    FamilyDraw,
    Input,
    IntegerDraw,
    NormalDraw,
    ValueKind,
)
from kernelwright.tasks.drawing import draw_inputs, task_products, with_saved
from kernelwright.tasks.formats import arithmetic
from kernelwright.tasks.hidden import work
from kernelwright.tasks.model import Task, TaskError, Workload, evaluate
from kernelwright.tasks.reference import Argument, run_reference

SIDES = (6, 8, 16, 32, 64)  # sizes that are tried, all alike, until the reference accepts them
MOST_ELEMENTS = 1 << 22
TRIES = 4  # places at which a value that stands in a few elements is tried: at two, a masked place was all there is
UNCHECKED = 0.75  # the largest share of the results that may be left unchecked
SIXTEENTH = 16  # of the exponents of a format: how far below the largest scale values stay (2^-8 in float32)
ROUNDINGS = 5  # exponents below the scale at which one rounding of a computed value is too much: kernels have several
NEAR = 1e-3  # of the largest result: how well eager must agree with float64 at a scale
UNDERFLOW = 2.0**24  # times the smallest normal number: results below are not demanded
OCTAVES = (25.0, 20.0, 15.0)  # scales of factors: what a format of 16 bits cannot hold, also where it is scaled
SHORT = 2.0**20  # a format of few exponents ends before
BEYOND = 4  # exponents past the largest number of such a format
TIED = (
    *(Placement.everywhere, Placement.zeros, Placement.constant_rows, Placement.equal_rows, Placement.ties),
    *(Placement.forms, Placement.share, Placement.mixed, Placement.same),
)
ORDERS, APART = 3, 1e-9  # ways in which equal values are told apart, and by how much of themselves


@dataclass(frozen=True)
class Found:
    """What was found out about a task."""

    specials: tuple[SpecialValues, ...]
    calls: Calls


_FOUND: dict[int, tuple[weakref.ref[Task], Found]] = {}


def special_values(task: Task) -> tuple[SpecialValues, ...]:
    """Special values of the kinds that the task does not opt out of; every kind comes early in the order."""
    return tuple(special for special in _found(task).specials if special.kind not in task.unchecked)


def special_expectations(
    task: Task, inputs: Mapping[str, Argument], workload: Workload, special: SpecialValues
) -> dict[str, Expectation]:
    """What each result, by name, is held against where special values were planted."""
    return expected_pattern(task, inputs, workload, special, _found(task).calls)


def _found(task: Task) -> Found:
    """Found once for each task; tasks cannot be hashed, so that they are told apart by their place in memory."""
    kept = _FOUND.get(id(task))
    if kept is None or kept[0]() is not task:
        kept = weakref.ref(task), find(task)
        _FOUND[id(task)] = kept
    return kept[1]


@strict_flags()
def find(task: Task) -> Found:
    """Tries everything, in every dtype of the task."""
    kept: dict[str, SpecialValues] = {}
    calls = UNKNOWN
    for dtype in task.dtypes:
        trial = _accepted(task, dtype)
        if trial is None:
            continue
        calls = trial.calls
        for special in trial.kept():
            known = kept.get(special.name, special)
            scales = known.scales if known is special else (*known.scales, *special.scales)
            kept[special.name] = replace(known, dtypes=(*known.dtypes, dtype), scales=scales)
    return Found(_interleaved(tuple(kept.values())), calls)


def _interleaved(specials: tuple[SpecialValues, ...]) -> tuple[SpecialValues, ...]:
    """The first of every kind, then the second of every kind, and so on."""
    kinds = [[special for special in specials if special.kind is kind] for kind in ValueKind]
    turns = itertools.zip_longest(*kinds)
    return tuple(special for turn in turns for special in turn if special is not None)


def _accepted(task: Task, dtype: str) -> Tryout | None:
    """A trial at the first small size that the reference accepts."""
    for sizes in _small_sizes(task):
        workload = Workload(tuple(sizes.items()), dtype)
        try:
            if work(replace(task, work=None), sizes) > MOST_ELEMENTS:
                continue
            inputs = draw_inputs(task, workload, task.families[0], torch.Generator().manual_seed(1))
            run_reference(task, inputs, torch.float64)
            return Tryout(task, workload, inputs, calls_of(task, inputs))
        except TaskError:
            continue
    return None


def _small_sizes(task: Task) -> Iterator[dict[str, int]]:
    """Also outside of the declared ranges, and of fixed sizes: what counts is that the reference accepts them."""
    for side in SIDES:
        yield dict.fromkeys(task.hidden, side)
        yield {name: low if low == high else side for name, (low, high) in task.hidden.items()}
    yield {name: low for name, (low, _) in task.hidden.items()}
    yield from (dict(sizes) for sizes in task.public)


@dataclass(frozen=True)
class Tryout:
    """A task at a small size, with ordinary inputs in which values are planted."""

    task: Task
    workload: Workload
    inputs: dict[str, Argument]
    calls: Calls

    def kept(self) -> Iterator[SpecialValues]:
        yield from self._products()
        zero: dict[str, None] = {}
        for name, declared in self.task.inputs.items():
            value = self.inputs[name]
            if name not in self.task.constant and isinstance(value, torch.Tensor):
                for proposal in proposals(name, declared, value, self._numbers(declared), self.workload, self.calls):
                    special = replace(proposal.special, dtypes=(self.workload.dtype,))
                    if self._bears(special, proposal.declared):
                        yield special
                        if special.kind is ValueKind.zeros and special.placement is Placement.everywhere:
                            zero.setdefault(name)
                if value.is_floating_point() and isinstance(draw_of(declared), FamilyDraw | NormalDraw):
                    yield from self._scales(name, value)
                    yield from self._ladders(name, value)
        yield from self._zero_together(tuple(zero))
        for proposal in together(self.task, self.inputs):
            special = replace(proposal.special, dtypes=(self.workload.dtype,))
            if self._bears(special, proposal.declared):
                yield special

    def _zero_together(self, names: tuple[str, ...]) -> Iterator[SpecialValues]:
        """Zeros in all inputs that may be zero: where a division is guarded by another input, each alone says
        nothing, as a gradient of zero beside a moment that is not."""
        if len(names) > 1:
            what = f"{', '.join(names)} 0 everywhere"
            dtypes = (self.workload.dtype,)
            special = SpecialValues(what, ValueKind.zeros, names[0], Placement.everywhere, 0.0, dtypes, also=names[1:])
            if self._bears(special, declared=False):
                yield special

    def _products(self) -> Iterator[SpecialValues]:
        """Factors of many sizes, where products have inputs alone as factors: the only values that show factors in
        scaled 16-bit formats."""
        found = task_products(self.task, self.workload)
        names = [operand.name for operand in found.operands]
        if not names or found.mixes or set(names) & set(self.task.constant):
            return
        for octaves in OCTAVES:
            what = f"products of factors between 2^-{octaves:.0f} and 2^{octaves:.0f}"
            dtypes = (self.workload.dtype,)
            special = SpecialValues(what, ValueKind.products, names[0], Placement.wide, octaves, dtypes)
            if self._bears(special, declared=False):
                yield special

    def _numbers(self, declared: Input) -> list[int]:
        """Whole numbers of the reference's own that are not a size, and inside or outside the range at every size."""
        draw = draw_of(declared)
        if not isinstance(draw, IntegerDraw):
            return []
        least = {name: low for name, (low, _) in self.task.hidden.items()}
        ranges = [(evaluate(draw.low, sizes), evaluate(draw.high, sizes)) for sizes in (self.workload.size_map, least)]
        tensors = (value for value in self.inputs.values() if isinstance(value, torch.Tensor))
        sizes = {*self.workload.size_map.values(), *(size for value in tensors for size in value.shape)}
        return sorted(n for n in self.calls.numbers - sizes if len({low <= n < high for low, high in ranges}) == 1)

    def _bears(self, special: SpecialValues, declared: bool) -> bool:
        """Whether the reference takes the values, and says something that can be demanded of a kernel."""
        local = special.placement in (Placement.few, Placement.rows, Placement.share, Placement.mixed)
        try:
            tied = special.placement in TIED and special.kind is not ValueKind.integers
            if self.calls.sorts and tied and not self._in_any_order(special):
                return False
            effects = [self._effect(special, seed) for seed in range(TRIES if local else 1)]
            if special.kind is ValueKind.subnormals and not self._may_be_flushed(special):
                return False
        except TaskError:
            return False
        if special.kind is ValueKind.nan and not any(effect.odd for effect in effects):
            return False
        finite = all(not effect.odd for effect in effects)
        return (finite or declared) and all(effect.unchecked <= UNCHECKED for effect in effects)

    def _effect(self, special: SpecialValues, seed: int) -> Effect:
        inputs = self._with(special, seed)
        wide, eager = run_reference(self.task, inputs, torch.float64), run_reference(self.task, inputs)
        if special.kind in (ValueKind.nan, ValueKind.infinities):
            calls = calls_of(self.task, inputs)
            if calls.counts or calls.infinite_operand:
                return Effect(True, 1.0)
        free = {name: pattern(wide[name], eager[name], self.task, special, self.calls).free for name in eager}
        for name, undecided in not_demanded(self.task, inputs, special, wide).items():
            if bool((undecided & torch.isfinite(wide[name])).any()):  # NaN decides a comparison, and all that follows
                return Effect(True, 1.0)
            free[name] |= undecided
        total = sum(each.numel() for each in free.values())
        return Effect(
            odd=any(not bool(torch.isfinite(arithmetic(value)).all()) for value in (*wide.values(), *eager.values())),
            unchecked=sum(int(each.sum()) for each in free.values()) / max(1, total),
        )

    def _with(self, special: SpecialValues, seed: int) -> dict[str, Argument]:
        generator = torch.Generator().manual_seed(seed)
        return with_saved(self.task, planted(self.task, self.workload, special, self.inputs, generator))

    def _in_any_order(self, special: SpecialValues) -> bool:
        """Whether a reference that sorts says the same in whatever order equal values come: they are told apart by what
        float64 alone sees, in several ways."""
        inputs = self._with(special, 0)
        exact = run_reference(self.task, inputs, torch.float64)
        for seed in range(ORDERS):
            generator = torch.Generator().manual_seed(seed)
            other = dict(inputs)
            for name in (special.tensor, *special.also):
                value = inputs[name]
                assert isinstance(value, torch.Tensor)
                noise = APART * (torch.rand(value.shape, generator=generator, dtype=torch.float64) - 0.5)
                wide = value.double()
                other[name] = torch.where(torch.isfinite(wide), wide + noise * wide.abs().clamp(min=APART), wide)
            moved = run_reference(self.task, with_saved(self.task, other), torch.float64)
            if not all(_alike(exact[name], moved[name], NEAR * NEAR, NEAR * NEAR) for name in exact):
                return False
        return True

    def _may_be_flushed(self, special: SpecialValues) -> bool:
        """Whether zeros in place of subnormal numbers, as fast arithmetic has them, give the same."""
        inputs = self._with(special, 0)
        exact = run_reference(self.task, inputs, torch.float64)
        value = inputs[special.tensor]
        assert isinstance(value, torch.Tensor)
        zero = with_saved(self.task, inputs | {special.tensor: torch.zeros_like(value)})
        flushed = run_reference(self.task, zero, torch.float64)
        form = torch.float64 if value.dtype == torch.float64 else torch.float32
        normal = CONSTANTS.flushed * torch.finfo(form).tiny  # what kernels compute in has normal numbers there
        if torch.finfo(value.dtype).tiny > normal:
            return True
        reach = normal / 2
        return all(_alike(exact[name], flushed[name], UNIT[form], reach) for name in exact)

    def _scales(self, name: str, value: torch.Tensor) -> Iterator[SpecialValues]:
        exponents = round(math.log2(torch.finfo(value.dtype).max))
        step = exponents // SIXTEENTH
        largest = step * _last(SIXTEENTH, lambda steps: self._near(self._scaled(name, steps * step)))
        used = largest - step
        if largest < exponents * 3 // 4:  # something is squared; in another kernel's formula it may be cubed
            used = min(used, largest // 2)
        used = self._borne_by_roundings(name, used)
        if used >= 2:
            yield self._scaled(name, used)
        if self._near(self._scaled(name, -exponents // 4)):
            yield self._scaled(name, -exponents // 4)

    def _borne_by_roundings(self, name: str, exponent: int) -> int:
        """The largest scale up to this one at which kernels may round a value differently for each of its uses."""

        def borne(scale: int) -> bool:
            try:
                inputs = self._with(self._scaled(name, scale), 0)
                wide = run_reference(self.task, inputs, torch.float64)
                rounded = with_each_use_rounded(self.task, inputs)
            except TaskError:  # not evaluated so: nothing is known against the scale
                return True
            return self._agree(wide, rounded)

        return exponent if borne(exponent) else _last(exponent, borne) - ROUNDINGS

    def _ladders(self, name: str, value: torch.Tensor) -> Iterator[SpecialValues]:
        """Where the input or a result is in a format of few exponents: powers of two past the largest number of it, so
        that every exponent is met and what is too large is rounded as torch rounds it. Not where float32, in which a
        kernel computes, would be too narrow."""
        formats = {value.dtype, *(one.dtype for one in run_reference(self.task, self.inputs).values())}
        largest = [torch.finfo(one).max for one in formats if one.is_floating_point]
        short = [one for one in largest if one < SHORT]
        if not short:
            return
        exponent = round(math.log2(max(short))) + BEYOND
        what = f"{name} at every power of two of a narrow format"
        dtypes = (self.workload.dtype,)
        special = SpecialValues(what, ValueKind.magnitudes, name, Placement.ladder, float(exponent), dtypes)
        if self._near_in_float32(special) and self._bears(special, declared=True):
            yield special

    def _near_in_float32(self, special: SpecialValues) -> bool:
        """Whether the reference in float32, without roundings to narrow formats, is near float64, also in steps."""
        try:
            inputs = self._with(special, 0)
            with WithoutNarrowing():  # type: ignore[no-untyped-call]
                wide, eager = (run_reference(self.task, inputs, form) for form in (torch.float64, torch.float32))
                with TakenApart():
                    steps = run_reference(self.task, inputs, torch.float32)
        except TaskError:
            return False
        return all(self._agree(wide, one) for one in (eager, steps))

    def _scaled(self, name: str, exponent: int) -> SpecialValues:
        value = self.inputs[name]
        assert isinstance(value, torch.Tensor)
        dtype, words = self.workload.dtype, "large" if exponent > 0 else "small"
        scales = (Scale(dtype, exponent, value.numel()),)
        what = f"{name} times a {words} power of two"
        return SpecialValues(what, ValueKind.magnitudes, name, Placement.scaled, 0.0, (dtype,), scales)

    def _near(self, special: SpecialValues) -> bool:
        """Whether eager is finite, near float64 and not about to underflow; also where its fused operations are taken
        apart, as a kernel does (on a CPU a standard deviation adds squares in float64, where float32 overflows)."""
        try:
            inputs = self._with(special, 0)
            wide, eager = run_reference(self.task, inputs, torch.float64), run_reference(self.task, inputs)
            with TakenApart():
                steps = run_reference(self.task, inputs)
            if calls_of(self.task, inputs).counts:
                return False
        except TaskError:
            return False
        return self._agree(wide, eager) and self._agree(wide, steps)

    @staticmethod
    def _agree(wide: dict[str, torch.Tensor], eager: dict[str, torch.Tensor]) -> bool:
        for name, value in wide.items():
            if not value.is_floating_point() or not value.numel():
                continue
            form = eager[name].dtype
            size = value.abs().max()
            error = (eager[name].double() - value).abs().max()
            near = NEAR if UNIT[form] < NEAR else max(CONSTANTS.coarsest, UNIT[form])
            if not bool(torch.isfinite(size)) or not bool(error <= near * size):
                return False
            if 0 < float(size) < UNDERFLOW * torch.finfo(torch.float32 if form != torch.float64 else form).tiny:
                return False
        return True


@dataclass(frozen=True)
class Effect:
    """Whether a result is not finite, and which share of the results is left unchecked."""

    odd: bool
    unchecked: float


def _alike(one: torch.Tensor, other: torch.Tensor, unit: float, reach: float) -> bool:
    if not one.is_floating_point():
        return torch.equal(one, other)
    same = (one == other) | (torch.isnan(one) & torch.isnan(other))
    return bool((same | ((one - other).abs() <= reach + unit * one.abs())).all())


def _last(end: int, right: Callable[[int], bool]) -> int:
    """The largest number below `end` for which something is right that is right for all smaller ones; 0 if none."""
    low, high = 0, end
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if right(middle) else (low, middle)
    return low
