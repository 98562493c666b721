"""`kernelwright tasks lint FOLDER`: one row a problem, kept as they come, whatever one of them does."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from tests.tasks.imported.problems import formed
from typer.testing import CliRunner

from kernelwright.cli.main import COMMANDS, assembled
from kernelwright.insight.lint import suite
from kernelwright.tasks.catalogue import folder_suite

app = assembled(COMMANDS)


@pytest.fixture
def problems(tmp_path: Path) -> Path:
    folder = tmp_path / "level"
    folder.mkdir()
    for name, body in {
        "1_fine": "return x.exp()",
        "2_zero": "return x - x",
        "3_unused": "return y + 0 * x",
        "4_broken": "return x.reshape(int(x.sum()), 2)",
    }.items():
        given = "x, y" if "y" in body else "x"
        inputs = ", ".join(["torch.rand(16, 8)"] * (1 + ("y" in body)))
        formed(folder, body, inputs, given=given).rename(folder / f"{name}.py")
    return folder


def test_a_row_each_and_what_was_kept_is_not_done_again(problems: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = problems.parent / "rows.jsonl"
    rows = list(suite.lint_suite(folder_suite(problems), 0, kept))
    rules = [{finding["rule"] for finding in row.errors} for row in rows]
    assert rules[0] == set()
    assert "zeros-accepted" in rules[1]
    assert "insensitive" in rules[2]
    assert rows[3].fault is not None and "4_broken.py" in rows[3].fault

    def fail(*_: object) -> suite.SuiteRow:
        raise AssertionError("it was kept")

    monkeypatch.setattr(suite, "_row", fail)
    kept.write_text(kept.read_text() + '{"task": "cut o')
    assert [row.task for row in suite.lint_suite(folder_suite(problems), 0, kept)] == [row.task for row in rows]
    with pytest.raises(AssertionError, match="was kept"):
        next(suite.lint_suite(folder_suite(problems), 1, kept))  # another seed
    result = CliRunner().invoke(app, ["tasks", "lint", str(problems), "--keep", str(kept)])
    assert result.exit_code == 2
    lines = result.stdout.splitlines()
    assert lines[0] == "1_fine.py  clean" and "zeros-accepted (output out)" in lines[1]
    assert lines[3].startswith("4_broken.py  unknown  ")
    assert lines[-1] == "4 problems: 1 without errors, 2 mean little, 1 unknown"
    result = CliRunner().invoke(app, ["tasks", "lint", str(problems), "--keep", str(kept), "--json"])
    assert [len(row["findings"]) > 0 for row in json.loads(result.stdout)["tasks"]][1:3] == [True, True]


def test_a_problem_that_takes_too_long_is_a_row_too(problems: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kernelwright.tasks import resolve

    def endless(*_: object, **__: object) -> None:
        while True:
            with contextlib.suppress(Exception):
                pass

    monkeypatch.setattr(resolve, "resolve", endless)
    row = next(suite.lint_suite(folder_suite(problems), 0, None, 0.2))
    assert row.fault is not None and row.fault.endswith("it took more than 0.2 s")
