"""What the commands print, for people and as JSON."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from kernelwright.cli.main import app

runner = CliRunner()


def test_doctor_says_what_the_machine_offers() -> None:
    result = runner.invoke(app, ["doctor", "--json"])
    report = json.loads(result.stdout)
    assert result.exit_code == 0 and report["can_judge"]
    assert report["schema_version"] == 1
    assert {"CPU", "PyTorch", "C++ compiler", "sandbox", "arena"} <= {f["what"] for f in report["findings"]}
    assert report["sandbox"] in ("none", "seccomp", "landlock", "full")


def test_doctor_for_people() -> None:
    result = runner.invoke(app, ["doctor"])
    assert "ready to judge" in result.stdout


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
