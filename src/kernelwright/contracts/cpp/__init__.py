"""The `cpp` contract: C++ for the CPU, one file with a function `kernel` over typed tensor views."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from kernelwright.contracts.candidate import Candidate
from kernelwright.contracts.craft import Craft, read_craft
from kernelwright.contracts.model import BuildPlan, HostContract, float8_header, host_abi, varying_dtypes
from kernelwright.contracts.normalise import normalised_c_like
from kernelwright.contracts.tunable_syntax import C_TUNABLES
from kernelwright.tasks.signatures import ScalarSpec, Signature, TensorSpec

HERE = Path(__file__).parent
SOURCE_NAME = "kernel.cpp"
TYPES = {
    "float64": "double",
    "float32": "float",
    "float16": "kw::float16",
    "bfloat16": "kw::bfloat16",
    "float8_e4m3fn": "kw::float8_e4m3fn",
    "float8_e5m2": "kw::float8_e5m2",
    "int64": "std::int64_t",
    "int32": "std::int32_t",
    "int16": "std::int16_t",
    "int8": "std::int8_t",
    "uint8": "std::uint8_t",
    "bool": "bool",
}
WARNINGS = (
    "-Wall",
    "-Wno-unknown-pragmas",
    "-Wno-unused-function",
    "-fmax-errors=20",
    "-fdiagnostics-color=never",
)
FLAGS = (
    "-std=c++20",
    "-march=native",
    "-fopenmp",
    "-shared",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-gnu-unique",
)
FAST = ("-O3", "-ffile-prefix-map={source}=.")  # a path in a message must not make another library of it
# Without the check of virtual tables, which takes std::thread's own state for a fault when symbols are hidden.
SANITIZED = (
    *("-O1", "-g", "-fno-omit-frame-pointer"),
    *("-fsanitize=address,undefined", "-fno-sanitize=vptr", "-fno-sanitize-recover=undefined"),
)
# Each moves code, and the last one what is on the stack, too. None changes what is computed.
LAYOUTS = (
    ("-falign-loops=32",),
    ("-falign-loops=64", "-falign-jumps=32"),
    ("-fno-omit-frame-pointer", "-falign-jumps=16"),
)
LINK = ("-Wl,-z,defs", "-Wl,-z,now")


def _argument_type(argument: TensorSpec | ScalarSpec) -> str:
    if isinstance(argument, ScalarSpec):
        if isinstance(argument.value, bool):
            return "bool"
        return "double" if isinstance(argument.value, float) else "std::int64_t"
    const = "const " if argument.role in ("input", "constant") else ""
    return f"kw::Tensor<{const}{TYPES[argument.dtype]}, {len(argument.shape)}>"


def _declaration(function: str, arguments: tuple[TensorSpec | ScalarSpec, ...], generic: frozenset[str]) -> str:
    """`generic` names the tensors whose dtype differs between workloads: a template parameter T stands for it."""

    def typed(argument: TensorSpec | ScalarSpec) -> str:
        text = _argument_type(argument)
        if isinstance(argument, TensorSpec) and argument.name in generic:
            text = text.replace(TYPES[argument.dtype], "T")
        return f"{text} {argument.name}"

    head = "template <class T>\n" if generic else ""
    return f"{head}void {function}({', '.join(typed(argument) for argument in arguments)})"


def _constants(signature: Signature) -> tuple[TensorSpec | ScalarSpec, ...]:
    return tuple(a for a in signature.arguments if isinstance(a, TensorSpec) and a.role == "constant")


def _call(function: str, signature: Signature, arguments: tuple[TensorSpec | ScalarSpec, ...]) -> str:
    parts = []
    for argument in arguments:
        index = signature.arguments.index(argument)
        if isinstance(argument, ScalarSpec):
            field = "real" if isinstance(argument.value, float) else "integer"
            parts.append(f"static_cast<{_argument_type(argument)}>(a[{index}].{field})")
        else:
            parts.append(f"kw_view<{_argument_type(argument)}>(a[{index}])")
    return f"{function}({', '.join(parts)})"


_VIEW = """\
namespace {
template <class View>
View kw_view(const kw_argument& argument) {
  View view{};
  view.data = static_cast<decltype(view.data)>(argument.data);
  for (std::size_t d = 0; d < sizeof(view.sizes) / sizeof(view.sizes[0]); ++d) {
    view.sizes[d] = argument.sizes[d];
    view.strides[d] = argument.strides[d];
  }
  return view;
}
}  // namespace
"""


def _glue(signature: Signature) -> str:
    """Joins the runner, which knows no types, to the candidate's typed function."""
    export = 'extern "C" __attribute__((visibility("default"))) void'
    constants = _constants(signature)
    prepare = f"{export} kw_prepare(const kw_argument* a) {{ {_call('prepare', signature, constants)}; }}\n"
    return (
        f'#include "kernelwright.h"\n#include "abi.h"\n#include "{SOURCE_NAME}"\n{_VIEW}'
        f"{export} kw_run(const kw_argument* a) {{ {_call('kernel', signature, signature.arguments)}; }}\n"
        + (prepare if constants else "")
    )


class CppContract(HostContract):
    name = "cpp"
    language = "C++20 for the CPU, built with g++ -O3 -march=native -fopenmp"
    form = "a .cpp, .cc, .cxx, .c++ or .C file"
    suffixes = (".cpp", ".cc", ".cxx", ".c++", ".C")
    source_name = SOURCE_NAME
    fence = "cpp"
    tunable_syntax = (C_TUNABLES,)

    @cached_property
    def craft(self) -> Craft:
        return read_craft(HERE / "craft.toml")

    def signature_text(self, signatures: tuple[Signature, ...]) -> str:
        generic = varying_dtypes(signatures)
        first = signatures[0]
        text = _declaration("kernel", first.arguments, generic) + ";"
        constants = _constants(first)
        return f"{_declaration('prepare', constants, generic)};\n{text}" if constants else text

    def skeleton(self, signatures: tuple[Signature, ...], task_name: str) -> str:
        parts = [f"// A candidate for {task_name}.\n#include <kernelwright.h>\n"]
        generic = varying_dtypes(signatures)
        constants = _constants(signatures[0])
        if constants:
            head = _declaration("prepare", constants, generic)
            parts.append(f"// Called once before the first call of kernel; timed and reported apart.\n{head} {{\n}}\n")
        head = _declaration("kernel", signatures[0].arguments, generic)
        outputs = [t.name for t in signatures[0].tensors if t.role in ("output", "inout")]
        tensor = next(t for t in signatures[0].tensors if t.name == outputs[0])
        index = ", ".join("ijklmn"[: len(tensor.shape)])
        use = f"{tensor.name}.size(0) is a size, {tensor.name}({index}) an element, {tensor.name}.data the memory"
        if not tensor.shape:
            use = f"{tensor.name}.data[0] is the value"
        parts.append(f"{head} {{\n  // Write every element of: {', '.join(outputs)}.\n  // {use}.\n}}\n")
        return "\n".join(parts)

    def rules(self) -> tuple[str, ...]:
        return (
            "Define exactly this function; it is called once per trial, each time with values never seen before.",
            "Write every element of every output. Outputs hold garbage before the call.",
            "Inputs are read-only. A write to one, or far outside any tensor, ends the process.",
            "Tensors are strided views: data, sizes, strides (in elements), size(d), stride(d), numel(), contiguous().",
            "Data starts on a 256-byte boundary; reading up to the next 256-byte boundary past the end is harmless.",
            "OpenMP is allowed; the number of threads is set by the judge and is the same for the baselines.",
            "Beside the public workloads, any sizes within the task's ranges may be asked for; which ones is not told.",
            "Threads may stay alive between calls, but they are stopped between calls and all time is counted.",
            "Processes, sockets, files other than the system's libraries, and timers are not available.",
            "Flags are fixed. The standard library and the compiler's intrinsics are available.",
        )

    def normalised(self, source: str) -> str:
        return normalised_c_like(source)

    def build_plan(self, candidate: Candidate, signature: Signature, *, sanitized: bool) -> BuildPlan:
        files = (
            (SOURCE_NAME, candidate.source),
            ("glue.cpp", _glue(signature)),
            ("kernelwright.h", (HERE / "kernelwright.h").read_text(encoding="utf-8")),
            float8_header(),
            host_abi(),
        )
        arguments = (
            *(*FLAGS, *WARNINGS, *(SANITIZED if sanitized else FAST)),
            *("-I", "{source}", "{source}/glue.cpp", "-o", "{output}", *LINK),
        )
        return BuildPlan(files, arguments, () if sanitized else LAYOUTS)


CPP = CppContract()
