"""8-bit floats in C++ and on the emulator: all codes, and a dense set of floats, as torch and CUDA convert them."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest
import torch

from kernelwright.contracts import cpp
from kernelwright.contracts.cpp import TYPES as CPP_TYPES
from kernelwright.contracts.cuda import TYPES as CUDA_TYPES
from kernelwright.contracts.cuda.confined.kw import ITEM_BYTES as PLAN_BYTES
from kernelwright.contracts.cuda.confined.kw import MAP_TYPES
from kernelwright.contracts.cuda.emulate.translate import emulator_headers
from kernelwright.contracts.cuda.toolkit import has_toolkit, include_directories
from kernelwright.contracts.extension.values import DTYPE_NUMBERS
from kernelwright.contracts.model import float8_header
from kernelwright.contracts.portable.kernel import DTYPES as SHIPPED_DTYPES
from kernelwright.proposers.templates.cuda.kernels import FLOAT8
from kernelwright.tasks.dtypes import DTYPES, ITEM_BYTES, TABLE, Dtype
from tests.torch_versions import NEEDS_E4M3

FORMATS = (torch.float8_e4m3fn, torch.float8_e5m2)
NAMES = ("e4m3", "e5m2")
AS_TORCH = (pytest.param("e4m3", FORMATS[0], marks=NEEDS_E4M3), ("e5m2", FORMATS[1]))
CONVERSIONS = """
#define OPEN extern "C" __attribute__((visibility("default")))
#define FORMAT(NAME, KIND, TYPE)                                                                     \\
  OPEN void narrowed_##NAME(const float* from, unsigned char* to, long count) {                     \\
    for (long i = 0; i < count; ++i) to[i] = TO(KIND, TYPE, from[i]);                                \\
  }                                                                                                  \\
  OPEN void widened_##NAME(float* to) {                                                              \\
    for (int i = 0; i < 256; ++i) to[i] = FROM(KIND, TYPE, static_cast<unsigned char>(i));           \\
  }
"""
CANDIDATE = f"""
#include "kernelwright.h"
#define TO(KIND, TYPE, v) kw::TYPE(v).bits
#define FROM(KIND, TYPE, b) float(reinterpret_cast<const kw::TYPE&>(static_cast<const unsigned char&>(b)))
{CONVERSIONS}
FORMAT(e4m3, 0, float8_e4m3fn)
FORMAT(e5m2, 0, float8_e5m2)
"""
# The types of CUDA and its function, which saturates or does not, and the types of `templates` in a source for a GPU.
OF_CUDA = f"""
#define FROM(KIND, TYPE, b) float(reinterpret_cast<const TYPE&>(static_cast<const unsigned char&>(b)))
#define TO(KIND, TYPE, v) TYPE(v).__x
{CONVERSIONS}
FORMAT(e4m3, 0, __nv_fp8_e4m3)
FORMAT(e5m2, 0, __nv_fp8_e5m2)
FORMAT(e4m3_ours, 0, E4M3)
FORMAT(e5m2_ours, 0, E5M2)
#undef TO
#define TO(KIND, TYPE, v) __nv_cvt_float_to_fp8(v, __NV_NOSAT, KIND)
FORMAT(e4m3_unsaturated, __NV_E4M3, __nv_fp8_e4m3)
FORMAT(e5m2_unsaturated, __NV_E5M2, __nv_fp8_e5m2)
"""


def compiled(folder: Path, source: str, *arguments: str) -> ctypes.CDLL:
    target = folder / "library.so"
    command = ["g++", "-std=c++20", "-O1", "-w", "-shared", "-fPIC", *arguments, "-x", "c++", "-", "-o", str(target)]
    subprocess.run(command, input=source, text=True, check=True)
    return ctypes.CDLL(str(target))


def included(folder: Path, headers: tuple[tuple[str, str], ...]) -> str:
    for name, text in headers:
        (folder / name).write_text(text)
    return f"-I{folder}"


@pytest.fixture(scope="module")
def dense() -> torch.Tensor:
    """Every code and its neighbours in float32, everything halfway, NaN of both signs, and floats of every exponent."""
    codes = torch.arange(256, dtype=torch.uint8)
    values = torch.cat([codes.view(form).float() for form in FORMATS]).sort().values
    halves = (values[1:] + values[:-1]) / 2
    bits = torch.cat([values, halves]).view(torch.int32)
    near = torch.cat([bits - 1, bits, bits + 1])
    spread = torch.arange(-(2**31), 2**31, 9973, dtype=torch.int64).to(torch.int32)
    return torch.cat([near, spread]).view(torch.float32)


def narrowed(library: ctypes.CDLL, name: str, values: torch.Tensor) -> torch.Tensor:
    codes = torch.empty(len(values), dtype=torch.uint8)
    function = getattr(library, f"narrowed_{name}")
    function(ctypes.c_void_p(values.data_ptr()), ctypes.c_void_p(codes.data_ptr()), ctypes.c_long(len(values)))
    return codes


def widened(library: ctypes.CDLL, name: str) -> torch.Tensor:
    values = torch.empty(256)
    getattr(library, f"widened_{name}")(ctypes.c_void_p(values.data_ptr()))
    return values


def same_numbers(codes: torch.Tensor, others: torch.Tensor, form: torch.dtype) -> bool:
    """All NaN are alike; zeros are not."""
    one, other = codes.view(form).float(), others.view(form).float()
    return bool(((codes == others) | (one.isnan() & other.isnan())).all())


@pytest.fixture(scope="module")
def candidates(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("candidate")
    own = Path(cpp.__file__).parent / "kernelwright.h"
    return compiled(folder, CANDIDATE, included(folder, ((own.name, own.read_text()), float8_header())))


@pytest.fixture(scope="module")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("emulated")
    ours = FLOAT8.replace("#include <cuda_fp8.h>", "")
    head = f'#define KW_ARCHITECTURE 900\n#include "abi.h"\n#include "emulator.h"\n{ours}'
    return compiled(folder, head + OF_CUDA, included(folder, emulator_headers()))


@pytest.mark.parametrize(("name", "form"), AS_TORCH)
def test_candidates_convert_as_torch_does(
    candidates: ctypes.CDLL, dense: torch.Tensor, name: str, form: torch.dtype
) -> None:
    assert same_numbers(narrowed(candidates, name, dense), dense.to(form).view(torch.uint8), form)
    codes = torch.arange(256, dtype=torch.uint8).view(form)
    torch.testing.assert_close(widened(candidates, name), codes.float(), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(("name", "form"), AS_TORCH)
def test_types_of_generated_cuda_convert_as_torch_does(
    emulated: ctypes.CDLL, dense: torch.Tensor, name: str, form: torch.dtype
) -> None:
    """e5m2 of CUDA saturates, torch's does not: what `templates` write must not use the type's own conversion."""
    right = dense.to(form).view(torch.uint8)
    assert same_numbers(narrowed(emulated, f"{name}_ours", dense), right, form)
    assert same_numbers(narrowed(emulated, name, dense), right, form) == (name == "e4m3")


@pytest.mark.skipif(not has_toolkit(), reason="needs CUDA's headers")
def test_the_emulator_converts_as_headers_of_cuda_do(
    emulated: ctypes.CDLL, dense: torch.Tensor, tmp_path: Path
) -> None:
    folders = tuple(f"-I{folder}" for folder in include_directories()[:-1])
    theirs = compiled(tmp_path, FLOAT8 + OF_CUDA, *folders)
    for name, form in zip(NAMES, FORMATS, strict=True):
        for kind in (name, f"{name}_ours", f"{name}_unsaturated"):
            assert same_numbers(narrowed(emulated, kind, dense), narrowed(theirs, kind, dense), form), kind
        torch.testing.assert_close(widened(emulated, name), widened(theirs, name), rtol=0, atol=0, equal_nan=True)


# --- the one table of dtypes, and the lists that say what each is called elsewhere ------------------------------------


def test_every_list_of_dtypes_is_that_of_the_table() -> None:
    for known in (CPP_TYPES, CUDA_TYPES, MAP_TYPES, DTYPE_NUMBERS, SHIPPED_DTYPES):
        assert set(known) == set(DTYPES)
    assert PLAN_BYTES == ITEM_BYTES


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_the_table_says_what_torch_says(row: Dtype) -> None:
    form = getattr(torch, row.name)
    assert form.itemsize == row.bytes and form.is_floating_point == (row.unit is not None)
    if row.unit is not None and row.name != "bfloat16":  # whose unit is half of that, from before there was a table
        assert row.unit == torch.finfo(form).eps / 2
