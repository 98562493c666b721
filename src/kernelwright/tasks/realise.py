"""Carries out draws and input families with torch.

Millions of values are drawn for every trial, so each family is one pass of float32 normals changed in place.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from kernelwright.tasks.dims import Sizes, TaskError, evaluate
from kernelwright.tasks.draws import Custom, Draw, Family, Integers, Normal, OfFamily, Uniform

Shape = tuple[int, ...]
Drawer = Callable[[torch.Generator, Shape], torch.Tensor]

SHIFT = 4.0
TAIL = 0.25
SPIKE_AT, SPIKE, NOISE = 2.5, 8.0, 0.05
OCTAVES = 6.0
SMALL = 1e-3
STRANGERS, STRANGERS_IN = 4, 64  # at most so many rows of each other family, and one in so many
STRANGE_ELEMENTS = 16
SHUFFLED = 1 << 14


def _normal(generator: torch.Generator, shape: Shape) -> torch.Tensor:
    return torch.randn(shape, generator=generator, device=generator.device, dtype=torch.float32)


def _uniform(generator: torch.Generator, shape: Shape) -> torch.Tensor:
    return torch.rand(shape, generator=generator, device=generator.device, dtype=torch.float32)


def _shifted(generator: torch.Generator, shape: Shape) -> torch.Tensor:
    return _normal(generator, shape).add_(SHIFT)


def _heavy_tail(generator: torch.Generator, shape: Shape) -> torch.Tensor:
    """Tukey's h distribution, whose quantiles for h = 1/4 are those of Student's t with 3 degrees of freedom.

    It needs one normal where Student's t needs four, and cannot divide by zero.
    """
    z = _normal(generator, shape)
    return z.mul_(z.square().mul_(TAIL / 2).exp_())


def _spikes(generator: torch.Generator, shape: Shape) -> torch.Tensor:
    """About one value in eighty is large (beyond +-20), the rest is noise; every value still differs."""
    z = _normal(generator, shape)
    return z.mul_(torch.where(z.abs() > SPIKE_AT, SPIKE, NOISE))


def _wide(generator: torch.Generator, shape: Shape) -> torch.Tensor:
    """Every row has its own scale; a vector has one for each element."""
    z = _normal(generator, shape)
    scales = _uniform(generator, (*shape[:-1], 1) if len(shape) > 1 else shape)
    return z.mul_(scales.mul_(2 * OCTAVES).sub_(OCTAVES).exp2_())


def _small(generator: torch.Generator, shape: Shape) -> torch.Tensor:
    return _normal(generator, shape).mul_(SMALL)


_FAMILIES: dict[Family, Drawer] = {
    Family.NORMAL: _normal,
    Family.SHIFTED: _shifted,
    Family.HEAVY_TAIL: _heavy_tail,
    Family.SPIKES: _spikes,
    Family.WIDE: _wide,
    Family.SMALL: _small,
}


def _with_strangers(
    generator: torch.Generator, drawn: torch.Tensor, family: Family, families: tuple[Family, ...]
) -> torch.Tensor:
    """Draws a few rows (in a vector: a few elements), somewhere, from each of the task's other families.

    A kernel that samples its input to guess which family it got, and takes a shortcut that this family allows,
    would be wrong for a user whose data has one unusual row. So every trial has some.
    """
    rows = drawn.view(-1, drawn.shape[-1]) if drawn.ndim > 1 else drawn.view(-1, 1)
    count = min(STRANGERS, rows.shape[0] // STRANGERS_IN)
    others = [other for other in families if other is not family]
    if count == 0 or not others:
        return drawn
    places = _few(generator, rows.shape[0], count * len(others))
    for number, other in enumerate(others):
        chosen = places[number * count : (number + 1) * count]
        rows[chosen] = _FAMILIES[other](generator, (count, rows.shape[1]))
    if Family.WIDE in others:  # and single elements as large as that family's largest: a look at every row misses them
        few = min(STRANGE_ELEMENTS, drawn.numel() // STRANGERS_IN)
        at = torch.randint(drawn.numel(), (few,), generator=generator, device=generator.device)
        drawn.view(-1)[at] = _normal(generator, (few,)).mul_(2.0**OCTAVES)
    return drawn


def _few(generator: torch.Generator, rows: int, wanted: int) -> torch.Tensor:
    """Random rows. Many are drawn with repetition, which then hardly happens, because shuffling a million to take
    twenty would cost more than drawing them."""
    if rows > SHUFFLED:
        return torch.randint(rows, (wanted,), generator=generator, device=generator.device)
    return torch.randperm(rows, generator=generator, device=generator.device)[:wanted]


def realise(
    draw: Draw,
    family: Family,
    shape: Shape,
    dtype: torch.dtype,
    sizes: Sizes,
    generator: torch.Generator,
    families: tuple[Family, ...] = (),
) -> torch.Tensor:
    """A contiguous tensor on the generator's device. `families` are those whose rows may stand among the others."""
    match draw:
        case OfFamily():
            drawn = _FAMILIES[family](generator, shape)
            return _with_strangers(generator, drawn, family, families).to(dtype)
        case Normal(mean, std):
            return _normal(generator, shape).mul_(std).add_(mean).to(dtype)
        case Uniform(low, high):
            return _uniform(generator, shape).mul_(high - low).add_(low).to(dtype)
        case Integers(low, high):
            bounds = evaluate(low, sizes), evaluate(high, sizes)
            drawn = torch.randint(*bounds, shape, generator=generator, device=generator.device)
            return drawn.to(dtype)
        case Custom(function):
            return _checked(function(generator, shape, dtype, dict(sizes)), shape, dtype)


def _checked(drawn: object, shape: Shape, dtype: torch.dtype) -> torch.Tensor:
    if not isinstance(drawn, torch.Tensor):
        raise TaskError(f"a custom draw returned a {type(drawn).__name__}: return a tensor")
    if tuple(drawn.shape) != shape or drawn.dtype != dtype:
        raise TaskError(
            f"a custom draw returned {tuple(drawn.shape)} {drawn.dtype} where {shape} {dtype} was asked for"
        )
    return drawn.detach().contiguous()
