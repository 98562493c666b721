"""Every result says where it comes from: the command line as it was, the commit, the day and the machine."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.shared import record

SCRIPTS = sorted(path for path in (record.ROOT / "benchmarks").rglob("*.py"))
# They write no results: one copies runs and their certificates, one prints what a results file holds as text, one
# makes smaller problems, one writes a table into a page, and one has a compiler write modules.
PAGES = (
    *("report", "report_picture", "results_page", "answered", "precision_tables", "products_precision"),
    *("small_suite", "coverage_table", "generate_modules"),
)

WRITERS = ("record", "honest_corpus")  # the last keeps kernels to be judged, which are not results


def is_program(path: Path) -> bool:
    return '__name__ == "__main__"' in path.read_text()


def called(tree: ast.AST) -> set[str]:
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {call.id for call in calls if isinstance(call, ast.Name)}


@pytest.mark.parametrize("path", [path for path in SCRIPTS if is_program(path)], ids=lambda path: path.stem)
def test_a_program_writes_results_with_their_provenance(path: Path) -> None:
    names = called(ast.parse(path.read_text()))
    assert names >= {"save", "provenance"} if path.stem not in PAGES else "save" not in names


@pytest.mark.parametrize("path", [path for path in SCRIPTS if path.stem not in WRITERS], ids=lambda path: path.stem)
def test_nothing_but_save_writes_json(path: Path) -> None:
    assert not re.search(r"write_text\(\s*json\.|json\.dump\(", path.read_text())


def test_the_command_is_the_one_that_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/soak.py", "--candidates", "25", "--beside", "two words"])
    assert record.provenance()["command"] == "python benchmarks/cpu/soak.py --candidates 25 --beside 'two words'"


def test_of_scripts_of_one_name_the_folder_tells_which(tmp_path: Path) -> None:
    for folder in ("kernelbench", "triton_modules"):
        assert (record.ROOT / "benchmarks" / folder / "coverage.py").is_file()
        words = [str(tmp_path / "benchmarks" / folder / "coverage.py")]
        assert record.command(words) == f"python benchmarks/{folder}/coverage.py"


def test_paths_of_a_machine_are_told_by_name(tmp_path: Path) -> None:
    words = ["x.py", "--sources", str(tmp_path / "kept"), f"--out={record.RESULTS}", "--tasks", "a@rows=1"]
    assert record.command(words) == "python benchmarks/x.py --sources kept --out=benchmarks/results --tasks a@rows=1"


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_a_changed_tree_is_told_from_a_clean_one(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        author = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", *author, *words], cwd=tmp_path, check=True, capture_output=True)

    for folder in ("src", "benchmarks/results", "tests", "examples"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "file").write_text("before")
    git("init")
    git("add", ".")
    git("commit", "-m", "first")
    clean = record.revision(tmp_path)
    assert len(clean["commit"]) >= 7 and clean["dirty"] is False
    (tmp_path / "benchmarks" / "results" / "file").write_text("measured")
    assert record.revision(tmp_path) == clean
    (tmp_path / "src" / "new.py").write_text("")
    assert record.revision(tmp_path) == {**clean, "dirty": True}


def test_without_history_the_commit_is_the_one_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.delenv("BENCHMARK_COMMIT", raising=False)
    assert record.revision(tmp_path) == {"commit": "unknown", "dirty": None}
    monkeypatch.setenv("BENCHMARK_COMMIT", "abc1234")
    assert record.revision(tmp_path) == {"commit": "abc1234", "dirty": None}


def test_results_hold_no_serial_number_of_a_gpu() -> None:
    serial = re.compile(r"GPU-[0-9a-f]{8}-")
    assert [path.name for path in record.RESULTS.rglob("*.json") if serial.search(path.read_text())] == []
