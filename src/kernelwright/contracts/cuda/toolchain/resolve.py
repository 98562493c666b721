"""Turns a checked plan into a program: names into addresses, values into bytes, expressions into mangled names."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from kernelwright.contracts import program as made
from kernelwright.contracts.cuda import plan as given
from kernelwright.contracts.cuda.plan import Plan
from kernelwright.contracts.layout import BASE, SPAN, Access, Layout, Place, lay_out
from kernelwright.contracts.model import BuildFailure
from kernelwright.tasks.model import Signature

_FORMATS = {
    "i8": "<b",
    "u8": "<B",
    "i16": "<h",
    "u16": "<H",
    "i32": "<i",
    "u32": "<I",
    "i64": "<q",
    "u64": "<Q",
    "f16": "<e",
    "f32": "<f",
    "f64": "<d",
}
_MAP_TYPES = {
    "u8": "UINT8",
    "u16": "UINT16",
    "u32": "UINT32",
    "i32": "INT32",
    "u64": "UINT64",
    "i64": "INT64",
    "f16": "FLOAT16",
    "bf16": "BFLOAT16",
    "f32": "FLOAT32",
    "f64": "FLOAT64",
    "tf32": "TFLOAT32",
}
_FILLS = {"zero": "NONE", "nan": "NAN_REQUEST_ZERO_FMA"}


class _Unresolved(Exception):  # noqa: N818 - it names what is wrong
    pass


def layout_of(plan: Plan, signature: Signature) -> Layout:
    """Tensors first, so that their places do not depend on the plan; then scratches and workspaces."""
    private = [*((s.name, s.bytes) for s in plan.scratch), *((w.name, w.bytes) for w in plan.workspaces)]
    return lay_out(signature, tuple(private))


def resolve(plan: Plan, signature: Signature, names: Mapping[str, str]) -> made.Program | BuildFailure:
    """`names` maps name expressions to mangled names, as the compiler gave them for one module."""
    taken = {argument.name for argument in signature.arguments}
    for block in (*plan.scratch, *plan.workspaces):
        assert isinstance(block, given.Scratch | given.Workspace)
        if block.name in taken:
            return BuildFailure((f"plan.py: {block.name} names an argument of the task: rename the memory",))
    try:
        return _Resolver(plan, signature, names).program()
    except (_Unresolved, ValueError) as error:
        return BuildFailure((f"plan.py: {error}",))


class _Resolver:
    def __init__(self, plan: Plan, signature: Signature, names: Mapping[str, str]) -> None:
        self._plan, self._signature, self._names = plan, signature, names
        layout = layout_of(plan, signature)
        self._places = (*layout.tensors, *layout.private)
        self._maps: list[made.TensorMap] = []

    def program(self) -> made.Program:
        fills: dict[str, str] = {s.name: "zero" if s.zero else "poison" for s in self._plan.scratch}
        fills.update({workspace.name: "workspace" for workspace in self._plan.workspaces})
        fills.update({tensor.name: "output" for tensor in self._signature.outputs})
        blocks = tuple(_block(place, fills.get(place.name, "received")) for place in self._places)
        steps = tuple(self._step(launch) for launch in self._plan.launches)
        return made.Program(BASE, SPAN, blocks, steps, tuple(self._maps), 1)

    def _step(self, launch: given.Launch) -> made.ProgramStep:
        return made.ProgramStep(
            0,
            self._names[launch.kernel],
            launch.grid,
            launch.block,
            tuple(self._argument(argument) for argument in launch.arguments),
            launch.shared,
            launch.cluster,
            launch.cooperative,
            launch.dependent,
        )

    def _argument(self, argument: given.Argument) -> made.Argument:
        if isinstance(argument, given.PlanTensorMap):
            self._maps.append(self._tensor_map(argument))
            return made.Argument(tensor_map=len(self._maps) - 1)
        if isinstance(argument, given.Struct):
            return self._struct(argument)
        if isinstance(argument, given.PlanPointer):
            return made.Argument(bytes(8).hex(), (self._pointer(0, argument),))
        return made.Argument(self._number(argument).hex())

    def _pointer(self, at: int, argument: given.PlanPointer) -> made.Pointer:
        return made.Pointer(at, self._block(argument.name, argument.offset), argument.offset)

    def _number(self, argument: given.Integer | given.Real) -> bytes:
        if argument.type == "bf16":
            return _bfloat16(float(argument.value))
        try:
            return struct.pack(_FORMATS[argument.type], argument.value)
        except (struct.error, OverflowError) as error:
            raise _Unresolved(f"{argument.value} does not fit into {argument.type}") from error

    def _struct(self, argument: given.Struct) -> made.Argument:
        packed, widest = bytearray(), 1
        pointers = []
        for field in argument.fields:
            value = bytes(8) if isinstance(field, given.PlanPointer) else self._number(field)
            widest = max(widest, len(value))
            packed += bytes(-len(packed) % len(value))
            if isinstance(field, given.PlanPointer):
                pointers.append(self._pointer(len(packed), field))
            packed += value
        return made.Argument((packed + bytes(-len(packed) % widest)).hex(), tuple(pointers))

    def _tensor_map(self, argument: given.PlanTensorMap) -> made.TensorMap:
        return made.TensorMap(
            self._block(argument.name, argument.offset),
            argument.offset,
            _MAP_TYPES[argument.type],
            argument.sizes,
            argument.strides,
            argument.box,
            argument.steps,
            argument.interleave.upper(),
            argument.swizzle.upper(),
            "NONE" if argument.promotion == "none" else f"L2_{argument.promotion.upper()}",
            _FILLS[argument.fill],
        )

    def _block(self, name: str, offset: int) -> int:
        """The number of a block, of which at least the byte at `offset` belongs to it, or its end."""
        for number, place in enumerate(self._places):
            if place.name == name:
                if offset > place.extent:
                    raise _Unresolved(f"{name} has {place.extent:,} bytes and an argument points {offset:,} behind it")
                return number
        raise _Unresolved(f"{name} is not a tensor of the task and no memory of the plan")


def _block(place: Place, fill: str) -> made.Block:
    writable = place.access is Access.write
    return made.Block(place.name, place.base, place.bytes, place.offset, place.extent, writable, fill)


def _bfloat16(value: float) -> bytes:
    try:
        bits: int = struct.unpack("<I", struct.pack("<f", value))[0]
    except OverflowError as error:
        raise _Unresolved(f"{value} does not fit into bf16") from error
    return struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)
