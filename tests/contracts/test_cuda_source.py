"""A `cuda` candidate is a directory of two files or one file with both, and both ways have one identity."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelwright.contracts.candidate import CandidateError
from kernelwright.contracts.cuda.source import Sources, from_blocks, read_cuda_candidate, split
from tests.hostile import long, quickly

KERNEL = "__global__ void f() {}\n"
PLAN = "import kw\n\n\ndef plan(x):\n    return kw.plan(kw.launch('f', 1, 1))\n"


def directory(path: Path, kernel: str = KERNEL, plan: str = PLAN) -> Path:
    path.mkdir()
    (path / "kernel.cu").write_text(kernel)
    (path / "plan.py").write_text(plan)
    return path


def test_both_forms_are_the_same_candidate(tmp_path: Path) -> None:
    folder = directory(tmp_path / "folder")
    one = tmp_path / "one.cu"
    one.write_text(Sources(KERNEL, PLAN).joined())
    assert read_cuda_candidate(folder).id == read_cuda_candidate(one).id
    assert read_cuda_candidate(folder).name == "folder"


def test_splitting_keeps_line_numbers() -> None:
    source = "int a;\n/* plan.py\nimport kw\n*/\nint b;\n"
    found = split(source)
    assert found.kernel.splitlines()[4] == "int b;" and found.plan == "import kw\n"


def test_joining_and_splitting_are_inverse() -> None:
    again = split(Sources(KERNEL, PLAN).joined())
    assert again.kernel.strip() == KERNEL.strip() and again.plan.strip() == PLAN.strip()


@pytest.mark.parametrize(("source", "message"), [("int a;", "no plan"), ("/* plan.py\n*/ /* plan.py\n*/", "2 plans")])
def test_a_source_has_one_plan(source: str, message: str) -> None:
    with pytest.raises(CandidateError, match=message):
        split(source)


def test_plans_that_are_never_closed_are_found_out_quickly() -> None:
    with pytest.raises(CandidateError, match="no plan"):
        quickly(split, long("/* plan.py\n"))
    assert quickly(split, f"{long('/* plan.py ')}.\n{Sources(KERNEL, PLAN).joined()}").plan == PLAN


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(CandidateError, match=r"kernel\.cu: no such file"):
        read_cuda_candidate(tmp_path)
    folder = directory(tmp_path / "two", kernel=Sources(KERNEL, PLAN).joined())
    with pytest.raises(CandidateError, match="keep one"):
        read_cuda_candidate(folder)
    with pytest.raises(CandidateError, match="would end the comment"):
        read_cuda_candidate(directory(tmp_path / "three", plan="'*/'"))


def test_a_file_without_a_plan_says_what_is_missing_and_where_to_see_it(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text(KERNEL)
    with pytest.raises(
        CandidateError, match=r"k\.cu: the source has no plan: .* `kernelwright contract cuda TASK --skel"
    ):
        read_cuda_candidate(path)


def test_blocks_of_an_answer_are_put_together() -> None:
    assert from_blocks([PLAN, KERNEL]) == Sources(KERNEL, PLAN)
    assert from_blocks([KERNEL]) is None and from_blocks([Sources(KERNEL, PLAN).joined(), PLAN]) is None
