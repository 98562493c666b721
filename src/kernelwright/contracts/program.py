"""A launch plan with nothing left to decide: addresses, mangled names and argument bytes. What the launcher is sent.

Standard library only, so that the launcher is up quickly. The controller makes these values from checked data; the
launcher carries them out.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from kernelwright.tasks.dtypes import ITEM_BYTES

Triple = tuple[int, int, int]
TENSOR_MAP_BYTES = 128


@dataclass(frozen=True)
class Block:
    """Memory to map. `fill` says what the launcher puts there before a trial, and when.

    `received` and `output`: an allocation of the oracle's, left as it is; an output has no values before a call.
    `poison`: garbage before the trial. `zero`: garbage before the trial and zeros inside the timed window.
    `workspace`: zeros before the trial, and zeros are expected after it.
    """

    name: str
    base: int
    bytes: int
    offset: int
    extent: int
    writable: bool
    fill: str = "received"

    @property
    def address(self) -> int:
        return self.base + self.offset

    @property
    def shared(self) -> bool:
        """Whether the oracle made it."""
        return self.fill in ("received", "output")


@dataclass(frozen=True)
class Pointer:
    """Where in an argument's bytes the address of a block goes, and how far behind its start it points."""

    at: int
    block: int
    offset: int


@dataclass(frozen=True)
class TensorMap:
    """The arguments of cuTensorMapEncodeTiled. The enumerations are the driver's names, without their prefixes."""

    block: int
    offset: int
    data_type: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]  # in bytes, of all dimensions but the innermost
    box: tuple[int, ...]
    steps: tuple[int, ...]
    interleave: str
    swizzle: str
    promotion: str
    fill: str


@dataclass(frozen=True)
class Argument:
    """Bytes in hexadecimal with addresses to be filled in, or the number of a tensor map."""

    data: str = ""
    pointers: tuple[Pointer, ...] = ()
    tensor_map: int = -1

    @property
    def size(self) -> int:
        return TENSOR_MAP_BYTES if self.tensor_map >= 0 else len(self.data) // 2


@dataclass(frozen=True)
class Memset:
    """Bytes of a block set to one value, in order with the launches around it and inside the timed window.

    The value has `width` bytes: 1, 2 or 4, which divides `bytes`.
    """

    block: int
    offset: int
    bytes: int
    value: int = 0
    width: int = 1


@dataclass(frozen=True)
class Copy:
    """Bytes copied from block to block on the device, in order with the launches and inside the timed window."""

    target: int
    target_offset: int
    source: int
    source_offset: int
    bytes: int


@dataclass(frozen=True)
class TensorView:
    """A tensor in a block; strides in elements."""

    block: int
    offset: int
    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def extent(self) -> int:
        """The bytes from the first element to the last."""
        if not all(self.sizes):
            return 0
        last = sum((size - 1) * stride for size, stride in zip(self.sizes, self.strides, strict=True))
        return (last + 1) * ITEM_BYTES[self.dtype]


@dataclass(frozen=True)
class LibraryStep:
    """One of torch's own operators, which trusted torch carries out between the launches: `library: torch`.

    `call` is JSON of `tasks.imported.traced.OperatorCall`, whose nodes number `tensors`; those in `written` are
    changed. A launcher without torch refuses it.
    """

    operator: str
    call: str
    tensors: tuple[TensorView, ...]
    written: tuple[int, ...]
    results: tuple[TensorView, ...]

    @property
    def changed(self) -> tuple[TensorView, ...]:
        """What holds other values when the step is done: its results, and the tensors that it writes in place."""
        views = dict.fromkeys((*(self.tensors[place] for place in self.written), *self.results))
        return tuple(view for view in views if view.extent)


@dataclass(frozen=True)
class ProgramStep:
    """One kernel launch. `module` numbers the modules of the program."""

    module: int
    function: str
    grid: Triple
    block: Triple
    arguments: tuple[Argument, ...]
    shared: int = 0
    cluster: Triple | None = None
    cooperative: bool = False
    dependent: bool = False


@dataclass(frozen=True)
class Program:
    base: int
    span: int
    blocks: tuple[Block, ...]
    steps: tuple[ProgramStep | Memset | Copy | LibraryStep, ...]
    tensor_maps: tuple[TensorMap, ...] = ()
    modules: int = 0

    @property
    def launches(self) -> tuple[ProgramStep, ...]:
        return tuple(step for step in self.steps if isinstance(step, ProgramStep))

    @property
    def library(self) -> tuple[str, ...]:
        """The operators of torch that it leaves to torch, each once, in order."""
        return tuple(dict.fromkeys(step.operator for step in self.steps if isinstance(step, LibraryStep)))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> Program:
        return cls(
            raw["base"],
            raw["span"],
            tuple(Block(**block) for block in raw["blocks"]),
            tuple(_step(step) for step in raw["steps"]),
            tuple(_tensor_map(entry) for entry in raw["tensor_maps"]),
            raw["modules"],
        )


def _step(raw: dict[str, Any]) -> ProgramStep | Memset | Copy | LibraryStep:
    if "operator" in raw:
        views = {name: tuple(map(_view, raw[name])) for name in ("tensors", "results")}
        return LibraryStep(**{**raw, **views, "written": tuple(raw["written"])})
    if "target" in raw:
        return Copy(**raw)
    if "function" not in raw:
        return Memset(**raw)
    sizes = {name: tuple(raw[name]) for name in ("grid", "block")}
    cluster = None if raw["cluster"] is None else tuple(raw["cluster"])
    arguments = tuple(_argument(argument) for argument in raw["arguments"])
    return ProgramStep(**{**raw, **sizes, "cluster": cluster, "arguments": arguments})


def _view(raw: dict[str, Any]) -> TensorView:
    return TensorView(**{**raw, "sizes": tuple(raw["sizes"]), "strides": tuple(raw["strides"])})


def _argument(raw: dict[str, Any]) -> Argument:
    return Argument(raw["data"], tuple(Pointer(**pointer) for pointer in raw["pointers"]), raw["tensor_map"])


def _tensor_map(raw: dict[str, Any]) -> TensorMap:
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in raw.items()}
    return TensorMap(**values)


@dataclass(frozen=True)
class FunctionUse:
    """What a kernel takes of a multiprocessor, as the driver says."""

    function: str
    registers: int
    local_bytes: int
    static_shared: int
    dynamic_shared: int
    threads: int
    blocks_per_sm: int
    occupancy: float
