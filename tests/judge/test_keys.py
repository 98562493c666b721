"""What tells one judge from another."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.judge import keys


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "judge").mkdir()
    (tmp_path / "judge" / "one.py").write_text("a = 1\n")
    (tmp_path / "notes.txt").write_text("a\n")
    with monkeypatch.context() as patched:
        patched.setattr(keys, "PACKAGE", tmp_path)
        yield tmp_path
    keys.code_stamp.cache_clear()


def stamp() -> str:
    keys.code_stamp.cache_clear()
    return keys.code_stamp()


def test_a_changed_source_is_another_judge(package: Path) -> None:
    before = stamp()
    assert stamp() == before
    (package / "judge" / "one.py").write_text("a = 22\n")
    assert stamp() != before


def test_a_source_of_the_same_size_and_time_is_told_by_when_it_changed(package: Path) -> None:
    path, before = package / "judge" / "one.py", stamp()
    was = path.stat()
    path.write_text("a = 2\n")
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert path.stat().st_mtime_ns == was.st_mtime_ns and stamp() != before


def test_new_sources_count_and_other_files_do_not(package: Path) -> None:
    before = stamp()
    (package / "notes.txt").write_text("another\n")
    assert stamp() == before
    (package / "two.cpp").write_text("int a;\n")
    assert stamp() != before
