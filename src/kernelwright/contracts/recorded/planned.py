"""A recorded program as a portable call: addresses become names, modules digests. Its numbers can be taken and put."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kernelwright.contracts import program as made
from kernelwright.contracts.model import GpuBuilt
from kernelwright.contracts.portable import (
    Module,
    NumberArgument,
    PackedArgument,
    PlannedCall,
    PointerArgument,
    PortableCopy,
    PortableLaunch,
    PortableMemory,
    PortableMemset,
    PortableStep,
    Ref,
    TensorMapArgument,
    digest_of,
)
from kernelwright.contracts.portable.expressions import Term
from kernelwright.contracts.portable.launches import Argument

POINTER, WORD = 8, 4
_MAP_TYPES = {
    "UINT8": "u8", "UINT16": "u16", "UINT32": "u32", "INT32": "i32", "UINT64": "u64", "INT64": "i64",
    "FLOAT16": "f16", "BFLOAT16": "bf16", "FLOAT32": "f32", "FLOAT64": "f64", "TFLOAT32": "tf32",
}  # fmt: skip
_FILLS = {"garbage": "garbage", "poison": "garbage", "zero": "zero", "workspace": "workspace"}

Number = tuple[str, Term]
"""A number of a call with its type, which is empty where it is not an argument."""


@dataclass(frozen=True)
class PlannedProgram:
    """A call with numbers alone, and the modules that it launches from."""

    call: PlannedCall
    modules: tuple[Module, ...]

    def numbers(self) -> tuple[Number, ...]:
        found: list[Number] = []

        def seen(number: Number) -> Number:
            found.append(number)
            return number

        changed(self.call, seen)
        return tuple(found)

    def form(self) -> PlannedProgram:
        """What is left without the numbers: equal for calls that differ in numbers alone."""
        return PlannedProgram(changed(self.call, lambda number: (number[0], 0)), self.modules)

    def in_bytes(self) -> PlannedProgram:
        """With every number as its bits: equal for calls that hand the same bytes to the same kernels."""
        return PlannedProgram(changed(self.call, _bits), self.modules)

    def with_numbers(self, numbers: Sequence[Number]) -> PlannedCall:
        """The same with other numbers, in the order of `numbers`."""
        left = iter(numbers)
        return changed(self.call, lambda _: next(left))


def _bits(number: Number) -> Number:
    kind, value = number
    if not kind or isinstance(value, Ref):
        return number
    size = int(kind.lstrip("uif"))
    if kind[0] == "f":
        return f"u{size}", int.from_bytes(struct.pack({32: "<f", 64: "<d"}[size], value), "little")
    return f"u{size}", int(value) % (1 << size)


def planned(built: GpuBuilt) -> PlannedProgram:
    program = built.program
    digests = [digest_of(module) for module in built.modules]
    names: dict[str, dict[str, str]] = {}
    steps: list[PortableStep] = []
    for step in program.steps:
        if isinstance(step, made.Memset):
            block = program.blocks[step.block].name
            steps.append(PortableMemset(block, step.offset, step.bytes, step.value, step.width))
        elif isinstance(step, made.Copy):
            target, source = program.blocks[step.target].name, program.blocks[step.source].name
            steps.append(PortableCopy(target, step.target_offset, source, step.source_offset, step.bytes))
        else:
            assert isinstance(step, made.ProgramStep), "a step of torch's is not portable"
            digest = digests[step.module]
            kernel = f"{step.function[:400]}@{digest[:16]}"
            names.setdefault(digest, {})[kernel] = step.function
            steps.append(_launch(program, step, kernel))
    memory = tuple(
        PortableMemory(block.name, block.extent, _FILLS[block.fill]) for block in program.blocks if not block.shared
    )
    modules = tuple(Module(digest, tuple(sorted(found.items()))) for digest, found in names.items())
    return PlannedProgram(PlannedCall(tuple(steps), memory), modules)


def _launch(program: made.Program, step: made.ProgramStep, kernel: str) -> PortableLaunch:
    return PortableLaunch(
        kernel,
        step.grid,
        step.block,
        tuple(_argument(program, argument) for argument in step.arguments),
        step.shared,
        step.cluster,
        step.cooperative,
        step.dependent,
    )


def _argument(program: made.Program, argument: made.Argument) -> Argument:
    if argument.tensor_map >= 0:
        return _tensor_map(program, program.tensor_maps[argument.tensor_map])
    data = bytes.fromhex(argument.data)
    fields: list[tuple[int, PointerArgument | NumberArgument]] = []
    places = {pointer.at: pointer for pointer in argument.pointers}
    at = 0
    while at < len(data):
        if at in places:
            pointer = places[at]
            fields.append((at, PointerArgument(program.blocks[pointer.block].name, pointer.offset)))
            at += POINTER
            continue
        width = _width(at, len(data))
        fields.append((at, NumberArgument(f"u{8 * width}", int.from_bytes(data[at : at + width], "little"))))
        at += width
    return fields[0][1] if len(fields) == 1 else PackedArgument(bytes(len(data)).hex(), tuple(fields))


def _width(at: int, size: int) -> int:
    """How many bytes make one number: a whole argument does; of a structure nothing but its words is known."""
    if at == 0 and size in (1, 2, 4, 8):
        return size
    return WORD if at % WORD == 0 and at + WORD <= size else 1


def _tensor_map(program: made.Program, entry: made.TensorMap) -> TensorMapArgument:
    return TensorMapArgument(
        program.blocks[entry.block].name,
        entry.offset,
        _MAP_TYPES[entry.data_type],
        entry.sizes,
        entry.strides,
        entry.box,
        entry.steps,
        entry.interleave.lower(),
        entry.swizzle.lower(),
        entry.promotion.removeprefix("L2_").lower(),
        "zero" if entry.fill == "NONE" else "nan",
    )


def changed(call: PlannedCall, change: Callable[[Number], Number]) -> PlannedCall:
    """The call with every number replaced, in an order that depends on its form alone."""

    def plain(term: Term) -> Term:
        return change(("", term))[1]

    def several(terms: tuple[Term, ...]) -> tuple[Term, ...]:
        return tuple(plain(term) for term in terms)

    def triple(terms: tuple[Term, Term, Term]) -> tuple[Term, Term, Term]:
        x, y, z = terms
        return plain(x), plain(y), plain(z)

    def simple(argument: PointerArgument | NumberArgument) -> PointerArgument | NumberArgument:
        if isinstance(argument, PointerArgument):
            return replace(argument, offset=plain(argument.offset))
        return NumberArgument(*change((argument.type, argument.value)))

    def argument(given: Argument) -> Argument:
        if isinstance(given, PackedArgument):
            return replace(given, fields=tuple((at, simple(one)) for at, one in given.fields))
        if isinstance(given, TensorMapArgument):
            lists: dict[str, Any] = {
                name: several(getattr(given, name)) for name in ("sizes", "strides", "box", "steps")
            }
            return replace(given, offset=plain(given.offset), **lists)
        assert isinstance(given, PointerArgument | NumberArgument)  # a record has no other structures
        return simple(given)

    def step(given: PortableStep) -> PortableStep:
        if isinstance(given, PortableMemset):
            terms: dict[str, Any] = {name: plain(getattr(given, name)) for name in ("offset", "bytes", "value")}
            return replace(given, **terms)
        if isinstance(given, PortableCopy):
            terms = {name: plain(getattr(given, name)) for name in ("target_offset", "source_offset", "bytes")}
            return replace(given, **terms)
        return replace(
            given,
            grid=triple(given.grid),
            block=triple(given.block),
            arguments=tuple(argument(one) for one in given.arguments),
            shared=plain(given.shared),
            cluster=None if given.cluster is None else triple(given.cluster),
        )

    steps = tuple(step(one) for one in call.steps)
    return PlannedCall(steps, tuple(replace(one, bytes=plain(one.bytes)) for one in call.memory))
