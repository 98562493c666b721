"""Problem files of strangers on the command line: listed by their syntax, refused in one line, judged like any task."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.test_bad_input import one_line, run
from tests.tasks.imported.problems import SCALED, formed, written

KERNEL = """
#include <kernelwright.h>
void kernel(kw::Tensor<const float, 2> x, kw::Tensor<float, 2> out) {
  for (long i = 0; i < x.size(0) * x.size(1); ++i) out.data[i] = 2 * x.data[i];
}
"""


def test_a_folder_is_listed_without_running_anything(tmp_path: Path) -> None:
    for name in ("10_b.py", "9_a.py"):
        written(tmp_path, f"raise SystemExit\n{SCALED}", name)
    result = run("tasks", "list", str(tmp_path))
    assert result.returncode == 0
    assert [Path(line).name for line in result.stdout.split()] == ["9_a.py", "10_b.py"]


@pytest.mark.slow
def test_what_cannot_be_traced_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    path = formed(tmp_path, "return x if x.sum() > 0 else -x", "torch.rand(64, 8)")
    kernel = tmp_path / "twice.cpp"
    kernel.write_text(KERNEL)
    result = run("judge", str(path), str(kernel))
    assert result.returncode == 2
    line = one_line(result)
    assert "problem.py: this problem cannot be traced in the sandbox" in line and "--trust-task" in line


@pytest.mark.slow
@pytest.mark.timed
def test_a_kernel_is_judged_on_a_problem_and_on_a_trusted_one(tmp_path: Path) -> None:
    kernel = tmp_path / "twice.cpp"
    kernel.write_text(KERNEL)
    quick = ("--trials", "6", "--baseline", "eager", "--no-domain")
    traced = formed(tmp_path, "return x * 2", "torch.rand(64, 512)")
    assert "correct and safe" in run("judge", str(traced), str(kernel), *quick).stdout
    branching = formed(tmp_path, "return x * 2 if float(x.sum()) > -1e30 else x", "torch.rand(64, 512)")
    assert run("judge", str(branching), str(kernel), *quick).returncode == 2
    assert "correct and safe" in run("judge", str(branching), str(kernel), *quick, "--trust-task").stdout
