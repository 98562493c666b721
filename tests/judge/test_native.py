"""Finding the compiler itself, behind whatever stands before it on PATH."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelwright.errors import CannotDecide
from kernelwright.judge.native import compiler

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
