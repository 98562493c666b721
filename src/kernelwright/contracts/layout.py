"""How large tensors are, and where tensors, scratch and workspaces lie in a launcher's address space.

Pure arithmetic; no CUDA. Everything lies in one reservation at a fixed address, so that addresses are the same in
every process. Each block is an allocation of its own between unmapped guards, and what it holds ends as close to the
guard behind it as its alignment allows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kernelwright.tasks.dtypes import ITEM_BYTES
from kernelwright.tasks.model import Signature, TensorSpec

ALIGNMENT = 256  # of the contents of every tensor, on every device
WRITABLE_ROLES = ("output", "inout")
BASE = 0x3000_0000_0000
SPAN = 1 << 40  # smaller reservations do not get the address they ask for, or get module globals as neighbours
GRANULE = 2 << 20
GUARD = 1 << 30


class Access(StrEnum):
    read = "read"
    write = "write"


@dataclass(frozen=True)
class Place:
    """One block: where it is mapped, and what of it the kernel is told about."""

    name: str
    base: int
    bytes: int
    offset: int
    extent: int
    access: Access

    @property
    def address(self) -> int:
        return self.base + self.offset

    @property
    def tail(self) -> int:
        """Where the slack behind the contents begins."""
        return self.offset + self.extent


@dataclass(frozen=True)
class Layout:
    tensors: tuple[Place, ...]
    private: tuple[Place, ...] = ()  # scratch and workspaces, which only the launcher has

    def named(self, name: str) -> Place:
        return next(place for place in (*self.tensors, *self.private) if place.name == name)


def extent_bytes(tensor: TensorSpec) -> int:
    """Bytes from the first to the last element, strides included."""
    if any(size == 0 for size in tensor.shape):
        return 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.strides, strict=True))
    return (last + 1) * ITEM_BYTES[tensor.dtype]


def size_of(extent: int) -> tuple[int, int]:
    """The bytes of a block's allocation, and the offset of its contents in it."""
    aligned = max(_up(extent, ALIGNMENT), ALIGNMENT)
    whole = _up(aligned, GRANULE)
    return whole, whole - aligned


def lay_out(signature: Signature, private: tuple[tuple[str, int], ...] = ()) -> Layout:
    """Places the tensors in the order of the signature, then the private blocks (name and bytes)."""
    at = BASE + GUARD
    tensors, others = [], []
    for tensor in signature.tensors:
        place = _place(at, tensor.name, extent_bytes(tensor), _access(tensor))
        tensors.append(place)
        at = place.base + place.bytes + GUARD
    for name, extent in private:
        place = _place(at, name, extent, Access.write)
        others.append(place)
        at = place.base + place.bytes + GUARD
    if at > BASE + SPAN:
        raise ValueError("the tensors of this workload do not fit into the reserved addresses")
    return Layout(tuple(tensors), tuple(others))


def _place(at: int, name: str, extent: int, access: Access) -> Place:
    whole, offset = size_of(extent)
    return Place(name, at, whole, offset, extent, access)


def _access(tensor: TensorSpec) -> Access:
    return Access.write if tensor.role in WRITABLE_ROLES else Access.read


def _up(value: int, step: int) -> int:
    return (value + step - 1) // step * step
