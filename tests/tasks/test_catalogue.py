"""The list of built-in tasks: what their files declare, kept so that showing it again needs no torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kernelwright.tasks import catalogue as module
from kernelwright.tasks.catalogue import catalogue
from kernelwright.tasks.describe import describe
from kernelwright.tasks.resolve import builtin_names, declared

LISTED_WITHOUT_TORCH = """
import sys
from kernelwright.cli.main import COMMANDS, assembled

app = assembled(COMMANDS)
try:
    app(["tasks", "list"])
except SystemExit as ended:
    assert not ended.code
assert "torch" not in sys.modules
"""


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path))


def test_every_built_in_is_there_with_its_gradient_where_it_has_one() -> None:
    names = [info.name for info in catalogue()]
    assert set(builtin_names()) <= set(names)
    assert "rmsnorm:backward" in names and "adamw:backward" not in names and "argmax:backward" not in names


def test_what_was_kept_is_what_the_files_declare() -> None:
    catalogue()
    kept = {info.name: info for info in catalogue()}
    for ref in ("cross_entropy", "linear_relu:backward", "adamw"):
        assert kept[ref] == describe(declared(ref))


def test_the_second_listing_needs_no_torch() -> None:
    catalogue()
    subprocess.run([sys.executable, "-c", LISTED_WITHOUT_TORCH], check=True, timeout=60, stdout=subprocess.DEVNULL)


def test_a_damaged_file_is_made_again(tmp_path: Path) -> None:
    before = catalogue()
    (kept,) = (tmp_path / "cache" / "catalogue").iterdir()
    kept.write_text('[{"name": "half of')
    assert catalogue() == before
    assert module.KEPT.validate_json(kept.read_bytes()) == before


def test_other_sources_give_another_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text("one")
    monkeypatch.setattr(module, "PACKAGE", tmp_path)
    before = module._digest()
    (tmp_path / "task.py").write_text("other")
    assert module._digest() != before
