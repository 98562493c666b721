"""The `extension` contract: one .cu file with torch/extension.h and PYBIND11_MODULE, as robust-kbench has them.

source.py     headers, bound functions and what they are called with, load_inline; nothing is run
include/      the light headers: a small at::Tensor of our own, no torch, no pybind11, no Python
emulate/      host code and kernels for `kernelwright check`
toolchain/    nvcc in the builder's sandbox, the recorder, and the program that a record becomes
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from kernelwright.contracts.candidate import Candidate, CandidateError, read_candidate
from kernelwright.contracts.craft import Craft, read_craft
from kernelwright.contracts.cuda.source import has_plan
from kernelwright.contracts.extension.source import check, inline_source, is_extension, is_inline
from kernelwright.contracts.model import (
    BuildFailure,
    Emulation,
    GpuContract,
    GpuToolchain,
    Part,
    PortableBuild,
    PortableRequest,
)
from kernelwright.contracts.normalise import normalised_c_like
from kernelwright.contracts.target import Target
from kernelwright.contracts.tunable_syntax import C_TUNABLES
from kernelwright.paths import printable
from kernelwright.tasks.model import ScalarSpec, Signature, TensorSpec

SOURCE_NAME = "kernel.cu"


def _parameter(argument: TensorSpec | ScalarSpec) -> str:
    if isinstance(argument, TensorSpec):
        return f"torch::Tensor {argument.name}"
    if isinstance(argument.value, bool):
        return f"bool {argument.name}"
    return f"{'double' if isinstance(argument.value, float) else 'int64_t'} {argument.name}"


def _upstream(argument: TensorSpec | ScalarSpec) -> bool:
    return isinstance(argument, TensorSpec) and argument.role != "output" and argument.name.startswith("grad_")


def _declaration(signature: Signature) -> str:
    given = [a for a in signature.arguments if isinstance(a, ScalarSpec) or a.role != "output"]
    ordered = [*filter(_upstream, given), *(a for a in given if not _upstream(a))]
    count = len(signature.outputs)
    returned = "void" if not count else "torch::Tensor" if count == 1 else "std::vector<torch::Tensor>"
    name = "backward" if any(map(_upstream, given)) else "forward"
    return f"{returned} {name}({', '.join(map(_parameter, ordered))})"


class ExtensionContract(GpuContract):
    name = "extension"
    language = "CUDA C++ with host code over torch::Tensor, built with nvcc against light headers, without torch"
    form = "a .cu file with PYBIND11_MODULE, or a .py file whose load_inline has its sources as strings"
    suffixes = (".cu",)
    source_name = SOURCE_NAME
    fence = "cuda"
    brief_fence = "cpp"
    emulated = True
    tunable_syntax = (C_TUNABLES,)

    @cached_property
    def craft(self) -> Craft:
        return read_craft(Path(__file__).parent / "craft.toml")

    def signature_text(self, signatures: tuple[Signature, ...]) -> str:
        first = signatures[0]
        outputs = ", ".join(f"{t.name} ({t.dtype}, {len(t.shape)} dimensions)" for t in first.outputs)
        changed = ", ".join(t.name for t in first.tensors if t.role == "inout")
        lines = [f"{_declaration(first)};"]
        lines += [f"// returns {outputs}"] if outputs else []
        lines += [f"// changes in place: {changed}"] if changed else []
        return "\n".join(lines)

    def skeleton(self, signatures: tuple[Signature, ...], task_name: str) -> str:
        first = signatures[0]
        head = _declaration(first)
        name = head.partition("(")[0].split()[-1]
        options = next(t for t in first.tensors if t.role != "output").name
        made = [
            f"  auto {t.name} = torch::empty({{/* its sizes */}}, {options}.options());  // {t.dtype}"
            for t in first.outputs
        ]
        names = ", ".join(t.name for t in first.outputs)
        back = [f"  return {names if len(first.outputs) == 1 else f'{{{names}}}'};"] if names else []
        body = "\n".join([*made, "  // Launch kernels here: kernel<<<blocks, threads>>>(...).", *back])
        return (
            f"// A candidate for {task_name}.\n#include <torch/extension.h>\n#include <cuda_runtime.h>\n\n"
            f"{head} {{\n{body}\n}}\n\n"
            f'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{\n  m.def("{name}", &{name});\n}}\n'
        )

    def rules(self) -> tuple[str, ...]:
        return (
            "Give one .cu file with kernels, host code and PYBIND11_MODULE, which binds forward, or backward for a "
            "task with upstream gradients.",
            "Parameters take the task's arguments by name where the names are the same, and the others in order: "
            "upstream gradients first, tensors to tensors, numbers to numbers. Trailing ones may be left out.",
            "Return the outputs in order: one tensor, a tuple or a vector. Allocate them with torch::empty or "
            "torch::zeros; returning an argument or a view of another layout is refused.",
            "Host code runs once for each workload, on tensors without values, and its launches, memsets and copies "
            "are recorded. It must not depend on addresses, time, chance or earlier calls.",
            "torch::Tensor has sizes, strides, data_ptr<T>, options, views, contiguous, to(dtype) and plain "
            "arithmetic. Other calls of torch, and libraries such as cuBLAS, do not exist.",
            ".item(), .cpu() and copies between host and device are refused: no value of a tensor reaches host code.",
            "Side streams are put into the order of their launches; the current stream has to wait for them.",
            "Every call gets values never seen before and is checked and timed. Device variables keep nothing.",
            "Tensors start on a 256-byte boundary; reading up to the next 256-byte boundary past the end is harmless.",
            "Beside the public workloads, any sizes within the task's ranges may be asked for; which ones is not told.",
        )

    def takes(self, path: Path) -> bool:
        """By what the file says: a .cu file with a plan is a candidate of another contract."""
        if path.suffix not in (".cu", ".py") or not path.is_file():
            return False
        try:
            source = read_candidate(path, self.name).source
            return is_inline(source) if path.suffix == ".py" else _is_ours(source)
        except CandidateError:
            return False

    def read(self, path: Path) -> Candidate:
        candidate = read_candidate(path, self.name)
        try:
            source = inline_source(candidate.source) if path.suffix == ".py" else candidate.source
            if source is None:
                raise CandidateError("has no call of load_inline: give a .cu file, or its sources as strings")
            self.check_source(source)
        except CandidateError as error:
            raise CandidateError(f"{printable(str(path))}: {error}") from None
        return Candidate(self.name, source, candidate.name)

    def check_source(self, source: str) -> None:
        check(source)

    def normalised(self, source: str) -> str:
        return normalised_c_like(source)

    def emulation(self, candidate: Candidate) -> Emulation:
        from kernelwright.contracts.extension.emulate.emulation import ExtensionEmulation

        return ExtensionEmulation(candidate.source)

    def parts(self) -> tuple[Part, ...]:
        from kernelwright.contracts.extension.toolchain.build import parts

        return parts()

    def toolchain(self, target: Target, spare: int = 0) -> GpuToolchain:
        from kernelwright.contracts.extension.toolchain.build import ExtensionToolchain

        return ExtensionToolchain(target)

    def portable(self, candidate: Candidate, request: PortableRequest) -> PortableBuild | BuildFailure:
        from kernelwright.contracts.recorded.portable import build_portable

        return build_portable(self.toolchain(request.target), candidate, request)


def _is_ours(source: str) -> bool:
    return is_extension(source) and not has_plan(source)


EXTENSION = ExtensionContract()
