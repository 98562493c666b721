"""The emulator's intrinsics against what they are documented to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelwright.contracts.cuda.emulate.refuse import NotEmulatedError
from kernelwright.contracts.cuda.emulate.translate import host_source
from kernelwright.contracts.cuda.source import read_cuda_candidate, split
from kernelwright.judge.emulate.check import Checker, CheckOutcome

HERE = Path(__file__).parent


def test_intrinsics_do_what_they_are_documented_to_do(checker: Checker, double: str) -> None:
    """A wrong one shows as 1000000 and the line of the expectation that failed."""
    found = checker.check(double, read_cuda_candidate(HERE / "intrinsics.cu"))
    assert found.outcome is CheckOutcome.right, found.evidence


def test_lines_stay_where_they_are() -> None:
    kernel = split(read_cuda_candidate(HERE / "intrinsics.cu").source).kernel
    made = host_source(kernel).splitlines()
    for number, line in enumerate(kernel.splitlines()):
        if line.strip() and not line.startswith(("//", "#include", "extern")):
            assert made[number] == line


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("extern __shared__ float row[];", "float* const row = reinterpret_cast<float*>(kw::dynamic_shared);"),
        (
            "extern __shared__ __align__(128) unsigned char s[];",
            "unsigned char* const s = reinterpret_cast<unsigned char*>(kw::dynamic_shared);",
        ),
        ("static __shared__ int a[4];", "__shared__ int a[4];"),
        ('asm volatile("griddepcontrol.wait;" ::: "memory");', ";"),
    ],
)
def test_what_a_host_compiler_does_not_take_is_rewritten(text: str, made: str) -> None:
    assert host_source(text).strip() == made


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('asm("mov.u32 %0, %smid;" : "=r"(i));', "inline PTX"),
        ("nvcuda::wmma::load_matrix_sync(a, p, 16);", "tensor cores"),
        ("f(const __grid_constant__ CUtensorMap map)", "tensor maps"),
        ("cuda::barrier<cuda::thread_scope_block> b;", "libcu\\+\\+"),
        ("unsigned m = __activemask();", "lanes that happen to be active"),
        ("#include <cute/tensor.hpp>", "no cute/tensor.hpp"),
    ],
)
def test_what_is_not_emulated_is_named_with_its_line(text: str, what: str) -> None:
    with pytest.raises(NotEmulatedError, match=what):
        host_source(f"// asm in a comment is not an asm\n{text}\n")
