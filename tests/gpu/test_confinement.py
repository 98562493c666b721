"""What the sandbox around a launcher lets it see."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pytest

import kernelwright
from kernelwright.isolation import gpu as confinement

HOME = str(Path(kernelwright.__file__).parents[1])


def test_folders_that_merely_stand_on_the_path_are_not_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A process that was started as a module in `/` has that on its path, and a user's has the user's folder."""
    monkeypatch.setattr(sys, "path", ["/", str(tmp_path), *sys.path])
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    confinement._packages.cache_clear()
    command = confinement.confined(["python"], "{channel}", 3)
    shown = [folder for flag, folder in itertools.pairwise(command) if flag == "--read-only"]
    assert HOME in shown and "/usr" in shown
    assert "/" not in shown and str(tmp_path) not in shown
    assert confinement.environment()["PYTHONPATH"].split(":")[0] == HOME
