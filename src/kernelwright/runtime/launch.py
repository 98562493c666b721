"""Loads a program's modules and launches it, on memory that the caller gives: raw addresses, or torch tensors.

Nothing of the judge is needed here, and neither torch nor numpy is imported:

    loaded = LoadedProgram(built.program, [built.cubin], device=0)
    loaded.launch(block_addresses(built.program, {"x": x, "out": out}, allocate), stream)
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from kernelwright.contracts.program import (
    Argument,
    Copy,
    FunctionUse,
    LibraryStep,
    Memset,
    Program,
    ProgramStep,
    TensorMap,
)
from kernelwright.devices.driver import attribute, check, driver, use_device

PORTABLE_CLUSTER = 8


class BadArguments(Exception):  # noqa: N818 - it names what is wrong
    """The plan's arguments are not those of the kernel."""


class MissingMemory(Exception):  # noqa: N818 - it names what is wrong
    """The caller gave no memory for a block of the program."""


class LibrarySteps(Protocol):
    """Carries out what a program leaves to torch: see `judge.launcher.torch_steps`."""

    def begin(self) -> None:
        """A call begins; what the call before it was given is not needed any more."""

    def close(self) -> None:
        """No call comes any more: gives back all memory."""

    def carry_out(self, number: int, addresses: Sequence[int]) -> Mapping[int, int]:
        """Enqueues one step on blocks at these addresses. The answer has the blocks that have moved, and where to."""


class Arguments:
    """Kernel arguments in memory that stays where it is: one slot each, and the array of pointers to them."""

    def __init__(self, *values: bytes) -> None:
        slots = [(len(value) + 63) // 64 * 64 for value in values]
        self._buffer = ctypes.create_string_buffer(sum(slots) + 64)
        at = (ctypes.addressof(self._buffer) + 63) // 64 * 64
        self._pointers = (ctypes.c_void_p * max(1, len(values)))()
        for number, value in enumerate(values):
            ctypes.memmove(at, value, len(value))
            self._pointers[number] = at
            at += slots[number]

    @property
    def address(self) -> int:
        return ctypes.addressof(self._pointers)


def u64(value: int) -> bytes:
    return struct.pack("<Q", value)


def u32(value: int) -> bytes:
    return struct.pack("<I", value)


class LoadedProgram:
    """A program whose modules are loaded into the current context of a device.

    Arguments are made when it is bound to memory and a stream; a launch with the same ones only enqueues.
    """

    def __init__(
        self, program: Program, modules: Sequence[bytes], device: int = 0, library: LibrarySteps | None = None
    ) -> None:
        if program.library and library is None:
            raise BadArguments(f"the program leaves {', '.join(program.library)} to torch, which is not here")
        self._device, self._program, self._cubins = use_device(device), program, tuple(modules)
        self._library = library
        self._bound: tuple[tuple[int, ...], int] | None = None
        self._home: tuple[int, ...] = ()  # where a call begins
        self._addresses: tuple[int, ...] = ()
        self._maps: list[bytes] = []
        self._arguments: list[Arguments] = []
        self._configurations: list[Any] = []
        self._stream: Any = 0
        self._modules: list[Any] = []
        self._functions: list[Any] = []
        self.load()

    def launch(self, addresses: Sequence[int], stream: Any = 0) -> None:
        """Enqueues one call on the blocks that begin at these addresses, scratch included, and returns at once."""
        self.bind(addresses, stream)
        self.enqueue()

    def bind(self, addresses: Sequence[int], stream: Any = 0) -> None:
        """`addresses` are where the contents of the program's blocks begin, in order."""
        if len(addresses) != len(self._program.blocks):
            raise MissingMemory(f"{len(addresses)} addresses for {len(self._program.blocks)} blocks")
        self._home = tuple(addresses)
        self._place(self._home, stream)

    def _place(self, addresses: tuple[int, ...], stream: Any) -> None:
        wanted = addresses, int(stream)
        if wanted == self._bound:
            return
        self._addresses, self._stream = addresses, stream
        program = self._program
        self._maps = [_encode(entry, self._addresses[entry.block] + entry.offset) for entry in program.tensor_maps]
        self._arguments = [Arguments(*map(self._bytes, step.arguments)) for step in program.launches]
        self._configurations = [_configuration(step, stream) for step in program.launches]
        self._bound = wanted

    def _bytes(self, argument: Argument) -> bytes:
        if argument.tensor_map >= 0:
            return self._maps[argument.tensor_map]
        data = bytearray.fromhex(argument.data)
        for pointer in argument.pointers:
            struct.pack_into("<Q", data, pointer.at, self._addresses[pointer.block] + pointer.offset)
        return bytes(data)

    def load(self) -> None:
        """Loads every module anew, so that nothing a kernel left in a device variable is there for the next."""
        self.unload()
        cu = driver()
        self._modules = [check(cu.cuModuleLoadData(cubin), "cannot load a module") for cubin in self._cubins]
        known: dict[tuple[int, str], Any] = {}
        for step in self._program.launches:
            key = (step.module, step.function)
            if key not in known:
                known[key] = self._prepared(step)
        self._functions = [known[step.module, step.function] for step in self._program.launches]

    def _prepared(self, step: ProgramStep) -> Any:
        cu = driver()
        function = check(cu.cuModuleGetFunction(self._modules[step.module], step.function.encode()), step.function)
        same = [s for s in self._program.launches if (s.module, s.function) == (step.module, step.function)]
        kinds = cu.CUfunction_attribute
        if most := max(s.shared for s in same):
            which = kinds.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            check(cu.cuFuncSetAttribute(function, which, most), f"{most:,} bytes of dynamic shared memory")
        if any(s.cluster and s.cluster[0] * s.cluster[1] * s.cluster[2] > PORTABLE_CLUSTER for s in same):
            which = kinds.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            check(cu.cuFuncSetAttribute(function, which, 1), "a cluster of more than 8 blocks")
        if self._library is not None:  # a process with torch loads lazily: at the first launch, inside the timed window
            check(cu.cuFuncLoad(function), step.function)
        return function

    def check_arguments(self) -> None:
        """Holds sizes against the kernel's own. Too few arguments would make the driver read past ours."""
        cu = driver()
        for step, function in zip(self._program.launches, self._functions, strict=True):
            given = [argument.size for argument in step.arguments]
            wanted: list[int] = []
            while int((answer := cu.cuFuncGetParamInfo(function, len(wanted)))[0]) == 0:
                wanted.append(int(answer[2]))
            if given != wanted:
                raise BadArguments(
                    f"{step.function} takes arguments of {_sizes(wanted)} bytes and the plan gives {_sizes(given)}"
                )

    def enqueue(self, *, zero: bool = True, after_library: Callable[[LibraryStep], None] | None = None) -> None:
        """The steps of one call, and with `zero` before them the zeros that the plan asks for in its scratch.
        `after_library` is called when a step of torch's was enqueued."""
        cu = driver()
        self._begin()
        for block, address in zip(self._program.blocks, self._addresses, strict=True):
            if zero and block.fill == "zero" and block.extent:
                check(cu.cuMemsetD8Async(address, 0, block.extent, self._stream), "cuMemsetD8Async")
        launched = carried_out = 0
        for step in self._program.steps:
            if isinstance(step, ProgramStep):
                self._enqueue_launch(launched, step)
                launched += 1
            elif isinstance(step, Memset):
                at = self._addresses[step.block] + step.offset
                name = f"cuMemsetD{8 * step.width}Async"
                check(getattr(cu, name)(at, step.value, step.bytes // step.width, self._stream), name)
            elif isinstance(step, Copy):
                at = self._addresses[step.target] + step.target_offset
                source = self._addresses[step.source] + step.source_offset
                check(cu.cuMemcpyDtoDAsync(at, source, step.bytes, self._stream), "cuMemcpyDtoDAsync")
            else:
                self._carry_out(carried_out)
                carried_out += 1
                if after_library is not None:
                    after_library(step)

    def _enqueue_launch(self, number: int, step: ProgramStep) -> None:
        cu, where = driver(), self._arguments[number].address
        function, configuration = self._functions[number], self._configurations[number]
        if configuration is None:
            answer = cu.cuLaunchKernel(function, *step.grid, *step.block, step.shared, self._stream, where, 0)
        else:
            answer = cu.cuLaunchKernelEx(configuration, function, where, 0)
        check(answer, f"launch of {step.function}")

    def _begin(self) -> None:
        """What torch's results moved in the call before is back where it was."""
        if self._library is not None:
            self._library.begin()
            self._place(self._home, self._stream)

    def _carry_out(self, number: int) -> None:
        assert self._library is not None, "refused when the program came"
        moved = self._library.carry_out(number, self._addresses)
        if moved:
            self._place(tuple(moved.get(block, at) for block, at in enumerate(self._addresses)), self._stream)

    def call_library(self) -> None:
        """The steps of torch's alone, which are over when it returns."""
        self._begin()
        for number in range(sum(isinstance(step, LibraryStep) for step in self._program.steps)):
            self._carry_out(number)
        self.wait()

    @property
    def addresses(self) -> tuple[int, ...]:
        """Where the blocks begin now."""
        return self._addresses

    def wait(self) -> None:
        """Returns when everything that was enqueued is done, and raises what went wrong in it."""
        check(driver().cuStreamSynchronize(self._stream), "the call")

    def uses(self) -> list[FunctionUse]:
        return [
            self._use(step, function) for step, function in zip(self._program.launches, self._functions, strict=True)
        ]

    def _use(self, step: ProgramStep, function: Any) -> FunctionUse:
        cu = driver()

        def of(name: str) -> int:
            which = getattr(cu.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
            return int(check(cu.cuFuncGetAttribute(which, function), name))

        threads = step.block[0] * step.block[1] * step.block[2]
        occupied = cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(function, threads, step.shared)
        blocks = int(check(occupied, "occupancy"))
        most = attribute(self._device, "MAX_THREADS_PER_MULTIPROCESSOR")
        return FunctionUse(
            step.function,
            of("NUM_REGS"),
            of("LOCAL_SIZE_BYTES"),
            of("SHARED_SIZE_BYTES"),
            step.shared,
            threads,
            blocks,
            blocks * threads / most,
        )

    def unload(self) -> None:
        for module in self._modules:
            check(driver().cuModuleUnload(module), "cuModuleUnload")
        self._modules, self._functions = [], []


def block_addresses(
    program: Program, given: Mapping[str, Any], allocate: Callable[[int], Any] | None = None
) -> list[int]:
    """The addresses of a program's blocks: tensors by name, as integers or anything with `data_ptr`, and scratch from
    `allocate(bytes)`, which answers alike. The caller keeps both alive, and zeroes a workspace once."""
    found = []
    for block in program.blocks:
        if block.shared:
            if block.name not in given:
                raise MissingMemory(f"no memory is given for {block.name}")
            found.append(_address(given[block.name]))
        elif allocate is None:
            raise MissingMemory(f"the program needs {block.extent:,} bytes of scratch ({block.name})")
        else:
            found.append(_address(allocate(max(block.extent, 1))))
    return found


def _address(memory: Any) -> int:
    return int(memory.data_ptr()) if hasattr(memory, "data_ptr") else int(memory)


def _sizes(values: list[int]) -> str:
    return ", ".join(map(str, values)) or "no"


def _configuration(step: ProgramStep, stream: Any) -> Any:
    """None where a plain launch says everything."""
    cu = driver()
    attributes = []
    if step.cluster:
        value = cu.CUlaunchAttribute()
        value.id = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        value.value.clusterDim.x, value.value.clusterDim.y, value.value.clusterDim.z = step.cluster
        attributes.append(value)
    if step.cooperative:
        value = cu.CUlaunchAttribute()
        value.id = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
        value.value.cooperative = 1
        attributes.append(value)
    if step.dependent:
        value = cu.CUlaunchAttribute()
        value.id = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        value.value.programmaticStreamSerializationAllowed = 1
        attributes.append(value)
    if not attributes:
        return None
    configuration = cu.CUlaunchConfig()
    configuration.gridDimX, configuration.gridDimY, configuration.gridDimZ = step.grid
    configuration.blockDimX, configuration.blockDimY, configuration.blockDimZ = step.block
    configuration.sharedMemBytes = step.shared
    configuration.hStream = stream
    configuration.attrs = attributes
    configuration.numAttrs = len(attributes)
    return configuration


def _encode(entry: TensorMap, address: int) -> bytes:
    cu = driver()

    def named(kind: str, prefix: str, name: str) -> Any:
        return getattr(getattr(cu, kind), f"CU_TENSOR_MAP_{prefix}_{name}")

    answer = cu.cuTensorMapEncodeTiled(
        named("CUtensorMapDataType", "DATA_TYPE", entry.data_type),
        len(entry.sizes),
        address,
        [cu.cuuint64_t(size) for size in entry.sizes],
        [cu.cuuint64_t(stride) for stride in entry.strides],
        [cu.cuuint32_t(size) for size in entry.box],
        [cu.cuuint32_t(step) for step in entry.steps],
        named("CUtensorMapInterleave", "INTERLEAVE", entry.interleave),
        named("CUtensorMapSwizzle", "SWIZZLE", entry.swizzle),
        named("CUtensorMapL2promotion", "L2_PROMOTION", entry.promotion),
        named("CUtensorMapFloatOOBfill", "FLOAT_OOB_FILL", entry.fill),
    )
    encoded = check(answer, "cuTensorMapEncodeTiled refuses a tensor map")
    return b"".join(int(word).to_bytes(8, "little") for word in encoded.opaque)
