"""Compares two records of one call at different addresses. What moved with a buffer is a pointer into it.

Every other difference is refused: host code that depends on addresses, on time, on chance or on earlier calls.
Argument bytes are compared in words of eight bytes, on which the pointers of a parameter lie.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.contracts.program import Pointer
from kernelwright.contracts.recorded.record import (
    BASES,
    Record,
    RecordedArgument,
    RecordedBuffer,
    RecordedCopy,
    RecordedLaunch,
    RecordedLibrary,
    RecordedMap,
    RecordedMemset,
    RecordedTensor,
    place_buffers,
)

WORD = 8
SAME = "host code must not depend on addresses, time, chance or earlier calls"


class CannotReplay(Exception):  # noqa: N818 - it says what is wrong
    """Why two records do not make a program, in one line for the author."""


@dataclass(frozen=True)
class Location:
    """A byte of a buffer, or its end. -1 is the null pointer."""

    buffer: int
    offset: int


NULL = Location(-1, 0)


class Addresses:
    """Finds the buffer of an address in one record."""

    def __init__(self, buffers: Sequence[RecordedBuffer]) -> None:
        self._buffers = buffers
        self._starts = [buffer.address for buffer in buffers]

    def find(self, address: int) -> Location | None:
        if address == 0:
            return NULL
        number = bisect_right(self._starts, address) - 1
        if number < 0 or address - self._starts[number] > self._buffers[number].bytes:
            return None
        return Location(number, address - self._starts[number])


class RecordPair:
    """Two records of one call that agree, with the places that their addresses stand for."""

    def __init__(self, first: Record, second: Record) -> None:
        self.first, self.second = first, second
        _check_buffers(first, second)
        self._addresses = Addresses(first.buffers), Addresses(second.buffers)
        for what, ours, theirs in (
            ("steps", len(first.steps), len(second.steps)),
            ("outputs", len(first.outputs), len(second.outputs)),
        ):
            if ours != theirs:
                raise CannotReplay(f"two recordings of one call have {ours} and {theirs} {what}: {SAME}")
        for number, (step, again) in enumerate(zip(first.steps, second.steps, strict=True)):
            if _shape(step) != _shape(again):
                raise CannotReplay(f"step {number + 1} ({_named(step)}) differs between two recordings: {SAME}")
        for number, (one, other) in enumerate(zip(first.outputs, second.outputs, strict=True)):
            if _shape(one) != _shape(other):
                raise CannotReplay(f"output {number + 1} differs between two recordings: {SAME}")

    def locate(self, ours: int, theirs: int, what: str) -> Location:
        """Where both addresses point. Raises CannotReplay."""
        places = self._addresses[0].find(ours), self._addresses[1].find(theirs)
        if places[0] is None or places[0] != places[1]:
            raise CannotReplay(f"{what} is not in a tensor of the call: {SAME}")
        return places[0]

    def argument(self, step: int, number: int) -> tuple[bytes, tuple[Pointer, ...]]:
        """The bytes of an argument with zeros where pointers go, and the pointers, whose blocks number buffers."""
        launch, other = self.first.steps[step], self.second.steps[step]
        assert isinstance(launch, RecordedLaunch) and isinstance(other, RecordedLaunch)
        ours = bytearray.fromhex(launch.arguments[number].data)
        theirs = bytes.fromhex(other.arguments[number].data)
        pointers = []
        for at in range(0, len(ours), WORD):
            left, right = bytes(ours[at : at + WORD]), theirs[at : at + WORD]
            if left == right:
                continue
            found = self._pointer(left, right)
            if found is None:
                raise CannotReplay(
                    f"argument {number + 1} of {launch.function} differs between two recordings and is not the "
                    f"address of a tensor: {SAME}"
                )
            ours[at : at + WORD] = bytes(WORD)
            pointers.append(Pointer(at, found.buffer, found.offset))
        return bytes(ours), tuple(pointers)

    def _pointer(self, left: bytes, right: bytes) -> Location | None:
        if len(left) != WORD:
            return None
        place = self._addresses[0].find(int.from_bytes(left, "little"))
        other = self._addresses[1].find(int.from_bytes(right, "little"))
        return place if place == other and place != NULL else None


def _check_buffers(first: Record, second: Record) -> None:
    for record, bases in zip((first, second), BASES, strict=True):
        wanted = place_buffers([buffer.bytes for buffer in record.buffers], bases)
        if tuple(buffer.address for buffer in record.buffers) != wanted:
            raise CannotReplay("a recorded buffer is not where the recorder puts buffers")
    shapes = [[(one.bytes, one.kind, one.name) for one in record.buffers] for record in (first, second)]
    if shapes[0] != shapes[1]:
        raise CannotReplay(f"two recordings of one call have different buffers: {SAME}")


def _shape(value: object) -> object:
    """A step or an output without its addresses and bytes."""
    if isinstance(value, RecordedLaunch):
        arguments = tuple(_argument_shape(argument) for argument in value.arguments)
        return (value.model_copy(update={"arguments": ()}), arguments)
    if isinstance(value, RecordedMemset | RecordedTensor):
        return value.model_copy(update={"address": 0})
    if isinstance(value, RecordedCopy):
        return value.model_copy(update={"target": 0, "source": 0})
    if isinstance(value, RecordedLibrary):
        tensors, results = tuple(map(_shape, value.tensors)), tuple(map(_shape, value.results))
        return (value.model_copy(update={"tensors": (), "results": ()}), tensors, results)
    return value


def _argument_shape(argument: RecordedArgument) -> int | RecordedMap:
    if argument.tensor_map is None:
        return len(argument.data) // 2
    return argument.tensor_map.model_copy(update={"address": 0})


def _named(step: object) -> str:
    if isinstance(step, RecordedLibrary):
        return f"torch's {step.operator}"
    return step.function if isinstance(step, RecordedLaunch) else str(getattr(step, "op", ""))
