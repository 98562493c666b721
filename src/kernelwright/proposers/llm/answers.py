"""Reads a model's answer: hostile text that may hold a source, or changes to one. Nothing of it is run or believed.

No path, name or number is taken from an answer, only a source and a sentence about it. What is too long, is not text,
or has no source in it is refused in one line. Reading takes time in proportion to the length: no pattern looks at the
same text from many places.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kernelwright.contracts import Candidate, CandidateError
from kernelwright.contracts.candidate import MAX_BYTES
from kernelwright.contracts.registry import contract_named
from kernelwright.judge.wording import shortened
from kernelwright.proposers.model import Refusal

MOST_ANSWER = 4 << 20
MOST_EDITS = 64
NOTE_LENGTH = 200
_FENCE = re.compile(r"^[ ]{0,3}(?P<fence>`{3,}+|~{3,}+)(?P<language>[^\n`]*)$")
_IDEA = re.compile(r"^(?:[^\S\n]|[>*_#])*idea[*_]*[ \t]*:[*_]*[ \t]*(\S[^\n]*)", re.IGNORECASE | re.MULTILINE)
_COMMENT = re.compile(r"//[ \t]*(\S[^\n]*)")
_SEARCH, _DIVIDE, _REPLACE = "<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE"


def text_of(text: str) -> str:
    """What a model sent as text that a journal can keep: JSON may bring half characters that no encoding has."""
    return text.encode("utf-8", "replace").decode("utf-8")


@dataclass(frozen=True)
class Answer:
    source: str
    note: str
    edited: bool


@dataclass(frozen=True)
class FencedBlock:
    language: str
    text: str


def read_answer(text: str, contract: str, parent: str | None = None) -> Answer:
    """The source in an answer. Changes apply to `parent` alone; without one, only a whole source is taken."""
    if len(text) > MOST_ANSWER:
        raise Refusal(f"the answer has {len(text):,} characters; at most {MOST_ANSWER:,} are read")
    edits = find_edits(text)
    edited = bool(edits) and parent is not None
    source = apply_edits(parent, edits) if edits and parent is not None else _whole(text, contract)
    checked_source(source, contract)
    return Answer(source, note_of(text, source), edited)


def note_of(text: str, source: str) -> str:
    """What the author says it is about, in one line; without such a line, the source's first comment."""
    outside = "\n".join(_outside(text))
    found = _IDEA.search(outside) or _COMMENT.search(source)
    return shortened(found[1], NOTE_LENGTH) if found else ""


def _lines(text: str) -> list[str]:
    """What an editor calls lines. `str.splitlines` would break a source at form feeds and rarer marks, too."""
    return text.replace("\r\n", "\n").split("\n")


def blocks(text: str) -> list[FencedBlock]:
    """Closed blocks of code. A fence is closed by one of its own kind that is at least as long."""
    found: list[FencedBlock] = []
    fence, language = "", ""
    lines: list[str] = []
    for line in _lines(text):
        match = _FENCE.match(line)
        if not fence:
            if match:
                fence, language, lines = match["fence"], match["language"].strip(), []
        elif match and match["fence"].startswith(fence) and not match["language"].strip():
            found.append(FencedBlock(language, "\n".join(lines) + "\n"))
            fence = ""
        else:
            lines.append(line)
    return found


def find_edits(text: str) -> list[tuple[str, str]]:
    """Pairs of (what stands there, what is to stand there)."""
    found: list[tuple[str, str]] = []
    part = ""
    search: list[str] = []
    replace: list[str] = []
    for line in _lines(text):
        mark = line.rstrip()
        if mark == _SEARCH:
            part, search, replace = "search", [], []
        elif part == "search" and mark == _DIVIDE:
            part = "replace"
        elif part == "replace" and mark == _REPLACE:
            found.append(("\n".join(search), "\n".join(replace)))
            part = ""
        elif part == "search":
            search.append(line)
        elif part == "replace":
            replace.append(line)
    return found


def apply_edits(parent: str, edits: list[tuple[str, str]]) -> str:
    """The parent with the changes made, one after another. Each must fit one place and no other."""
    if len(edits) > MOST_EDITS:
        raise Refusal(f"the answer has {len(edits)} edits; at most {MOST_EDITS} are taken: write the whole source")
    source = parent.replace("\r\n", "\n")
    for number, (search, replace) in enumerate(edits, 1):
        source = _applied(source, search, replace, number)
        if len(source) > MAX_BYTES:
            raise Refusal(f"edit {number} makes the source longer than {MAX_BYTES:,} bytes")
    return source


def _applied(source: str, search: str, replace: str, number: int) -> str:
    if not search.strip():
        raise Refusal(f"edit {number} searches for nothing: repeat the lines that it replaces")
    count = source.count(search)
    if count == 1:
        return source.replace(search, replace)
    if count > 1:
        raise Refusal(f"edit {number}: what it searches for stands in {count} places; repeat more lines around it")
    return _loosely(source, search, replace, number)


def _loosely(source: str, search: str, replace: str, number: int) -> str:
    """As lines without the space at their ends, which models lose."""
    wanted, bare = _bare(search), _bare(source)
    place = bare.find(wanted)
    if place < 0 or bare.find(wanted, place + 1) >= 0:
        why = "is not in the parent" if place < 0 else "stands in several places"
        raise Refusal(f"edit {number}: what it searches for {why}; repeat lines of the parent exactly")
    lines, at = source.split("\n"), bare.count("\n", 0, place)
    return "\n".join([*lines[:at], *replace.split("\n"), *lines[at + search.count("\n") + 1 :]])


def _bare(text: str) -> str:
    """Each line between two breaks, so that what is found in it is whole lines."""
    return "".join(f"\n{line.rstrip()}" for line in text.split("\n")) + "\n"


def _whole(text: str, contract: str) -> str:
    found = blocks(text)
    if not found:
        cut = "its block of code is never closed" if re.search(r"^[ ]{0,3}(`{3,}|~{3,})", text, re.M) else ""
        raise Refusal(cut or "it has no block of code; put the source between lines of ```")
    try:
        joined = contract_named(contract).join_blocks([block.text for block in found])
    except CandidateError as error:
        raise Refusal(str(error)) from None
    if joined is not None:
        return joined
    source = max((block.text for block in found), key=len)
    if not source.strip():
        raise Refusal("its block of code is empty")
    return source


def checked_source(source: str, contract: str) -> None:
    if not source.strip():
        raise Refusal("its source is empty")
    if "\0" in source:
        raise Refusal("its source has NUL bytes")
    try:
        size = len(source.encode())
    except UnicodeEncodeError:
        raise Refusal("its source is not text") from None
    if size > MAX_BYTES:
        raise Refusal(f"its source has {size:,} bytes; at most {MAX_BYTES:,} are taken")
    try:
        contract_named(contract).check_source(source)
    except CandidateError as error:
        raise Refusal(str(error)) from None


def _outside(text: str) -> list[str]:
    """The lines that stand in no block of code."""
    lines, fence = [], ""
    for line in _lines(text):
        match = _FENCE.match(line)
        if match and not fence:
            fence = match["fence"]
        elif match and match["fence"].startswith(fence):
            fence = ""
        elif not fence:
            lines.append(line)
    return lines


def as_candidate(answer: Answer, contract: str, name: str) -> Candidate:
    return Candidate(contract, answer.source, name)
