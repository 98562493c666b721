"""Launches and memory whose numbers may be nodes of a table; at given sizes, the same with numbers alone.

The JSON is that of an evaluated plan (contracts/cuda/plan.py), with {"node": n} where a number depends on sizes. What
was recorded has packed arguments, memsets and copies besides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar, get_args

from .expressions import MAGNITUDE, FormulaError, Number, Ref, Term, Values, bounded
from .reading import MalformedData, flag, hexadecimal, identifier, listed, one_of, record, text, whole

INTEGERS = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")
REALS = ("f16", "bf16", "f32", "f64")
MAP_TYPES = ("u8", "u16", "u32", "i32", "u64", "i64", "f16", "bf16", "f32", "f64", "tf32")
MOST_STEPS, MOST_ARGUMENTS, MOST_MEMORY, MOST_ARGUMENT_BYTES = 1024, 256, 512, 4096
MOST_BLOCKS, MOST_THREADS = (2**31 - 1, 65535, 65535), (1024, 1024, 64)
POINTER_BYTES = 8
T = TypeVar("T")


@dataclass(frozen=True)
class PointerArgument:
    """The address of a tensor or of memory, `offset` bytes behind its start."""

    name: str
    offset: Term = 0


@dataclass(frozen=True)
class NumberArgument:
    """A number passed by value: of a whole type (`i32`) or a real one (`f32`)."""

    type: str
    value: Term


@dataclass(frozen=True)
class StructArgument:
    """A structure passed by value, its fields aligned as C++ aligns them."""

    fields: tuple[PointerArgument | NumberArgument, ...]


@dataclass(frozen=True)
class TensorMapArgument:
    """A descriptor for the tensor memory accelerator. Innermost dimension first; strides are in bytes."""

    name: str
    offset: Term
    type: str
    sizes: tuple[Term, ...]
    strides: tuple[Term, ...]
    box: tuple[Term, ...]
    steps: tuple[Term, ...]
    interleave: str
    swizzle: str
    promotion: str
    fill: str


@dataclass(frozen=True)
class PackedArgument:
    """The bytes of an argument in hexadecimal, with addresses and numbers put in at places."""

    data: str
    fields: tuple[tuple[int, PointerArgument | NumberArgument], ...]

    def __post_init__(self) -> None:
        size = len(self.data) // 2
        if any(at < 0 or at + _bytes_of(field) > size for at, field in self.fields):
            raise MalformedData("a field lies outside of its argument")


Argument = PointerArgument | NumberArgument | StructArgument | TensorMapArgument | PackedArgument
Triple = tuple[Term, Term, Term]


@dataclass(frozen=True)
class PortableLaunch:
    """One launch. `kernel` is the name expression that was compiled; a module says what it is called there."""

    kernel: str
    grid: Triple
    block: Triple
    arguments: tuple[Argument, ...]
    shared: Term = 0
    cluster: Triple | None = None
    cooperative: Term = False
    dependent: Term = False


@dataclass(frozen=True)
class PortableMemset:
    """Bytes set to a value of `width` bytes: 1, 2 or 4."""

    name: str
    offset: Term
    bytes: Term
    value: Term
    width: int


@dataclass(frozen=True)
class PortableCopy:
    """Bytes copied on the device."""

    target: str
    target_offset: Term
    source: str
    source_offset: Term
    bytes: Term


PortableStep = PortableLaunch | PortableMemset | PortableCopy


@dataclass(frozen=True)
class PortableMemory:
    """Memory of the kernel's own. `fill`: `garbage`, `zero` before each call, or `workspace`, zero before the first
    call and left zero by each."""

    name: str
    bytes: Term
    fill: str


@dataclass(frozen=True)
class PlannedCall:
    """What a call does: launches, memsets and copies in order, and the memory they need beside the tensors."""

    steps: tuple[PortableStep, ...]
    memory: tuple[PortableMemory, ...] = ()

    @property
    def launches(self) -> tuple[PortableLaunch, ...]:
        return tuple(step for step in self.steps if isinstance(step, PortableLaunch))

    def at(self, values: Values) -> PlannedCall:
        """With numbers alone. Raises FormulaError where one of them cannot be."""
        made = _mapped(self, lambda ref: values[ref.at])
        for step in made.steps:
            _require_possible(step)
        _require_whole(*(memory.bytes for memory in made.memory))
        return made

    @property
    def refs(self) -> frozenset[int]:
        found: set[int] = set()

        def seen(ref: Ref) -> Number:
            found.add(ref.at)
            return 0

        _mapped(self, seen)
        return frozenset(found)

    def renumbered(self, numbers: Callable[[int], int]) -> PlannedCall:
        return _mapped(self, lambda ref: Ref(numbers(ref.at)))

    def to_json(self) -> dict[str, Any]:
        """As a plan has it, without what concerns the compiler."""
        return {
            "launches": [_step_json(step) for step in self.steps],
            "scratch": [
                {"name": m.name, "bytes": _term_json(m.bytes), "zero": m.fill == "zero"}
                for m in self.memory
                if m.fill != "workspace"
            ],
            "workspaces": [{"name": m.name, "bytes": _term_json(m.bytes)} for m in self._workspaces],
        }

    @property
    def _workspaces(self) -> tuple[PortableMemory, ...]:
        return tuple(memory for memory in self.memory if memory.fill == "workspace")

    @classmethod
    def from_json(cls, raw: object) -> PlannedCall:
        given = record(raw, "plan", ("launches", "scratch", "workspaces"))
        scratch = listed(given["scratch"], "scratch", _scratch, MOST_MEMORY)
        workspaces = listed(given["workspaces"], "workspaces", _workspace, MOST_MEMORY)
        steps = listed(given["launches"], "launches", _step, MOST_STEPS, 1)
        names = [memory.name for memory in (*scratch, *workspaces)]
        if len(set(names)) != len(names):
            raise MalformedData("two scratches or workspaces have the same name")
        return cls(steps, (*scratch, *workspaces))


def _mapped(value: T, change: Callable[[Ref], Any]) -> T:
    """The same with another value for each reference; the depth is that of the types above."""
    if isinstance(value, Ref):
        return change(value)  # type: ignore[no-any-return]
    if isinstance(value, tuple):
        return tuple(_mapped(part, change) for part in value)  # type: ignore[return-value]
    if isinstance(value, _PARTS):
        changed = {field.name: _mapped(getattr(value, field.name), change) for field in fields(value)}
        return replace(value, **changed)
    return value


_PARTS = (
    PointerArgument,
    NumberArgument,
    StructArgument,
    TensorMapArgument,
    PackedArgument,
    *get_args(PortableStep),
    PortableMemory,
    PlannedCall,
)


def _bytes_of(field: PointerArgument | NumberArgument) -> int:
    if isinstance(field, PointerArgument):
        return POINTER_BYTES
    return int("".join(filter(str.isdigit, field.type))) // 8


def _require_possible(step: PortableStep) -> None:
    if isinstance(step, PortableMemset):
        _require_whole(step.offset, step.bytes, step.value)
    elif isinstance(step, PortableCopy):
        _require_whole(step.target_offset, step.source_offset, step.bytes)
    else:
        for what, sizes, most in (("grid", step.grid, MOST_BLOCKS), ("block", step.block, MOST_THREADS)):
            if not all(type(size) is int and 1 <= size <= end for size, end in zip(sizes, most, strict=True)):
                raise FormulaError(f"a {what} of {sizes} is not possible")
        _require_whole(step.shared)
        for argument in step.arguments:
            _require_fitting(argument)


def _require_fitting(argument: Argument) -> None:
    """A number has to be of its type: another would become other bytes than its author's compiler makes of it."""
    match argument:
        case NumberArgument(type=kind, value=value) if kind in INTEGERS:
            bits = int(kind[1:])
            least, end = (0, 1 << bits) if kind[0] == "u" else (-1 << bits - 1, 1 << bits - 1)
            if type(value) is not int or not least <= value < end:
                raise FormulaError(f"{value} does not fit into {kind}")
        case PointerArgument() | TensorMapArgument():
            _require_whole(argument.offset)
        case StructArgument():
            for part in argument.fields:
                _require_fitting(part)
        case PackedArgument():
            for _, part in argument.fields:
                _require_fitting(part)


def _require_whole(*terms: Term) -> None:
    if not all(type(term) is int and term >= 0 for term in terms):
        raise FormulaError("an offset or a number of bytes is negative or no whole number")


def _term(raw: object) -> Term:
    if isinstance(raw, dict):
        at = record(raw, "a number", ("node",))["node"]
        if type(at) is not int or at < 0:
            raise MalformedData("a node's number is not a whole number")
        return Ref(at)
    if not isinstance(raw, (int, float)):
        raise MalformedData("neither a number nor a node")
    try:
        return bounded(raw)
    except FormulaError as error:
        raise MalformedData(str(error)) from None


def whole_term(raw: object) -> Term:
    """A whole number, or a node that is expected to be one."""
    found = _term(raw)
    if not isinstance(found, Ref) and (type(found) is not int or not 0 <= found < MAGNITUDE):
        raise MalformedData("not a whole number from 0 on")
    return found


def _flag_term(raw: object) -> Term:
    return _term(raw) if isinstance(raw, dict) else flag(raw, "a choice")


def _term_json(term: Term) -> object:
    return {"node": term.at} if isinstance(term, Ref) else term


def _triple(raw: object) -> Triple:
    x, y, z = listed(raw, "a grid, block or cluster", whole_term, 3, 3)
    return x, y, z


def _step(raw: object) -> PortableStep:
    kind = raw.get("kind") if isinstance(raw, dict) else None
    if kind == "memset":
        given = record(raw, kind, ("kind", "name", "offset", "bytes", "value", "width"))
        offset, count, value = (whole_term(given[name]) for name in ("offset", "bytes", "value"))
        width = whole(given["width"], "width", 1, 4)
        return PortableMemset(identifier(given["name"], "memset"), offset, count, value, width)
    if kind == "copy":
        given = record(raw, kind, ("kind", "target", "target_offset", "source", "source_offset", "bytes"))
        target, source = (identifier(given[name], name) for name in ("target", "source"))
        offsets = whole_term(given["target_offset"]), whole_term(given["source_offset"])
        return PortableCopy(target, offsets[0], source, offsets[1], whole_term(given["bytes"]))
    return _launch(raw)


def _launch(raw: object) -> PortableLaunch:
    names = ("kernel", "grid", "block", "arguments", "shared", "cluster", "cooperative", "dependent")
    given = record(raw, "launch", names)
    return PortableLaunch(
        text(given["kernel"], "kernel", 512),
        _triple(given["grid"]),
        _triple(given["block"]),
        listed(given["arguments"], "arguments", _argument, MOST_ARGUMENTS),
        whole_term(given["shared"]),
        None if given["cluster"] is None else _triple(given["cluster"]),
        _flag_term(given["cooperative"]),
        _flag_term(given["dependent"]),
    )


def _argument(raw: object) -> Argument:
    kind = raw.get("kind") if isinstance(raw, dict) else None
    if kind == "struct":
        given = record(raw, "struct", ("kind", "fields"))
        return StructArgument(listed(given["fields"], "fields", _plain, 512, 1))
    if kind == "packed":
        given = record(raw, "packed", ("kind", "data", "fields"))
        return PackedArgument(
            hexadecimal(given["data"], MOST_ARGUMENT_BYTES), listed(given["fields"], "fields", _field, 512)
        )
    return _tensor_map(raw) if kind == "tensor_map" else _plain(raw)


def _field(raw: object) -> tuple[int, PointerArgument | NumberArgument]:
    at, field = listed(raw, "a field", lambda entry: entry, 2, 2)
    return whole(at, "a place", 0, MOST_ARGUMENT_BYTES), _plain(field)


def _plain(raw: object) -> PointerArgument | NumberArgument:
    kind = raw.get("kind") if isinstance(raw, dict) else None
    if kind == "pointer":
        given = record(raw, "pointer", ("kind", "name", "offset"))
        return PointerArgument(identifier(given["name"], "pointer"), whole_term(given["offset"]))
    if kind not in ("integer", "real"):
        raise MalformedData("an argument is not a pointer, an integer, a real, a struct or a tensor map")
    given = record(raw, str(kind), ("kind", "type", "value"))
    known = INTEGERS if kind == "integer" else REALS
    value = _term(given["value"])
    if not isinstance(value, Ref) and (type(value) is int) != (kind == "integer"):
        raise MalformedData(f"a value is not of the kind {kind}")
    return NumberArgument(one_of(given["type"], "type", known), value)


def _tensor_map(raw: object) -> TensorMapArgument:
    lists = ("sizes", "strides", "box", "steps")
    words = ("interleave", "swizzle", "promotion", "fill")
    given = record(raw, "tensor map", ("kind", "name", "offset", "type", *lists, *words))
    sizes, strides, box, steps = (listed(given[name], name, whole_term, 5) for name in lists)
    if not len(sizes) == len(box) == len(steps) == len(strides) + 1:
        raise MalformedData("a tensor map's sizes, strides, box and steps do not agree")
    return TensorMapArgument(
        identifier(given["name"], "tensor map"),
        whole_term(given["offset"]),
        one_of(given["type"], "type", MAP_TYPES),
        *(sizes, strides, box, steps),
        one_of(given["interleave"], "interleave", ("none", "16b", "32b")),
        one_of(given["swizzle"], "swizzle", ("none", "32b", "64b", "128b")),
        one_of(given["promotion"], "promotion", ("none", "64b", "128b", "256b")),
        one_of(given["fill"], "fill", ("zero", "nan")),
    )


def _scratch(raw: object) -> PortableMemory:
    given = record(raw, "scratch", ("name", "bytes", "zero"))
    fill = "zero" if flag(given["zero"], "zero") else "garbage"
    return PortableMemory(identifier(given["name"], "scratch"), whole_term(given["bytes"]), fill)


def _workspace(raw: object) -> PortableMemory:
    given = record(raw, "workspace", ("name", "bytes"))
    return PortableMemory(identifier(given["name"], "workspace"), whole_term(given["bytes"]), "workspace")


def _step_json(step: PortableStep) -> dict[str, object]:
    if isinstance(step, PortableLaunch):
        return _launch_json(step)
    kind = "memset" if isinstance(step, PortableMemset) else "copy"
    terms = {field.name: getattr(step, field.name) for field in fields(step)}
    return {"kind": kind, **{name: term if isinstance(term, str) else _term_json(term) for name, term in terms.items()}}


def _launch_json(launch: PortableLaunch) -> dict[str, object]:
    return {
        "kernel": launch.kernel,
        "grid": [_term_json(size) for size in launch.grid],
        "block": [_term_json(size) for size in launch.block],
        "arguments": [_argument_json(argument) for argument in launch.arguments],
        "shared": _term_json(launch.shared),
        "cluster": None if launch.cluster is None else [_term_json(size) for size in launch.cluster],
        "cooperative": _term_json(launch.cooperative),
        "dependent": _term_json(launch.dependent),
    }


def _argument_json(argument: Argument) -> dict[str, object]:
    match argument:
        case PointerArgument():
            return {"kind": "pointer", "name": argument.name, "offset": _term_json(argument.offset)}
        case NumberArgument():
            kind = "integer" if argument.type in INTEGERS else "real"
            return {"kind": kind, "type": argument.type, "value": _term_json(argument.value)}
        case StructArgument():
            return {"kind": "struct", "fields": [_argument_json(field) for field in argument.fields]}
        case PackedArgument():
            placed = [[at, _argument_json(field)] for at, field in argument.fields]
            return {"kind": "packed", "data": argument.data, "fields": placed}
    plain = {name: getattr(argument, name) for name in ("name", "type", "interleave", "swizzle", "promotion", "fill")}
    lists = {name: [_term_json(t) for t in getattr(argument, name)] for name in ("sizes", "strides", "box", "steps")}
    return {"kind": "tensor_map", "offset": _term_json(argument.offset), **plain, **lists}
