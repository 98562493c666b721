"""The portable kernel: what a call takes, where it holds, and what is launched or called, as closed data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .expressions import FormulaError, Nodes, Ref, Term
from .formula import LaunchFormula
from .launches import PlannedCall, whole_term
from .reading import MalformedData, identifier, listed, one_of, parsed, record, text, whole

FORMAT = 2
ALIGNMENT = 256  # bytes: what every tensor is aligned to in a judging
ROLES = ("input", "constant", "inout", "output")
DTYPES = (
    *("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"),
    *("int64", "int32", "int16", "int8", "uint8", "bool"),
)  # as `tasks.dtypes`, which a shipped kernel does not have; a test holds them together
MOST_RANK = 8
MOST_MODULES = 256  # of one case
MOST = (1 << 63) - 1
Builds = tuple[int, ...]
"""The modules of a case by number; none where nothing was built for it."""


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True)
class NamedSize:
    """A named size and where it may lie."""

    name: str
    least: int
    most: int


@dataclass(frozen=True)
class TensorArgument:
    """A row-major tensor. Its sizes are terms over `PortableKernel.shapes`; a kernel may rely on the alignment."""

    name: str
    role: str
    dtype: str
    shape: tuple[Term, ...]
    alignment: int = ALIGNMENT


@dataclass(frozen=True)
class ScalarArgument:
    """A number of the task. It is part of what was judged, so a call with another value is another operation."""

    name: str
    value: bool | int | float


@dataclass(frozen=True)
class Module:
    """A cubin by its SHA-256, and what the kernels of the formula are called in it."""

    digest: str
    names: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Variant:
    """How the kernel is launched on one kind of GPU. `builds` gives the modules of each case. Where none was built, the
    kernel cannot be used at the case's sizes."""

    architecture: str
    multiprocessors: int
    shared_per_block: int
    l2_bytes: int
    formula: LaunchFormula
    modules: tuple[Module, ...]
    builds: tuple[Builds, ...]

    def __post_init__(self) -> None:
        if len(self.builds) != len(self.formula.cases):
            raise MalformedData("not every case says which modules it needs")
        for case, numbers in zip(self.formula.cases, self.builds, strict=True):
            if not all(0 <= number < len(self.modules) for number in numbers):
                raise MalformedData("a case needs a module that is not there")
            named = [name for number in numbers for name, _ in self.modules[number].names]
            if numbers and (not set(case.kernels) <= set(named) or len(set(named)) != len(named)):
                raise MalformedData("the modules of a case do not name each of its kernels once")

    def at(self, sizes: Mapping[str, int]) -> tuple[tuple[Module, ...], PlannedCall]:
        """What is launched at these sizes. Raises FormulaError where nothing is."""
        number, case = self.formula.at(sizes)
        if not self.builds[number]:
            raise FormulaError("no module was built for these sizes")
        return tuple(self.modules[at] for at in self.builds[number]), case.planned


@dataclass(frozen=True)
class Library:
    """A shared library for the host by its SHA-256. `entry` and `prepare` take `const kw_argument*` (host_abi.h), one
    entry for each argument in order; it takes sizes at run time. `prepare` is empty where nothing is prepared."""

    digest: str
    machine: str  # what it was compiled for: `x86_64`, and with which of the processor's features
    entry: str = "kw_run"
    prepare: str = ""


@dataclass(frozen=True)
class PortableKernel:
    """One candidate for one choice of dtypes. Variants for GPUs, libraries for the host; a contract has one of them."""

    task: str
    contract: str
    sizes: tuple[NamedSize, ...]
    shapes: Nodes
    arguments: tuple[TensorArgument | ScalarArgument, ...]
    variants: tuple[Variant, ...] = ()
    libraries: tuple[Library, ...] = ()

    def __post_init__(self) -> None:
        names = [argument.name for argument in self.arguments]
        if len(set(names)) != len(names):
            raise MalformedData("two arguments have the same name")
        if not self.shapes.names <= {size.name for size in self.sizes}:
            raise MalformedData("a shape uses a size that has no range")
        for tensor in self.tensors:
            if any(isinstance(term, Ref) and term.at >= len(self.shapes.table) for term in tensor.shape):
                raise MalformedData(f"{tensor.name}: a size is a node that is not there")

    @property
    def tensors(self) -> tuple[TensorArgument, ...]:
        return tuple(a for a in self.arguments if isinstance(a, TensorArgument))

    @property
    def all_sizes(self) -> bool:
        """Whether it can be used at sizes that were not listed when it was built."""
        return bool(self.libraries) or any(not variant.formula.listed for variant in self.variants)

    def sizes_of(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
        """The named sizes, from the shapes of the tensors that a caller gives. Raises FormulaError where a size is
        not the whole of some dimension, shapes contradict each other, or a size is out of its range."""
        found: dict[str, int] = {}
        given = [tensor for tensor in self.tensors if tensor.name in shapes]
        for tensor in given:
            if len(shapes[tensor.name]) != len(tensor.shape):
                raise FormulaError(f"{tensor.name} has {len(shapes[tensor.name])} dimensions, not {len(tensor.shape)}")
            for term, value in zip(tensor.shape, shapes[tensor.name], strict=True):
                node = self.shapes.table[term.at] if isinstance(term, Ref) else None
                if isinstance(node, str):
                    found.setdefault(node, value)
        for size in self.sizes:
            if not size.least <= found.get(size.name, -1) <= size.most:
                raise FormulaError(f"the size {size.name} is not given from {size.least} to {size.most}")
        for tensor in given:
            if self.shape_of(tensor.name, found) != tuple(shapes[tensor.name]):
                raise FormulaError(f"{tensor.name} does not have the shape that the other tensors ask for")
        return found

    def shape_of(self, name: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
        values = self.shapes.at(sizes)
        tensor = next(tensor for tensor in self.tensors if tensor.name == name)
        return tuple(int(values.term(term)) for term in tensor.shape)

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "task": self.task,
            "contract": self.contract,
            "sizes": [[size.name, size.least, size.most] for size in self.sizes],
            "shapes": self.shapes.to_json(),
            "arguments": [_argument_json(argument) for argument in self.arguments],
            "variants": [_variant_json(variant) for variant in self.variants],
            "libraries": [vars(library).copy() for library in self.libraries],
        }

    def text(self) -> str:
        """The canonical JSON: equal kernels have equal texts."""
        return json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"), allow_nan=False)

    @classmethod
    def read(cls, text: str | bytes) -> PortableKernel:
        return cls.from_json(parsed(text))

    @classmethod
    def from_json(cls, raw: object) -> PortableKernel:
        keys = ("format", "task", "contract", "sizes", "shapes", "arguments", "variants", "libraries")
        given = record(raw, "kernel", keys)
        whole(given["format"], "format", FORMAT, FORMAT)
        return cls(
            text(given["task"], "task"),
            text(given["contract"], "contract", 64),
            listed(given["sizes"], "sizes", _size, 64),
            Nodes.from_json(given["shapes"]),
            listed(given["arguments"], "arguments", _argument, 256, 1),
            listed(given["variants"], "variants", _variant, 16),
            listed(given["libraries"], "libraries", _library, 16),
        )


def _size(raw: object) -> NamedSize:
    if not isinstance(raw, list) or len(raw) != 3:
        raise MalformedData("a size is not a name, a least and a most")
    return NamedSize(identifier(raw[0], "size"), whole(raw[1], "least", 0, MOST), whole(raw[2], "most", 0, MOST))


def _argument_json(argument: TensorArgument | ScalarArgument) -> dict[str, object]:
    if isinstance(argument, ScalarArgument):
        return {"name": argument.name, "value": argument.value}
    shape = [{"node": term.at} if isinstance(term, Ref) else term for term in argument.shape]
    return {**vars(argument), "shape": shape}


def _argument(raw: object) -> TensorArgument | ScalarArgument:
    if isinstance(raw, dict) and "value" in raw:
        given = record(raw, "argument", ("name", "value"))
        value = given["value"]
        if not isinstance(value, (bool, int, float)):
            raise MalformedData("the value of an argument is not a number")
        return ScalarArgument(identifier(given["name"], "argument"), value)
    given = record(raw, "argument", ("name", "role", "dtype", "shape", "alignment"))
    return TensorArgument(
        identifier(given["name"], "argument"),
        one_of(given["role"], "role", ROLES),
        one_of(given["dtype"], "dtype", DTYPES),
        listed(given["shape"], "shape", whole_term, MOST_RANK),
        whole(given["alignment"], "alignment", 1, 4096),
    )


_NUMBERS = ("multiprocessors", "shared_per_block", "l2_bytes")


def _variant_json(variant: Variant) -> dict[str, object]:
    return {
        "architecture": variant.architecture,
        **{name: getattr(variant, name) for name in _NUMBERS},
        "formula": variant.formula.to_json(),
        "modules": [{"digest": m.digest, "names": [list(pair) for pair in m.names]} for m in variant.modules],
        "builds": [list(numbers) for numbers in variant.builds],
    }


def _variant(raw: object) -> Variant:
    given = record(raw, "variant", ("architecture", *_NUMBERS, "formula", "modules", "builds"))
    multiprocessors, shared, l2 = (whole(given[name], name, 1, MOST) for name in _NUMBERS)
    return Variant(
        identifier(given["architecture"], "architecture"),
        multiprocessors,
        shared,
        l2,
        LaunchFormula.from_json(given["formula"]),
        listed(given["modules"], "modules", _module, 1024),
        listed(given["builds"], "builds", _builds, 1024),
    )


def _builds(raw: object) -> Builds:
    return listed(raw, "builds", lambda entry: whole(entry, "builds", 0, 1024), MOST_MODULES)


def _module(raw: object) -> Module:
    given = record(raw, "module", ("digest", "names"))
    return Module(_digest(given["digest"]), listed(given["names"], "names", _pair, 256))


def _pair(raw: object) -> tuple[str, str]:
    if not isinstance(raw, list) or len(raw) != 2:
        raise MalformedData("a name is not a pair")
    return text(raw[0], "name", 512), text(raw[1], "name", 4096)


def _library(raw: object) -> Library:
    given = record(raw, "library", ("digest", "machine", "entry", "prepare"))
    prepare = "" if given["prepare"] == "" else identifier(given["prepare"], "prepare")
    machine, entry = text(given["machine"], "machine"), identifier(given["entry"], "entry")
    return Library(_digest(given["digest"]), machine, entry, prepare)


def _digest(raw: object) -> str:
    if not isinstance(raw, str) or len(raw) != 64 or set(raw) - set("0123456789abcdef"):
        raise MalformedData("a digest is not a SHA-256")
    return raw
