"""The settings that a problem comes with: which of them is traced, and which others the same graph covers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from kernelwright.tasks.dims import TaskError, evaluate
from kernelwright.tasks.imported.confined.case import Bench, Leaf, ReferenceCase, Setting
from kernelwright.tasks.imported.confined.tape import Tape, Untraceable, is_random

Data = dict[str, Any]
OPEN = 1 << 62  # the end of a slice that torch writes for none
Declared = Sequence[tuple[Leaf, Sequence[int | str]]]  # inputs of the traced case, with the sizes they have in the task


@dataclass(frozen=True)
class ChosenSetting:
    """The case that is traced, with its number from 1; of each of its tensors, the axes that may vary; the other
    cases by number; and the numbers of settings that fail."""

    case: ReferenceCase
    number: int
    varying: tuple[frozenset[int], ...]
    others: tuple[tuple[int, ReferenceCase], ...]
    failed: tuple[int, ...]
    stretched: Callable[[], ReferenceCase] | None = None


def choose(settings: Sequence[Setting], bench: Bench, wanted: int | None) -> ChosenSetting:
    """The setting that is asked for, or the one that tells most: torch takes a size of 1 for fixed, and a parameter
    that is drawn says more than one that is filled with ones."""
    cases: dict[int, ReferenceCase] = {}
    first: Exception | None = None
    failed = []
    if wanted is not None and not 1 <= wanted <= len(settings):
        raise Untraceable(f"it has {len(settings)} settings: there is no setting {wanted}")
    for number, setting in enumerate(settings, start=1):
        try:
            with bench.making():
                cases[number] = setting.make()
        except Exception as error:  # whatever one setting does, another may be as its author meant it
            first = first or error
            failed.append(number)
            if number == wanted:
                raise
    if first is not None and not cases:
        raise first
    number = wanted or max(cases, key=lambda number: (_tells(cases[number], bench.tape), -number))
    others = tuple((other, case) for other, case in cases.items() if other != number)
    alike = varying_axes(cases[number], list(cases.values()))
    return ChosenSetting(cases[number], number, alike, others, tuple(failed), settings[number - 1].stretched)


def stretch(chosen: ChosenSetting, bench: Bench) -> ChosenSetting | None:
    """The same with no size of 1, in which the chosen setting is one of those that the graph may cover."""
    if chosen.stretched is None:
        return None
    with bench.making():
        case = chosen.stretched()
    everyone = ((chosen.number, chosen.case), *chosen.others)
    return replace(chosen, case=case, number=0, others=everyone, stretched=None)


def _tells(case: ReferenceCase, tape: Tape) -> tuple[int, int]:
    sizes = sum(int(size) > 1 for leaf in case.tensors for size in leaf.value.shape)
    drawn = sum(any(is_random(step) for step in tape.steps_of(leaf.value)) for leaf in case.tensors)
    return sizes, drawn


def varying_axes(case: ReferenceCase, cases: Sequence[ReferenceCase]) -> tuple[frozenset[int], ...]:
    """Of an input every axis that its form does not fix; of a parameter those that differ between the settings."""
    found = []
    alike = [other.tensors for other in cases if len(other.tensors) == len(case.tensors)]
    for place, leaf in enumerate(case.tensors):
        shapes = {tuple(map(int, other[place].value.shape)) for other in alike}
        found.append(frozenset(axis for axis in range(leaf.value.dim()) if _may_vary(leaf, axis, shapes)))
    return tuple(found)


def _may_vary(leaf: Leaf, axis: int, shapes: set[tuple[int, ...]]) -> bool:
    if leaf.axes is not None:
        return not isinstance(leaf.axes[axis], int)
    if leaf.part == "input":
        return True
    return len({shape[axis] for shape in shapes if len(shape) == leaf.value.dim()}) > 1


def further_settings(
    chosen: ChosenSetting, found: Mapping[str, Any], declared: Declared, computed: Callable[[ReferenceCase], Any]
) -> tuple[list[Data], list[int]]:
    """Sizes of each setting that the graph covers, the chosen one among them, and the numbers of those apart."""
    own = {size["name"]: size["value"] for size in found["sizes"]}
    covered: list[Data] = [{"number": chosen.number, "sizes": own}] if chosen.number else []
    apart: list[int] = []
    ours = compared(found)
    for number, case in chosen.others:
        sizes = _solved(chosen.case, case, found, declared)
        if sizes is not None and not case.same_function:
            sizes = sizes if _same(case, ours, computed) else None
        elif sizes is not None and 1 in sizes.values():
            sizes = sizes if _same_steps(case, found, computed) else None
        if sizes is None:
            apart.append(number)
        else:
            covered.append({"number": number, "sizes": sizes})
    return sorted(covered, key=lambda one: int(one["number"])), apart


def _same(case: ReferenceCase, ours: Any, computed: Callable[[ReferenceCase], Any]) -> bool:
    try:
        return bool(computed(case) == ours)
    except (TaskError, Untraceable):
        return False


def compared(found: Mapping[str, Any]) -> Any:
    """What two settings must have in common for one graph to cover both."""
    return found["nodes"], found["results"], [(one["name"], one["dims"]) for one in found["arguments"]]


def _same_steps(case: ReferenceCase, found: Mapping[str, Any], computed: Callable[[ReferenceCase], Any]) -> bool:
    """Of a size of 1 torch does not say whether the code treats it like any other: what it does there is compared."""
    try:
        return _steps(computed(case)[0]) == _steps(found["nodes"])
    except (TaskError, Untraceable):
        return False


def _steps(nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    ops = [str(node.get("op", node["kind"])) for node in nodes if not _takes_all(node)]
    return [op for op in ops if not op.startswith(("sym.", "aten.sym_"))]


def _takes_all(node: Mapping[str, Any]) -> bool:
    """A slice of a whole axis, `x[:, 1]`, which torch leaves out where it knows the size."""
    if node.get("op") != "aten.slice.Tensor":
        return False
    start, end = [*node["args"][2:], None, None][:2]
    return start in (0, None) and (end is None or (isinstance(end, int) and end >= OPEN))


def _solved(
    chosen: ReferenceCase, case: ReferenceCase, found: Mapping[str, Any], declared: Declared
) -> dict[str, int] | None:
    """The sizes at which the graph's arguments have this case's shapes; None where there are none."""
    ours, theirs = chosen.leaves, case.leaves
    if len(ours) != len(theirs) or any(not _alike(*pair) for pair in zip(ours, theirs, strict=True)):
        return None
    places = {id(leaf): place for place, leaf in enumerate(ours)}
    known_leaves = [(places[id(leaf)], dims) for leaf, dims in declared if id(leaf) in places]
    shapes = [(dims, tuple(map(int, theirs[place].value.shape))) for place, dims in known_leaves]
    names = {size["name"] for size in found["sizes"]}
    known: dict[str, int] = {}
    for dims, shape in shapes:
        known |= {str(dim): size for dim, size in zip(dims, shape, strict=True) if dim in names and dim not in known}
    if set(known) != names:
        return None
    if any(evaluate(dim, known) != size for dims, shape in shapes for dim, size in zip(dims, shape, strict=True)):
        return None
    bounds = {size["name"]: (size["least"], size["most"]) for size in found["sizes"]}
    inside = all(_is_within(size, *bounds[name]) for name, size in known.items())
    return {name: known[name] for name in bounds} if inside else None


def _is_within(size: int, least: int, most: int | None) -> bool:
    """1 is looked at again: torch says 2 for the least of every size that it lets vary."""
    return (least <= size or (size == 1 and least == 2)) and (most is None or size <= most)


def _alike(one: Leaf, other: Leaf) -> bool:
    if isinstance(one.value, torch.Tensor) != isinstance(other.value, torch.Tensor):
        return False
    if isinstance(one.value, torch.Tensor):
        return bool(one.value.dtype == other.value.dtype and one.value.dim() == other.value.dim())
    return type(one.value) is type(other.value) and bool(one.value == other.value)
