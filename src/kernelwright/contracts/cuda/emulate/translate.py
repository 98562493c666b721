"""Turns CUDA source and one evaluated plan into C++ for the host: the same kernels, and a function to launch them."""

from __future__ import annotations

import re
from pathlib import Path

from kernelwright.contracts.cpp import LINK, WARNINGS
from kernelwright.contracts.cuda.emulate.headers import constants, taken_back
from kernelwright.contracts.cuda.emulate.ptx import without_known_ptx
from kernelwright.contracts.cuda.emulate.refuse import (
    refuse_plan,
    refuse_source,
    without_comments,
    without_includes,
)
from kernelwright.contracts.cuda.plan import Plan
from kernelwright.contracts.cuda.source import KERNEL_NAME
from kernelwright.contracts.cuda.toolchain.resolve import resolve
from kernelwright.contracts.model import BuildFailure, BuildPlan, float8_header, host_abi
from kernelwright.contracts.program import Argument, Block, Program, ProgramStep, Triple
from kernelwright.contracts.target import Target
from kernelwright.tasks.model import Signature, TensorSpec

HEADERS = Path(__file__).parent / "include"
SHARED_SECTION = "kw_shared"
FLAGS = ("-fno-strict-aliasing", "-march=native", "-shared", "-fPIC", "-fvisibility=hidden", "-fno-gnu-unique", "-g1")
# Steps are counted where the candidate branches, so that a thread that waits for memory can be interrupted.
STEPS = ("-fsanitize-coverage=trace-pc",)
# While a thread waits, others change variables that no function it calls is seen to change.
THREADS = ("-fno-ipa-reference", "-fno-ipa-reference-addressable", "-fno-ipa-modref", "-fno-ipa-pure-const")
PLAIN = ("-O2",)
SANITIZED = (
    *("-O1", "-fno-omit-frame-pointer", f"-fsanitize-sections={SHARED_SECTION}"),
    *("-fsanitize=address,undefined", "-fno-sanitize=vptr", "-fno-sanitize-recover=undefined"),
)
# A kernel is not written for this compiler: what it warns of is not a fault.
QUIET = ("-Wno-attributes", "-Wno-unused", "-Wno-maybe-uninitialized", "-Wno-uninitialized", "-Wno-sign-compare")
# Every part is bounded: a source may repeat the beginning of a declaration without end.
_ALIGNED = r"(?:__align__|alignas)\s{0,99}\([^()]{0,99}(?:\([^()]{0,99}\))?[^()]{0,99}\)\s{1,99}"
_DYNAMIC = re.compile(
    r"(?:extern\s{1,99}__shared__|__shared__\s{1,99}extern)\s{1,99}"
    rf"((?:{_ALIGNED})?)((?:volatile\s{{1,99}})?[\w:<>, ]{{0,255}}?[\w>])\s{{1,99}}"
    rf"((?:{_ALIGNED})?)(\w{{1,255}})\s{{0,99}}\[\s{{0,99}}\]\s{{0,99}};"
)
_TWICE_STATIC = re.compile(r"\bstatic\s+__shared__|\b__shared__\s+static\b")
_FILLS = {"poison": "garbage", "zero": "zero", "workspace": "workspace"}


def host_source(kernel: str) -> str:
    """The kernels as the host's compiler takes them, line by line what the author wrote."""
    text = without_comments(kernel)
    refuse_source(text)
    text = _TWICE_STATIC.sub("__shared__", without_includes(without_known_ptx(text)))
    return _DYNAMIC.sub(r"\2* const \4 = reinterpret_cast<\2*>(kw::dynamic_shared);", text)


def translate(kernel: str, plan: Plan, signature: Signature, target: Target) -> tuple[str, str] | BuildFailure:
    """The kernels' text and the glue's. Raises NotEmulatedError for what the emulator does not have."""
    refuse_plan(plan)
    source = host_source(kernel)
    program = resolve(plan, signature, {name: name for name in plan.kernels})
    if isinstance(program, BuildFailure):
        return program
    return source, _glue(program, plan, signature, target)


def emulator_headers() -> tuple[tuple[str, str], ...]:
    """Every header that `emulator.h` brings, and `abi.h`, for the files of a build plan."""
    own = tuple((path.name, path.read_text(encoding="utf-8")) for path in sorted(HEADERS.glob("*.h")))
    return (host_abi(), float8_header(), *own, *constants())


def build_plan(source: str, glue: str, plan: Plan, *, sanitized: bool) -> BuildPlan:
    files = ((KERNEL_NAME, source), ("glue.cpp", glue), *emulator_headers())
    arguments = (
        *(
            f"-std={plan.options.std}",
            *FLAGS,
            *STEPS,
            *THREADS,
            *WARNINGS,
            *QUIET,
            *(SANITIZED if sanitized else PLAIN),
        ),
        *("-I", "{source}", "{source}/glue.cpp", "-o", "{output}", *LINK),
    )
    return BuildPlan(files, arguments)


def _glue(program: Program, plan: Plan, signature: Signature, target: Target) -> str:
    """The kernels have internal linkage, so that shared variables of templates may lie in a section of their own.
    Every launch is a function of its own: the arguments of hundreds of them do not fit on a stack together."""
    definitions = "".join(f"#define {name} {value}\n" for name, value in plan.definitions)
    steps = "".join(_step(number, step, target) for number, step in enumerate(program.launches))
    calls = "".join(f"  kw_launch{number}(m);\n" for number in range(len(program.launches)))
    return (
        f"#define KW_ARCHITECTURE {_architecture(target)}\n"
        f'#include "abi.h"\n#include "emulator.h"\n{taken_back()}{definitions}'
        f'namespace {{\n#include "{KERNEL_NAME}"\n\n{steps}'
        f"void kw_launches(const kw_argument* a) {{\n  (void)a;\n{_memory(program, signature)}{calls}}}\n}}\n"
        'extern "C" __attribute__((visibility("default"))) void kw_run(const kw_argument* a) {\n'
        "  kw::OneCall call;\n  kw_launches(a);\n}\n"
    )


def _architecture(target: Target) -> int:
    return 10 * int("".join(filter(str.isdigit, target.architecture)))


def _memory(program: Program, signature: Signature) -> str:
    tensors = {a.name: i for i, a in enumerate(signature.arguments) if isinstance(a, TensorSpec)}
    lines = [f"  char* m[{len(program.blocks) + 1}] = {{}};\n"]
    for number, block in enumerate(program.blocks):
        if block.name in tensors:
            lines.append(f"  m[{number}] = static_cast<char*>(a[{tensors[block.name]}].data);\n")
        else:
            lines.append(f"  {_own(block, number)}\n  m[{number}] = own{number}.data;\n")
    return "".join(lines)


def _own(block: Block, number: int) -> str:
    return f'kw::Memory own{number}("{block.name}", {block.extent}ul, kw::Fill::{_FILLS[block.fill]});'


def _step(number: int, step: ProgramStep, target: Target) -> str:
    arguments = "".join(f"    {_argument(argument)},\n" for argument in step.arguments)
    geometry = ", ".join(
        (
            f'"{step.function}"',
            *(_triple(size) for size in (step.grid, step.block, step.cluster or (1, 1, 1))),
            f"{step.shared}u",
            *(str(flag).lower() for flag in (step.cooperative, step.cluster is not None)),
            f"{target.multiprocessors}u, {target.shared_per_block}u",
        )
    )
    return (
        f"__attribute__((noinline)) void kw_launch{number}(char* const* m) {{\n  (void)m;\n"
        f'  const kw::Argument arguments[] = {{\n{arguments}    kw::Argument("", 0)}};\n'
        f"  kw::launch(kw::Geometry{{{geometry}}}, {step.function}, arguments, {len(step.arguments)}u);\n}}\n"
    )


def _argument(argument: Argument) -> str:
    data = "".join(f"\\x{argument.data[i : i + 2]}" for i in range(0, len(argument.data), 2))
    pointers = "".join(f".at({p.at}, m[{p.block}] + {p.offset})" for p in argument.pointers)
    return f'kw::Argument("{data}", {argument.size}){pointers}'


def _triple(value: Triple) -> str:
    return f"dim3({value[0]}u, {value[1]}u, {value[2]}u)"
