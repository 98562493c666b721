"""What a plan.py imports: stand-ins for tensors, and functions that describe launches.

Nothing here launches or checks anything: it writes down what the author says, and the judge reads that as data.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

ITEM_BYTES = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}
MAP_TYPES = {
    "float64": "f64",
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "u8",
    "float8_e5m2": "u8",
    "int64": "i64",
    "int32": "i32",
    "int16": "u16",
    "int8": "u8",
    "uint8": "u8",
    "bool": "u8",
}


@dataclass(frozen=True)
class Device:
    """What the plan may know of the GPU."""

    architecture: str = "sm_90a"
    multiprocessors: int = 132
    shared_per_block: int = 232448
    l2_bytes: int = 62914560


device = Device()


@dataclass(frozen=True)
class Tensor:
    """A tensor without data. Strides are in elements. As an argument it is the address of its first element."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def itemsize(self) -> int:
        return ITEM_BYTES[self.dtype]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def size(self, dim: int) -> int:
        return self.shape[dim]

    def stride(self, dim: int) -> int:
        return self.strides[dim]

    def numel(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count

    def at(self, element: int) -> dict[str, Any]:
        """The address of another element, counted in memory from the first."""
        return {"kind": "pointer", "name": self.name, "offset": element * self.itemsize}


@dataclass(frozen=True)
class Memory:
    """A scratch or a workspace. As an argument it is its address."""

    name: str
    bytes: int
    zero: bool
    workspace: bool

    def at(self, offset: int) -> dict[str, Any]:
        return {"kind": "pointer", "name": self.name, "offset": offset}


made: list[Memory] = []  # by the call of plan() that is under way


def scratch(name: str, bytes: int, zero: bool = False) -> Memory:
    """Memory of your own. With `zero` it is set to zero inside the timed window, else it holds garbage."""
    made.append(Memory(name, bytes, zero, False))
    return made[-1]


def workspace(name: str, bytes: int) -> Memory:
    """Memory that is zero before each call and that you must leave zero. Nobody is charged for zeroing it."""
    made.append(Memory(name, bytes, False, True))
    return made[-1]


def _integer(kind: str, value: int) -> dict[str, Any]:
    return {"kind": "integer", "type": kind, "value": int(value)}


def _real(kind: str, value: float) -> dict[str, Any]:
    return {"kind": "real", "type": kind, "value": float(value)}


def i8(value: int) -> dict[str, Any]:
    return _integer("i8", value)


def u8(value: int) -> dict[str, Any]:
    return _integer("u8", value)


def i16(value: int) -> dict[str, Any]:
    return _integer("i16", value)


def u16(value: int) -> dict[str, Any]:
    return _integer("u16", value)


def i32(value: int) -> dict[str, Any]:
    return _integer("i32", value)


def u32(value: int) -> dict[str, Any]:
    return _integer("u32", value)


def i64(value: int) -> dict[str, Any]:
    return _integer("i64", value)


def u64(value: int) -> dict[str, Any]:
    return _integer("u64", value)


def f16(value: float) -> dict[str, Any]:
    return _real("f16", value)


def bf16(value: float) -> dict[str, Any]:
    return _real("bf16", value)


def f32(value: float) -> dict[str, Any]:
    return _real("f32", value)


def f64(value: float) -> dict[str, Any]:
    return _real("f64", value)


def struct(*fields: Any) -> dict[str, Any]:
    """A structure by value."""
    return {"kind": "struct", "fields": [_plain(value) for value in fields]}


def tensor_map(
    tensor: Tensor,
    box: tuple[int, ...],
    *,
    sizes: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
    type: str | None = None,
    steps: tuple[int, ...] | None = None,
    interleave: str = "none",
    swizzle: str = "none",
    promotion: str = "128b",
    fill: str = "zero",
) -> dict[str, Any]:
    """A TMA descriptor of a tensor, by default of its whole shape. `sizes`, `strides` (elements) and `box` are given
    as the tensor has them, outermost first. The kernel takes it as `const __grid_constant__ CUtensorMap`."""
    shape = tuple(sizes or tensor.shape)
    steps_of = tuple(strides or tensor.strides)
    return {
        "kind": "tensor_map",
        "name": tensor.name,
        "type": type or MAP_TYPES[tensor.dtype],
        "sizes": list(reversed(shape)),
        "strides": [stride * tensor.itemsize for stride in reversed(steps_of[:-1])],
        "box": list(reversed(box)),
        "steps": list(reversed(steps or (1,) * len(shape))),
        "interleave": interleave,
        "swizzle": swizzle,
        "promotion": promotion,
        "fill": fill,
    }


@dataclass(frozen=True)
class Launch:
    kernel: str
    grid: Any
    block: Any
    arguments: tuple[Any, ...]
    shared: int = 0
    cluster: Any = None
    cooperative: bool = False
    dependent: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel,
            "grid": _triple(self.grid),
            "block": _triple(self.block),
            "arguments": [_plain(argument) for argument in self.arguments],
            "shared": self.shared,
            "cluster": None if self.cluster is None else _triple(self.cluster),
            "cooperative": self.cooperative,
            "dependent": self.dependent,
        }


def launch(
    kernel: str,
    grid: Any,
    block: Any,
    *arguments: Any,
    shared: int = 0,
    cluster: Any = None,
    cooperative: bool = False,
    dependent: bool = False,
) -> Launch:
    """One launch. `kernel` is a name or a name expression such as `f<float, 4>`; sizes are a number or up to three.

    `shared` is dynamic shared memory in bytes; `dependent` is programmatic dependent launch on the one before.
    """
    return Launch(kernel, grid, block, arguments, shared, cluster, cooperative, dependent)


@dataclass(frozen=True)
class Plan:
    launches: tuple[Launch, ...]
    definitions: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "launches": [step.to_json() for step in self.launches],
            "scratch": [{"name": m.name, "bytes": m.bytes, "zero": m.zero} for m in made if not m.workspace],
            "workspaces": [{"name": m.name, "bytes": m.bytes} for m in made if m.workspace],
            "definitions": [[name, _definition(value)] for name, value in self.definitions.items()],
            "options": self.options,
        }


def plan(
    *launches: Launch,
    definitions: dict[str, Any] | None = None,
    fast_math: bool = False,
    max_registers: int | None = None,
    std: str = "c++17",
) -> Plan:
    """Launches in order, and how this workload's kernels are compiled. `definitions` become `#define`s."""
    options = {"fast_math": fast_math, "max_registers": max_registers, "std": std}
    return Plan(tuple(launches), {name: _definition(value) for name, value in (definitions or {}).items()}, options)


def _definition(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _triple(value: Any) -> list[Any]:
    sizes = list(value) if isinstance(value, (tuple, list)) else [value]
    return [*sizes, 1, 1, 1][:3] if len(sizes) <= 3 else sizes


def _plain(argument: Any) -> dict[str, Any]:
    if isinstance(argument, dict):
        return argument
    if isinstance(argument, (Tensor, Memory)):
        return {"kind": "pointer", "name": argument.name, "offset": 0}
    if isinstance(argument, (bool, int)):
        raise TypeError(f"the argument {argument!r} has no size: write kw.i32({argument}), kw.i64({argument}), ...")
    if isinstance(argument, float):
        raise TypeError(f"the argument {argument!r} has no size: write kw.f32({argument}) or kw.f64({argument})")
    raise TypeError(f"{argument!r} cannot be an argument of a kernel")
