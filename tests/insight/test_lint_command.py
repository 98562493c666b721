"""`kernelwright tasks lint`: one line a finding, exit codes, JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kernelwright.cli.main import COMMANDS, assembled
from kernelwright.devices import cpu
from kernelwright.devices.cpu import CpuPeaks

pytestmark = pytest.mark.timed

app = assembled(COMMANDS)

BAD = Path(__file__).parents[1] / "tasks" / "bad"
runner = CliRunner()


@pytest.fixture(autouse=True)
def _known_peaks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path))
    monkeypatch.setattr(cpu, "measure", lambda model, threads: CpuPeaks(model, threads, 1e9, 1e11, 5e10))


def lint(*arguments: str) -> tuple[int, str]:
    result = runner.invoke(app, ["tasks", "lint", *arguments])
    return result.exit_code, result.stdout


def test_an_error_is_one_line_and_exit_code_1() -> None:
    code, shown = lint(str(BAD / "unused_scalar.py"))
    assert code == 1
    assert shown == (
        "unused_scalar  error  insensitive  scalar alpha: 0, 0.25, 1 instead of 0.5 go unnoticed on 6 of 6 families\n"
    )


def test_warnings_are_allowed() -> None:
    code, shown = lint(str(BAD / "fixed_table.py"))
    assert code == 0
    assert shown.startswith("fixed_table  warning  fixed-input  input scale: ")


def test_a_bad_task_does_not_keep_the_others_from_being_looked_at() -> None:
    code, shown = lint("--json", str(BAD / "public_only.py"), str(BAD / "unused_scalar.py"))
    report = json.loads(shown)
    assert code == 2
    assert report["schema_version"] == 1 and report["command"] == "tasks lint" and report["clean"] is False
    bad, unused = report["tasks"]
    assert bad["findings"] == [] and "widen them" in bad["fault"]
    assert unused["fault"] is None
    (finding,) = unused["findings"]
    assert set(finding) == {"rule", "severity", "subject", "message", "figure"}
    assert (finding["rule"], finding["severity"], finding["subject"]) == ("insensitive", "error", "scalar alpha")


def test_a_misspelt_name_is_a_bad_task() -> None:
    assert lint("no_such_task") == (2, "")
