"""What differs between two candidates: lines of their sources, and genes."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from kernelwright.contracts import Candidate
from kernelwright.proposers.model import Gene
from kernelwright.report.model import DiffLine, SourceDiff, SourceFile
from kernelwright.search.directory import files

MOST_LINES, MOST_LETTERS = 1_500, 400
MOST_COMPARED = 20_000  # lines of a source: what is longer takes too long to compare
CONTEXT = 3
_KINDS: Mapping[str, str] = {"+": "added", "-": "removed", "@": "place"}


def source_files(candidate: Candidate) -> tuple[SourceFile, ...]:
    return tuple(SourceFile(name, text) for name, text in files(candidate))


def source_diff(before: Sequence[SourceFile], after: Sequence[SourceFile], first: str, second: str) -> SourceDiff:
    """A unified diff, file by file. `first` and `second` say what the two are."""
    old, new = ({file.name: file.text for file in one} for one in (before, after))
    lines: list[DiffLine] = []
    for name in dict.fromkeys((*old, *new)):
        lines += _of_file(name, old.get(name, ""), new.get(name, ""))
    return SourceDiff(
        first,
        second,
        tuple(lines[:MOST_LINES]),
        left_out=max(0, len(lines) - MOST_LINES),
        added=sum(line.kind == "added" for line in lines),
        removed=sum(line.kind == "removed" for line in lines),
    )


def _of_file(name: str, old: str, new: str) -> list[DiffLine]:
    if old == new:
        return []
    before, after = (text.split("\n")[:MOST_COMPARED] for text in (old, new))
    found = list(difflib.unified_diff(before, after, n=CONTEXT, lineterm=""))[2:]  # without the names
    return [DiffLine("place", name), *(_line(text) for text in found)]


def _line(text: str) -> DiffLine:
    kind = _KINDS.get(text[:1], "same")
    shown = text if kind == "place" else text[1:]
    cut = shown if len(shown) <= MOST_LETTERS else f"{shown[:MOST_LETTERS]}…"
    match kind:
        case "added":
            return DiffLine("added", cut)
        case "removed":
            return DiffLine("removed", cut)
        case "place":
            return DiffLine("place", cut)
    return DiffLine("same", cut)


def gene_changes(parent: Mapping[str, Gene], child: Mapping[str, Gene]) -> tuple[str, ...]:
    """Genes of a child that are not its parent's, in words."""
    return tuple(
        f"{name}: {parent[name]} → {value}" if name in parent else f"{name}: {value}"
        for name, value in child.items()
        if parent.get(name, object()) != value
    )
