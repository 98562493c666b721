"""Launches a kernel of a GPU contract: the formula gives steps for sizes, and they are enqueued on torch's stream.

No synchronisation. Scratch comes from torch's allocator, which knows streams and captured graphs. Everything that is
written for a call is made for that call, so threads share nothing.
"""

from __future__ import annotations

import ctypes
import hashlib
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch

from . import driver
from .host import LibraryError

PORTABLE_CLUSTER = 8
SLOT = 64
MOST_ENCODED = 64  # tensor maps that are kept for one argument, by address
FORMATS = {
    "i8": "<b", "u8": "<B", "i16": "<h", "u16": "<H", "i32": "<i", "u32": "<I", "i64": "<q", "u64": "<Q",
    "f16": "<e", "f32": "<f", "f64": "<d",
}  # fmt: skip
Reader = Callable[[bytes], Any]
"""From the text of a portable kernel to an object with `variants`, each with `architecture` and `at(sizes)`."""


@dataclass(frozen=True)
class _Argument:
    """Bytes with the places of addresses in them (place, name, offset), or a tensor map.

    `encoded` are tensor maps by address. All else that one consists of is the plan's, so an address that comes again
    has the same map, whatever lies there now.
    """

    data: bytes
    pointers: tuple[tuple[int, str, int], ...] = ()
    tensor_map: Mapping[str, Any] | None = None
    encoded: dict[int, bytes] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class _Launch:
    kernel: ctypes.c_void_p
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    attributes: tuple[tuple[int, tuple[int, ...]], ...]
    arguments: tuple[_Argument, ...]


@dataclass(frozen=True)
class _Memset:
    name: str
    offset: int
    bytes: int
    value: int
    width: int


@dataclass(frozen=True)
class _Copy:
    target: str
    target_offset: int
    source: str
    source_offset: int
    bytes: int


_Step = _Launch | _Memset | _Copy


@dataclass(frozen=True)
class _Plan:
    steps: tuple[_Step, ...]
    scratch: tuple[tuple[str, int, bool], ...]
    workspaces: tuple[tuple[str, int], ...]


class DeviceLibrary:
    def __init__(self, path: Path, sha256: str, architecture: str, names: Sequence[str], reader: Reader | None) -> None:
        """`names` are those of all arguments, inputs and then outputs."""
        self._path, self._sha256, self._architecture = path, sha256, architecture
        self._names, self._reader = tuple(names), reader
        self._loading = threading.Lock()
        self._variant: Any = None
        self._modules: dict[str, ctypes.c_void_p] = {}
        self._plans: dict[Any, _Plan] = {}
        self._workspaces: dict[tuple[int, int, str], torch.Tensor] = {}
        self._fast_workspaces: Any = None  # not the same ones: each side leaves its own zero

    def load(self) -> None:
        """Reads the formula and loads every module, once."""
        with self._loading:
            if self._variant is None:
                self._variant = self._loaded()

    def _loaded(self) -> Any:
        text = self._read(self._path, self._sha256)
        if self._reader is None:
            raise LibraryError(f"{self._path}: nothing here reads launch formulas")
        kernel = self._reader(text)
        variant = next((one for one in kernel.variants if one.architecture == self._architecture), None)
        if variant is None:
            raise LibraryError(f"{self._path}: has no variant for {self._architecture}")
        for module in variant.modules:
            content = self._read(self._path.parent / f"{module.digest}.cubin", module.digest)
            self._modules[module.digest] = driver.load_module(content)
        return variant

    @staticmethod
    def _read(path: Path, sha256: str) -> bytes:
        try:
            content = path.read_bytes()
        except OSError as error:
            raise LibraryError(f"{path}: {error.strerror}; install the package again") from error
        if hashlib.sha256(content).hexdigest() != sha256:
            raise LibraryError(f"{path}: is not the file that was proved; install the package again")
        return content

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether the formula has launches for these sizes."""
        self.load()
        try:
            self._variant.at(sizes)
        except ValueError:  # no case, or none that was built
            return False
        return True

    def call(
        self, shapes: Any, values: Sequence[Any], outputs: Sequence[torch.Tensor], sizes: Mapping[str, int]
    ) -> None:
        device = next(one.device.index for one in values if isinstance(one, torch.Tensor))
        plan = self._plans.get((shapes, device))
        if plan is None:
            plan = self._plans[shapes, device] = self._planned(sizes, device)
        if device == torch.cuda.current_device():
            self._enqueue(plan, device, values, outputs)
        else:
            with torch.cuda.device(device):
                self._enqueue(plan, device, values, outputs)

    def fast_body(self, module: Any, chosen: Any, arguments: Sequence[Any]) -> Any:
        """The same launches for the fast path, with a slot for each address in place of a name; None where the driver
        or torch lacks a function that it needs."""
        try:
            opened = fast_driver(module, chosen.device.type)
        except module.DriverFailure:
            return None
        if self._fast_workspaces is None:
            self._fast_workspaces = module.Workspaces()
        plan = self._planned(chosen.sizes, chosen.device.index)
        count = len(arguments)
        names = [name for name, one in zip(self._names, arguments, strict=False) if isinstance(one, torch.Tensor)]
        names += self._names[count:]
        order = [*names, *(name for name, _, _ in plan.scratch), *(name for name, _ in plan.workspaces)]
        slots = {name: slot for slot, name in enumerate(order)}
        return module.device_body(
            opened,
            self._fast_workspaces,
            chosen.device,
            [_with_slots(one, slots) for one in plan.steps],
            [(size, zero) for _, size, zero in plan.scratch],
            list(plan.workspaces),
            len(names),
        )

    def _enqueue(self, plan: _Plan, device: int, values: Sequence[Any], outputs: Sequence[torch.Tensor]) -> None:
        stream = torch._C._cuda_getCurrentRawStream(device)
        given = zip(self._names, (*values, *outputs), strict=True)
        addresses = {name: one.data_ptr() for name, one in given if isinstance(one, torch.Tensor)}
        kept = []  # until everything is enqueued; the allocator gives it to this stream alone after that
        for name, size, zero in plan.scratch:
            memory = _bytes(size, device)
            kept.append(memory)
            addresses[name] = memory.data_ptr()
            if zero:
                driver.fill_zero(memory.data_ptr(), size, stream)
        for name, size in plan.workspaces:
            memory = self._workspace(name, size, device, stream)
            kept.append(memory)
            addresses[name] = memory.data_ptr()
        try:
            for one in plan.steps:
                if isinstance(one, _Launch):
                    _launched(one, addresses, stream, device)
                elif isinstance(one, _Memset):
                    driver.fill(addresses[one.name] + one.offset, one.bytes, one.value, one.width, stream)
                else:
                    source = addresses[one.source] + one.source_offset
                    driver.copy(addresses[one.target] + one.target_offset, source, one.bytes, stream)
        except driver.DriverError:
            self._workspaces.clear()  # what a launch that failed left there is not known
            raise

    def _workspace(self, name: str, size: int, device: int, stream: int) -> torch.Tensor:
        """Zero before the first call, and left zero by each. One for each stream; a graph that is captured has one of
        its own, since two graphs that were captured on one stream may run at once."""
        if torch.cuda.is_current_stream_capturing():
            memory = _bytes(size, device)
            driver.fill_zero(memory.data_ptr(), size, stream)
            return memory
        key = (device, stream, name)
        found = self._workspaces.get(key)
        if found is None or found.numel() < size:
            found = _bytes(size, device)
            driver.fill_zero(found.data_ptr(), found.numel(), stream)
            self._workspaces[key] = found
        return found

    def _planned(self, sizes: Mapping[str, int], device: int) -> _Plan:
        self.load()
        modules, planned = self._variant.at(sizes)
        plain = planned.to_json()
        kernels = {ours: (self._modules[one.digest], theirs) for one in modules for ours, theirs in one.names}
        steps = tuple(_step(kernels, one, device) for one in plain["launches"])
        scratch = tuple((one["name"], one["bytes"], one["zero"]) for one in plain["scratch"])
        return _Plan(steps, scratch, tuple((one["name"], one["bytes"]) for one in plain["workspaces"]))


@cache
def fast_driver(module: Any, kind: str) -> Any:
    """The driver's functions, and torch's for its current stream; a CPU that stands in for a GPU has no streams."""
    return module.Driver(driver.NAME, "libtorch_cuda.so" if kind == "cuda" else "")


def _with_slots(one: _Step, slots: Mapping[str, int]) -> dict[str, Any]:
    if isinstance(one, _Memset):
        return {"memset": (slots[one.name], one.offset, one.bytes, one.value, one.width)}
    if isinstance(one, _Copy):
        return {"copy": (slots[one.target], one.target_offset, slots[one.source], one.source_offset, one.bytes)}
    arguments = []
    for part in one.arguments:
        pointers = [(place, slots[name], offset) for place, name, offset in part.pointers]
        numbers = None
        if part.tensor_map is not None:
            numbers = driver.map_numbers(part.tensor_map)
            numbers |= {"slot": slots[part.tensor_map["name"]], "offset": part.tensor_map["offset"]}
        arguments.append((part.data, pointers, numbers))
    attributes = [(which, list(values)) for which, values in one.attributes]
    form = {"grid": list(one.grid), "block": list(one.block), "shared": one.shared, "attributes": attributes}
    return {"kernel": one.kernel.value, **form, "arguments": arguments}


def _bytes(size: int, device: int) -> torch.Tensor:
    return torch.empty(max(1, size), dtype=torch.uint8, device=f"cuda:{device}")


def _step(kernels: Mapping[str, tuple[ctypes.c_void_p, str]], given: Mapping[str, Any], device: int) -> _Step:
    plain = {name: value for name, value in given.items() if name != "kind"}
    match given.get("kind"):
        case "memset":
            return _Memset(**plain)
        case "copy":
            return _Copy(**plain)
    return _prepared(driver.kernel_of(*kernels[given["kernel"]]), given, device)


def _prepared(kernel: ctypes.c_void_p, given: Mapping[str, Any], device: int) -> _Launch:
    if given["shared"]:
        driver.set_attribute(kernel, driver.MAX_DYNAMIC_SHARED, given["shared"], device)
    attributes: list[tuple[int, tuple[int, ...]]] = []
    if given["cluster"]:
        x, y, z = given["cluster"]
        attributes.append((driver.CLUSTER, (x, y, z)))
        if x * y * z > PORTABLE_CLUSTER:
            driver.set_attribute(kernel, driver.NON_PORTABLE_CLUSTER, 1, device)
    attributes += [(driver.COOPERATIVE, (1,))] if given["cooperative"] else []
    attributes += [(driver.DEPENDENT, (1,))] if given["dependent"] else []
    return _Launch(
        kernel,
        tuple(given["grid"]),
        tuple(given["block"]),
        given["shared"],
        tuple(attributes),
        tuple(map(_packed, given["arguments"])),
    )


def _packed(given: Mapping[str, Any]) -> _Argument:
    match given["kind"]:
        case "pointer":
            return _Argument(bytes(8), ((0, given["name"], given["offset"]),))
        case "tensor_map":
            return _Argument(bytes(driver.MAP_BYTES), tensor_map=given)
        case "struct":
            return _structure(given["fields"])
        case "packed":
            return _placed(bytes.fromhex(given["data"]), [(at, _packed(one)) for at, one in given["fields"]])
        case _:
            return _Argument(_number(given["type"], given["value"]))


def _structure(fields: Sequence[Mapping[str, Any]]) -> _Argument:
    """Each field at a multiple of its own size, and the whole a multiple of the widest, as C++ has it."""
    size, widest, parts = 0, 1, []
    for one in fields:
        part = _packed(one)
        widest = max(widest, len(part.data))
        size += -size % len(part.data)
        parts.append((size, part))
        size += len(part.data)
    return _placed(bytes(size + -size % widest), parts)


def _placed(data: bytes, parts: Sequence[tuple[int, _Argument]]) -> _Argument:
    packed, pointers = bytearray(data), []
    for at, part in parts:
        packed[at : at + len(part.data)] = part.data
        pointers += [(at, name, offset) for _, name, offset in part.pointers]
    return _Argument(bytes(packed), tuple(pointers))


def _number(kind: str, value: Any) -> bytes:
    if kind == "bf16":
        bits: int = struct.unpack("<I", struct.pack("<f", value))[0]
        return struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)
    return struct.pack(FORMATS[kind], value)


def _encoded(part: _Argument, given: Mapping[str, Any], address: int) -> bytes:
    """The tensor map for an address. Threads may encode one twice; what they keep is the same."""
    found = part.encoded.get(address)
    if found is None:
        found = driver.encoded_map(address, given)
        if len(part.encoded) >= MOST_ENCODED:
            part.encoded.clear()
        part.encoded[address] = found
    return found


def _launched(one: _Launch, addresses: Mapping[str, int], stream: int, device: int) -> None:
    """With arguments in memory of this call's own, each in a slot that is aligned for anything."""
    slots = [-(-len(part.data) // SLOT) * SLOT for part in one.arguments]
    buffer = ctypes.create_string_buffer(sum(slots) + SLOT)
    at = -(-ctypes.addressof(buffer) // SLOT) * SLOT
    pointers = (ctypes.c_void_p * max(1, len(slots)))()
    for number, (part, size) in enumerate(zip(one.arguments, slots, strict=True)):
        if part.tensor_map is not None:
            address = addresses[part.tensor_map["name"]] + part.tensor_map["offset"]
            ctypes.memmove(at, _encoded(part, part.tensor_map, address), driver.MAP_BYTES)
        else:
            data = bytearray(part.data)
            for place, name, offset in part.pointers:
                struct.pack_into("<Q", data, place, addresses[name] + offset)
            ctypes.memmove(at, bytes(data), len(data))
        pointers[number] = at
        at += size
    attributes = (driver.Attribute * max(1, len(one.attributes)))()
    for attribute, (which, values) in zip(attributes, one.attributes, strict=False):
        attribute.id = which
        for place, value in enumerate(values):
            attribute.value[place] = value
    configuration = driver.Configuration(one.grid, one.block, one.shared, stream, attributes, len(one.attributes))
    driver.launch(one.kernel, configuration, pointers, device)
