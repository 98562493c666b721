"""A trial that is too large to be held against its reference as a whole: it is judged slice by slice after the call.

Nothing is kept for it but a checksum of its inputs, under secret weights. The inputs are then read from the arena,
where a candidate cannot write; if one could, the checksum would not be what it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import torch

from kernelwright.judge.oracle.needs import Slicing
from kernelwright.judge.oracle.right.compare import Mismatch, MismatchKind, check
from kernelwright.judge.oracle.right.tolerance import BitExact, ChosenIndex, Expectation, Within
from kernelwright.judge.oracle.separable import extent, sliced
from kernelwright.tasks.reference import Argument

WORDS = 1 << 20  # that are weighed at a time

Expect = Callable[[dict[str, Argument]], dict[str, Expectation]]
ORDER = (MismatchKind.unwritten, MismatchKind.nan_or_inf, MismatchKind.wrong, MismatchKind.imprecise)


@dataclass(frozen=True)
class Slice:
    """One part of a trial. Its inputs are copies; of the results it has views."""

    inputs: dict[str, Argument]
    start: int
    count: int


@dataclass(frozen=True)
class SlicedExpectation:
    """What the results of a trial are held against: computed for one slice at a time, and dropped again."""

    slicing: Slicing
    expect: Expect

    def slices(self, inputs: Mapping[str, Argument]) -> Iterator[Slice]:
        for start, count in self._bounds(inputs):
            yield Slice(sliced(inputs, self.slicing.axes.inputs, start, count), start, count)

    def slice_numbered(self, inputs: Mapping[str, Argument], number: int) -> Slice:
        """One of them; numbers beyond the last begin again."""
        bounds = self._bounds(inputs)
        start, count = bounds[number % len(bounds)]
        return Slice(sliced(inputs, self.slicing.axes.inputs, start, count), start, count)

    def _bounds(self, inputs: Mapping[str, Argument]) -> list[tuple[int, int]]:
        length = extent(inputs, self.slicing.axes)
        step = -(-length // self.slicing.count)
        return [(start, min(step, length - start)) for start in range(0, length, step)]

    def check(
        self, inputs: Mapping[str, Argument], results: Mapping[str, torch.Tensor], sentinel: int
    ) -> tuple[str, Mismatch] | None:
        """The result that is wrong, if any, with what is wrong in all slices of it."""
        found: dict[str, Mismatch] = {}
        for part in self.slices(inputs):
            expected = self.expect(part.inputs)
            for name, result in results.items():
                axis = self.slicing.axes.results[name]
                view = result.narrow(axis, part.start, part.count)
                mismatch = check(_cut(expected[name], axis, part), view.contiguous(), sentinel)
                if mismatch is not None:
                    here = _moved(mismatch, axis, part.start, result.numel())
                    found[name] = _merged(found[name], here) if name in found else here
        return next(((name, found[name]) for name in results if name in found), None)


def _cut(expected: Expectation, axis: int, part: Slice) -> Expectation:
    """Where a reference refuses values, what is expected is as long as the whole result."""
    shape = (expected.best if isinstance(expected, ChosenIndex) else _value(expected)).shape
    if isinstance(expected, ChosenIndex) or shape[axis] == part.count:
        return expected

    def cut(value: torch.Tensor) -> torch.Tensor:
        return value.narrow(axis, part.start, part.count).contiguous()

    if isinstance(expected, BitExact):
        return BitExact(cut(expected.value))
    masks = (None if mask is None else cut(mask) for mask in (expected.nan, expected.odd))
    return Within(cut(expected.low), cut(expected.high), *masks)


def _value(expected: Within | BitExact) -> torch.Tensor:
    return expected.low if isinstance(expected, Within) else expected.value


def _moved(mismatch: Mismatch, axis: int, start: int, total: int) -> Mismatch:
    index = tuple(place + start if one == axis else place for one, place in enumerate(mismatch.index))
    return replace(mismatch, index=index, total=total)


def _merged(one: Mismatch, other: Mismatch) -> Mismatch:
    """The worse of two, and how many elements are wrong in both."""
    first = min(one, other, key=lambda mismatch: ORDER.index(mismatch.kind))
    return replace(first, wrong=one.wrong + other.wrong, unwritten=one.unwritten + other.unwritten)


def checksum(value: torch.Tensor, seed: int) -> int:
    """A sum of all 32-bit words under secret weights, of which a change of any word changes nearly every bit.

    Other bits give the same sum with a chance of 2^-32 or less.
    """
    flat = value.reshape(-1).view(torch.uint8)
    whole = flat.numel() // 4 * 4
    words, rest = flat[:whole].view(torch.int32), flat[whole:]
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randint(-(1 << 62), 1 << 62, (WORDS,), generator=generator).to(value.device)
    turns = torch.randint(-(1 << 62), 1 << 62, (-(-words.numel() // WORDS) + 1,), generator=generator)
    total = torch.zeros((), dtype=torch.int64, device=value.device)
    for turn, chunk in enumerate(torch.split(words, WORDS)) if words.numel() else ():
        long = chunk.to(torch.int64) & 0xFFFFFFFF
        total += (long * weights[: long.numel()]).sum() * (int(turns[turn]) | 1)
    return int(total) ^ int.from_bytes(bytes(rest.tolist()), "little")
