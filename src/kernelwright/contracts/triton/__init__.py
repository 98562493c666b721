"""The `triton` contract: a Python module with `@triton.jit` kernels and host code that launches them.

source.py          kernels, the function that stands for the task, its parameters; nothing is run
configurations.py  the configurations of autotuned kernels, as tunables
confined/          what runs in the sandbox beside the module: stand-ins for tensors, device and driver
toolchain/         the recorder, ptxas in the builder's sandbox, and the programs that records become
emulate/           Triton's own interpreter, for `kernelwright check`
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
from kernelwright.contracts.target import Target
from kernelwright.contracts.triton.configurations import configured
from kernelwright.contracts.triton.source import SOURCE_NAME, check, is_triton, parsed
from kernelwright.contracts.tunable_syntax import PYTHON_TUNABLES
from kernelwright.tasks.model import ScalarSpec, Signature, TensorSpec


def _given(signature: Signature) -> list[TensorSpec | ScalarSpec]:
    given = [a for a in signature.arguments if isinstance(a, ScalarSpec) or a.role != "output"]
    return [*(a for a in given if _upstream(a)), *(a for a in given if not _upstream(a))]


def _upstream(argument: TensorSpec | ScalarSpec) -> bool:
    return isinstance(argument, TensorSpec) and argument.role != "output" and argument.name.startswith("grad_")


def _declaration(signature: Signature) -> str:
    name = "backward" if any(map(_upstream, signature.arguments)) else "forward"
    return f"def {name}({', '.join(a.name for a in _given(signature))}):"


class TritonContract(GpuContract):
    name = "triton"
    language = (
        "Python with Triton kernels, compiled by Triton without a GPU; host code is recorded on tensors without data"
    )
    form = "a .py file with @triton.jit kernels and forward(...)"
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
        arguments = ", ".join(map(_described, _given(first)))
        outputs = ", ".join(f"{t.name} ({t.dtype}, {len(t.shape)} dimensions)" for t in first.outputs)
        changed = ", ".join(t.name for t in first.tensors if t.role == "inout")
        lines = [f"{_declaration(first)}  # {arguments}"]
        lines += [f"    # returns {outputs}"] if outputs else []
        lines += [f"    # changes in place: {changed}"] if changed else []
        return "\n".join([*lines, "    ..."])

    def skeleton(self, signatures: tuple[Signature, ...], task_name: str) -> str:
        first = signatures[0]
        like = next(t for t in first.tensors if t.role != "output").name
        made = [
            f"    {t.name} = torch.empty({_shape(signatures, place)}, dtype=torch.{t.dtype}, device={like}.device)"
            for place, t in enumerate(first.outputs)
        ]
        names = ", ".join(t.name for t in first.outputs)
        target = first.outputs[0].name if first.outputs else like
        back = [f"    return {names}"] if names else []
        launch = [
            f"    n = {target}.numel()",
            f"    kernel[(triton.cdiv(n, BLOCK),)]({like}, {target}, n, BLOCK=BLOCK)",
        ]
        return (
            f"# A candidate for {task_name}.\nimport torch\nimport triton\nimport triton.language as tl\n\n"
            "BLOCK = 1024\n\n\n"
            "@triton.jit\ndef kernel(x, out, n, BLOCK: tl.constexpr):\n"
            "    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
            "    tl.store(out + at, tl.zeros([BLOCK], out.dtype.element_ty), mask=at < n)\n\n\n"
            f"{_declaration(first)}\n" + "\n".join([*made, *launch, *back]) + "\n"
        )

    def rules(self) -> tuple[str, ...]:
        return (
            "Give one Python module with @triton.jit kernels and forward(...), or backward(...) for a task with "
            "upstream gradients. An autograd.Function class serves as well.",
            "Parameters take the task's arguments by name where the names are the same, and the others in order: "
            "upstream gradients first, then the inputs as the task declares them.",
            "Return the outputs in order: one tensor or a tuple. Allocate them with torch.empty or torch.zeros; "
            "returning an argument or a view of another layout is refused.",
            "Host code runs once for each workload, on tensors without values, and its launches, memsets and copies "
            "are recorded. It must not depend on addresses, time, chance or earlier calls.",
            "Of torch there are views, allocations, constants, copies, casts, sums and plain arithmetic, which are "
            "kernels and cost time as yours do. Every other operator of torch is refused by name.",
            ".item(), branches on values, .cpu(), timers and copies between host and device are refused.",
            "tl.dot of float32 computes in TF32 unless you say input_precision='ieee' (or 'tf32x3', 'bf16x6'): a task "
            "in float32 rejects TF32. float16 and bfloat16 operands are multiplied as they are.",
            "An autotuned kernel f takes the first configuration that fits the device. Choose another by a line "
            "`f_config = 2  # tunable: f_config = 0, 1, 2`; nothing is timed while host code runs.",
            "The device has the multiprocessors and the shared memory of the GPU that is built for. There is no "
            "other process, no file of yours and no network.",
            "Every call gets values never seen before and is checked and timed. Memory that is kept between calls "
            "holds nothing.",
            "Tensors start on a 256-byte boundary; reading up to the next 256-byte boundary past the end is harmless.",
            "Beside the public workloads, any sizes within the task's ranges may be asked for; which ones is not told.",
        )

    def takes(self, path: Path) -> bool:
        """By what the file says: a task or a script of any other kind is Python, too."""
        if path.suffix not in self.suffixes or not path.is_file():
            return False
        try:
            return is_triton(read_candidate(path, self.name).source)
        except CandidateError:
            return True  # whatever is wrong with the file, reading it says so

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
        from kernelwright.contracts.triton.emulate.emulation import TritonEmulation

        return TritonEmulation(candidate.source)

    def parts(self) -> tuple[Part, ...]:
        from kernelwright.contracts.triton.toolchain.ptxas import parts

        return parts()

    def toolchain(self, target: Target, spare: int = 0) -> GpuToolchain:
        from kernelwright.contracts.triton.toolchain.build import TritonToolchain

        return TritonToolchain(target, spare)

    def portable(self, candidate: Candidate, request: PortableRequest) -> PortableBuild | BuildFailure:
        from kernelwright.contracts.recorded.portable import build_portable

        return build_portable(self.toolchain(request.target), candidate, request)


def _shape(signatures: tuple[Signature, ...], place: int) -> str:
    """Of an output, in terms of the inputs' sizes where these are the same in all workloads."""
    rank = len(signatures[0].outputs[place].shape)
    return f"({', '.join(_size(signatures, place, axis) for axis in range(rank))}{',' if rank == 1 else ''})"


def _size(signatures: tuple[Signature, ...], place: int, axis: int) -> str:
    sizes = [signature.outputs[place].shape[axis] for signature in signatures]
    for tensor in signatures[0].tensors:
        for number in range(len(tensor.shape) if tensor.role != "output" else 0):
            found = [next(t for t in one.tensors if t.name == tensor.name).shape[number] for one in signatures]
            if found == sizes:
                return f"{tensor.name}.shape[{number}]"
    return str(sizes[0])


def _described(argument: TensorSpec | ScalarSpec) -> str:
    if isinstance(argument, ScalarSpec):
        return f"{argument.name}: {type(argument.value).__name__}"
    return f"{argument.name}: {argument.dtype}, {len(argument.shape)} dimensions"


TRITON = TritonContract()
