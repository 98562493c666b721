"""The shape of the package: one meaning for each class name, folders and files of a size that can be taken in.

The exceptions below are lists that only shrink. A name that is no longer an exception fails the test too, so that the
lists stay true.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import kernelwright

PACKAGE = Path(kernelwright.__file__).parent
MOST_FILES = 15
FEWEST_LINES = 25

# `contracts/cuda/confined/kw.py` is what authors of plans import; `contracts/cuda/plan.py` mirrors it on our side.
MIRRORED = {"contracts/cuda/confined/kw.py"}
DUPLICATE_CLASSES: set[str] = set()
CROWDED_FOLDERS = {"tasks"}
SHORT_MODULES = {"selftest/rmsnorm.py", "version.py"}


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield str(path.relative_to(PACKAGE)), path


def test_a_public_class_name_means_one_thing() -> None:
    places = defaultdict(set)
    for name, path in modules():
        if name in MIRRORED:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].add(name)
    assert {name for name, files in places.items() if len(files) > 1} == DUPLICATE_CLASSES


def test_a_folder_can_be_taken_in_at_a_glance() -> None:
    counts: dict[str, int] = defaultdict(int)
    for name, path in modules():
        if path.name != "__init__.py":
            counts[str(Path(name).parent)] += 1
    assert {folder for folder, count in counts.items() if count > MOST_FILES} == CROWDED_FOLDERS


def test_a_module_is_worth_a_file() -> None:
    short = {
        name
        for name, path in modules()
        if path.name != "__init__.py"
        and not name.startswith("tasks/builtin/")  # as short as their operation
        and len(path.read_text(encoding="utf-8").splitlines()) < FEWEST_LINES
    }
    assert short == SHORT_MODULES
