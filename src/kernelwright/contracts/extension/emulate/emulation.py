"""One extension for the emulator: its source for a host compiler, and the glue that calls its bound function."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from kernelwright.contracts.candidate import CandidateError
from kernelwright.contracts.cpp import LINK, WARNINGS
from kernelwright.contracts.cuda.emulate.refuse import without_comments
from kernelwright.contracts.cuda.emulate.translate import (
    FLAGS,
    PLAIN,
    QUIET,
    SANITIZED,
    STEPS,
    THREADS,
    emulator_headers,
    host_source,
)
from kernelwright.contracts.extension.emulate.launches import without_launches
from kernelwright.contracts.extension.source import call_plan, check, with_own_headers
from kernelwright.contracts.extension.values import DTYPE_NUMBERS, LIGHT_HEADERS, advice_on_torch, light_headers
from kernelwright.contracts.model import BuildFailure, BuildPlan
from kernelwright.contracts.recorded.calls import CallPlan
from kernelwright.contracts.target import Target
from kernelwright.tasks.model import ScalarSpec, Signature, TensorSpec

SOURCE_NAME = "kernel.cu"
_OWN = Path(__file__).parent / "include"
_STANDARD = (
    *("algorithm", "array", "atomic", "cassert", "cfloat", "chrono", "climits", "cmath", "cstdint", "cstdio"),
    *("cstdlib", "cstring", "functional", "initializer_list", "iostream", "iterator", "limits", "map", "memory"),
    *("mutex", "numeric", "optional", "ostream", "set", "sstream", "stdexcept", "string", "tuple", "type_traits"),
    *("unordered_map", "utility", "vector", "iomanip", "cstddef", "cctype", "string_view", "thread", "exception"),
)
_EMPTY = ("cuda_runtime.h", "cuda_fp16.h", "cuda_bf16.h", "math_constants.h")  # the emulator has them already
_GONE = re.compile(
    rf"^[ \t]*#[ \t]*include[ \t]*(?:\"{LIGHT_HEADERS[0]}\"|<(?:{'|'.join(_STANDARD)}|cuda_runtime_api\.h)>)[^\n]*",
    re.MULTILINE,
)


class ExtensionEmulation:
    def __init__(self, source: str) -> None:
        check(source)
        self._source = source
        self._text = _host_text(source)

    def builds(
        self, signatures: tuple[Signature, ...], target: Target, *, sanitized: bool
    ) -> Iterator[BuildPlan | BuildFailure]:
        for signature in signatures:
            try:
                plan = call_plan(self._source, signature)
            except CandidateError as error:
                yield BuildFailure((str(error),))
                return
            yield _build_plan(self._text, _glue(plan, signature, target), sanitized=sanitized)

    def advice(self, lines: Sequence[str]) -> tuple[str, ...]:
        return advice_on_torch(lines)


def function_library(source: str, target: Target) -> BuildPlan:
    """A library whose functions another process calls one by one (contracts/modelnew/confined/emulated_calls.py)."""
    check(source)
    glue = (
        f"{_head(target)}"
        f'namespace {{\n#include "{SOURCE_NAME}"\n}}\n'
        '#define KW_OPEN extern "C" __attribute__((visibility("default")))\n'
        "KW_OPEN int kw_call(const char* function, const kw_value* values, int count, kw_tensor* results, int room, "
        'char* message, size_t bytes) {\n  kw::OneCall call;\n  kw::machine.geometry.kernel = "host code";\n'
        "  return kw::call_one(kw_define_module, function, values, count, results, room, message, bytes);\n}\n"
        "KW_OPEN int kw_returned_list() { return kw::returned_list; }\n"
        "KW_OPEN void kw_release() { kw::free_allocations(); }\n"
        "KW_OPEN void kw_without_kernels(int without) { kw::leave_out_kernels = without; }\n"
    )
    return _build_plan(_host_text(source), glue, sanitized=False)


def _host_text(source: str) -> str:
    return host_source(without_launches(_GONE.sub("", with_own_headers(without_comments(source)))))


def _build_plan(source: str, glue: str, *, sanitized: bool) -> BuildPlan:
    host = tuple((path.name, path.read_text(encoding="utf-8")) for path in sorted(_OWN.glob("*.h")))
    empty = tuple((name, "#pragma once\n") for name in _EMPTY)
    files = ((SOURCE_NAME, source), ("glue.cpp", glue), *emulator_headers(), *host, *light_headers(), *empty)
    arguments = (
        *("-std=c++20", *FLAGS, *STEPS, *THREADS, *WARNINGS, *QUIET, "-Wno-init-list-lifetime"),
        *(SANITIZED if sanitized else PLAIN),
        *("-I", "{source}", "{source}/glue.cpp", "-o", "{output}", *LINK),
    )
    return BuildPlan(files, arguments)


def _head(target: Target) -> str:
    definitions = {
        "KW_ARCHITECTURE": 10 * int("".join(filter(str.isdigit, target.architecture))),
        "KW_MULTIPROCESSORS": target.multiprocessors,
        "KW_SHARED_PER_BLOCK": target.shared_per_block,
        "KW_L2_BYTES": target.l2_bytes,
    }
    head = "".join(f"#define {name} {value}\n" for name, value in definitions.items())
    standard = "".join(f"#include <{name}>\n" for name in _STANDARD)
    return (
        f'{head}{standard}#include "abi.h"\n#include "kw_host.h"\n#include "{LIGHT_HEADERS[0]}"\n#include "kw_glue.h"\n'
    )


def _glue(plan: CallPlan, signature: Signature, target: Target) -> str:
    values = "".join(f"  {_value(value, f'values[{n}]', signature)}\n" for n, value in enumerate(plan.values))
    lists = "".join(
        f"  kw_value list{n}[{max(1, len(value))}] = {{}};\n"
        for n, value in enumerate(plan.values)
        if isinstance(value, tuple)
    )
    results = [n for n, a in enumerate(signature.arguments) if isinstance(a, TensorSpec) and a.role == "output"]
    passed = {n for value in plan.values for n in (value if isinstance(value, tuple) else (value,))}
    returned = [n for n in results if n not in passed]
    changed = sum(isinstance(a, TensorSpec) and a.role == "inout" for a in signature.arguments)
    copies = "".join(
        f"  kw_take(results[skip + {k}], a[{n}], {_spec(n, signature)});\n" for k, n in enumerate(returned)
    )
    return (
        f'{_head(target)}namespace {{\n#include "{SOURCE_NAME}"\n\n'
        "void kw_call_bound(const kw_argument* a) {\n  (void)a;\n"
        f"  kw_value values[{max(1, len(plan.values))}] = {{}};\n{lists}{values}"
        f'  kw_tensor results[64];\n  int got = kw_call_named(kw_define_module, "{plan.function}", values, '
        f"{len(plan.values)}, results);\n"
        f"  int skip = got == {len(returned) + changed} ? {changed} : 0;\n"
        f'  if (got - skip != {len(returned)}) kw::report("the host code returns %d tensors and the task has %d", got, '
        f"{len(returned)});\n{copies}}}\n}}\n"
        'extern "C" __attribute__((visibility("default"))) void kw_run(const kw_argument* a) {\n'
        '  kw::OneCall call;\n  kw::machine.geometry.kernel = "host code";\n  kw_call_bound(a);\n'
        "  kw::free_allocations();\n}\n"
    )


def _value(value: int | tuple[int, ...] | None, target: str, signature: Signature) -> str:
    if value is None:
        return f"{target}.kind = KW_NONE;"
    if isinstance(value, tuple):
        place = target[len("values[") : -1]
        inner = " ".join(_value(one, f"list{place}[{k}]", signature) for k, one in enumerate(value))
        return f"{inner} {target}.kind = KW_LIST; {target}.count = {len(value)}; {target}.items = list{place};"
    argument = signature.arguments[value]
    if isinstance(argument, ScalarSpec):
        return f"kw_number({target}, {_kind(argument)}, a[{value}]);"
    return f"kw_tensor_of({target}, a[{value}], {_spec(value, signature)});"


def _kind(argument: ScalarSpec) -> str:
    if isinstance(argument.value, bool):
        return "KW_BOOL"
    return "KW_REAL" if isinstance(argument.value, float) else "KW_INTEGER"


def _spec(number: int, signature: Signature) -> str:
    tensor = signature.arguments[number]
    assert isinstance(tensor, TensorSpec)
    return f"{DTYPE_NUMBERS[tensor.dtype]}, {len(tensor.shape)}"
