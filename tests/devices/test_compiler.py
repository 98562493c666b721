"""Finding the compiler itself, behind whatever stands before it on PATH, and compiling our own programs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kernelwright.devices.compiler import compiled, compiler
from kernelwright.errors import CannotDecide

find = compiler.__wrapped__


def wrapper(folder: Path, name: str = "g++") -> Path:
    path = folder / name
    path.write_text('#!/bin/sh\nexec /usr/bin/env g++ "$@"\n')
    path.chmod(0o755)
    return path


def test_a_script_on_path_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = find()
    monkeypatch.setenv("PATH", f"{wrapper(tmp_path).parent}:{Path(found).parent}")
    assert Path(find()).resolve() == Path(found).resolve()


def test_a_wrapper_named_by_cxx_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = find()
    monkeypatch.setenv("CXX", str(wrapper(tmp_path, "mine")))
    assert Path(find()).resolve() == Path(found).resolve()


def test_a_compiler_that_does_not_exist_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(CannotDecide, match="no-such-compiler"):
        find()


def test_nothing_but_wrappers_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(wrapper(tmp_path).parent))
    with pytest.raises(CannotDecide, match="set CXX"):
        find()


def test_threads_that_need_a_program_first_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path))
    source = tmp_path / "sources" / "nothing.cpp"
    source.parent.mkdir()
    source.write_text("int main() {}")
    with ThreadPoolExecutor(4) as threads:
        found = set(threads.map(lambda _: compiled(source, "nothing", ()), range(4)))
    assert len(found) == 1 and found.pop().is_file()


def test_a_program_that_does_not_compile_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path))
    source = tmp_path / "sources" / "broken.cpp"
    source.parent.mkdir()
    source.write_text("int main() {")
    with pytest.raises(CannotDecide, match=r"broken\.cpp"):
        compiled(source, "broken", ())
