"""A problem has so much processor time, and leaves no process behind."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from benchmarks.kernelbench import coverage, problem

CONTRACTS = ["cpp", "cuda"]


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coverage, "TICK", 0.05)


def test_what_waits_for_a_busy_machine_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def report(path: Path, folder: Path, contracts: list[str]) -> dict[str, Any]:
        time.sleep(0.6)
        return {"captured": True}

    monkeypatch.setattr(coverage, "report", report)
    assert coverage.examined(tmp_path, tmp_path, CONTRACTS, 0.3) == {"captured": True}


def test_a_compiler_that_never_ends_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    number = tmp_path / "number"

    def report(path: Path, folder: Path, contracts: list[str]) -> dict[str, Any]:
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as compiler:
            number.write_text(str(compiler.pid))
        return {"captured": True}

    monkeypatch.setattr(coverage, "report", report)
    found = coverage.examined(tmp_path, tmp_path, CONTRACTS, 0.3)
    assert not found["captured"] and "not done within 0 s of processor time" in found["line"]
    stat = Path(f"/proc/{number.read_text()}/stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_process_that_ends_early_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def report(path: Path, folder: Path, contracts: list[str]) -> dict[str, Any]:
        raise SystemExit(3)

    monkeypatch.setattr(coverage, "report", report)
    found = coverage.examined(tmp_path, tmp_path, CONTRACTS, 30.0)
    assert found == {"captured": False, "line": "the process ended with exit code 3"}


PROBLEM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.fc = nn.Linear(features, features)

    def forward(self, x):
        return self.fc(x + torch.randn(x.shape[0], 1, device=x.device))

features = 512

def get_inputs():
    return [torch.rand(64, features)]

def get_init_inputs():
    return [features]
"""


def test_what_cannot_be_captured_is_opened_as_the_problem_file_that_it_is(tmp_path: Path) -> None:
    path = tmp_path / "level9" / "1_Noisy.py"
    path.parent.mkdir()
    path.write_text(PROBLEM)
    for _ in range(2):  # the second time from what was kept
        task, how = problem.captured(path, tmp_path)
        assert how["mode"] == problem.OPENED
        assert set(task.public[0].values()) <= {1, 2, 4}, task.public
