"""Real checks before opinions: compilers and plans in the judge's sandboxes, and the emulator without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelwright.contracts import Candidate
from kernelwright.contracts.cuda.source import read_cuda_candidate
from kernelwright.contracts.target import HOPPER
from kernelwright.devices import nvidia
from kernelwright.devices.names import Device
from kernelwright.proposers.llm.checks import Builds, Emulated, checks_for, first_fault
from kernelwright.tasks.drawing import signature
from kernelwright.tasks.model import Signature
from kernelwright.tasks.resolve import resolve

KERNELS = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def signatures() -> tuple[Signature, ...]:
    task = resolve("rmsnorm")
    return tuple(signature(task, workload) for workload in task.public_workloads())


def test_a_source_that_does_not_compile_is_told_in_the_compilers_words(signatures: tuple[Signature, ...]) -> None:
    checks = (Builds(signatures),)
    source = next((KERNELS / "kernels" / "rmsnorm").glob("*.cpp")).read_text()
    assert first_fault(Candidate("cpp", source, "a"), checks) is None
    fault = first_fault(Candidate("cpp", f"{source}\nint wrong = undeclared;\n", "a"), checks)
    assert fault is not None and fault.sentence == "it does not build"
    assert any("error:" in line and "kernel.cpp" in line for line in fault.lines)


def test_a_tunable_has_its_first_value_when_it_is_checked(signatures: tuple[Signature, ...]) -> None:
    source = next((KERNELS / "kernels" / "rmsnorm").glob("*.cpp")).read_text()
    with_one = f"// tunable: WIDE = 8, 16\n{source}\nconstexpr int used = WIDE;\n"
    assert first_fault(Candidate("cpp", with_one, "a"), (Builds(signatures),)) is None
    fault = first_fault(Candidate("cpp", f"// tunable: WIDE = \n{source}", "a"), (Builds(signatures),))
    assert fault is not None and fault.sentence == "a tunable cannot be understood"


def test_an_answer_cannot_read_files_while_it_is_compiled(signatures: tuple[Signature, ...], tmp_path: Path) -> None:
    secret = tmp_path / "secret.h"
    secret.write_text("int the_secret_number_31337;\n")
    stolen = f'#include "{secret}"\n#include <kernelwright.h>\nvoid kernel() {{ the_secret_number_31337 = 1; }}\n'
    fault = first_fault(Candidate("cpp", stolen, "a"), (Builds(signatures),))
    assert fault is not None and "int the_secret" not in " ".join(fault.lines)
    assert any("No such file" in line for line in fault.lines)


def test_a_plan_is_evaluated_in_its_sandbox(signatures: tuple[Signature, ...], tmp_path: Path) -> None:
    check = Builds(signatures, HOPPER)
    good = read_cuda_candidate(KERNELS / "kernels_cuda" / "rmsnorm_vector")
    assert check(good) is None
    mark = tmp_path / "mark"
    plan = f"import pathlib\npathlib.Path({str(mark)!r}).write_text('x')\ndef plan(*a):\n    return None\n"
    fault = check(Candidate("cuda", f"__global__ void k() {{}}\n/* plan.py\n{plan}*/\n", "a"))
    assert fault is not None and not mark.exists()
    assert check(Candidate("cuda", "int a;\n", "a")) is not None


@pytest.mark.slow
@pytest.mark.skipif(not nvidia.absence(), reason="there is a GPU, which judges itself")
def test_without_a_gpu_the_emulator_is_asked() -> None:
    checks = checks_for("cuda", "rmsnorm", (), Device("cuda"))
    assert [type(check) for check in checks] == [Builds, Emulated]
    good = read_cuda_candidate(KERNELS / "kernels_cuda" / "rmsnorm_vector")
    emulated = Emulated("rmsnorm")
    assert emulated(good) is None
    wrong = Candidate("cuda", good.source.replace("rsqrtf(", "2.0f * rsqrtf("), "a")
    assert wrong.source != good.source
    fault = emulated(wrong)
    assert fault is not None and "wrong" in fault.sentence
