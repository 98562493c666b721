"""Rows in forms that random values hardly ever have: of one sign, in order, with one element that differs, with several
values that are not finite. Each row gets one of the forms, so that a single call meets many of them.

Each function changes rows of one tensor, as the placements of `planting` do.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

CHOSEN = 0.25  # of the rows get values that are not finite; the others are as they were drawn
LOWEST = -8  # exponent of a ladder
CROSSED = 0.0625  # of the elements are zero, as many infinite and as many negative infinite


def _random(rows: torch.Tensor, shape: tuple[int, ...], end: int, generator: torch.Generator) -> torch.Tensor:
    return torch.randint(end, shape, generator=generator, device=rows.device)


def _place(rows: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A mask of one random element in each row."""
    height, width = rows.shape
    columns = torch.arange(width, device=rows.device)
    return columns == _random(rows, (height, 1), width, generator)


def _each(rows: torch.Tensor, forms: list[torch.Tensor], generator: torch.Generator) -> torch.Tensor:
    """Of each row one of the forms."""
    which = _random(rows, (rows.shape[0], 1), len(forms), generator)
    made = forms[0]
    for number, form in enumerate(forms[1:], 1):
        made = torch.where(which == number, form, made)
    return made.contiguous()


def forms(rows: torch.Tensor, _: float, generator: torch.Generator) -> torch.Tensor:
    """Negative, positive, ascending, descending, constant but for one element, zero but for one element."""
    single = _place(rows, generator)
    ascending = rows.sort(dim=1).values
    constant = torch.where(single, rows, rows[:, :1])
    sparse = torch.where(single, rows, torch.zeros_like(rows))
    return _each(rows, [-rows.abs(), rows.abs(), ascending, ascending.flip(1), constant, sparse], generator)


def one_signed(rows: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Half of the rows of one sign."""
    return _each(rows, [rows, rows, -rows.abs(), rows.abs()], generator)


def mixed(rows: torch.Tensor, _: float, generator: torch.Generator) -> torch.Tensor:
    """Two of NaN, infinity and negative infinity in a row, or a whole row of one of them."""

    def beside(first: float, second: float) -> torch.Tensor:
        made = rows.masked_fill(_place(rows, generator), first)
        return made.masked_fill(_place(rows, generator), second)

    inf, nan = math.inf, math.nan
    made = [beside(*pair) for pair in ((nan, inf), (-inf, nan), (inf, -inf), (nan, nan), (inf, inf))]
    made += [torch.full_like(rows, value) for value in (nan, inf)]
    chances = torch.rand((rows.shape[0], 1), generator=generator, device=rows.device)
    chosen = chances < max(CHOSEN, 1.5 * float(chances.min()))
    return torch.where(chosen, _each(rows, made, generator), rows)


def crossed(rows: torch.Tensor, _: float, generator: torch.Generator) -> torch.Tensor:
    """Zeros and infinities here and there: where several inputs have them, each meets each somewhere."""
    chances = torch.rand(tuple(rows.shape), generator=generator, device=rows.device)
    for number, value in enumerate((0.0, math.inf, -math.inf)):
        rows.masked_fill_((chances >= number * CROSSED) & (chances < (number + 1) * CROSSED), value)
    return rows


def masks(rows: torch.Tensor, _: float, generator: torch.Generator) -> torch.Tensor:
    """One element kept or one left out; the first so many kept, or the last."""
    single = _place(rows, generator)
    height, width = rows.shape
    first = torch.arange(width, device=rows.device) < _random(rows, (height, 1), width + 1, generator)
    return _each(rows, [single, ~single, first, ~first], generator)


def numbers(rows: torch.Tensor, _: float, generator: torch.Generator) -> torch.Tensor:
    """Whole numbers in order, or one of them everywhere but in one place. A vector is one row."""
    whole = rows.view(1, -1) if rows.shape[1] == 1 else rows
    ascending = whole.sort(dim=1).values
    constant = torch.where(_place(whole, generator), whole, whole[:, :1])
    return _each(whole, [ascending, ascending.flip(1), constant], generator).view(rows.shape)


def but_one(rows: torch.Tensor, value: float, generator: torch.Generator) -> torch.Tensor:
    """A number everywhere but in one place of the tensor."""
    kept = int(torch.randint(rows.numel(), (), generator=generator, device=rows.device))
    other = rows.view(-1)[kept].clone()
    rows.fill_(value).view(-1)[kept] = other
    return rows


def ends(rows: torch.Tensor, least: float, most: float, generator: torch.Generator) -> torch.Tensor:
    """Rows of the least number, rows of the most, and rows of either at random."""
    chances = torch.rand(tuple(rows.shape), generator=generator, device=rows.device)
    low, high = torch.full_like(rows, least), torch.full_like(rows, most)
    return _each(rows, [low, high, torch.where(chances < 0.5, low, high)], generator)


def ladder(rows: torch.Tensor, exponent: float, generator: torch.Generator) -> torch.Tensor:
    """Half of the rows, and the elements of the other half, times powers of two from `LOWEST` to the exponent."""
    span = int(exponent) + 1 - LOWEST
    by_row, by_element = (_random(rows, shape, span, generator) for shape in ((rows.shape[0], 1), tuple(rows.shape)))
    chosen = torch.where(_random(rows, (rows.shape[0], 1), 2, generator) == 0, by_row, by_element)
    return torch.ldexp(rows.float(), chosen + LOWEST)


def twice(rows: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """The largest and the smallest of each row stand in it twice, at random places; every other value is its own."""
    made = rows
    for end in (rows.amax(1, keepdim=True), rows.amin(1, keepdim=True)):
        made = torch.where(_place(rows, generator), end, made)
    return made


ARRANGEMENTS: dict[str, Callable[[torch.Tensor, float, torch.Generator], torch.Tensor]] = {
    "forms": forms,
    "mixed": mixed,
    "crossed": crossed,
    "mask_forms": masks,
    "number_forms": numbers,
    "but_one": but_one,
}
