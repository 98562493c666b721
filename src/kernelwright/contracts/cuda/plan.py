"""The plan of a `cuda` candidate as checked data: which kernels are launched, how, and with what.

A plan comes out of hostile code, so the types are closed and every number has bounds. What passes here can still be
wrong for a device or a kernel, which then is the candidate's fault; it cannot make the judge do anything else.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

MOST_LAUNCHES = 1024  # a whole network is a few hundred
MOST_ARGUMENTS = 256
MOST_DEFINITIONS = 16384
MOST_MEMORY = 256  # pieces of scratch, and as many of workspace
MOST_SCRATCH = 16 << 30
MOST_WORKSPACE = 16 << 20
MOST_SHARED = 256 << 10
IDENTIFIER = r"^[A-Za-z_][A-Za-z0-9_]{0,63}$"
KERNEL = r"^[A-Za-z_][A-Za-z0-9_:<>,()*&+\-./|~!= ]{0,511}$"
VALUE = r"^[ -~]{0,256}$"

IntegerType = Literal["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"]
RealType = Literal["f16", "bf16", "f32", "f64"]
Name = Annotated[str, Field(pattern=IDENTIFIER)]
Offset = Annotated[int, Field(ge=0, lt=1 << 40)]


class Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class PlanPointer(Value):
    """The address of a tensor, scratch or workspace, `offset` bytes behind its start."""

    kind: Literal["pointer"]
    name: Name
    offset: Offset = 0


class Integer(Value):
    kind: Literal["integer"]
    type: IntegerType
    value: int

    @model_validator(mode="after")
    def _fits(self) -> Integer:
        bits = int(self.type[1:])
        low, high = (0, 1 << bits) if self.type[0] == "u" else (-(1 << bits - 1), 1 << bits - 1)
        if not low <= self.value < high:
            raise ValueError(f"{self.value} does not fit into {self.type}")
        return self


class Real(Value):
    kind: Literal["real"]
    type: RealType
    value: float = Field(allow_inf_nan=False)


Plain = Annotated[PlanPointer | Integer | Real, Field(discriminator="kind")]


class Struct(Value):
    """A structure passed by value, its fields aligned as C++ aligns them."""

    kind: Literal["struct"]
    fields: tuple[Plain, ...] = Field(min_length=1, max_length=512)


class PlanTensorMap(Value):
    """A descriptor for the tensor memory accelerator, encoded by the launcher. Innermost dimension first."""

    kind: Literal["tensor_map"]
    name: Name
    offset: Offset = 0
    type: Literal["u8", "u16", "u32", "i32", "u64", "i64", "f16", "bf16", "f32", "f64", "tf32"]
    sizes: tuple[Annotated[int, Field(ge=1, le=1 << 32)], ...] = Field(min_length=1, max_length=5)
    strides: tuple[Annotated[int, Field(ge=16, lt=1 << 40)], ...] = Field(max_length=4)  # bytes
    box: tuple[Annotated[int, Field(ge=1, le=256)], ...]
    steps: tuple[Annotated[int, Field(ge=1, le=8)], ...]
    interleave: Literal["none", "16b", "32b"] = "none"
    swizzle: Literal["none", "32b", "64b", "128b"] = "none"
    promotion: Literal["none", "64b", "128b", "256b"] = "128b"
    fill: Literal["zero", "nan"] = "zero"

    @model_validator(mode="after")
    def _ranks_agree(self) -> PlanTensorMap:
        rank = len(self.sizes)
        if (len(self.strides), len(self.box), len(self.steps)) != (rank - 1, rank, rank):
            raise ValueError(f"a tensor map of {rank} sizes has {rank - 1} strides, {rank} boxes and {rank} steps")
        return self


Argument = Annotated[PlanPointer | Integer | Real | Struct | PlanTensorMap, Field(discriminator="kind")]
Triple = tuple[int, int, int]


class Launch(Value):
    kernel: str = Field(pattern=KERNEL)
    grid: Triple
    block: Triple
    arguments: tuple[Argument, ...] = Field(max_length=MOST_ARGUMENTS)
    shared: int = Field(default=0, ge=0, le=MOST_SHARED)
    cluster: Triple | None = None
    cooperative: bool = False
    dependent: bool = False

    @field_validator("grid")
    @classmethod
    def _grid(cls, value: Triple) -> Triple:
        return _inside("grid", value, (2**31 - 1, 65535, 65535))

    @field_validator("block")
    @classmethod
    def _block(cls, value: Triple) -> Triple:
        if (count := value[0] * value[1] * value[2]) > 1024:
            raise ValueError(f"a block of {count} threads: at most 1024")
        return _inside("block", value, (1024, 1024, 64))

    @field_validator("cluster")
    @classmethod
    def _cluster(cls, value: Triple | None) -> Triple | None:
        if value is not None and value[0] * value[1] * value[2] > 16:
            raise ValueError("a cluster has at most 16 blocks")
        return value if value is None else _inside("cluster", value, (16, 16, 16))


class Scratch(Value):
    """Memory for the candidate alone: garbage before each call, or zeros written inside the timed window."""

    name: Name
    bytes: int = Field(ge=1, le=MOST_SCRATCH)
    zero: bool = False


class Workspace(Value):
    """Memory that is zero before each call, at no cost, and that the call must leave zero."""

    name: Name
    bytes: int = Field(ge=1, le=MOST_WORKSPACE)


class Options(Value):
    """What of the compiler's behaviour a candidate may choose."""

    std: Literal["c++17", "c++20"] = "c++17"
    fast_math: bool = False
    max_registers: int | None = Field(default=None, ge=16, le=255)


class Plan(Value):
    launches: tuple[Launch, ...] = Field(min_length=1, max_length=MOST_LAUNCHES)
    scratch: tuple[Scratch, ...] = Field(default=(), max_length=MOST_MEMORY)
    workspaces: tuple[Workspace, ...] = Field(default=(), max_length=MOST_MEMORY)
    definitions: tuple[tuple[Name, Annotated[str, Field(pattern=VALUE)]], ...] = Field(
        default=(), max_length=MOST_DEFINITIONS
    )
    options: Options = Options()

    @model_validator(mode="after")
    def _sums(self) -> Plan:
        if self.launches[0].dependent:
            raise ValueError("the first launch has no launch before it to depend on")
        names = [*(block.name for block in self.scratch), *(block.name for block in self.workspaces)]
        if len(set(names)) != len(names):
            raise ValueError("two scratches or workspaces have the same name")
        if sum(block.bytes for block in self.scratch) > MOST_SCRATCH:
            raise ValueError(f"the scratches have more than {MOST_SCRATCH:,} bytes together")
        if sum(block.bytes for block in self.workspaces) > MOST_WORKSPACE:
            raise ValueError(f"the workspaces have more than {MOST_WORKSPACE:,} bytes together")
        return self

    @property
    def kernels(self) -> tuple[str, ...]:
        """The name expressions to compile, each once, in order."""
        return tuple(dict.fromkeys(launch.kernel for launch in self.launches))


def _inside(what: str, value: Triple, most: Triple) -> Triple:
    for size, limit in zip(value, most, strict=True):
        if not 1 <= size <= limit:
            raise ValueError(f"{what} {value}: each size is at least 1 and at most {most}")
    return value
