"""What is decided is pure: the modules of `search/core` reach no clock, file, thread or process."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import kernelwright.search.core as core

MODULES = sorted(Path(core.__file__).parent.glob("*.py"))
IMPURE = {"asyncio", "io", "os", "pathlib", "queue", "signal", "socket", "sqlite3", "subprocess", "threading", "time"}


def imported(source: str) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_of_the_core_is_pure(path: Path) -> None:
    names = imported(path.read_text())
    assert not {name.split(".")[0] for name in names} & IMPURE
    ours = {name for name in names if name.startswith("kernelwright.search")}
    assert all(name.startswith("kernelwright.search.core") for name in ours)


def test_an_impure_module_would_be_found() -> None:
    driver = Path(core.__file__).parents[1] / "driver.py"
    assert imported(driver.read_text()) & IMPURE
