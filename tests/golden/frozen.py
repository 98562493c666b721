"""Compares what the code does today with a stored file, and says how to accept a difference.

A difference is not always a fault: it is a change of something that others rely on, and must be made on purpose.
`KERNELWRIGHT_UPDATE_GOLDEN=1 pytest tests/golden` writes the files anew; the diff then belongs into the commit.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent
UPDATE = "KERNELWRIGHT_UPDATE_GOLDEN"


def assert_frozen(name: str, found: Any) -> None:
    """Fails where `found` is not what tests/golden/NAME.json holds."""
    path = FOLDER / f"{name}.json"
    written = json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    if os.environ.get(UPDATE) == "1":
        path.write_text(written)
    found = json.loads(written)  # as it would be stored
    stored = json.loads(path.read_text())
    if stored != found:
        lines = "\n".join(_differences(stored, found)[:20])
        pytest.fail(f"not as frozen in {path.name}:\n{lines}\nif meant: {UPDATE}=1 pytest tests/golden, and commit it")


def _differences(stored: Any, found: Any, place: str = "") -> list[str]:
    if not (isinstance(stored, dict) and isinstance(found, dict)):
        return [] if stored == found else [f"  {place}: was {stored!r}, is {found!r}"]
    lines = [f"  {place}/{key}: is gone" for key in stored if key not in found]
    lines += [f"  {place}/{key}: is new" for key in found if key not in stored]
    for key in stored:
        if key in found:
            lines += _differences(stored[key], found[key], f"{place}/{key}")
    return lines
