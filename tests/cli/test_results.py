"""`report`, `best` and `runs compare`: what they print, write and exit with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.report.made import toy_run
from typer.testing import CliRunner

from kernelwright.cli.main import COMMANDS, assembled
from kernelwright.errors import KernelwrightError

app = assembled(COMMANDS)
runner = CliRunner()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("runs")
    toy_run(made, budget="8evals")
    toy_run(made, seed=2, budget="40evals")
    return made


def run(*arguments: str | Path, code: int = 0) -> str:
    result = runner.invoke(app, [str(one) for one in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result.stdout


def test_report_writes_a_page(root: Path, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    assert f"wrote {target}" in run("report", "toy-1", "--runs", root, "-o", target)
    assert target.read_text().startswith("<!doctype html>")


def test_report_as_markdown_goes_to_the_terminal(root: Path) -> None:
    assert run("report", "toy-1", "--runs", root, "--format", "md").startswith("## `toy`")


def test_report_says_in_json_what_it_wrote(root: Path, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    told = json.loads(run("report", root, "-o", target, "--json"))
    assert (told["command"], told["schema_version"], told["format"], told["view"]) == ("report", 1, "html", "author")
    assert told["bytes"] == target.stat().st_size and told["file"] == str(target)
    assert [one["name"] for one in told["runs"]] == ["toy-1", "toy-2"] and told["runs"][0]["standing"] == "proved"


def test_an_auditors_report_is_asked_for(root: Path, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    told = run("report", "toy-2", "--runs", root, "-o", target, "--view", "auditor")
    assert "with hidden workloads" in told and "c=1" in target.read_text()
    run("report", "toy-2", "--runs", root, "-o", target)
    assert "c=1" not in target.read_text()


@pytest.mark.parametrize("target", ["no/such/place.html", "."])
def test_a_place_that_cannot_be_written_gets_one_line(root: Path, tmp_path: Path, target: str) -> None:
    result = runner.invoke(app, ["report", "toy-1", "--runs", str(root), "-o", str(tmp_path / target)])
    assert isinstance(result.exception, KernelwrightError) and result.exception.exit_code == 2
    assert "-o" in str(result.exception) and "\n" not in str(result.exception)


def test_best_lists_proofs_and_exits_with_1_without(root: Path, tmp_path: Path) -> None:
    shown = run("best", "--runs", root)
    assert "toy" in shown and "kernelwright replay toy-" in shown and "other code" in shown
    told = json.loads(run("best", "toy", "--runs", root, "--runs", tmp_path, "--json"))
    (kernel,) = told["kernels"]
    assert told["command"] == "best" and told["runs"] == 2 and kernel["run"].endswith("toy-2")
    assert "no proved kernel" in run("best", "softmax", "--runs", root, code=1)


def test_best_takes_the_place_of_runs_from_the_environment(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_RUNS", str(root))
    assert json.loads(run("best", "--json"))["runs"] == 2


def test_runs_compare_for_people_programs_and_pull_requests(root: Path) -> None:
    shown = run("runs", "compare", "toy-1", "toy-2", "--runs", root)
    assert "the second is faster" in shown and "1 line added, 1 line removed" in shown
    told = json.loads(run("runs", "compare", "toy-1", "toy-2", "--runs", root, "--json"))
    assert told["command"] == "runs compare" and told["comparison"]["faster"] == "second"
    assert told["comparison"]["comparable"] and any(line.startswith("+void") for line in told["diff"])
    text = run("runs", "compare", "toy-1", "toy-2", "--runs", root, "--format", "md")
    assert text.startswith("## `toy-1` and `toy-2`") and "```diff" in text


def test_runs_compare_needs_bests(root: Path, tmp_path: Path) -> None:
    result = runner.invoke(app, ["runs", "compare", "toy-1", "nowhere", "--runs", str(root)])
    assert isinstance(result.exception, KernelwrightError) and "no such run" in str(result.exception)
