"""What a recorder sends of one call of a candidate's host code: buffers, steps in the order of the host, outputs.

It comes out of hostile code, so the types are closed and every number has bounds. Addresses are those of the
recorder's own stand-ins: `place_buffers` says where each buffer has to lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from kernelwright.contracts.layout import GRANULE
from kernelwright.tasks.dtypes import DTYPES
from kernelwright.tasks.imported.traced import OperatorCall, references
from kernelwright.tasks.model import Signature

MOST_BUFFERS = 1024
MOST_STEPS = 1024
MOST_ARGUMENTS = 256
MOST_ARGUMENT_BYTES = 4096
MOST_BYTES = 16 << 30  # of all allocations together
MOST_SHARED = 256 << 10
MOST_STREAMS = 16
LONGEST_REASON = 400
MOST_CALL, MOST_TENSORS = 1 << 14, 256  # of one call of a library: characters, and tensors

Address = Annotated[int, Field(ge=0, lt=1 << 47)]
Size = Annotated[int, Field(ge=0, lt=1 << 40)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]
Function = Annotated[str, Field(pattern=r"^[A-Za-z_$][A-Za-z0-9_$.]{0,4095}$")]
Stream = Annotated[int, Field(ge=0, lt=MOST_STREAMS)]
Dtype = Annotated[str, Field(pattern=f"^({'|'.join(DTYPES)})$")]
Triple = tuple[int, int, int]


@dataclass(frozen=True)
class Bases:
    """Where a recorder puts its buffers: the first at `start`, and `gap` bytes between the granules of any two."""

    start: int
    gap: int


BASES = (Bases(0x4000_0000_0000, 1 << 30), Bases(0x5000_0800_0000, (1 << 30) + (272 << 20)))
"""A call is recorded at both. No buffer moves by as much as another, and neither is where the launcher puts tensors."""


def place_buffers(sizes: Sequence[int], bases: Bases) -> tuple[int, ...]:
    """The addresses of buffers of so many bytes. Every recorder computes the same, in whatever language it is written:
    each begins on a granule of 2 MiB, behind the granules of the one before it and the gap."""
    found, at = [], bases.start
    for size in sizes:
        found.append(at)
        at += max(1, -(-size // GRANULE)) * GRANULE + bases.gap
    return tuple(found)


class RecordValue(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class RecordedBuffer(RecordValue):
    """A tensor argument of the call (`name`), or memory that the host code allocated."""

    address: Address
    bytes: Size
    kind: Literal["input", "inout", "allocation"]
    name: Name | Literal[""] = ""

    @model_validator(mode="after")
    def _named(self) -> RecordedBuffer:
        if (self.kind == "allocation") != (not self.name):
            raise ValueError("a buffer that is an argument has its name, and an allocation has none")
        return self


class RecordedMap(RecordValue):
    """The arguments of cuTensorMapEncodeTiled, innermost dimension first; enumerations as in `program.TensorMap`."""

    address: Address
    data_type: Literal[
        "UINT8", "UINT16", "UINT32", "INT32", "UINT64", "INT64", "FLOAT16", "BFLOAT16", "FLOAT32", "FLOAT64", "TFLOAT32"
    ]
    sizes: tuple[Annotated[int, Field(ge=1, le=1 << 32)], ...] = Field(min_length=1, max_length=5)
    strides: tuple[Annotated[int, Field(ge=16, lt=1 << 40)], ...] = Field(max_length=4)  # bytes, all but the innermost
    box: tuple[Annotated[int, Field(ge=1, le=256)], ...]
    steps: tuple[Annotated[int, Field(ge=1, le=8)], ...]
    interleave: Literal["NONE", "16B", "32B"] = "NONE"
    swizzle: Literal["NONE", "32B", "64B", "128B"] = "NONE"
    promotion: Literal["NONE", "L2_64B", "L2_128B", "L2_256B"] = "NONE"
    fill: Literal["NONE", "NAN_REQUEST_ZERO_FMA"] = "NONE"

    @model_validator(mode="after")
    def _ranks_agree(self) -> RecordedMap:
        rank = len(self.sizes)
        if (len(self.strides), len(self.box), len(self.steps)) != (rank - 1, rank, rank):
            raise ValueError(f"a tensor map of {rank} sizes has {rank - 1} strides, {rank} boxes and {rank} steps")
        return self


class RecordedArgument(RecordValue):
    """One parameter of a kernel: its bytes in hexadecimal, or the tensor map that fills it."""

    data: Annotated[str, Field(pattern=r"^(?:[0-9a-f]{2})*$", max_length=2 * MOST_ARGUMENT_BYTES)] = ""
    tensor_map: RecordedMap | None = None


class RecordedLaunch(RecordValue):
    """`module` numbers the modules that the toolchain gives beside the record."""

    op: Literal["launch"]
    module: Annotated[int, Field(ge=0, lt=1024)]
    function: Function
    grid: Triple
    block: Triple
    arguments: tuple[RecordedArgument, ...] = Field(max_length=MOST_ARGUMENTS)
    shared: Annotated[int, Field(ge=0, le=MOST_SHARED)] = 0
    cluster: Triple | None = None
    cooperative: bool = False
    dependent: bool = False
    stream: Stream = 0

    @model_validator(mode="after")
    def _inside(self) -> RecordedLaunch:
        limits = [("grid", self.grid, (2**31 - 1, 65535, 65535)), ("block", self.block, (1024, 1024, 64))]
        limits += [("cluster", self.cluster, (16, 16, 16))] if self.cluster else []
        for what, sizes, most in limits:
            if not all(1 <= size <= limit for size, limit in zip(sizes, most, strict=True)):
                raise ValueError(f"{self.function}: {what} {sizes}: each size is at least 1 and at most {most}")
        if self.block[0] * self.block[1] * self.block[2] > 1024:
            raise ValueError(f"{self.function}: block {self.block} has more than 1024 threads")
        if self.cluster and self.cluster[0] * self.cluster[1] * self.cluster[2] > 16:
            raise ValueError(f"{self.function}: cluster {self.cluster} has more than 16 blocks")
        return self


class RecordedMemset(RecordValue):
    """`value` has `width` bytes, as in `program.Memset`."""

    op: Literal["memset"]
    address: Address
    bytes: Size
    value: Annotated[int, Field(ge=0)] = 0
    width: Literal[1, 2, 4] = 1
    stream: Stream = 0

    @model_validator(mode="after")
    def _whole(self) -> RecordedMemset:
        if self.bytes % self.width or self.address % self.width or self.value >= 1 << 8 * self.width:
            raise ValueError(f"memset: {self.bytes} bytes are not set to {self.value} in words of {self.width} bytes")
        return self


class RecordedCopy(RecordValue):
    """Device to device. Other directions move data that host code has, which has none to move."""

    op: Literal["copy"]
    target: Address
    source: Address
    bytes: Size
    stream: Stream = 0


class RecordedWait(RecordValue):
    """What follows on `stream` comes after what `on` had been given before step `until`: then an event was recorded,
    or it is the wait itself, of a synchronisation."""

    op: Literal["wait"]
    stream: Stream
    on: Stream
    until: Annotated[int, Field(ge=0, le=MOST_STEPS)]


class RecordedTensor(RecordValue):
    """A tensor somewhere in the buffers of a call: one that the host code returned, for instance. Strides are in
    elements."""

    address: Address
    dtype: Dtype
    sizes: tuple[Size, ...] = Field(max_length=16)
    strides: tuple[Size, ...] = Field(max_length=16)

    @model_validator(mode="after")
    def _ranks_agree(self) -> RecordedTensor:
        if len(self.sizes) != len(self.strides):
            raise ValueError("an output has as many strides as sizes")
        return self


class RecordedLibrary(RecordValue):
    """A call of one of torch's own operators, as JSON of `tasks.imported.traced.OperatorCall`: its nodes number
    `tensors`, of which those in `written` are changed. It writes `results`, but for those that are such a tensor."""

    op: Literal["library"]
    call: Annotated[str, Field(max_length=MOST_CALL)]
    tensors: tuple[RecordedTensor, ...] = Field(max_length=MOST_TENSORS)
    written: tuple[Annotated[int, Field(ge=0, lt=MOST_TENSORS)], ...] = Field(max_length=MOST_TENSORS)
    results: tuple[RecordedTensor, ...] = Field(max_length=MOST_TENSORS)
    stream: Stream = 0

    @model_validator(mode="after")
    def _known(self) -> RecordedLibrary:
        call = OperatorCall.model_validate_json(self.call)
        if any(node >= len(self.tensors) for node in references((*call.args, *call.kwargs.values()))):
            raise ValueError(f"{call.op} takes a tensor that is not there")
        if any(place >= len(self.tensors) for place in self.written):
            raise ValueError(f"{call.op} writes a tensor that is not there")
        return self

    @property
    def operator(self) -> str:
        """As an author knows it: `convolution`."""
        return OperatorCall.model_validate_json(self.call).op.split(".")[1]


RecordedStep = Annotated[
    RecordedLaunch | RecordedMemset | RecordedCopy | RecordedWait | RecordedLibrary, Field(discriminator="op")
]


class Record(RecordValue):
    """One call. Stream 0 is the one that the caller waits for."""

    buffers: tuple[RecordedBuffer, ...] = Field(max_length=MOST_BUFFERS)
    steps: tuple[RecordedStep, ...] = Field(max_length=MOST_STEPS)
    outputs: tuple[RecordedTensor, ...] = Field(max_length=64)

    @model_validator(mode="after")
    def _sums(self) -> Record:
        if sum(buffer.bytes for buffer in self.buffers if buffer.kind == "allocation") > MOST_BYTES:
            raise ValueError(f"the call allocates more than {MOST_BYTES >> 30} GiB")
        names = [buffer.name for buffer in self.buffers if buffer.name]
        if len(set(names)) != len(names):
            raise ValueError("two buffers have the same name")
        return self


class RecordRefusal(RecordValue):
    """Why a call cannot be recorded, in one line for its author."""

    refused: Annotated[str, Field(min_length=1, max_length=LONGEST_REASON)]


def with_scalars(record: Record, signature: Signature) -> Record:
    """One element in one dimension counts as the scalar that the task has."""
    wanted = signature.outputs
    if len(record.outputs) != len(wanted):
        return record
    outputs = tuple(
        output.model_copy(update={"sizes": (), "strides": ()}) if not tensor.shape and output.sizes == (1,) else output
        for output, tensor in zip(record.outputs, wanted, strict=True)
    )
    return record.model_copy(update={"outputs": outputs})
