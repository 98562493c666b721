"""Every entrance refuses a machine that does not reach full isolation, in one line that says how to allow less."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import kernelwright
from kernelwright.contracts import Candidate
from kernelwright.errors import CannotDecide, KernelwrightError
from kernelwright.isolation import levels
from kernelwright.isolation.levels import Isolation, Level, capabilities, demand
from kernelwright.judge.controller import Judge
from kernelwright.judge.emulate.check import Checker
from kernelwright.judge.server.protocol import RequestedSettings
from kernelwright.judge.settings import Settings

REPOSITORY = Path(__file__).parents[2]
KERNEL = REPOSITORY / "examples" / "rmsnorm.cpp"
CUDA = REPOSITORY / "tests" / "kernels_cuda" / "rmsnorm_vector"
LOWERED = {levels.CEILING_VARIABLE: "landlock"}

pytestmark = pytest.mark.skipif(
    not capabilities().level.at_least(Level.landlock), reason="this machine does not reach landlock"
)


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != levels.ACCEPTED_VARIABLE}
    command = [sys.executable, "-m", "kernelwright.cli.main", *arguments]
    return subprocess.run(
        command, env={**environment, **variables}, capture_output=True, text=True, timeout=120, check=False
    )


def refused(result: subprocess.CompletedProcess[str]) -> None:
    assert result.returncode == 3, result.stderr
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, lines
    assert "isolation level full is required" in lines[0] and "reaches landlock" in lines[0]
    assert "--isolation landlock" in lines[0] and "namespaces" in lines[0]


@pytest.mark.parametrize(
    "arguments",
    [
        ("judge", "rmsnorm", str(KERNEL)),
        ("optimize", "rmsnorm", "--budget", "1evals"),
        ("check", "rmsnorm", str(CUDA)),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_command_that_runs_a_candidate_demands_full(arguments: tuple[str, ...], tmp_path: Path) -> None:
    refused(run(*arguments, KERNELWRIGHT_RUNS=str(tmp_path / "runs"), **LOWERED))
    assert not (tmp_path / "runs").exists()


TASK = """
from kernelwright.tasks import Task, tensor

def reference(x):
    return x * 2

task = Task(reference, inputs={"x": tensor("rows", "cols")}, public=[{"rows": 4, "cols": 50}],
            hidden={"rows": (3, 7), "cols": (20, 200)})
"""
TWICE = """
void kernel(Tensor<const float> x, Tensor<float> out) {
  for (long i = 0; i < x.numel(); ++i) out.data[i] = 2 * x.data[i];
}
"""


def test_a_replay_demands_full(judge: Judge, tmp_path: Path) -> None:
    task = tmp_path / "twice.py"
    task.write_text(TASK)
    quick = replace(judge.settings, baselines=(), public_only=True, safety=False, certify=True)
    certificate = judge.judge(str(task), Candidate("cpp", TWICE), settings=quick).certificate
    assert certificate is not None
    refused(run("replay", certificate, "--json", **LOWERED))


def test_the_server_demands_it_too(tmp_path: Path) -> None:
    """The level travels with the request; the caller's own look at the machine is left out here."""
    settings = Settings(isolation=Level.landlock)
    assert RequestedSettings.of(settings).settings().isolation is Level.landlock
    assert RequestedSettings.of(Settings(isolation=Level.full)).isolation is Level.full


def test_doctor_prints_the_level_and_demands_nothing() -> None:
    result = run("doctor", **LOWERED)
    assert result.returncode == 0 and "landlock (seccomp yes" in result.stdout
    refused(run("doctor", "--isolation", "full", **LOWERED))


@pytest.fixture
def weaker(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in LOWERED.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv(levels.ACCEPTED_VARIABLE, raising=False)


def test_python_demands_full(weaker: None, tmp_path: Path) -> None:
    with pytest.raises(CannotDecide, match=r"isolation level full .* isolation='landlock' in Python"):
        kernelwright.optimize(abs, (), runs=tmp_path / "runs")
    with pytest.raises(CannotDecide, match="isolation level full"):
        Judge(Settings())
    with pytest.raises(CannotDecide, match="isolation level full"):
        Checker()
    assert not (tmp_path / "runs").exists()
    with pytest.raises(KernelwrightError, match="unknown isolation level 'perfect'"):
        kernelwright.optimize(abs, (), isolation="perfect")


def test_a_judge_that_is_up_refuses_a_caller_who_demands_more(weaker: None) -> None:
    """As a server does whose first caller accepted less."""
    settings = Settings(baselines=(), isolation=Level.landlock)
    with Judge(settings) as judge, pytest.raises(CannotDecide, match="isolation level full"):
        judge.judge("rmsnorm", Candidate("cpp", "void kernel() {}"), settings=Settings(isolation=Level.full))


def test_what_is_accepted_can_be_said_once_for_all(weaker: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(levels.ACCEPTED_VARIABLE, "landlock")
    assert Settings().isolation is Level.landlock
    demand(Settings().isolation)
    monkeypatch.setenv(levels.ACCEPTED_VARIABLE, "some")
    with pytest.raises(KernelwrightError, match=f"{levels.ACCEPTED_VARIABLE}=some"):
        Settings()


def test_one_role_that_reaches_less_is_named() -> None:
    reached = (Isolation("launcher", Level.full), Isolation("launcher under a tool", Level.none, "it does not start"))
    demand(Level.none, reached)
    with pytest.raises(CannotDecide) as caught:
        demand(Level.full, reached)
    message = str(caught.value)
    assert "\n" not in message and "launcher reaches" not in message
    assert "launcher under a tool reaches none (it does not start)" in message and "--isolation none" in message
