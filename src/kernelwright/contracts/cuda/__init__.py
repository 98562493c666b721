"""The `cuda` contract: kernel.cu with `__global__` functions, and plan.py, which says how they are launched.

toolchain/    from source to programs; runs in the judge's own process and starts the confined ones
confined/     what runs in sandboxed processes, beside hostile text: one evaluates plan.py, one compiles kernel.cu
emulate/      from source to host code for `kernelwright check`; runs in the checking process, which has the code
              built and called in sandboxes as that of a host contract is
include/      stands in for the host's headers, which NVRTC does not have
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from kernelwright.contracts.candidate import Candidate, CandidateError
from kernelwright.contracts.craft import Craft, read_craft
from kernelwright.contracts.cuda.source import (
    KERNEL_NAME,
    PLAN_NAME,
    Sources,
    binds_functions,
    from_blocks,
    read_cuda_candidate,
    split,
)
from kernelwright.contracts.model import (
    BuildFailure,
    Emulation,
    Files,
    GpuContract,
    GpuToolchain,
    Part,
    PortableBuild,
    PortableRequest,
    varying_dtypes,
)
from kernelwright.contracts.normalise import normalised_c_like, normalised_python
from kernelwright.contracts.target import Target
from kernelwright.contracts.tunable_syntax import C_TUNABLES, PYTHON_TUNABLES
from kernelwright.tasks.signatures import ScalarSpec, Signature, TensorSpec

CONFINED = Path(__file__).parent / "confined"
TYPES = {
    "float64": "double",
    "float32": "float",
    "float16": "__half",
    "bfloat16": "__nv_bfloat16",
    "float8_e4m3fn": "__nv_fp8_e4m3",
    "float8_e5m2": "__nv_fp8_e5m2",
    "int64": "long long",
    "int32": "int",
    "int16": "short",
    "int8": "signed char",
    "uint8": "unsigned char",
    "bool": "bool",
}
HEADERS = {
    "float16": "cuda_fp16.h",
    "bfloat16": "cuda_bf16.h",
    "float8_e4m3fn": "cuda_fp8.h",
    "float8_e5m2": "cuda_fp8.h",
}
KERNEL = "kernel"


def _names(signature: Signature) -> str:
    return ", ".join(argument.name for argument in signature.arguments)


def _parameter(argument: TensorSpec | ScalarSpec, dtype: str) -> str:
    if isinstance(argument, ScalarSpec):
        if isinstance(argument.value, bool):
            return f"bool {argument.name}"
        return f"{'float' if isinstance(argument.value, float) else 'long long'} {argument.name}"
    const = "const " if argument.role in ("input", "constant") else ""
    return f"{const}{dtype}* __restrict__ {argument.name}"


def _value(argument: TensorSpec | ScalarSpec) -> str:
    if isinstance(argument, TensorSpec):
        return argument.name
    if isinstance(argument.value, bool):
        return f"kw.u8({argument.name})"
    return f"kw.{'f32' if isinstance(argument.value, float) else 'i64'}({argument.name})"


def _kernel_text(signatures: tuple[Signature, ...], task_name: str) -> str:
    generic = varying_dtypes(signatures)
    first = signatures[0]
    used = {tensor.dtype for signature in signatures for tensor in signature.tensors}
    includes = "".join(f"#include <{HEADERS[dtype]}>\n" for dtype in sorted(used & HEADERS.keys()))
    parameters = []
    for argument in first.arguments:
        dtype = ""
        if isinstance(argument, TensorSpec):
            dtype = "T" if argument.name in generic else TYPES[argument.dtype]
        parameters.append(_parameter(argument, dtype))
    outputs = [tensor.name for tensor in first.tensors if tensor.role in ("output", "inout")]
    template = "template <class T>\n" if generic else ""
    joined = ",\n    ".join([*parameters, "long long count"])
    return (
        f"// A candidate for {task_name}.\n{includes}\n{template}__global__ void {KERNEL}(\n    {joined}) {{\n"
        f"  // Write every element of: {', '.join(outputs)}.\n}}\n"
    )


def _plan_text(signatures: tuple[Signature, ...]) -> str:
    generic = varying_dtypes(signatures)
    first = signatures[0]
    measure = next(tensor for tensor in reversed(first.tensors) if tensor.role in ("output", "inout")).name
    lines = ["import kw"]
    name = f'"{KERNEL}"'
    if generic:
        chosen = sorted(generic)[0]
        names = {tensor.dtype for signature in signatures for tensor in signature.tensors if tensor.name in generic}
        lines.append(f"\nTYPES = { ({dtype: TYPES[dtype] for dtype in sorted(names)})!r}")
        name = f'f"{KERNEL}<{{TYPES[{chosen}.dtype]}}>"'
    values = ", ".join([*(_value(argument) for argument in first.arguments), "kw.i64(count)"])
    lines += [
        f"\n\ndef plan({_names(first)}):",
        f"    count = {measure}.numel()",
        "    blocks = min((count + 255) // 256, 8 * kw.device.multiprocessors)",
        f"    return kw.plan(kw.launch({name}, blocks, 256, {values}))",
    ]
    return "\n".join(lines) + "\n"


class CudaContract(GpuContract):
    name = "cuda"
    language = "CUDA C++ for NVIDIA GPUs, built with NVRTC, with a plan of its launches in Python"
    form = f"a .cu file with its plan in a comment, or a folder with {KERNEL_NAME} and {PLAN_NAME}"
    suffixes = (".cu",)
    source_name = KERNEL_NAME
    fence = "cuda"
    brief_fence = "cpp"
    emulated = True
    tunable_syntax = (C_TUNABLES, PYTHON_TUNABLES)

    @cached_property
    def craft(self) -> Craft:
        return read_craft(Path(__file__).parent / "craft.toml")

    def signature_text(self, signatures: tuple[Signature, ...]) -> str:
        """What the plan is called with. The kernels' own signatures are the author's choice."""
        first = signatures[0]
        described = "\n".join(f"//   {_described(argument)}" for argument in first.arguments)
        return f"// plan.py: def plan({_names(first)}), with\n{described}"

    def skeleton(self, signatures: tuple[Signature, ...], task_name: str) -> str:
        """One file with both parts; a directory with kernel.cu and plan.py says the same."""
        return Sources(_kernel_text(signatures, task_name), _plan_text(signatures)).joined()

    def rules(self) -> tuple[str, ...]:
        return (
            "Give kernel.cu and plan.py: two files in a directory, or one .cu file with the plan in a comment that "
            "begins with '/* plan.py'.",
            "plan(...) gets the arguments in the order of the signature: tensors as stand-ins with name, shape, "
            "strides (in elements), dtype, numel(), and scalars as numbers. It never sees data.",
            "It returns kw.plan(kw.launch(kernel, grid, block, *arguments, shared=0, cluster=None, "
            "cooperative=False, dependent=False), ..., definitions={}, fast_math=False, max_registers=None).",
            "Arguments are tensors (their address), kw.i32(n), kw.i64(n), kw.u32(n), kw.f32(x), ..., "
            "kw.struct(...), kw.tensor_map(tensor, box, swizzle=...) and memory of your own.",
            "A kernel is named as C++ names it, templates included: 'f<float, 4>'. Definitions become #defines and "
            "may differ from workload to workload.",
            "kw.scratch(name, bytes) holds garbage; with zero=True it is zeroed inside the timed window. "
            "kw.workspace(name, bytes) is zero before each call, free of charge, and must be zero after it.",
            "kw.device has architecture, multiprocessors, shared_per_block (bytes) and l2_bytes.",
            "Every call gets values never seen before and is checked and timed. Modules are loaded afresh for each "
            "call: device variables keep nothing.",
            "Write every element of every output. Outputs hold garbage before the call. Inputs are mapped read-only.",
            "Tensors start on a 256-byte boundary; reading up to the next 256-byte boundary past the end is "
            "harmless. Anything further ends the launcher.",
            "Beside the public workloads, any sizes within the task's ranges may be asked for; which ones is not told.",
            "Headers: cuda_fp16.h, cuda_bf16.h, cuda_fp8.h, mma.h, cooperative_groups.h, cuda.h (for CUtensorMap), "
            "and cub, libcu++ and CUTLASS where installed. INFINITY, FLT_MAX and INT_MAX need math.h, float.h and "
            "limits.h. No relocatable device code, no device runtime.",
        )

    def takes(self, path: Path) -> bool:
        if path.is_dir():
            return (path / KERNEL_NAME).is_file() or (path / PLAN_NAME).is_file()
        return super().takes(path) and not binds_functions(path)

    def read(self, path: Path) -> Candidate:
        return read_cuda_candidate(path)

    def split(self, source: str) -> Files:
        sources = split(source)
        return ((KERNEL_NAME, sources.kernel), (PLAN_NAME, sources.plan))

    def join(self, files: Mapping[str, str]) -> str:
        return Sources(files[KERNEL_NAME], files[PLAN_NAME]).joined()

    def join_blocks(self, blocks: Sequence[str]) -> str | None:
        found = from_blocks(blocks)
        return found.joined() if found is not None else None

    def normalised(self, source: str) -> str:
        try:
            sources = split(source)
        except CandidateError:
            return normalised_c_like(source)
        return f"{normalised_c_like(sources.kernel)}\0{normalised_python(sources.plan)}"

    def parts(self) -> tuple[Part, ...]:
        from kernelwright.contracts.cuda.toolkit import parts

        return parts()

    def toolchain(self, target: Target, spare: int = 0) -> GpuToolchain:
        from kernelwright.contracts.cuda.toolchain.build import CudaToolchain

        return CudaToolchain(target, spare)

    def build_failure(
        self, candidate: Candidate, signatures: tuple[Signature, ...], target: Target
    ) -> BuildFailure | None:
        """Without NVRTC at least the plan is evaluated."""
        from kernelwright.contracts import nvrtc
        from kernelwright.contracts.cuda.toolchain.evaluate import evaluate_plans

        missing = nvrtc.available()
        if not missing:
            return super().build_failure(candidate, signatures, target)
        plans = evaluate_plans(split(candidate.source).plan, signatures, target)
        return plans if isinstance(plans, BuildFailure) else None

    def portable(self, candidate: Candidate, request: PortableRequest) -> PortableBuild | BuildFailure:
        from kernelwright.contracts.cuda.toolchain.portable import build_portable

        return build_portable(candidate, request)

    def emulation(self, candidate: Candidate) -> Emulation:
        from kernelwright.contracts.cuda.emulate.emulation import CudaEmulation

        return CudaEmulation(split(candidate.source))


def _described(argument: TensorSpec | ScalarSpec) -> str:
    if isinstance(argument, ScalarSpec):
        return f"{argument.name}: a number, {argument.value!r}"
    role = {"input": "read", "constant": "read; constant", "inout": "read and written", "output": "written"}
    return f"{argument.name}: {argument.dtype}, {len(argument.shape)} dimensions, {role[argument.role]}"


CUDA = CudaContract()
