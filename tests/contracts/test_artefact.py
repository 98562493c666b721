"""The hash of what was built does not depend on where it was built, and does depend on what it does."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kernelwright.contracts import Candidate, nvrtc
from kernelwright.contracts.artefact import MARK, code_hash, sections
from kernelwright.contracts.registry import host_contract
from kernelwright.contracts.target import HOPPER
from kernelwright.devices.compiler import compiler
from kernelwright.tasks.model import Signature, TensorSpec

HOST = """
#include <kernelwright.h>
#include <cassert>
void kernel(kw::Tensor<const float, 1> x, kw::Tensor<float, 1> out) {
  assert(x.numel() > 0);  // names its file in a message
  for (long i = 0; i < x.numel(); ++i) out.data[i] = FACTOR * x.data[i];
}
"""
SIGNATURE = Signature(
    (TensorSpec("x", "float32", (8,), (1,), "input"), TensorSpec("out", "float32", (8,), (1,), "output"))
)
DEVICE = """
#include "scale.h"
extern "C" __global__ void kernel(const float* x, float* out) { out[threadIdx.x] = scaled(x[threadIdx.x]); }
"""
HEADER = "__device__ __noinline__ float scaled(float value) { return FACTOR * value; }\n"


def library(folder: Path, factor: int) -> bytes:
    folder.mkdir(parents=True)
    plan = host_contract("cpp").build_plan(
        Candidate("cpp", HOST.replace("FACTOR", str(factor)), "k.cpp"), SIGNATURE, sanitized=False
    )
    for name, text in plan.files:
        (folder / name).write_text(text)
    output = folder / "library.so"
    arguments = [part.replace("{source}", str(folder)).replace("{output}", str(output)) for part in plan.arguments]
    subprocess.run([compiler(), *arguments], check=True)
    return output.read_bytes()


def test_a_library_has_the_same_hash_from_every_folder(tmp_path: Path) -> None:
    here, there = library(tmp_path / "a", 2), library(tmp_path / "another" / "checkout", 2)
    assert code_hash([here]) == code_hash([there]) and code_hash([here]).startswith(MARK)
    assert code_hash([library(tmp_path / "b", 3)]) != code_hash([here])


@pytest.mark.skipif(bool(nvrtc.available()), reason=nvrtc.available())
def test_a_cubin_has_the_same_hash_with_headers_from_every_folder(tmp_path: Path) -> None:
    """Lines for the sanitizers name the header's file, so that the bytes as a whole differ."""

    def cubin(name: str, factor: int) -> bytes:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "scale.h").write_text(HEADER.replace("FACTOR", f"{factor}.0f"))
        options = [f"--gpu-architecture={HOPPER.architecture}", "-lineinfo", f"--include-path={folder}"]
        return nvrtc.compile_cuda(DEVICE, "kernel.cu", options, ["kernel"]).cubin

    here, there, other = cubin("a", 2), cubin("another_checkout", 2), cubin("b", 3)
    assert here != there
    assert code_hash([here]) == code_hash([there])
    assert code_hash([other]) != code_hash([here])


def test_what_is_not_an_elf_file_counts_whole() -> None:
    assert code_hash([b"one"]) != code_hash([b"two"]) and code_hash([b"one"]) == code_hash([b"one"])
    assert code_hash([b"ab", b"c"]) != code_hash([b"a", b"bc"])


@pytest.mark.skipif(shutil.which("strip") is None, reason="strip is not installed")
def test_symbols_and_notes_do_not_count(tmp_path: Path) -> None:
    whole = library(tmp_path / "a", 2)
    subprocess.run(["strip", "--strip-all", "-R", ".comment", str(tmp_path / "a" / "library.so")], check=True)
    stripped = (tmp_path / "a" / "library.so").read_bytes()
    assert {".symtab", ".comment"} <= {name for name, _ in sections(whole)} - {name for name, _ in sections(stripped)}
    assert code_hash([stripped]) == code_hash([whole])
