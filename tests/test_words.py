"""Words mean one thing each: what docs/glossary.md names exists, what it bans goes, and no class name occurs twice.

The lists of exceptions may only shrink. `python -m tests.test_words` prints what they would be now.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src" / "kernelwright"
GLOSSARY = ROOT / "docs" / "glossary.md"
DOCUMENTS = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
GENERATED = {"benchmarks.md", "results.md"}  # their words are those of benchmarks/
AUTHORS_SIDE = SRC / "contracts" / "cuda" / "confined" / "kw.py"  # what plans import: its names are the contract's own
NOT_OURS = ("tasks/builtin/",)  # byte for byte what certificates were issued for

FINE_AFTER_NO = "longer|more|less|better|faster|slower|larger|smaller|other|such|one|way|need|use"
BANNED = {
    "wishes": r"(?i)\b_?(?:\w*_)?wishes\b|[a-z]Wishes",
    "terms": r"[a-z]Terms\b",
    "polite": r"(?i)\bpolite\b",
    "watchful": r"(?i)\bwatchful\b",
    "purse": r"(?i)\bpurse\b",
    "heir": r"(?i)\bheirs?\b",
    "contest": r"(?i)\bcontest(?:s|ed|ant)?\b|\bcontenders?\b",
    "provisional": r"(?i)\bprovisional(?:ly)?\b",
    "own oracle": r"(?i)\bown[-_ ]oracle\b|\bwarm oracle\b|\boracle (?:status|stop)\b",
    "somebody": r"(?i)\b_?(?:some|no|any|every)body(?:'s)?\b|\bwhoever\b",
    "is no": rf"(?<![Tt]here )\b(?:is|are|was|were) no (?!(?:{FINE_AFTER_NO})\b)[a-z]+",
    "chance": r"\ball the chance\b|\border of chance\b|\bby chance\b",
}

# How often a banned word still occurs, by package (or `docs`). May only shrink.
LEFT: dict[str, dict[str, int]] = {
    "somebody": {"contracts": 4, "proposers": 1, "tasks": 1},
    "provisional": {"docs": 6, "search": 2},
    "contest": {"search": 4},
    "chance": {"proposers": 3, "tasks": 1},
}

# Names of the glossary that its renames have yet to make. May only shrink.
PENDING_NAMES: frozenset[str] = frozenset()

# Paths that documents name and that have yet to be made. May only shrink.
PENDING_PATHS: frozenset[str] = frozenset()

# Pages that are linked and not written yet. May only shrink.
PENDING_PAGES: frozenset[str] = frozenset()

# Public class names that more than one module defines. May only shrink.
TWICE: frozenset[str] = frozenset()


def modules() -> list[Path]:
    return [p for p in sorted(SRC.rglob("*.py")) if not str(p.relative_to(SRC)).startswith(NOT_OURS)]


@cache
def occurrences() -> dict[str, dict[str, int]]:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    pages = [path for path in DOCUMENTS if path.name not in GENERATED and path != GLOSSARY]
    for path in (*modules(), *pages):
        text = path.read_text()
        where = path.relative_to(SRC).parts[0].removesuffix(".py") if path.is_relative_to(SRC) else "docs"
        for word, pattern in BANNED.items():
            if count := len(re.findall(pattern, text)):
                found[word][where] += count
    return {word: dict(sorted(counts.items())) for word, counts in found.items()}


@pytest.mark.parametrize("word", BANNED)
def test_a_banned_word_does_not_spread(word: str) -> None:
    left = LEFT.get(word, {})
    spread = {where: count for where, count in occurrences().get(word, {}).items() if count > left.get(where, 0)}
    assert not spread, f"{BANNED[word]!r} occurs more often than {left}: {spread}; docs/glossary.md has the word to use"


def glossary_names() -> list[str]:
    """The last cells of the glossary's rows: `package.module.Class`, or a path below src/kernelwright."""
    tables = GLOSSARY.read_text().split("## Words that are not used")[0]
    rows = [line for line in tables.splitlines() if line.startswith("| ") and not line.startswith("| word ")]
    names = [name for row in rows for name in re.findall(r"`([^`]+)`", row.strip("| ").rpartition("|")[2])]
    assert len(names) >= len(rows) > 40
    return names


def exists(name: str) -> bool:
    if "/" in name:
        return (SRC / name).exists()
    module, _, symbol = name.rpartition(".")
    base = SRC / module.replace(".", "/")
    path = next((p for p in (base.with_suffix(".py"), base / "__init__.py") if p.is_file()), None)
    return path is not None and symbol in class_names(path)


def class_names(path: Path) -> list[str]:
    return [node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)]


def test_what_the_glossary_names_exists() -> None:
    missing = [name for name in glossary_names() if not exists(name) and name not in PENDING_NAMES]
    assert not missing


def document_paths() -> set[str]:
    """What documents put in backticks that looks like a file of the package: `judge/arena.py`, `cpp/prelude.py`."""
    pages = [page.read_text() for page in (*DOCUMENTS, *DECISIONS) if page.name not in GENERATED]
    return {path for text in pages for path in re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.(?:py|cpp|hpp|toml))`", text)}


def test_paths_in_documents_exist() -> None:
    missing = {path for path in document_paths() if not _found(path)} - PENDING_PATHS
    assert not missing


def _found(path: str) -> bool:
    return any((base / path).exists() for base in (SRC, ROOT, SRC / "proposers" / "templates"))


def test_no_class_name_occurs_twice() -> None:
    """But for mirrors: modules of one name in sibling folders, such as cpp/pooling.py and cuda/pooling.py."""
    assert not repeated() - TWICE


def repeated() -> set[str]:
    homes: dict[str, list[Path]] = defaultdict(list)
    for path in modules():
        if path == AUTHORS_SIDE:
            continue
        for name in class_names(path):
            if not name.startswith("_"):
                homes[name].append(path)
    return {name for name, paths in homes.items() if len(paths) > 1 and not _mirrors(paths)}


def _mirrors(paths: list[Path]) -> bool:
    return len({path.name for path in paths}) == 1 and len({path.parent.parent for path in paths}) == 1


def links() -> list[tuple[Path, str]]:
    return [
        (page, target)
        for page in (*DOCUMENTS, *DECISIONS)
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text())
        if "://" not in target
    ]


def test_links_lead_somewhere() -> None:
    broken = [f"{page.name}: {target}" for page, target in links() if not _leads(page, target)]
    assert not broken


def _leads(page: Path, target: str) -> bool:
    name, _, anchor = target.partition("#")
    path = (page.parent / name).resolve() if name else page
    if str(path.relative_to(ROOT)) in PENDING_PAGES and not path.exists():
        return True
    if not path.exists():
        return False
    return not anchor or anchor in {_slug(line) for line in path.read_text().splitlines() if line.startswith("#")}


def _slug(heading: str) -> str:
    kept = re.sub(r"[^\w\- ]", "", heading.lstrip("#").strip().lower())
    return kept.replace(" ", "-")


def test_no_exception_is_left_that_is_not_needed() -> None:
    assert not [name for name in PENDING_NAMES if exists(name)], "remove these from PENDING_NAMES"
    assert not [path for path in PENDING_PATHS if _found(path)], "remove these from PENDING_PATHS"
    assert repeated() >= TWICE, "remove from TWICE what no longer occurs twice"


if __name__ == "__main__":
    print("LEFT =", occurrences())
    print("PENDING_NAMES =", sorted({name for name in glossary_names() if not exists(name)}))
    print("PENDING_PATHS =", sorted(path for path in document_paths() if not _found(path)))
    print("TWICE =", sorted(repeated()))
