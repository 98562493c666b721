"""StandInMemory without values: where stand-in tensors lie, and which operators of torch host code may use on them.

Views and allocations are free; zeros and other constants become memsets, copies of whole tensors become copies, and
plain arithmetic becomes kernels of our own (arithmetic.py). Everything else is refused by name.
"""

from __future__ import annotations

import ctypes
import struct
from bisect import bisect_right
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .refusal import Refusals

GRANULE = 2 << 20
WORD = 8
ADDRESSES = frozenset(("address", "target", "source"))  # of a step or an output
VIEWS = frozenset(
    (
        *("view", "_unsafe_view", "reshape", "_reshape_alias", "as_strided", "transpose", "t", "permute", "expand"),
        *("unsqueeze", "squeeze", "slice", "select", "alias", "detach", "detach_", "lift_fresh", "lift", "split"),
        *("split_with_sizes", "unsafe_split", "chunk", "unbind", "narrow", "diagonal", "movedim", "swapaxes"),
        *("view_as", "flatten", "unflatten", "is_same_size", "requires_grad_", "resolve_conj", "resolve_neg"),
        *("sym_size", "sym_stride", "sym_numel", "sym_storage_offset", "size", "stride", "numel", "storage_offset"),
    )
)
EMPTIES = frozenset(("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"))
FILLS = {"zeros": 0, "zeros_like": 0, "new_zeros": 0, "zero_": 0, "ones": 1, "ones_like": 1, "new_ones": 1}
FULLS = frozenset(("full", "full_like", "new_full", "fill_", "fill"))
COPYING = frozenset(("_to_copy", "copy_", "copy"))
READS = {
    "_local_scalar_dense": "reads a value (.item(), float(), int(), or a branch on a tensor)",
    "item": "reads values (.item(), .numpy())",
    "is_nonzero": "branches on a value",
    "equal": "compares values on the host",
    "nonzero": "asks for a shape that depends on values",
    "masked_select": "asks for a shape that depends on values",
    "unique": "asks for a shape that depends on values",
}
_PACKED = {
    torch.float32: "<f",
    torch.float64: "<d",
    torch.float16: "<e",
    torch.int64: "<q",
    torch.int32: "<i",
    torch.int16: "<h",
    torch.int8: "<b",
    torch.uint8: "<B",
    torch.bool: "<?",
}


class StandInMemory:
    """The buffers of one call, at the addresses that `recorded.record.place_buffers` gives, and its steps."""

    def __init__(self, start: int, gap: int, refusals: Refusals) -> None:
        self._next, self._gap = start, gap
        self.refusals = refusals
        self.buffers: list[dict[str, Any]] = []
        self.steps: list[dict[str, Any]] = []
        self.stream = self.streams = 0
        self._places: dict[int, int] = {}
        self._kept: list[Any] = []  # a storage that lives keeps its identity

    def _place(self, size: int, kind: str, name: str) -> int:
        address = self._next
        self._next += max(1, -(-size // GRANULE)) * GRANULE + self._gap
        self.buffers.append({"address": address, "bytes": size, "kind": kind, "name": name})
        return address

    def argument(self, tensor: torch.Tensor, kind: str, name: str, size: int) -> None:
        storage = tensor.untyped_storage()
        self._places[storage._cdata] = self._place(size, kind, name)
        self._kept.append(storage)

    def address(self, tensor: torch.Tensor) -> int:
        if tensor.device.type != "cuda":
            raise self.refusals.refuse("a tensor of the CPU reaches a kernel: allocate it on the device of the inputs")
        storage = tensor.untyped_storage()
        if storage._cdata not in self._places:
            self._places[storage._cdata] = self._place(storage.nbytes(), "allocation", "")
            self._kept.append(storage)
        return self._places[storage._cdata] + int(tensor.storage_offset()) * tensor.element_size()

    def without_addresses(self, made: dict[str, list[Any]]) -> Any:
        """What a call did, whatever memory it got: buffers are numbered in the order in which they are met."""
        starts, met = [buffer["address"] for buffer in self.buffers], dict[int, int]()

        def renamed(value: int) -> Any:
            number = bisect_right(starts, value) - 1
            if number < 0 or value - starts[number] > self.buffers[number]["bytes"]:
                return value
            return met.setdefault(number, len(met)), value - starts[number]

        def told(key: str, value: Any) -> Any:
            if isinstance(value, dict):
                return {name: told(name, inner) for name, inner in value.items()}
            if isinstance(value, list):
                return [told(key, inner) for inner in value]
            if key == "data":
                data = bytes.fromhex(value)
                words = [data[at : at + WORD] for at in range(0, len(data), WORD)]
                return [renamed(int.from_bytes(word, "little")) if len(word) == WORD else word for word in words]
            return renamed(value) if key in ADDRESSES else value

        return told("", made)

    def memset(self, tensor: torch.Tensor, value: float) -> bool:
        """Whether it can be done by a memset."""
        if not dense(tensor):
            return False
        word = constant_word(tensor.dtype, value)
        if word is None:
            return False
        step = {"op": "memset", "address": self.address(tensor), "bytes": tensor.numel() * tensor.element_size()}
        if step["bytes"]:
            self.steps.append({**step, "value": word[0], "width": word[1], "stream": self.stream})
        return True

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        size = target.numel() * target.element_size()
        if size:
            ours, theirs = self.address(target), self.address(source)
            self.steps.append({"op": "copy", "target": ours, "source": theirs, "bytes": size, "stream": self.stream})


def dense(tensor: torch.Tensor) -> bool:
    """Whether its elements fill one range of memory, in whatever order of dimensions."""
    at = 1
    for size, stride in sorted(zip(tensor.shape, tensor.stride(), strict=True), key=lambda pair: pair[1]):
        if size != 1:
            if stride != at:
                return False
            at *= size
    return True


def constant_word(dtype: torch.dtype, value: float) -> tuple[int, int] | None:
    """The value of a memset and its width: 1, 2 or 4 bytes."""
    if value == 0:
        return 0, 1
    if dtype == torch.bfloat16:
        packed = struct.pack("<f", value)
        return (int.from_bytes(packed[2:], "little"), 2) if packed[:2] == b"\0\0" else None
    try:
        packed = struct.pack(_PACKED[dtype], value if dtype.is_floating_point else int(value))
    except (KeyError, struct.error, OverflowError, ValueError):
        return None
    for width in (1, 2, 4):
        if len(packed) % width == 0 and packed == packed[:width] * (len(packed) // width):
            return int.from_bytes(packed[:width], "little"), width
    return None


_REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"
_CUDA, _META = 1, 14  # places of device types in it


def stand_in_for_cuda(refusals: Refusals, tensors: type[torch.Tensor]) -> None:
    """Lets methods of a tensor that says that it is on a GPU work where PyTorch is without CUDA.

    A PyTorch with CUDA, and no device, has a way of its own. Otherwise the guard of tensors without data, which does
    nothing, serves.
    """
    torch._C._ensureCUDADeviceGuardSet()
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
    guards = (ctypes.c_void_p * (_META + 1)).in_dll(library, _REGISTRY)
    guards[_CUDA] = guards[_CUDA] or guards[_META]

    def numpy(self: torch.Tensor, *_: Any, **__: Any) -> Any:
        raise refusals.refuse(f"host code {READS['item']}: no value of a tensor reaches host code")

    move = tensors.to

    def to(self: torch.Tensor, *given: Any, **named: Any) -> torch.Tensor:
        """The guard that stands in would make "cuda", without a number, its own kind of device."""
        return move(self, *map(_numbered, given), **{name: _numbered(value) for name, value in named.items()})

    def cuda(self: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        return to(self, "cuda")

    tensors.numpy, tensors.cuda, tensors.to = numpy, cuda, to  # type: ignore[method-assign,assignment]


def _numbered(given: Any) -> Any:
    device = torch.device(given) if isinstance(given, str) else given
    lacks = isinstance(device, torch.device) and device.type == "cuda" and device.index is None
    return torch.device("cuda", 0) if lacks else given


class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees every operator that host code calls."""

    def __init__(self, memory: StandInMemory, arithmetic: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._memory, self._arithmetic = memory, arithmetic

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.split("::")[1]
        if name in VIEWS or name in EMPTIES or func._schema.name.startswith("prim"):
            return func(*args, **kwargs)
        if name in READS:
            raise self._memory.refusals.refuse(f"host code {READS[name]}: no value of a tensor reaches host code")
        if name in FILLS or name in FULLS:
            value = FILLS[name] if name in FILLS else args[1] if len(args) > 1 else kwargs.get("fill_value", 0)
            if name in ("new_full", "full") and len(args) < 2 and "fill_value" not in kwargs:
                value = 0
            if name == "new_full":
                value = args[2] if len(args) > 2 else kwargs["fill_value"]
            result = func(*args, **kwargs)
            if isinstance(value, torch.Tensor):
                raise self._memory.refusals.refuse("host code fills a tensor with the value of another")
            if result.device.type != "cuda":
                return result
            if not self._memory.memset(result, float(value) if not isinstance(value, bool) else int(value)):
                self._arithmetic.fill(result, value)
            return result
        result = func(*args, **kwargs)  # shapes and dtypes, without values
        if _on_host(args) and not _on_device(result):
            return result
        if len({one.device.type for one in _tensors((result, *args))}) > 1 and name in COPYING:
            raise self._memory.refusals.refuse("host code copies values between host and device")
        if not self._arithmetic.do(name, args, kwargs, result):
            raise self._memory.refusals.refuse(f"torch's {name} computes outside of Triton: write a kernel for it")
        return result


def _on_host(args: Any) -> bool:
    return all(one.device.type == "cpu" for one in _tensors(args))


def _on_device(result: Any) -> bool:
    return any(one.device.type != "cpu" for one in _tensors(result))


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, tuple | list):
        return [one for part in value for one in _tensors(part)]
    return []
