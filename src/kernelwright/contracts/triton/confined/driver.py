"""Triton's driver without a GPU: kernels are compiled to PTX, which the builder assembles, and launches are recorded.

Host code shares this process and may patch all of it. What leaves is a record and PTX, which are checked as data.
"""

from __future__ import annotations

import hashlib
import re
import struct
from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.backends.nvidia import compiler as nvidia
from triton.backends.nvidia.driver import TMA_DTYPE_DEVICE_TO_HOST
from triton.compiler.compiler import CompiledKernel
from triton.runtime import _allocation

from .refusal import HostCodeRefused, Refusals
from .tensors import StandInMemory

_PACKED = {
    "i1": "<?",
    "u1": "<?",
    "i8": "<b",
    "u8": "<B",
    "i16": "<h",
    "u16": "<H",
    "i32": "<i",
    "u32": "<I",
    "i64": "<q",
    "u64": "<Q",
    "fp16": "<e",
    "fp32": "<f",
    "f32": "<f",
    "fp64": "<d",
}
_MAP_TYPES = (
    *("UINT8", "UINT16", "UINT32", "INT32", "UINT64", "INT64", "FLOAT16", "FLOAT32", "FLOAT64", "BFLOAT16"),
    *("FLOAT32", "TFLOAT32", "TFLOAT32"),
)
_SWIZZLES = ("NONE", "32B", "64B", "128B")
_DESCRIPTOR = re.compile(r"tensordesc<([^[>]*)\[([^]]*)\]")


class Kernels:
    """The PTX of all kernels that were compiled, each once."""

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []
        self._numbers: dict[str, int] = {}

    def number(self, name: str, ptx: str, *, fused: bool) -> int:
        key = hashlib.sha256(f"{fused}{ptx}".encode()).hexdigest()
        if key not in self._numbers:
            self._numbers[key] = len(self.found)
            self.found.append({"name": name, "ptx": ptx, "fused": fused})
        return self._numbers[key]


class RecordingState:
    """What the one driver of this process works for: the memory of the call in hand."""

    def __init__(self, device: dict[str, Any], refusals: Refusals, registers: dict[str, list[int]]) -> None:
        self.device, self.refusals, self.registers = device, refusals, registers
        self.kernels = Kernels()
        self.memory: StandInMemory | None = None

    @property
    def in_call(self) -> StandInMemory:
        if self.memory is None:
            raise self.refusals.refuse("a kernel is launched when the module is loaded")
        return self.memory


class NeedsRegisters(HostCodeRefused):
    """Host code asked how many registers a kernel takes, which is not known before ptxas has seen it."""

    def __init__(self, kernel: int) -> None:
        super().__init__(f"kernel {kernel} has to be assembled first")
        self.kernel = kernel


def _known(name: str) -> property:
    """An attribute of a compiled kernel that may not be known yet."""

    def read(self: Any) -> int:
        self._init_handles()
        found = self.__dict__[name]
        if found is None:
            raise NeedsRegisters(self.function)
        return int(found)

    return property(read, lambda self, value: self.__dict__.__setitem__(name, value))


def compile_to_ptx(ptx_version: int) -> None:
    """Leaves out ptxas: the last stage keeps the PTX, and what it would have been compiled with."""
    nvidia.get_ptx_version_from_options = lambda options, arch: options.ptx_version or ptx_version
    nvidia.get_ptxas_version = lambda arch=80: str(ptx_version)

    def keep(self: Any, source: str, metadata: Any, options: Any, capability: int) -> bytes:
        if options.ptx_options:
            raise ValueError("options for ptxas are not taken")
        return (b"1" if options.enable_fp_fusion else b"0") + source.encode()

    nvidia.CUDABackend.make_cubin = keep
    CompiledKernel.n_regs, CompiledKernel.n_spills = _known("n_regs"), _known("n_spills")


class Utilities:
    def __init__(self, state: RecordingState) -> None:
        self._state = state

    def get_device_properties(self, _: int) -> dict[str, int]:
        device = self._state.device
        return {
            "max_shared_mem": device["shared"],
            "max_num_regs": 65536,
            "multiprocessor_count": device["multiprocessors"],
            "warpSize": 32,
            "sm_clock_rate": 1_980_000,
            "mem_clock_rate": 2_619_000,
            "mem_bus_width": 5120,
        }

    def load_binary(self, name: str, kernel: bytes, shared: int, _: int) -> tuple[int, int, Any, Any, int]:
        ptx = kernel[1:].decode()
        number = self._state.kernels.number(name, ptx, fused=kernel[:1] == b"1")
        known = self._state.registers.get(hashlib.sha256(kernel).hexdigest())
        registers, spills = known or (None, None)
        return number, number, registers, spills, 1024

    def unload_module(self, _: Any) -> None: ...

    def fill_tma_descriptor(self, *given: Any) -> dict[str, Any]:
        address, swizzle, element_bytes, element_type, box, shape, strides, padding = given
        rank = len(box)
        return {
            "address": address,
            "data_type": _MAP_TYPES[element_type],
            "sizes": [int(size) for size in reversed(shape)],
            "strides": [element_bytes * int(stride) for stride in reversed(list(strides)[: rank - 1])],
            "box": [int(size) for size in reversed(box)],
            "steps": [1] * rank,
            "swizzle": _SWIZZLES[swizzle],
            "promotion": "L2_128B",
            "fill": "NAN_REQUEST_ZERO_FMA" if padding == 1 else "NONE",
        }


class LaunchRecorder:
    """Called for every launch of one kernel, with the values of all its parameters."""

    state: RecordingState

    def __init__(self, source: Any, metadata: Any) -> None:
        self._types = list(source.signature.values())
        self._metadata = metadata

    def __call__(self, x: int, y: int, z: int, stream: int, function: int, *rest: Any) -> None:
        _, _, _, _, *given = rest
        if min(x, y, z) <= 0:
            return  # as Triton's own launcher does
        memory, metadata = self.state.in_call, self._metadata
        descriptors = iter(getattr(metadata, "tensordesc_meta", None) or ())
        arguments: list[dict[str, Any]] = []
        for kind, value in zip(self._types, given, strict=True):
            self._add(arguments, kind, value, descriptors)
        blocks = x * y * z * metadata.num_ctas
        for size, align, allocator in (
            (metadata.global_scratch_size, metadata.global_scratch_align, _allocation._allocator),
            (metadata.profile_scratch_size, metadata.profile_scratch_align, _allocation._profile_allocator),
        ):
            scratch = allocator.get()(blocks * size, align, stream) if size else None
            arguments.append({"data": struct.pack("<Q", self._address(scratch)).hex()})
        clusters = getattr(metadata, "cluster_dims", None) or (metadata.num_ctas, 1, 1)
        step = {
            "op": "launch",
            "module": function,
            "function": metadata.name,
            "grid": [int(x) * metadata.num_ctas, int(y), int(z)],
            "block": [32 * metadata.num_warps, 1, 1],
            "arguments": arguments,
            "shared": metadata.shared,
            "cluster": [metadata.num_ctas, 1, 1] if max(clusters) > 1 else None,
            "cooperative": bool(metadata.launch_cooperative_grid),
            "dependent": bool(metadata.launch_pdl),
            "stream": memory.stream,
        }
        memory.steps.append(step)

    def _add(self, arguments: list[dict[str, Any]], kind: Any, value: Any, descriptors: Any) -> None:
        if isinstance(kind, tuple):
            for inner, part in zip(kind, value, strict=True):
                self._add(arguments, inner, part, descriptors)
        elif kind == "constexpr":
            return
        elif kind.startswith("tensordesc"):
            self._add_descriptor(arguments, kind, value, next(descriptors, None))
        else:
            arguments.append({"data": self._packed(kind, value).hex()})

    def _add_descriptor(self, arguments: list[dict[str, Any]], kind: str, value: Any, about: Any) -> None:
        shape, strides = list(value.shape), list(value.strides)
        sizes = [("i32", size) for size in shape] + [("i64", stride) for stride in strides]
        if about is None:  # a device without tensor maps
            match = _DESCRIPTOR.match(kind)
            assert match is not None
            plain = [("i64", size) for size in (*shape, *strides)]
            first = [(f"*{match[1]}", value.base), *plain, ("i1", value.padding == "nan")]
            arguments += [{"data": self._packed(one, part).hex()} for one, part in (*first, *sizes)]
            return
        whole = [*shape[:-1], shape[-1] * 2] if about["fp4_padded"] else shape
        utilities = Utilities(self.state)
        made = utilities.fill_tma_descriptor(
            value.base.data_ptr(),
            about["swizzle"],
            about["elem_size"],
            TMA_DTYPE_DEVICE_TO_HOST[about["elem_type"]],
            about["block_size"],
            whole,
            strides,
            int(value.padding == "nan"),
        )
        arguments.append({"tensor_map": made})
        arguments += [{"data": self._packed(one, part).hex()} for one, part in sizes]

    def _packed(self, kind: str, value: Any) -> bytes:
        if kind[0] == "*":
            return struct.pack("<Q", self._address(value))
        if kind == "bf16":
            return struct.pack("<f", value)[2:]
        return struct.pack(_PACKED[kind], value)

    def _address(self, value: Any) -> int:
        if value is None:
            return 0
        return value if isinstance(value, int) else int(value.data_ptr())


class RecordingDriver(DriverBase):  # type: ignore[misc]
    def __init__(self, state: RecordingState) -> None:
        LaunchRecorder.state = state
        self.utils = Utilities(state)
        self.launcher_cls = LaunchRecorder
        self._state = state
        self.get_current_stream = lambda device=0: state.memory.stream if state.memory else 0
        self.get_current_device = lambda: 0
        self.set_current_device = lambda device: None
        self.get_device_capability = lambda device=0: divmod(state.device["capability"], 10)

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self._state.device["capability"], 32)

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        return torch.cuda

    @staticmethod
    def is_active() -> bool:
        return True

    def map_python_to_cpp_type(self, name: str) -> str:
        return name

    def get_benchmarker(self) -> Any:
        raise self._state.refusals.refuse("host code times a kernel: there is no clock and no GPU where it runs")

    def get_empty_cache_for_benchmark(self) -> Any:
        raise self._state.refusals.refuse("host code times a kernel: there is no clock and no GPU where it runs")

    def clear_cache(self, _: Any) -> None: ...
