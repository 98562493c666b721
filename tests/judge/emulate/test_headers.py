"""Constants such as INFINITY: the emulator knows them exactly where NVRTC does."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from kernelwright.contracts import nvrtc
from kernelwright.contracts.cuda.emulate.headers import BRINGS, constants, included, taken_back
from kernelwright.contracts.cuda.emulate.translate import emulator_headers
from kernelwright.contracts.cuda.toolchain.builder import fixed_options
from kernelwright.contracts.cuda.toolkit import has_toolkit

NAMES = tuple(re.findall(r"#undef (\w+)", taken_back()))
AT_ONCE = 50  # NVRTC gives up after a hundred errors
USUAL = {"INFINITY", "NAN", "HUGE_VALF", "M_PI", "FLT_MAX", "DBL_EPSILON", "INT_MAX", "INT64_MIN", "CUDART_INF_F"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("headers")
    for name, text in (*emulator_headers(), *constants()):
        (place / name).write_text(text)
    return place


def known_here(folder: Path, header: str) -> set[str]:
    probes = "".join(f"#ifdef {name}\nknown({name}_)\n#endif\n" for name in NAMES)
    head = f'#define KW_ARCHITECTURE 900\n#include "abi.h"\n#include "emulator.h"\n{taken_back()}'
    command = ["g++", "-std=c++17", "-E", "-P", "-I", str(folder), "-x", "c++", "-"]
    text = f"{head}{included(header)}\n{probes}"
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return set(re.findall(r"known\((\w+)_\)", done.stdout))


def known_to_nvrtc(header: str) -> set[str]:
    return set(NAMES) - {name for first in range(0, len(NAMES), AT_ONCE) for name in _unknown(header, first)}


def _unknown(header: str, first: int) -> Sequence[str]:
    head = f"#include <{header}>\n" if header else ""
    names = NAMES[first : first + AT_ONCE]
    probes = "".join(f"#ifndef {name}\nint p_{name} = unknown_{name};\n#endif\n" for name in names)
    try:
        nvrtc.compile_cuda(head + probes, "probe.cu", fixed_options("sm_90"), [])
    except nvrtc.CompileError as error:
        return re.findall(r'"unknown_(\w+)" is undefined', error.log)
    return []


def test_without_a_header_none_is_known(folder: Path) -> None:
    assert set(NAMES) > USUAL and known_here(folder, "") == set()


@pytest.mark.skipif(bool(nvrtc.available()) or not has_toolkit(), reason="needs NVRTC and CUDA's headers")
@pytest.mark.parametrize("header", ["", *BRINGS, "cuda_fp16.h", "cuda_runtime.h", "stdio.h"])
def test_nvrtc_knows_the_same(folder: Path, header: str) -> None:
    built_in = {name for name in NAMES if name.startswith("__")}  # libcu++ defines some for itself
    assert known_to_nvrtc(header) - built_in == known_here(folder, header)


def test_they_have_the_values_of_the_hosts(folder: Path) -> None:
    limits = {"FLT": "float", "DBL": "double", "INT": "int", "LLONG": "long long", "INT64": "int64_t", "CHAR": "char"}
    lines = [f"static_assert({name}_MAX == std::numeric_limits<{kind}>::max());" for name, kind in limits.items()]
    for name, kind in (("FLT", "float"), ("DBL", "double")):
        lines.append(f"static_assert({name}_MIN == std::numeric_limits<{kind}>::min());")
        lines.append(f"static_assert({name}_EPSILON == std::numeric_limits<{kind}>::epsilon());")
        lines.append(f"static_assert({name}_TRUE_MIN == std::numeric_limits<{kind}>::denorm_min());")
    lines.append("static_assert(INFINITY == std::numeric_limits<float>::infinity() && NAN != NAN);")
    lines.append("static_assert(HUGE_VAL == std::numeric_limits<double>::infinity() && INFINITY == HUGE_VALF);")
    lines.append("static_assert(M_PI == 3.141592653589793 && UINT64_MAX == ~0ull && SIZE_MAX == ~0ul);")
    own = "".join(f"{included(name)}\n" for name in ("float.h", "limits.h", "math.h", "stdint.h"))
    text = f"#include <cstdint>\n#include <limits>\n{taken_back()}{own}" + "\n".join(lines)
    command = ["g++", "-std=c++17", "-fsyntax-only", "-I", str(folder), "-x", "c++", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
