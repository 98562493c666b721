"""A third contract is one folder and one line: the toy goes through prompts, the judge and a search by files.

Where one process does everything the line is `registry.register`; for commands and the server it is an entry point.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kernelwright.cli.main import COMMANDS, assembled
from kernelwright.contracts import Candidate, CandidateError
from kernelwright.contracts.registry import GROUP, read_source
from kernelwright.errors import KernelwrightError
from kernelwright.judge.controller import Judge
from kernelwright.judge.cpu.safety import sanitizers_available
from kernelwright.judge.verdict import BuildEvidence, Outcome, Reason, SanitizerEvidence
from kernelwright.proposers.templates.backends import renderer_for
from tests.contracts.toy import ToyContract

pytestmark = pytest.mark.timed

ROOT = Path(__file__).parents[2]
TASK = '''"""Twice the input."""
from kernelwright.tasks import Task, tensor


def reference(x):
    return x * 2


task = Task(reference, inputs={"x": tensor("rows", "cols")},
            public=[{"rows": 40, "cols": 500}], hidden={"rows": (3, 70), "cols": (20, 2000)})
'''
RIGHT = "# twice the input\nSCALE = 2  # tunable: SCALE = 2, 4\nout = SCALE * x\n"


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("toy") / "twice.py"
    path.write_text(TASK)
    return str(path)


@pytest.mark.parametrize(
    ("source", "outcome", "reason"),
    [
        (RIGHT, Outcome.accepted, Reason.right),
        ("out = 3 * x\n", Outcome.rejected, Reason.wrong),
        ("out = nothing * x\n", Outcome.rejected, Reason.does_not_build),
    ],
)
def test_the_judge_takes_it(
    toy_contract: ToyContract, judge: Judge, task: str, tmp_path: Path, source: str, outcome: Outcome, reason: Reason
) -> None:
    path = tmp_path / "kernel.kwx"
    path.write_text(source)
    verdict = judge.judge(task, read_source(path))
    assert (verdict.contract, verdict.verdict, verdict.reason) == ("toy", outcome, reason), verdict.evidence
    if isinstance(verdict.evidence, BuildEvidence):
        assert any("nothing" in line for line in verdict.evidence.lines)


@pytest.mark.skipif(not sanitizers_available(), reason="this compiler has no sanitizers")
def test_the_sanitizers_report_on_the_file_that_its_author_wrote(
    toy_contract: ToyContract, judge: Judge, task: str
) -> None:
    verdict = judge.judge(task, Candidate(toy_contract.name, "SHIFT = 40\nout = 2 * x + (1 << int(SHIFT))\n"))
    assert verdict.reason is Reason.unsafe and isinstance(verdict.evidence, SanitizerEvidence), verdict.evidence
    first = verdict.evidence.lines[0]
    assert first.startswith("kernel.kwx:") and "runtime error: shift exponent 40" in first
    assert not [line for line in verdict.evidence.lines if "/kernel.kwx" in line]


def test_prompts_are_made_of_its_own_words(toy_contract: ToyContract, task: str) -> None:
    runner, app = CliRunner(), assembled(COMMANDS)
    said = runner.invoke(app, ["prompt", task, "--contract", "toy"]).stdout
    assert toy_contract.craft.role in said and "## Tunables" in said and toy_contract.craft.tunables in said
    assert "the toy contract" in said and "```text\n# A candidate for twice" in said
    assert "CUDA" not in said and "OpenMP" not in said
    told = runner.invoke(app, ["contract", "toy", task, "--skeleton"]).stdout
    assert told == "# A candidate for twice.\nout = 0\n"


@pytest.mark.parametrize("name", ["contract", "prompt"])
def test_the_help_of_commands_lists_it(installed: dict[str, str], name: str) -> None:
    wide = {**installed, "COLUMNS": "200"}
    found = subprocess.run(command(name, "--help"), env=wide, capture_output=True, text=True, timeout=120, check=True)
    assert ": cpp, cuda, extension, triton, modelnew, toy, broken." in " ".join(
        found.stdout.split()
    )  # and loads none: the last one cannot be loaded


def test_what_is_wrong_with_a_source_is_said_in_its_own_words(toy_contract: ToyContract, tmp_path: Path) -> None:
    path = tmp_path / "kernel.kwx"
    path.write_text("# twice\nout is x\n")
    with pytest.raises(CandidateError, match=r"kernel\.kwx: line 2 is not an assignment: write NAME = EXPRESSION"):
        read_source(path)


def test_templates_say_that_they_cannot_write_it(toy_contract: ToyContract) -> None:
    with pytest.raises(KernelwrightError, match="cannot write 'toy' candidates: use the contract cpp or cuda"):
        renderer_for(toy_contract.name)


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """The environment of a process that finds the toy as an installed package."""
    folder = tmp_path / "site" / "kernelwright_toy-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: kernelwright-toy\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(f"[{GROUP}]\ntoy = tests.contracts.toy:TOY\nbroken = tests.nowhere:X\n")
    return {**os.environ, "PYTHONPATH": os.pathsep.join((str(folder.parent), str(ROOT)))}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "kernelwright.cli.main", *arguments]


def test_an_installed_contract_that_cannot_be_loaded_is_named(installed: dict[str, str], task: str) -> None:
    asked = command("contract", "broken", task)
    found = subprocess.run(asked, env=installed, capture_output=True, text=True, timeout=120, check=False)
    assert found.returncode == 2 and "the contract 'broken' of kernelwright-toy cannot be loaded" in found.stderr
    assert "Traceback" not in found.stderr


def test_a_server_from_before_an_installation_is_another_judge(installed: dict[str, str]) -> None:
    code = "from kernelwright.judge.keys import code_hash; print(code_hash())"
    found = [
        subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout
        for env in ({**os.environ}, installed, installed)
    ]
    assert found[0] != found[1] == found[2]


def test_a_search_by_files_takes_answers_of_an_installed_contract(
    installed: dict[str, str], task: str, tmp_path: Path
) -> None:
    """Command, server and judge are processes of their own, and each finds the contract by itself."""
    runs = tmp_path / "runs"
    options = (
        "--proposer",
        "files",
        "--contract",
        "toy",
        "--budget",
        "1evals",
        "--baseline",
        "eager",
        "--answer-timeout",
        "100",
    )
    asked = command("optimize", task, *options, "--runs", str(runs))
    pipe = subprocess.PIPE
    with subprocess.Popen(asked, env=installed, stdout=pipe, stderr=pipe, text=True) as search:
        requests = runs / "twice-1" / "requests"
        until = time.monotonic() + 100
        while not (requests / "0001.md").exists() and search.poll() is None and time.monotonic() < until:
            time.sleep(0.1)
        if requests.is_dir():
            assert "`0001.answer.kwx`" in (requests / "0001.md").read_text()
            (requests / "0001.answer.kwx").write_text(RIGHT)
        said, complaints = search.communicate(timeout=300)
    assert search.returncode in (0, 1), complaints
    assert "0001.answer.kwx" in said + complaints and "accepted" in said + complaints
    assert not (requests / "0002.md").exists()  # of which nothing could be judged
    kept = runs / "twice-1" / "candidates"
    assert [path.read_text() for path in kept.glob("0001-*/kernel.kwx")] == [RIGHT]
