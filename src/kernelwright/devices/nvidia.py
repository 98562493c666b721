"""NVIDIA GPUs as devices: what the management library and the driver say of them, without a context and without torch.

Both libraries come with the driver and are called directly, so that a machine without CUDA packages can still say
what it has. Where there is no GPU, `absence()` says so in one line.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from kernelwright.errors import CannotDecide

_TEXT = 96
_CLOCK_SM, _CLOCK_MEMORY = 1, 2
_MOST_PROCESSES = 64
_ATTRIBUTES = {
    "multiprocessors": 16,
    "l2_bytes": 38,
    "bus_bits": 37,
    "capability_major": 75,
    "capability_minor": 76,
    "pageable_memory_access": 88,
    "shared_per_block": 97,
    "virtual_memory": 102,
    "exports_descriptors": 103,
}
_REASONS = {
    0x1: "idle",
    0x2: "clocks set by an application",
    0x4: "power cap (software)",
    0x8: "slowdown (hardware)",
    0x10: "sync boost",
    0x20: "heat (software)",
    0x40: "heat (hardware)",
    0x80: "power brake (hardware)",
    0x100: "display clocks",
}
HARMLESS_REASONS = frozenset({"idle", "clocks set by an application"})


@dataclass(frozen=True)
class Gpu:
    """What does not change while the driver is loaded."""

    index: int
    name: str
    uuid: str
    driver: str
    cuda: tuple[int, int]
    capability: tuple[int, int]
    multiprocessors: int
    memory_bytes: int
    l2_bytes: int
    shared_per_block: int
    bus_bits: int
    max_sm_mhz: int
    max_memory_mhz: int
    ecc: bool | None
    pageable_memory_access: bool
    virtual_memory: bool
    exports_descriptors: bool

    @property
    def device(self) -> str:
        """Its name among devices: for locks and caches."""
        return f"cuda-{self.uuid}"

    @property
    def theoretical_bandwidth(self) -> float:
        """Bytes per second at the highest memory clock, two transfers per cycle."""
        return 2.0 * self.max_memory_mhz * 1e6 * self.bus_bits / 8


@dataclass(frozen=True)
class GpuState:
    """What changes: clocks, heat, and who else is there."""

    sm_mhz: int
    memory_mhz: int
    temperature: int
    power_watts: float
    throttled: tuple[str, ...]
    used_bytes: int
    processes: tuple[int, ...]

    @property
    def disturbed(self) -> tuple[str, ...]:
        """Why a measurement now would say less than the GPU can do."""
        return tuple(reason for reason in self.throttled if reason not in HARMLESS_REASONS)


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _Process(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


def driver_absence() -> str:
    """Empty if a driver is installed, which takes no time to see; whether it has a GPU is for `absence`."""
    try:
        _library()
    except CannotDecide as error:
        return str(error)
    return ""


def absence() -> str:
    """Empty if there is a GPU to use, or one line that says what is missing."""
    try:
        return "" if count() else "no NVIDIA GPU: the driver is installed and finds none"
    except CannotDecide as error:
        return str(error)


def count() -> int:
    """GPUs that CUDA programs see, which `CUDA_VISIBLE_DEVICES` may limit."""
    found = ctypes.c_int()
    _check_cuda(_cuda().cuDeviceGetCount(ctypes.byref(found)), "cuDeviceGetCount")
    return found.value


@cache
def probe(index: int = 0) -> Gpu:
    """The GPU that CUDA programs number so."""
    number = count()
    if index >= number:
        raise CannotDecide(f"no GPU {index}: CUDA sees {number}")
    device = ctypes.c_int()
    _check_cuda(_cuda().cuDeviceGet(ctypes.byref(device), index), "cuDeviceGet")
    found = {name: _attribute(device, which) for name, which in _ATTRIBUTES.items()}
    uuid = _uuid(device)
    with _managed(uuid) as (library, handle):
        memory = _Memory()
        _check_nvml(library, library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)))
        cuda = ctypes.c_int()
        _check_nvml(library, library.nvmlSystemGetCudaDriverVersion_v2(ctypes.byref(cuda)))
        return Gpu(
            index=index,
            name=_text(library, library.nvmlDeviceGetName, handle),
            uuid=uuid,
            driver=_text(library, library.nvmlSystemGetDriverVersion),
            cuda=(cuda.value // 1000, cuda.value % 1000 // 10),
            capability=(found["capability_major"], found["capability_minor"]),
            multiprocessors=found["multiprocessors"],
            memory_bytes=memory.total,
            l2_bytes=found["l2_bytes"],
            shared_per_block=found["shared_per_block"],
            bus_bits=found["bus_bits"],
            max_sm_mhz=_number(library.nvmlDeviceGetMaxClockInfo, handle, _CLOCK_SM) or 0,
            max_memory_mhz=_number(library.nvmlDeviceGetMaxClockInfo, handle, _CLOCK_MEMORY) or 0,
            ecc=_ecc(library, handle),
            pageable_memory_access=bool(found["pageable_memory_access"]),
            virtual_memory=bool(found["virtual_memory"]),
            exports_descriptors=bool(found["exports_descriptors"]),
        )


def state(gpu: Gpu) -> GpuState:
    with _managed(gpu.uuid) as (library, handle):
        memory = _Memory()
        _check_nvml(library, library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)))
        reasons = ctypes.c_ulonglong()
        library.nvmlDeviceGetCurrentClocksThrottleReasons(handle, ctypes.byref(reasons))
        return GpuState(
            sm_mhz=_number(library.nvmlDeviceGetClockInfo, handle, _CLOCK_SM) or 0,
            memory_mhz=_number(library.nvmlDeviceGetClockInfo, handle, _CLOCK_MEMORY) or 0,
            temperature=_number(library.nvmlDeviceGetTemperature, handle, 0) or 0,
            power_watts=(_number(library.nvmlDeviceGetPowerUsage, handle) or 0) / 1000,
            throttled=tuple(text for bit, text in _REASONS.items() if reasons.value & bit),
            used_bytes=memory.used,
            processes=_processes(library, handle),
        )


def other_processes(gpu: Gpu, ours: frozenset[int]) -> tuple[int, ...]:
    """Processes that compute on the GPU and are none of ours."""
    return tuple(pid for pid in state(gpu).processes if pid not in ours and pid != os.getpid())


def _library() -> Any:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise CannotDecide("no NVIDIA driver: libcuda.so.1 is not installed") from None


@cache
def _cuda() -> Any:
    library = _library()
    _check_cuda(library.cuInit(0), "no NVIDIA GPU can be used: cuInit")
    return library


def _check_cuda(code: int, what: str) -> None:
    if code != 0:
        raise CannotDecide(f"{what} answers CUDA error {code}")


def _attribute(device: ctypes.c_int, which: int) -> int:
    value = ctypes.c_int()
    _check_cuda(_cuda().cuDeviceGetAttribute(ctypes.byref(value), which, device), f"device attribute {which}")
    return value.value


def _uuid(device: ctypes.c_int) -> str:
    raw = (ctypes.c_ubyte * 16)()
    _check_cuda(_cuda().cuDeviceGetUuid_v2(raw, device), "cuDeviceGetUuid")
    digits = bytes(raw).hex()
    return "GPU-" + "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


@contextmanager
def _managed(uuid: str) -> Iterator[tuple[Any, ctypes.c_void_p]]:
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        raise CannotDecide("no NVIDIA management library: libnvidia-ml.so.1 is not installed") from None
    _check_nvml(library, library.nvmlInit_v2())
    try:
        handle = ctypes.c_void_p()
        _check_nvml(library, library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(handle)))
        yield library, handle
    finally:
        library.nvmlShutdown()


def _check_nvml(library: Any, code: int) -> None:
    if code != 0:
        library.nvmlErrorString.restype = ctypes.c_char_p
        raise CannotDecide(f"the NVIDIA management library says: {library.nvmlErrorString(code).decode()}")


def _text(library: Any, function: Any, *arguments: Any) -> str:
    buffer = ctypes.create_string_buffer(_TEXT)
    _check_nvml(library, function(*arguments, buffer, _TEXT))
    return buffer.value.decode()


def _number(function: Any, *arguments: Any) -> int | None:
    """None where this GPU does not tell."""
    value = ctypes.c_uint()
    return value.value if function(*arguments, ctypes.byref(value)) == 0 else None


def _ecc(library: Any, handle: ctypes.c_void_p) -> bool | None:
    now, later = ctypes.c_uint(), ctypes.c_uint()
    code = library.nvmlDeviceGetEccMode(handle, ctypes.byref(now), ctypes.byref(later))
    return bool(now.value) if code == 0 else None


def _processes(library: Any, handle: ctypes.c_void_p) -> tuple[int, ...]:
    number = ctypes.c_uint(_MOST_PROCESSES)
    found = (_Process * _MOST_PROCESSES)()
    code = library.nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(number), found)
    return tuple(sorted(found[at].pid for at in range(number.value))) if code == 0 else ()
