"""Opening a task computes nothing at full size: tensors of 6 GiB, and a weight of 32768 x 32768."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TASKS = {
    "relu": (
        "lambda x: torch.relu(x)",
        "{'x': tensor('rows', 'cols')}",
        "{'rows': 4096, 'cols': 393216}",
        "{'rows': (2048, 8192), 'cols': (196608, 786432)}",
    ),
    "weight": (
        "lambda x, w, b: torch.nn.functional.gelu(x @ w.T + b)",
        "{'x': tensor('rows', 'n'), 'w': tensor('m', 'n'), 'b': tensor('m')}",
        "{'rows': 16, 'n': 32768, 'm': 32768}",
        "{'rows': (8, 64), 'n': (16384, 32768), 'm': (16384, 32768)}",
    ),
    "makes its own": (
        "lambda x: x + torch.arange(x.shape[1], dtype=x.dtype) + torch.ones(x.shape, dtype=x.dtype)",
        "{'x': tensor('rows', 'cols')}",
        "{'rows': 4096, 'cols': 393216}",
        "{'rows': (2048, 8192), 'cols': (196608, 786432)}",
    ),
    "backward": (
        "lambda x, w: torch.nn.functional.softmax(x, -1) * w",
        "{'x': tensor('rows', 'cols'), 'w': tensor('cols')}",
        "{'rows': 4096, 'cols': 393216}",
        "{'rows': (2048, 8192), 'cols': (196608, 786432)}",
    ),
}
OPENED = """
import resource, sys, torch
from kernelwright.judge.oracle.ledger import Ledger
from kernelwright.judge.oracle.needs import plan_memory
from kernelwright.judge.oracle.special_values import special_values
from kernelwright.tasks.cost import cost
from kernelwright.tasks.drawing import signature
from kernelwright.tasks.hidden import small_workloads
from kernelwright.tasks.resolve import resolve
task = resolve(sys.argv[1])
public = task.public_workloads()[0]
assert cost(task, public).moved > 1 << 30
special_values(task), small_workloads(task, 1)
plan_memory(task, public, signature(task, public), Ledger(140 << 30), 2)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""
LOOKS = """
import sys
from kernelwright.tasks.resolve import resolve
resolve(sys.argv[1])
"""
MOST_MIB = 1500  # torch alone takes a third of it


def written(folder: Path, reference: str, inputs: str, public: str, hidden: str) -> Path:
    path = folder / "large.py"
    path.write_text(
        "import torch\nfrom kernelwright.tasks import Task, tensor\n"
        f"reference = {reference}\n"
        f"task = Task(reference, inputs={inputs}, public=[{public}], hidden={hidden})\n"
    )
    return path


def opened(program: str, reference: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program, reference], capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize("name", ["relu", *(pytest.param(name, marks=pytest.mark.slow) for name in list(TASKS)[1:])])
def test_a_task_of_gigabytes_is_opened_in_little_memory(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, *TASKS[name])
    result = opened(OPENED, f"{path}:backward" if name == "backward" else str(path))
    assert result.returncode == 0, result.stderr[-2000:]
    assert int(result.stdout) < MOST_MIB


@pytest.mark.slow
def test_a_large_reference_that_looks_at_its_values_is_refused_in_one_line(tmp_path: Path) -> None:
    _, inputs, public, hidden = TASKS["relu"]
    path = written(tmp_path, "lambda x: x * (2.0 if x.max() > 0 else 1.0)", inputs, public, hidden)
    result = opened(LOOKS, str(path))
    assert "the reference looks at its values" in result.stderr.splitlines()[-1]


@pytest.mark.slow
def test_faults_of_values_are_still_found_at_a_small_size(tmp_path: Path) -> None:
    _, inputs, public, hidden = TASKS["relu"]
    path = written(tmp_path, "lambda x: x.float().double()", inputs, public, hidden)
    assert "casts float64" in opened(LOOKS, str(path)).stderr
    path = written(tmp_path, "lambda x: x / 0", inputs, public, hidden)
    assert "is not finite" in opened(LOOKS, str(path)).stderr
