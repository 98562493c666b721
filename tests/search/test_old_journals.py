"""Journals that earlier versions wrote are still read, folded and shown."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kernelwright.cli.main import assembled
from kernelwright.search.journal import NAME, Journal, read
from kernelwright.search.run import look

ROOT = Path(__file__).parents[2]
SAMPLE = Path(__file__).parent / "old_journal.jsonl"  # events of a toy run, as they were written before the renames
KEPT = sorted(path.parent for path in (ROOT / "benchmarks" / "results").glob(f"**/{NAME}"))


def copied(folder: Path, copy: Path) -> Path:
    """A run's journal, or one made of the sample's lines."""
    copy.mkdir()
    if folder.is_dir():
        shutil.copyfile(folder / NAME, copy / NAME)
        return copy
    Journal(copy).close()
    rows = [(json.loads(line)["kind"], line) for line in SAMPLE.read_text().splitlines()]
    with sqlite3.connect(copy / NAME) as database:
        database.executemany("INSERT INTO events (version, kind, body) VALUES (1, ?, ?)", rows)
    return copy


@pytest.mark.parametrize("folder", [SAMPLE, *KEPT], ids=lambda folder: folder.name[:40])
def test_an_old_journal_folds_and_is_shown(folder: Path, tmp_path: Path) -> None:
    copy = copied(folder, tmp_path / "run")
    state = look(copy)
    best = state.best
    assert state.entries and best is not None
    if (folder / "summary.md").is_file():  # as it was written then
        said = re.search(r"- best: (\d+) .*, score ([\d.]+)", (folder / "summary.md").read_text())
        assert said is not None and int(said[1]) == best and f"{state.entries[best].score:.3f}" == said[2]
    record = state.entries[best].final
    assert record.won and record.score is not None and record.finals
    assert any(event.kind == "contested" for event in read(copy))
    shown = CliRunner().invoke(assembled(["runs"]), ["runs", "show", str(copy)])
    assert shown.exit_code == 0, shown.output
    assert f"best {best:04d}" in shown.output and f"{record.score:.2f}× over the best baseline" in shown.output


def test_the_sample_has_the_old_names() -> None:
    text = SAMPLE.read_text()
    for name in ("incumbent", "incumbent_lost", "provisional", "lucky", "wait", "ahead", "generation", "measure"):
        assert f'"{name}":' in text
