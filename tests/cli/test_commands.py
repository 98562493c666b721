"""What the commands print, for people and as JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kernelwright.cli import doctor_gpu
from kernelwright.cli.main import COMMANDS, assembled
from kernelwright.contracts.cuda import toolkit

app = assembled(COMMANDS)

runner = CliRunner()
KERNEL = Path(__file__).parents[2] / "examples" / "rmsnorm.cpp"


def test_doctor_says_what_the_machine_offers() -> None:
    result = runner.invoke(app, ["doctor", "--json"])
    report = json.loads(result.stdout)
    assert result.exit_code == 0 and report["can_judge"]
    assert report["schema_version"] == 1
    assert {"CPU", "PyTorch", "C++ compiler", "isolation", "arena"} <= {f["what"] for f in report["findings"]}
    assert report["sandbox"] in ("none", "seccomp", "landlock", "full")


def test_doctor_for_people() -> None:
    result = runner.invoke(app, ["doctor"])
    assert "ready to judge" in result.stdout


def test_doctor_does_not_call_ok_what_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_gpu.nvidia, "absence", lambda: "no NVIDIA driver")
    monkeypatch.setattr(toolkit.nvrtc, "available", lambda: "NVRTC is missing")
    monkeypatch.setattr(toolkit, "has_toolkit", lambda: False)
    lines = [line.split() for line in runner.invoke(app, ["doctor"]).stdout.splitlines()]
    marks = {" ".join(words[1:3]): words[0] for words in lines}
    assert (marks["GPU no"], marks["NVRTC NVRTC"], marks["CUDA headers"]) == ("-", "-", "-")
    assert "ok" in marks.values()
    assert all(found.ok for found in doctor_gpu.examine_gpus()[0])  # nothing that has to be mended


def test_doctor_names_once_what_several_contracts_need() -> None:
    named = [found.what for found in doctor_gpu._building(needed=True)]
    assert {"nvcc", "triton"} <= set(named) and len(named) == len(set(named))


@pytest.fixture
def doubled(tmp_path: Path) -> tuple[Path, Path]:
    """A task, and a right candidate for it."""
    task = tmp_path / "double.py"
    task.write_text(
        "from kernelwright.tasks import Task, tensor\n\ndef reference(x):\n    return x * 2\n\n"
        'task = Task(reference, inputs={"x": tensor("n")}, public=[{"n": 50}], hidden={"n": (40, 44)})\n'
    )
    kernel = tmp_path / "kernel.cu"
    kernel.write_text(
        "__global__ void f(const float* x, float* out) { out[threadIdx.x] = 2 * x[threadIdx.x]; }\n"
        "/* plan.py\nimport kw\n\ndef plan(x, out):\n"
        '    return kw.plan(kw.launch("f", 1, x.numel(), x, out))\n*/\n'
    )
    return task, kernel


@pytest.mark.slow
def test_a_check_of_public_workloads_does_not_call_them_small(doubled: tuple[Path, Path]) -> None:
    task, kernel = doubled
    whole = runner.invoke(app, ["check", str(task), str(kernel)]).stdout
    assert "correct on an emulator, on 4 workloads; not timed" in whole and "sanitizers" in whole


def test_a_check_says_that_public_workloads_were_not_among_them(doubled: tuple[Path, Path]) -> None:
    task, kernel = doubled
    small = runner.invoke(app, ["check", str(task), str(kernel), "--largest", "99"]).stdout
    assert "on 3 small workloads, none of them public; not timed" in small
    assert "too large to emulate: n=50" in small


def test_a_check_that_built_nothing_says_nothing_of_sanitizers(doubled: tuple[Path, Path]) -> None:
    task, kernel = doubled
    kernel.write_text(kernel.read_text().replace("def plan(x, out)", "def plan(x)"))
    said = runner.invoke(app, ["check", str(task), str(kernel)]).stdout
    assert "does not build" in said and "sandbox" in said and "sanitizers" not in said


def test_a_check_on_the_emulator_has_no_time(doubled: tuple[Path, Path]) -> None:
    task, kernel = doubled
    result = runner.invoke(app, ["check", str(task), str(kernel), "--json"])
    (checked,) = json.loads(result.stdout)["results"]
    assert result.exit_code == 0 and checked["outcome"] == "right" and checked["checked_on"] == "emulator"
    assert not any("second" in name or "speed" in name for name in checked)


def test_tasks_are_listed_with_their_gradients() -> None:
    report = json.loads(runner.invoke(app, ["tasks", "list", "--json"]).stdout)
    names = {task["name"] for task in report["tasks"]}
    assert {"rmsnorm", "rmsnorm:backward", "argmax", "adamw"} <= names
    assert "argmax:backward" not in names


def test_a_task_is_shown() -> None:
    result = runner.invoke(app, ["tasks", "show", "cross_entropy"])
    assert "hidden ranges" in result.stdout and "input families" in result.stdout


def test_a_contract_is_told() -> None:
    result = runner.invoke(app, ["contract", "cpp", "softmax"])
    assert "void kernel(" in result.stdout
    report = json.loads(runner.invoke(app, ["contract", "cpp", "softmax", "--json"]).stdout)
    assert report["brief"]["contract"] == "cpp" and report["brief"]["skeleton"] in result.stdout


def test_the_version_is_told() -> None:
    assert runner.invoke(app, ["--version"]).stdout.startswith("kernelwright ")


def test_a_command_imports_no_other_commands() -> None:
    """Importing all of them would take longer than judging with a warm server."""
    program = (
        "import sys; from kernelwright.cli.main import assembled, needed; assembled(needed(['judge', 'x'])); "
        "print([name for name in sys.modules if name in ('kernelwright.cli.check', 'kernelwright.search.driver')])"
    )
    made = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert made.stdout.strip() == "[]"


def test_a_command_with_a_server_imports_nothing_of_what_judges_and_draws() -> None:
    program = (
        "import sys; from pathlib import Path; from kernelwright.cli.main import assembled; assembled(['judge']); "
        "from kernelwright.contracts.registry import read_source; read_source(Path(sys.argv[1])); "
        "print([name for name in sys.argv[2:] if name in sys.modules])"
    )
    heavy = ("kernelwright.judge.timing.measure", "kernelwright.judge.oracle_client", "kernelwright.tasks.model")
    others = ("kernelwright.contracts.portable", "rich.console", "numpy", "torch")
    call = [sys.executable, "-c", program, str(KERNEL), *heavy, *others]
    made = subprocess.run(call, capture_output=True, text=True, check=True)
    assert made.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("command", "work"),
    [
        ("contract cpp softmax", "contract.contract_named"),
        ("tasks list", "tasks.catalogue"),
        ("tasks lint", "tasks.catalogue"),
        ("server status", "server.statuses"),
    ],
)
@pytest.mark.parametrize("sent", ["SIGINT", "SIGTERM"])
def test_a_signal_ends_any_command_in_one_line(command: str, work: str, sent: str) -> None:
    """Also one of a group. It comes in the middle of the command's work."""
    program = (
        "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); "
        "from kernelwright.cli import contract, main, server, tasks; "
        f"{work} = lambda *_: os.kill(os.getpid(), signal.{sent}); main.main()"
    )
    call = [sys.executable, "-c", program, *command.split()]
    ended = subprocess.run(call, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (3, "")
    assert ended.stderr.startswith("kernelwright: interrupted; ") and ended.stderr.count("\n") == 1


@pytest.mark.parametrize("sent", ["SIGINT", "SIGTERM"])
def test_a_signal_while_a_command_is_imported_is_one_line_too(sent: str) -> None:
    program = (
        "import os, signal; signal.signal(signal.SIGINT, signal.SIG_DFL); from kernelwright.cli import main; "
        f"main.importlib.import_module = lambda _: os.kill(os.getpid(), signal.{sent}); main.main()"
    )
    ended = subprocess.run([sys.executable, "-c", program, "optimize"], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (3, "")
    assert ended.stderr.startswith("kernelwright: interrupted; ") and ended.stderr.count("\n") == 1


def test_a_prompt_offers_the_operators_that_it_names() -> None:
    refused = runner.invoke(app, ["prompt", "softmax", "--operator", "repair"])
    assert refused.exit_code == 2 and "'mutate', 'crossover', 'fresh'" in refused.stderr
