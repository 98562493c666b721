"""A way to write task files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def write_task(tmp_path: Path) -> Callable[[str], str]:
    """Writes a task file and gives the name by which a user would call it."""

    def write(source: str) -> str:
        path = tmp_path / "my_task.py"
        path.write_text(source)
        return str(path)

    return write
