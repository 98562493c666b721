"""The commands `bench` and `leaderboard`: one-line errors, and the same figures in every form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kernelwright.benchmark.journal import ResultsFile
from kernelwright.benchmark.results import BenchmarkEnvironment
from kernelwright.cli.main import assembled
from kernelwright.errors import KernelwrightError
from tests.benchmark.made import ENVIRONMENT, plan, row


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return written(tmp_path / "toy.jsonl")


def written(path: Path, environment: BenchmarkEnvironment = ENVIRONMENT) -> Path:
    file = ResultsFile(path)
    for line in (plan(), environment, row("a", low=2.5), row("b", low=0.5)):
        file.append(line)
    file.close()
    return path


def run(*words: str | Path) -> str:
    done = CliRunner().invoke(assembled([str(words[0])]), [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_terminal_markdown_and_json_show_the_same_figures(results: Path) -> None:
    assert "50% [0, 100]" in run("leaderboard", results)
    assert "50% [0, 100]" in run("leaderboard", results, "--format", "md")
    shown = json.loads(run("leaderboard", results, "--json"))
    assert shown["entries"][0]["metrics"]["overall"]["fast"]["2.0"]["value"] == 0.5
    assert shown["environment"]["device"] == "cpu: toy"


def test_a_page_is_written_where_it_is_asked_for(results: Path, tmp_path: Path) -> None:
    assert "wrote" in run("leaderboard", results, "--format", "html", "-o", tmp_path / "board.html")
    assert (tmp_path / "board.html").read_text().startswith("<!doctype html>")


def test_results_of_other_hardware_are_refused_in_one_line(results: Path, tmp_path: Path) -> None:
    there = written(tmp_path / "there.jsonl", ENVIRONMENT.model_copy(update={"device": "cuda: H200"}))
    with pytest.raises(KernelwrightError, match=r"^toy.jsonl and there.jsonl cannot stand on one leaderboard[^\n]*$"):
        run("leaderboard", results, there)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nosuchsuite"], "is not a suite"),
        (["rmsnorm", "--candidates", "nothing", "--proposer", "files"], "give either --candidates"),
        (["rmsnorm", "--candidates", "nothing"], "nothing: there is no such folder"),
        (["rmsnorm", "--budget", "soon"], "soon"),
        (["rmsnorm", "--proposer", "oracle"], "oracle"),
        (["rmsnorm", "--only", "softmax"], "no task of the suite"),
        (["rmsnorm", "--baseline", "cublaslt"], "needs an NVIDIA GPU"),
    ],
)
def test_what_is_wrong_with_the_options_is_said_before_anything_is_written(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(KernelwrightError, match=said):
        run("bench", *words)
    assert not (tmp_path / "results.jsonl").exists()


def test_another_file_is_not_overwritten(results: Path, tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("mine")
    (tmp_path / "rmsnorm.cpp").write_text("void kernel() {}\n")
    with pytest.raises(KernelwrightError, match="is not a results file"):
        run("bench", "rmsnorm", "--candidates", tmp_path, "-o", notes)
    with pytest.raises(KernelwrightError, match="begun with other options"):
        run("bench", "rmsnorm", "--candidates", tmp_path, "-o", results)
    assert notes.read_text() == "mine"
