"""Which special values are tried on a reference: for each input what its draw allows, and some in several inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from kernelwright.judge.oracle.special_values.planting import Placement, SpecialValues
from kernelwright.judge.oracle.special_values.reference_calls import Calls
from kernelwright.tasks.declarations import (
    CustomDraw,
    FamilyDraw,
    Input,
    IntegerDraw,
    NormalDraw,
    TensorInput,
    UniformDraw,
    Upstream,
    ValueKind,
)
from kernelwright.tasks.formats import arithmetic
from kernelwright.tasks.model import Task, Workload, evaluate

MOST_THRESHOLDS = 3  # numbers of the reference that are planted in an input


@dataclass(frozen=True)
class ValueProposal:
    """Values to try. Outside of what the task declares, they are kept only if the reference stays finite."""

    special: SpecialValues
    declared: bool = True


def draw_of(declared: Input) -> object:
    return declared.draw if isinstance(declared, TensorInput | Upstream) else None


def proposals(
    name: str, declared: Input, value: torch.Tensor, numbers: list[int], workload: Workload, calls: Calls
) -> Iterator[ValueProposal]:
    draw = draw_of(declared)
    if not value.is_floating_point():
        if value.dtype == torch.bool:
            yield from _masks(name, declared=isinstance(draw, IntegerDraw))
        elif isinstance(draw, IntegerDraw):
            yield from _whole_numbers(name, numbers)
        return
    match draw:
        case FamilyDraw() | NormalDraw():
            yield from _any_float(name, isinstance(draw, FamilyDraw), several=value.dim() > 1)
            yield from _thresholds(name, calls)
        case UniformDraw(low, high):
            yield from _bounded(name, low, high)
            yield from _rearranged(name, several=value.dim() > 1)
        case IntegerDraw(low, high):
            yield from _bounded(name, evaluate(low, workload.size_map), evaluate(high, workload.size_map) - 1)
        case CustomDraw() if bool(torch.isfinite(arithmetic(value)).all()):
            yield from _bounded(name, float(arithmetic(value).min()), float(arithmetic(value).max()), exact=False)


def _any_float(name: str, signed: bool, several: bool) -> Iterator[ValueProposal]:
    def at(what: str, kind: ValueKind, placement: Placement, value: float = 0.0) -> ValueProposal:
        return ValueProposal(SpecialValues(what, kind, name, placement, value))

    yield at(f"nan in {name}", ValueKind.nan, Placement.few, math.nan)
    yield at(f"inf in {name}", ValueKind.infinities, Placement.few, math.inf)
    yield at(f"-inf in {name}", ValueKind.infinities, Placement.few, -math.inf)
    yield at(f"-inf in whole rows of {name}", ValueKind.infinities, Placement.rows, -math.inf)
    yield at(f"nan and infinities together in {name}", ValueKind.nan, Placement.mixed)
    yield at(f"rows of other forms in {name}", ValueKind.constant_rows, Placement.forms)
    yield at(f"{name} 0 everywhere", ValueKind.zeros, Placement.everywhere, 0.0)
    yield at(f"{name} -0 everywhere", ValueKind.zeros, Placement.everywhere, -0.0)
    yield at(f"zeros of either sign in {name}", ValueKind.zeros, Placement.zeros)
    if not signed:
        yield at(f"{name} of random signs", ValueKind.signs, Placement.signs)
    yield at(f"{name} -1 everywhere", ValueKind.signs, Placement.everywhere, -1.0)
    yield at(f"{name} 1 everywhere", ValueKind.signs, Placement.everywhere, 1.0)
    yield at(f"{name} subnormal", ValueKind.subnormals, Placement.subnormal)
    yield from _rearranged(name, several)


def _thresholds(name: str, calls: Calls) -> Iterator[ValueProposal]:
    """Numbers that the reference compares with, each in some places: what is equal to it falls on one side."""
    for number in sorted(calls.thresholds)[:MOST_THRESHOLDS]:
        what = f"{name} {number:.6g} in some places"
        special = SpecialValues(what, ValueKind.ties, name, Placement.share, number)
        yield ValueProposal(special, declared=False)


def _rearranged(name: str, several: bool) -> Iterator[ValueProposal]:
    """Values that were drawn, at other places."""
    for words, kind, placement in (
        ("constant rows in", ValueKind.constant_rows, Placement.constant_rows),
        ("ties in", ValueKind.ties, Placement.ties),
        ("equal rows in", ValueKind.ties, Placement.equal_rows),
    ):
        if placement is Placement.equal_rows and not several:
            continue
        yield ValueProposal(SpecialValues(f"{words} {name}", kind, name, placement))


def _bounded(name: str, low: float, high: float, exact: bool = True) -> Iterator[ValueProposal]:
    """The ends of a declared range, and zero: outside of the range, or where a custom draw says nothing about it, only
    if the reference stays finite."""
    for end in (low, high):
        special = SpecialValues(f"{name} {end:.4g} everywhere", ValueKind.magnitudes, name, Placement.everywhere, end)
        yield ValueProposal(special, declared=exact)
    zero = SpecialValues(f"{name} 0 everywhere", ValueKind.zeros, name, Placement.everywhere, 0.0)
    if low < 0 < high or not exact:
        yield ValueProposal(zero, declared=exact)


def _masks(name: str, declared: bool) -> Iterator[ValueProposal]:
    """A custom draw may never give a mask of one value: then the reference must stay finite."""
    for value, word in ((1.0, "true"), (0.0, "false")):
        for placement, where in ((Placement.everywhere, "everywhere"), (Placement.rows, "in whole rows")):
            special = SpecialValues(f"{name} {word} {where}", ValueKind.masks, name, placement, value)
            yield ValueProposal(special, declared)
    what = f"{name} of one kind but for one place, or up to one place"
    yield ValueProposal(SpecialValues(what, ValueKind.masks, name, Placement.mask_forms), declared)


def _whole_numbers(name: str, numbers: list[int]) -> Iterator[ValueProposal]:
    def at(what: str, placement: Placement, value: float = 0.0) -> ValueProposal:
        return ValueProposal(SpecialValues(what, ValueKind.integers, name, placement, value))

    for number in numbers:
        yield at(f"{name} {number} in some places", Placement.share, number)
        yield at(f"{name} {number} everywhere", Placement.everywhere, number)
        yield at(f"{name} {number} but in one place", Placement.but_one, number)
    yield at(f"{name} at its least everywhere", Placement.least)
    yield at(f"{name} at its most everywhere", Placement.most)
    yield at(f"{name} repeated", Placement.repeated)
    yield at(f"{name} in order or equal but in one place", Placement.number_forms)


def together(task: Task, inputs: Mapping[str, object]) -> Iterator[ValueProposal]:
    """What is planted in several inputs at once."""
    free = {
        name: declared
        for name, declared in task.inputs.items()
        if name not in task.constant and isinstance(draw_of(declared), FamilyDraw | NormalDraw)
    }
    floating = [name for name in free if _is_floating(inputs[name])]
    yield from _ends_together(task, inputs)
    if len(floating) > 1:
        first, *rest = floating
        what = f"zeros and infinities here and there in {', '.join(floating)}"
        yield ValueProposal(
            SpecialValues(what, ValueKind.infinities, first, Placement.crossed, also=tuple(rest)),
        )
    alike: dict[object, list[str]] = {}
    for name in floating:
        declared = free[name]
        if isinstance(declared, TensorInput):
            alike.setdefault((declared.dims, declared.dtype), []).append(name)
    for first, *rest in alike.values():
        if rest:
            what = f"{', '.join((first, *rest))} equal to each other"
            yield ValueProposal(SpecialValues(what, ValueKind.ties, first, Placement.same, also=tuple(rest)))


def _ends_together(task: Task, inputs: Mapping[str, object]) -> Iterator[ValueProposal]:
    """Only where the factors of a product are at their ends in the same place does a sum of them become as large as
    it can."""
    whole = [
        name
        for name, declared in task.inputs.items()
        if name not in task.constant and isinstance(draw_of(declared), IntegerDraw) and _is_whole(inputs[name])
    ]
    if whole:
        first, *rest = whole
        what = f"{', '.join(whole)} at either end"
        yield ValueProposal(
            SpecialValues(what, ValueKind.integers, first, Placement.ends, also=tuple(rest), heavy=True),
        )


def _is_whole(value: object) -> bool:
    return isinstance(value, torch.Tensor) and not value.is_floating_point() and value.dtype != torch.bool


def _is_floating(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()
