"""Plants special values in drawn inputs, at any size and on any device.

Each placement is a function of one drawn tensor. What it plants, and where, is decided by the generator, so that a
kernel cannot know which elements to treat with care and a replay plants the same ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import torch

from kernelwright.judge.oracle.special_values.arrangements import ARRANGEMENTS, ends, ladder, one_signed, twice
from kernelwright.tasks.declarations import Family, IntegerDraw, TensorInput, ValueKind
from kernelwright.tasks.drawing import draw_inputs, task_products, with_saved
from kernelwright.tasks.formats import arithmetic
from kernelwright.tasks.model import Task, TaskError, Workload, evaluate
from kernelwright.tasks.products import wide_products
from kernelwright.tasks.reference import Argument

FEW, ONE_IN = (
    3,
    64,
)  # at most so many elements, so that a masked or losing place is not all there is; and one in so many
LAST = 8  # elements at the end of a row: what a vector loop leaves to another
ZERO_IN = 16  # of random signs, one in so many is zero
LEVELS = 4  # different values in a row with ties
SUBNORMAL = 2.0**-6  # of the smallest normal number
SHARE = 0.25  # of the elements, where a number stands among others


class Placement(StrEnum):
    """Where in a tensor a value is planted, or what is done to the values that were drawn."""

    few = "few"  # a value in a few elements
    share = "share"  # a value in a quarter of the elements
    rows = "rows"  # a value in all elements of some rows
    everywhere = "everywhere"
    signs = "signs"
    zeros = "zeros"
    subnormal = "subnormal"
    constant_rows = "constant_rows"
    equal_rows = "equal_rows"
    ties = "ties"
    scaled = "scaled"
    least = "least"  # of the declared whole numbers, everywhere
    most = "most"
    repeated = "repeated"
    forms = "forms"  # rows of one sign, in order, with one element that differs
    mixed = "mixed"  # several values that are not finite in a row, or nothing else
    crossed = "crossed"  # zeros and infinities here and there, in several inputs
    same = "same"  # several inputs are equal
    mask_forms = "mask_forms"
    number_forms = "number_forms"
    but_one = "but_one"  # a value everywhere but in one place
    ends = "ends"  # whole numbers at their least and at their most
    ladder = "ladder"  # powers of two up to what a narrow format holds, and beyond
    wide = "wide"  # in all inputs: products of one or two terms, each on a scale of its own


@dataclass(frozen=True)
class Scale:
    """The power of two by which values are multiplied in workloads of a dtype: `exponent` for as many elements as it
    was found with, and less for more of them, whose sums overflow earlier."""

    dtype: str
    exponent: int
    elements: int

    def at(self, value: torch.Tensor) -> int:
        if self.exponent <= 0 or torch.finfo(value.dtype).max < 2.0**100:  # a kernel adds float16 in float32
            return self.exponent
        growth = math.ceil(math.log2(max(1.0, value.numel() / self.elements)))
        return max(self.exponent // 2, self.exponent - growth)


@dataclass(frozen=True)
class SpecialValues:
    """One way of planting values in one input, or with `Placement.wide` in all of them; `name` is unique in a task and
    says it in words.

    It holds for the workload dtypes in `dtypes`: in others the reference does not bear it, and nothing is planted.
    """

    name: str
    kind: ValueKind
    tensor: str
    placement: Placement
    value: float = 0.0
    dtypes: tuple[str, ...] = ()
    scales: tuple[Scale, ...] = ()
    also: tuple[str, ...] = ()  # further tensors in which the same is planted
    heavy: bool = False  # shows where much is added up, so that it is planted at a point of much work as well


def draw_special(
    task: Task,
    workload: Workload,
    special: SpecialValues,
    family: Family,
    generator: torch.Generator,
    constants: Mapping[str, Argument] | None = None,
) -> dict[str, Argument]:
    """Arguments of a family with special values in one of them, and with saved tensors that follow from them.

    `constants` replace the constant inputs that would be drawn. Where what is kept of the forward cannot be computed
    with the special values, nothing is planted.
    """
    drawn = draw_inputs(task, workload, family, generator) | dict(constants or {})
    try:
        return with_saved(task, planted(task, workload, special, drawn, generator))
    except TaskError:
        return with_saved(task, drawn)


def planted(
    task: Task, workload: Workload, special: SpecialValues, inputs: dict[str, Argument], generator: torch.Generator
) -> dict[str, Argument]:
    """The same inputs with the special values; saved tensors stay as they are."""
    if workload.dtype not in special.dtypes:
        return inputs
    if special.placement is Placement.wide:
        return _wide(task, workload, special.value, inputs, generator)
    fresh = dict(inputs)
    if special.placement is Placement.same:
        same = inputs[special.tensor]
        assert isinstance(same, torch.Tensor)
        return fresh | {name: same.clone() for name in special.also}
    for name in (special.tensor, *special.also):
        value = inputs[name]
        if isinstance(value, torch.Tensor) and value.numel():
            shape = (-1, value.shape[-1]) if value.dim() else (1, 1)
            wide = arithmetic(value.clone(memory_format=torch.contiguous_format)).view(shape)
            if special.placement is Placement.ends:
                rows = ends(wide, *_whole_range(task, workload, name), generator)
            elif special.placement is Placement.ladder:
                largest = torch.finfo(value.dtype).max
                rows = ladder(wide, special.value, generator).clamp_(-largest, largest)
            else:
                rows = PLACEMENTS[special.placement](wide, _number(task, workload, special, value), generator)
            fresh[name] = rows.view(value.shape).to(value.dtype)
    return fresh


def _wide(
    task: Task, workload: Workload, octaves: float, inputs: dict[str, Argument], generator: torch.Generator
) -> dict[str, Argument]:
    """Constant inputs stay as they are."""
    copied = {name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in inputs.items()}
    wide_products(task_products(task, workload), copied, generator, octaves)
    return copied | {name: inputs[name] for name in task.constant}


def _number(task: Task, workload: Workload, special: SpecialValues, value: torch.Tensor) -> float:
    """The planted value, or the exponent of a scale."""
    if special.placement is Placement.scaled:
        return next((scale.at(value) for scale in special.scales if scale.dtype == workload.dtype), 0)
    if special.placement in (Placement.least, Placement.most):
        return _whole_range(task, workload, special.tensor)[special.placement is Placement.most]
    return special.value


def _whole_range(task: Task, workload: Workload, name: str) -> tuple[int, int]:
    """The least and the most of the whole numbers that an input declares."""
    declared = task.inputs[name]
    assert isinstance(declared, TensorInput) and isinstance(declared.draw, IntegerDraw)
    low, high = (evaluate(end, workload.size_map) for end in (declared.draw.low, declared.draw.high))
    return low, high - 1


Planter = Callable[[torch.Tensor, float, torch.Generator], torch.Tensor]


def _chances(rows: torch.Tensor, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return torch.rand(shape, generator=generator, device=rows.device)


def _some_rows(rows: torch.Tensor, share: float, generator: torch.Generator) -> torch.Tensor:
    """A mask of random rows, at least one."""
    chosen = _chances(rows, (rows.shape[0], 1), generator) < share
    chosen[int(torch.randint(rows.shape[0], (), generator=generator, device=rows.device))] = True
    return chosen


def _few(rows: torch.Tensor, value: float, generator: torch.Generator) -> torch.Tensor:
    """Of the elements one is anywhere, one among the last of a row and one in the first or last row, which are the
    places that a kernel treats apart. Of fewer elements it is chance which."""
    count = min(FEW, max(1, rows.numel() // ONE_IN))
    height, width = rows.shape

    def some(end: int) -> int:
        return int(torch.randint(end, (), generator=generator, device=rows.device))

    first = some(FEW)
    for turn in range(first, first + count):
        row, column = some(height), some(width)
        if turn % FEW == 1:
            column = width - 1 - some(min(width, some(2) * LAST + 1))
        if turn % FEW == 2:
            row = some(2) * (height - 1)
        rows[row, column] = value
    return rows


def _share(rows: torch.Tensor, value: float, generator: torch.Generator) -> torch.Tensor:
    rows.masked_fill_(_chances(rows, tuple(rows.shape), generator) < SHARE, value)
    return _few(rows, value, generator)


def _rows(rows: torch.Tensor, value: float, generator: torch.Generator) -> torch.Tensor:
    return rows.masked_fill_(_some_rows(rows, SHARE, generator), value)


def _everywhere(rows: torch.Tensor, value: float, _: torch.Generator) -> torch.Tensor:
    return rows.fill_(value)


def _signs(rows: torch.Tensor, _: float, generator: torch.Generator) -> torch.Tensor:
    chances = _chances(rows, tuple(rows.shape), generator)
    rows.neg_().masked_fill_(chances < 1 / ZERO_IN, 0.0)
    return torch.where(chances < 0.5, rows, -rows)


def _zeros(rows: torch.Tensor, _: float, generator: torch.Generator) -> torch.Tensor:
    """Half of the values become zeros of either sign."""
    chances = _chances(rows, tuple(rows.shape), generator)
    return rows.masked_fill_(chances < 0.25, 0.0).masked_fill_(chances > 0.75, -0.0)


def _subnormal(rows: torch.Tensor, _: float, generator: torch.Generator) -> torch.Tensor:
    """Of either sign, and small enough that a factor of a thousand does not make them count."""
    chances = _chances(rows, tuple(rows.shape), generator).double().mul_(2.0).sub_(1.0)
    return chances.mul_(torch.finfo(rows.dtype).tiny * SUBNORMAL).to(rows.dtype)


def _constant_rows(rows: torch.Tensor, _: float, generator: torch.Generator) -> torch.Tensor:
    return torch.where(_some_rows(rows, 0.5, generator), rows[:, :1], rows)


def _equal_rows(rows: torch.Tensor, _: float, generator: torch.Generator) -> torch.Tensor:
    place = int(torch.randint(rows.shape[0], (), generator=generator, device=rows.device))
    return rows[place].expand(rows.shape).contiguous()


def _ties(rows: torch.Tensor, _: float, generator: torch.Generator) -> torch.Tensor:
    """In some rows every element becomes one of a few of its row, so that also the largest ones are equal; in the
    others two are equal at either end, anywhere in the row."""
    columns = torch.randint(rows.shape[1], (LEVELS,), generator=generator, device=rows.device)
    which = torch.randint(LEVELS, tuple(rows.shape), generator=generator, device=rows.device)
    crowded = _some_rows(rows, 0.5, generator)
    return torch.where(crowded, rows[:, columns].gather(1, which), twice(rows, generator))


def _scaled(rows: torch.Tensor, exponent: float, generator: torch.Generator) -> torch.Tensor:
    """In two steps, because a power of two may itself be too large for the format. Some rows have one sign."""
    half = int(exponent) // 2
    return one_signed(rows, generator).mul_(2.0**half).mul_(2.0 ** (int(exponent) - half))


def _repeated(rows: torch.Tensor, _: float, generator: torch.Generator) -> torch.Tensor:
    place = int(torch.randint(rows.numel(), (), generator=generator, device=rows.device))
    return rows.fill_(rows.view(-1)[place].item())


PLACEMENTS: dict[Placement, Planter] = {
    Placement.few: _few,
    Placement.share: _share,
    Placement.rows: _rows,
    Placement.everywhere: _everywhere,
    Placement.signs: _signs,
    Placement.zeros: _zeros,
    Placement.subnormal: _subnormal,
    Placement.constant_rows: _constant_rows,
    Placement.equal_rows: _equal_rows,
    Placement.ties: _ties,
    Placement.scaled: _scaled,
    Placement.least: _everywhere,
    Placement.most: _everywhere,
    Placement.repeated: _repeated,
    **{Placement(name): arrange for name, arrange in ARRANGEMENTS.items()},
}
