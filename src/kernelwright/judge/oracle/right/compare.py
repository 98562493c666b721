"""Holds what a candidate wrote against what was expected of it.

The first pass says yes or no and is as short as it can be, because every timed call is a checked call. Only
a no is looked into. Comparisons are always of the form "inside", never "not outside", so that NaN is wrong
wherever it is not expected.
"""

from __future__ import annotations

import math
import struct
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import torch

from kernelwright.judge.oracle.right.constants import CONSTANTS
from kernelwright.judge.oracle.right.scales import row_scale
from kernelwright.judge.oracle.right.tolerance import BitExact, ChosenIndex, Expectation, Within
from kernelwright.tasks.formats import arithmetic

CHUNK = 1 << 18
SMALL = 2.0**-5
NEARLY_ALL = 0.99

WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class MismatchKind(StrEnum):
    """The general way in which a result is wrong.

    `unwritten`: elements still hold what the outputs were poisoned with. `nan_or_inf`: not finite where the
    reference is, or the other way round. `imprecise`: nearly every error is small beside its row,
    as lower precision or a coarse approximation would leave it. `wrong`: anything else.
    """

    unwritten = "unwritten"
    nan_or_inf = "nan_or_inf"
    imprecise = "imprecise"
    wrong = "wrong"


@dataclass(frozen=True)
class Mismatch:
    """The first element at fault, and how many are. Error and tolerance are None where they mean nothing."""

    kind: MismatchKind
    index: tuple[int, ...]
    expected: str
    got: str
    error: float | None
    tolerance: float | None
    wrong: int
    unwritten: int
    total: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def check(expectation: Expectation, got: torch.Tensor, sentinel: int) -> Mismatch | None:
    """None if right. `sentinel` is the 32-bit word with which the memory of `got` was filled beforehand."""
    match expectation:
        case Within():
            return None if _all_within(expectation, got, sentinel) else _explain_within(expectation, got, sentinel)
        case BitExact(value):
            return None if torch.equal(_bits(got), _bits(value)) else _explain_same(value, got, sentinel)
        case ChosenIndex():
            right = _well_chosen(expectation, got)
            return None if bool(right.all()) else _explain_choice(expectation, got, right, sentinel)


def _all_within(expectation: Within, got: torch.Tensor, sentinel: int) -> bool:
    """Clamping to the bounds changes nothing. A NaN stays NaN and is equal to nothing, itself included."""
    if expectation.nan is not None or expectation.odd is not None:
        return bool(_within(expectation, got, sentinel).all())
    flat, low, high = arithmetic(got).reshape(-1), expectation.low.reshape(-1), expectation.high.reshape(-1)
    chunk = max(flat.numel(), 1) if got.is_cuda else CHUNK  # a GPU has no cache to stay in, and every answer is a wait
    for start in range(0, flat.numel(), chunk):
        part = slice(start, start + chunk)
        if not torch.equal(torch.clamp(flat[part], low[part], high[part]), flat[part]):
            return False
    return True


def _within(expectation: Within, got: torch.Tensor, sentinel: int) -> torch.Tensor:
    """The sentinel is a NaN too, so that an element which was not written is wrong even where a NaN is right. In
    formats of one byte only every other one is, and that may be the format's only NaN; what was not written shows in
    the others."""
    value = arithmetic(got)
    right = (value >= expectation.low) & (value <= expectation.high)
    if expectation.nan is None and expectation.odd is None:
        return right
    written = ~_poisoned(got, sentinel) if got.element_size() > 1 else torch.ones_like(right)
    if expectation.nan is not None:
        right |= expectation.nan & torch.isnan(value) & written
    if expectation.odd is not None:
        right |= expectation.odd & ~torch.isfinite(value) & written
    return right


def _middle(expectation: Within) -> tuple[torch.Tensor, torch.Tensor]:
    """The reference and the tolerance, in float64."""
    low, high = expectation.low.double(), expectation.high.double()
    middle, half = (low + high) / 2, (high - low) / 2
    middle, half = torch.where(low == high, low, middle), torch.where(low == high, 0.0, half)
    for mask in (expectation.nan, expectation.odd):
        if mask is not None:
            middle = middle.masked_fill(mask & (low > high), torch.nan)
    return middle, half


def _explain_within(expectation: Within, got: torch.Tensor, sentinel: int) -> Mismatch | None:
    wrong = ~_within(expectation, got, sentinel)
    middle, half = _middle(expectation)
    error = (got.double() - middle).abs()
    unwritten = wrong & _poisoned(got, sentinel)
    odd = wrong & ~(torch.isfinite(arithmetic(got)) & torch.isfinite(middle))
    if bool(unwritten.any()):
        kind, where = MismatchKind.unwritten, unwritten
    elif bool(odd.any()):
        kind, where = MismatchKind.nan_or_inf, odd
    else:
        size = torch.where(torch.isfinite(middle), middle.abs(), 0.0)
        beside = torch.maximum(size, row_scale(size, CONSTANTS.least_eager))
        small = (error <= SMALL * beside)[wrong].double().mean()
        coarse = got.is_floating_point() and bool(small >= NEARLY_ALL)
        kind, where = (MismatchKind.imprecise if coarse else MismatchKind.wrong), wrong
    index = _first(where)
    return Mismatch(
        kind=kind,
        index=index,
        expected=_show(middle[index].to(got.dtype)),
        got=_show(got[index]),
        error=_finite(error[index]),
        tolerance=_finite(half[index]),
        wrong=int(wrong.sum()),
        unwritten=int(unwritten.sum()),
        total=got.numel(),
    )


def _explain_same(value: torch.Tensor, got: torch.Tensor, sentinel: int) -> Mismatch | None:
    wrong = _bits(got) != _bits(value)
    odd = torch.zeros_like(wrong)
    if got.is_floating_point():
        both = torch.isnan(got) & torch.isnan(value)
        wrong &= ~both | _poisoned(got, sentinel) if got.element_size() > 1 else ~both
        odd = wrong & ~(torch.isfinite(arithmetic(got)) & torch.isfinite(arithmetic(value)))
    if not bool(wrong.any()):
        return None
    unwritten = wrong & _poisoned(got, sentinel)
    if bool(unwritten.any()):
        kind, where = MismatchKind.unwritten, unwritten
    elif bool(odd.any()):
        kind, where = MismatchKind.nan_or_inf, odd
    else:
        kind, where = MismatchKind.wrong, wrong
    index = _first(where)
    return Mismatch(
        kind=kind,
        index=index,
        expected=_show(value[index]),
        got=_show(_bits(got)[index] if got.dtype == torch.bool else got[index]),
        error=None if got.dtype == torch.bool else _finite((got[index].double() - value[index].double()).abs()),
        tolerance=0.0,
        wrong=int(wrong.sum()),
        unwritten=int(unwritten.sum()),
        total=got.numel(),
    )


def _well_chosen(expectation: ChosenIndex, got: torch.Tensor) -> torch.Tensor:
    """In range, of the best value, and (of several) none twice."""
    best, found, inside = _found(expectation, got)
    right = inside & ((found == best) | (torch.isnan(found) & torch.isnan(best)))
    if got.dim() == expectation.source.dim() and got.dim() and got.shape[expectation.dim] > 1:
        order = got.sort(dim=expectation.dim, stable=True)
        repeated = torch.zeros_like(right)
        behind = torch.zeros_like(right).narrow(expectation.dim, 0, 1)
        again = torch.cat((behind, order.values.diff(dim=expectation.dim) == 0), expectation.dim)
        right &= ~repeated.scatter(expectation.dim, order.indices, again)
    return right


def _found(expectation: ChosenIndex, got: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    source, dim = expectation.source, expectation.dim
    places = got.long()
    inside = (places >= 0) & (places < source.shape[dim])
    places = places.clamp(0, source.shape[dim] - 1)
    places = places if places.dim() == source.dim() else places.unsqueeze(dim)
    return expectation.best, source.gather(dim, places).view(got.shape), inside


def _explain_choice(expectation: ChosenIndex, got: torch.Tensor, right: torch.Tensor, sentinel: int) -> Mismatch:
    best, found, inside = _found(expectation, got)
    unwritten = ~right & _poisoned(got, sentinel)
    kind, where = (MismatchKind.unwritten, unwritten) if bool(unwritten.any()) else (MismatchKind.wrong, ~right)
    index = _first(where)
    place = int(got[index])
    what = f"value {_show(found[index])}" if bool(inside[index]) else "out of range"
    return Mismatch(
        kind=kind,
        index=index,
        expected=f"an index of value {_show(best[index])}",
        got=f"{place} ({what})",
        error=_distance(found[index], best[index]) if bool(inside[index]) else None,
        tolerance=0.0,
        wrong=int((~right).sum()),
        unwritten=int(unwritten.sum()),
        total=got.numel(),
    )


def _poisoned(got: torch.Tensor, sentinel: int) -> torch.Tensor:
    """Where the memory still has the bits with which it was filled."""
    pattern = torch.frombuffer(bytearray(struct.pack("<II", sentinel, sentinel)), dtype=WORDS[got.element_size()])
    pattern = pattern.to(got.device).repeat(-(-got.numel() // pattern.numel()))[: got.numel()]
    return _bits(got) == pattern.view(got.shape)


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory as whole numbers: NaNs compare, and a byte that is not a boolean stays what it is."""
    word = WORDS[tensor.element_size()]
    return tensor if tensor.dtype == word else tensor.view(word)


def _first(mask: torch.Tensor) -> tuple[int, ...]:
    flat = int(mask.reshape(-1).to(torch.uint8).argmax())
    return tuple(int(place) for place in torch.unravel_index(torch.tensor(flat), mask.shape))


def _show(value: torch.Tensor) -> str:
    number = value.item()
    return f"{number:.9g}" if isinstance(number, float) else str(number)


def _distance(one: torch.Tensor, other: torch.Tensor) -> float | None:
    return _finite((one.double() - other.double()).abs())


def _finite(value: torch.Tensor) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None
