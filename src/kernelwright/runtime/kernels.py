"""A candidate's modules in the launcher: loaded afresh for every trial, launched as the program says."""

from __future__ import annotations

import struct
from typing import Any

from kernelwright.contracts.program import Argument, FunctionUse, Memset, Program, Step, TensorMap
from kernelwright.devices.driver import attribute, check, driver
from kernelwright.judge.launcher.stage import Arguments

PORTABLE_CLUSTER = 8


class BadArguments(Exception):  # noqa: N818 - it names what is wrong
    """The plan's arguments are not those of the kernel."""


class Kernels:
    """`addresses` are where the contents of the program's blocks begin."""

    def __init__(self, device: Any, program: Program, addresses: list[int], cubins: list[bytes], stream: Any) -> None:
        self._device, self._program, self._cubins, self._stream = device, program, cubins, stream
        self._addresses = addresses
        self._maps = [_encode(entry, addresses[entry.block] + entry.offset) for entry in program.tensor_maps]
        self._arguments = [Arguments(*map(self._bytes, step.arguments)) for step in program.launches]
        self._configurations = [_configuration(step, stream) for step in program.launches]
        self._modules: list[Any] = []
        self._functions: list[Any] = []

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

    def _prepared(self, step: Step) -> Any:
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

    def enqueue(self) -> None:
        cu = driver()
        launches = zip(self._functions, self._arguments, self._configurations, strict=True)
        for step in self._program.steps:
            if isinstance(step, Memset):
                at = self._addresses[step.block] + step.offset
                check(cu.cuMemsetD8Async(at, step.value, step.bytes, self._stream), "cuMemsetD8Async")
                continue
            function, arguments, configuration = next(launches)
            if configuration is None:
                answer = cu.cuLaunchKernel(
                    function, *step.grid, *step.block, step.shared, self._stream, arguments.address, 0
                )
            else:
                answer = cu.cuLaunchKernelEx(configuration, function, arguments.address, 0)
            check(answer, f"launch of {step.function}")

    def uses(self) -> list[FunctionUse]:
        return [
            self._use(step, function) for step, function in zip(self._program.launches, self._functions, strict=True)
        ]

    def _use(self, step: Step, function: Any) -> FunctionUse:
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


def _sizes(values: list[int]) -> str:
    return ", ".join(map(str, values)) or "no"


def _configuration(step: Step, stream: Any) -> Any:
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
