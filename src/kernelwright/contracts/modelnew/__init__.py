"""The `modelnew` contract: a KernelBench solution, a Python module with `class ModelNew(nn.Module)`.

source.py     whether a file is one, and which arguments are forward's and which are parameters; nothing is run
libraries.py  what load_inline was given, as a .cu file for the builder
confined/     what runs in the sandbox beside the module: its constructor, its parameters, torch's operators as steps
toolchain/    the recorder, the builders, and the programs that records become
emulate/      the same module on real values, for `kernelwright check`

It builds on `extension` (the light headers, nvcc, the recorder of CUDA calls) and on `triton` (stand-in tensors, PTX).
"""

from __future__ import annotations

import ast
from functools import cached_property
from pathlib import Path

from kernelwright.contracts.candidate import Candidate, CandidateError, read_candidate
from kernelwright.contracts.craft import Craft, read_craft
from kernelwright.contracts.model import (
    BuildFailure,
    Emulation,
    GpuContract,
    GpuToolchain,
    Part,
    PortableBuild,
    PortableRequest,
)
from kernelwright.contracts.modelnew.source import CLASS, SOURCE_NAME, check, is_modelnew, module_call
from kernelwright.contracts.target import Target
from kernelwright.contracts.triton.configurations import configured
from kernelwright.contracts.triton.source import parsed
from kernelwright.contracts.tunable_syntax import PYTHON_TUNABLES
from kernelwright.tasks.model import ScalarSpec, Signature


class ModelNewContract(GpuContract):
    name = "modelnew"
    language = "Python with class ModelNew(nn.Module), as KernelBench asks for it: inline CUDA or Triton kernels"
    form = "a .py file with class ModelNew"
    suffixes = (".py",)
    source_name = SOURCE_NAME
    fence = "python"
    emulated = True
    tunable_syntax = (PYTHON_TUNABLES,)

    @cached_property
    def craft(self) -> Craft:
        return read_craft(Path(__file__).parent / "craft.toml")

    def signature_text(self, signatures: tuple[Signature, ...]) -> str:
        first = signatures[0]
        held = first.module.held if first.module is not None else ()
        tensors = {tensor.name: tensor for tensor in first.tensors}
        parameters = "".join(
            f"        # parameter {path}: {tensors[name].dtype}{list(tensors[name].shape)}\n" for name, path in held
        )
        given = ", ".join(_forward_names(first))
        outputs = ", ".join(f"{t.name} ({t.dtype}, {len(t.shape)} dimensions)" for t in first.outputs)
        constructor = "*arguments" if first.module is not None else ""
        return (
            f"class {CLASS}(nn.Module):\n    def __init__(self{', ' if constructor else ''}{constructor}):"
            f"{'  # as Model takes them' if constructor else ''}\n        super().__init__()\n{parameters}\n"
            f"    def forward(self, {given}):\n        ...  # returns {outputs}"
        )

    def skeleton(self, signatures: tuple[Signature, ...], task_name: str) -> str:
        first = signatures[0]
        given = _forward_names(first)
        like = next(t.name for t in first.tensors if t.name in given)
        output = first.outputs[0]
        shape = f"{like}.shape" if all(_same(one, like) for one in signatures) else str(tuple(output.shape))
        constructor = "*arguments" if first.module is not None else ""
        return (
            f"# A candidate for {task_name}.\nimport torch\nimport torch.nn as nn\n"
            "from torch.utils.cpp_extension import load_inline\n\n"
            'SOURCE = """\n#include <torch/extension.h>\n'
            "__global__ void kernel(const float* x, float* out, int64_t n) {\n"
            "  int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;\n  if (i < n) out[i] = 0;\n}\n"
            "torch::Tensor launch(torch::Tensor x, torch::Tensor out) {\n"
            "  kernel<<<(out.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), out.numel());\n"
            '  return out;\n}\n"""\n'
            'library = load_inline(name="kernels", cpp_sources="torch::Tensor launch(torch::Tensor x, '
            'torch::Tensor out);",\n                      cuda_sources=SOURCE, functions=["launch"])\n\n\n'
            f"class {CLASS}(nn.Module):\n"
            f"    def __init__(self{', ' if constructor else ''}{constructor}):\n        super().__init__()\n\n"
            f"    def forward(self, {', '.join(given)}):\n"
            f"        out = torch.empty({shape}, dtype=torch.{output.dtype}, device={like}.device)\n"
            f"        return library.launch({like}, out)\n"
        )

    def rules(self) -> tuple[str, ...]:
        return (
            f"Give one Python module with class {CLASS}(nn.Module). Its constructor and its forward take what the "
            "problem's Model takes.",
            "Its parameters and buffers get the problem's values: by name and shape, or all of them in the order in "
            "which they are made. Make the same ones; what a constructor writes into them is dropped.",
            "Kernels are CUDA in the strings of torch.utils.cpp_extension.load_inline, or Triton.",
            "C++ host code is built without torch: torch::Tensor has sizes, strides, data_ptr<T>, options, views, "
            "contiguous and plain arithmetic. Operators of torch are called in Python.",
            "Operators of torch in forward are carried out by torch and named in the verdict (library: torch). Where "
            "no result depends on a kernel of yours, the candidate is rejected.",
            "Host code runs once for each workload, on tensors without values, and its launches and operators are "
            "recorded. It must not depend on addresses, time, chance or earlier calls.",
            ".item(), branches on values, .cpu(), timers, CUDA graphs and random numbers are refused. torch.compile "
            "and torch.jit change nothing: what they wrap is recorded.",
            "Return new tensors in the shape and dtype of the problem's; do not change inputs or parameters.",
            "Every call gets values never seen before and is checked. Memory that is kept between calls holds nothing, "
            "and what the constructor computes is computed again in every call.",
            "Tensors start on a 256-byte boundary; reading up to the next 256-byte boundary past the end is harmless.",
            "Beside the public workloads, any sizes within the task's ranges may be asked for; which ones is not told.",
        )

    def takes(self, path: Path) -> bool:
        """By what the file says: a task or a script of any other kind is Python, too."""
        if path.suffix not in self.suffixes or not path.is_file():
            return False
        try:
            return is_modelnew(read_candidate(path, self.name).source)
        except CandidateError:
            return False

    def check_source(self, source: str) -> None:
        check(source)

    def normalised(self, source: str) -> str:
        """As the syntax tree is written: comments and layout are not in it."""
        try:
            return ast.unparse(parsed(source))
        except (CandidateError, RecursionError):
            return source.strip()

    def implied_tunables(self, source: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return configured(source)

    def emulation(self, candidate: Candidate) -> Emulation:
        from kernelwright.contracts.modelnew.emulate.emulation import ModelNewEmulation

        return ModelNewEmulation(candidate.source)

    def parts(self) -> tuple[Part, ...]:
        from kernelwright.contracts.extension.toolchain.nvcc import parts as nvcc_parts
        from kernelwright.contracts.triton.toolchain.ptxas import parts as triton_parts

        return (*nvcc_parts(), *triton_parts())

    def toolchain(self, target: Target, spare: int = 0) -> GpuToolchain:
        from kernelwright.contracts.modelnew.toolchain.build import ModelNewToolchain

        return ModelNewToolchain(target, spare)

    def portable(self, candidate: Candidate, request: PortableRequest) -> PortableBuild | BuildFailure:
        from kernelwright.contracts.recorded.portable import build_portable

        return build_portable(self.toolchain(request.target), candidate, request)


def _forward_names(signature: Signature) -> tuple[str, ...]:
    """Of the arguments that forward takes."""
    given = [a.name for a in signature.arguments if isinstance(a, ScalarSpec) or a.role != "output"]
    held = {name for name, _ in signature.module.held} if signature.module is not None else set()
    return tuple(name for name in given if name not in held)


def _same(signature: Signature, name: str) -> bool:
    """Whether the first output has the shape of this argument."""
    return next(t for t in signature.tensors if t.name == name).shape == signature.outputs[0].shape


MODELNEW = ModelNewContract()
__all__ = ["MODELNEW", "module_call"]
