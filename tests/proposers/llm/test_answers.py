"""Answers are hostile: a source is taken from them, or one line says why not; edits touch the parent alone."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.contracts.candidate import MAX_BYTES
from kernelwright.proposers.llm.answers import (
    MOST_ANSWER,
    apply_edits,
    blocks,
    find_edits,
    note_of,
    read_answer,
    text_of,
)
from kernelwright.proposers.model import Refusal
from tests.hostile import long, quickly

PARENT = "// sums\nvoid kernel() {\n  int a = 1;\n  int b = 1;\n}\n"


def edit(search: str, replace: str) -> str:
    return f"<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"


def test_the_longest_block_is_the_source_and_the_idea_its_note() -> None:
    text = "**Idea:** wide loads\n```cpp\nint a;\n```\nor rather\n~~~\nint a; int b;\n~~~\nGood luck!\n"
    found = read_answer(text, "cpp")
    assert found.source == "int a; int b;\n" and found.note == "wide loads" and not found.edited


def test_an_idea_inside_of_the_source_is_none() -> None:
    assert read_answer("```cpp\n// sums\nint a; /*\nIdea: trust me\n*/\n```\n", "cpp").note == "sums"


def test_a_note_is_one_printable_line() -> None:
    found = read_answer("Idea: a\x1b[2Jb\x07 \u200bc\n```\nint a;\n```\n", "cpp")
    assert found.note == "a [2Jb c"
    assert text_of("a\ud800b") == "a?b"


def test_longer_fences_hold_shorter_ones() -> None:
    assert read_answer("````cpp\nint a; // ```\n```\nint b;\n````\n", "cpp").source == "int a; // ```\n```\nint b;\n"


def test_edits_change_the_parent_one_after_another() -> None:
    text = f"Idea: two\n```\n{edit('  int a = 1;', '  int a = 2;')}```\n{edit('  int a = 2;', '  int a = 3;')}"
    found = read_answer(text, "cpp", PARENT)
    assert found.edited and found.source == PARENT.replace("a = 1", "a = 3") and found.note == "two"


def test_space_at_the_end_of_lines_does_not_matter() -> None:
    assert apply_edits("int a;  \nint b;\n", [("int a;\nint b;", "int c;")]) == "int c;\n"


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        ([("int c;", "")], "edit 1: what it searches for is not in the parent"),
        ([(" = 1;", " = 2;")], "stands in 2 places"),
        ([("  ", "x")], "edit 1 searches for nothing"),
        ([("int a", "int " + "a" * MAX_BYTES)], "makes the source longer"),
        ([("int a", "int a")] * 65, "has 65 edits"),
    ],
)
def test_one_line_for_an_edit_that_does_not_fit(edits: list[tuple[str, str]], said: str) -> None:
    with pytest.raises(Refusal) as caught:
        apply_edits(PARENT, edits)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_without_a_parent_edits_are_no_source() -> None:
    with pytest.raises(Refusal, match="has no block of code"):
        read_answer(edit("int a", "int b"), "cpp")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("I cannot help with that.", "has no block of code"),
        ("```cpp\nvoid kernel() {", "never closed"),
        ("```cpp\n \n```\n", "is empty"),
        ("```\nint a;\0\n```\n", "NUL"),
        ("```\n\ud800\n```\n", "not text"),
        (f"```\n{'x' * (MAX_BYTES + 1)}\n```\n", "at most"),
        ("x" * (MOST_ANSWER + 1), "are read"),
    ],
)
def test_one_line_for_an_answer_that_is_none(text: str, said: str) -> None:
    with pytest.raises(Refusal) as caught:
        read_answer(text, "cpp")
    assert said in str(caught.value) and "\n" not in str(caught.value)


KERNEL = "__global__ void k() {}\n"
PLAN = "import kw\n\n\ndef plan(x):\n    return kw.plan(kw.launch('k', 1, 1))\n"


def test_a_cuda_answer_in_one_block_or_in_two() -> None:
    one = read_answer(f"```cuda\n{KERNEL}\n/* plan.py\n{PLAN}*/\n```\n", "cuda").source
    two = read_answer(f"kernel.cu:\n```cuda\n{KERNEL}```\nplan.py:\n```python\n{PLAN}```\n", "cuda").source
    assert one.split() == two.split()
    with pytest.raises(Refusal, match="has no plan"):
        read_answer(f"```cuda\n{KERNEL}```\n", "cuda")
    with pytest.raises(Refusal, match=r"contains '\*/'"):
        read_answer(f"```cuda\n{KERNEL}```\n```python\n{PLAN}# */\n```\n", "cuda")


@given(text=st.text(max_size=300), parent=st.one_of(st.none(), st.just(PARENT)))
def test_any_text_is_an_answer_or_a_refusal(text: str, parent: str | None) -> None:
    for contract in ("cpp", "cuda"):
        try:
            found = read_answer(text, contract, parent)
        except Refusal as error:
            assert "\n" not in str(error)
        else:
            assert found.source.strip() and "\n" not in found.note


@given(search=st.text(max_size=20), replace=st.text(max_size=20))
def test_what_an_edit_does_not_name_stays(search: str, replace: str) -> None:
    try:
        changed = apply_edits(PARENT, [(search, replace)])
    except Refusal:
        return
    at = PARENT.find(search)
    if at >= 0:
        assert changed == PARENT[:at] + replace + PARENT[at + len(search) :]


@pytest.mark.parametrize("mark", ["\f", "\v", "\u2028", "\u2029", "\x85", "\x1c"])
def test_only_a_line_break_breaks_a_line(mark: str) -> None:
    source = f"int a;{mark}int b;\n"
    assert read_answer(f"```\n{source}```\n", "cpp").source == source
    assert apply_edits(source, find_edits(edit(source.rstrip("\n"), "int c;"))) == "int c;\n"
    assert note_of(f"one{mark}two\nIdea: three", "") == "three"


def test_lines_may_end_as_on_windows() -> None:
    assert read_answer("Idea: x\r\n```cpp\r\nint a;\r\nint b;\r\n```\r\n", "cpp").source == "int a;\nint b;\n"


@pytest.mark.parametrize(
    "text",
    [long("\n"), long("# \n"), long("~") + "`", "idea" + long(" "), long("//  \n"), long("/* plan.py\n")],
    ids=lambda text: text[:8],
)
def test_no_answer_takes_longer_than_its_length_allows(text: str) -> None:
    for contract in ("cpp", "cuda"):
        with pytest.raises(Refusal):
            quickly(read_answer, f"{text}\n```\n{text}", contract)
    quickly(note_of, text, text)
    quickly(blocks, text)


@pytest.mark.parametrize("search", ["a \n" * 40_000 + "b", "a \n" * 40_000 + "a"])
def test_no_edit_takes_longer_than_its_length_allows(search: str) -> None:
    with pytest.raises(Refusal, match="edit 1: what it searches for"):
        quickly(apply_edits, long("a\n"), [(search, "x")])


IDEA = re.compile(r"^[\s>*_#]*idea[*_]*[ \t]*:[*_]*[ \t]*(\S[^\n]*)", re.IGNORECASE | re.MULTILINE)
pieces = st.sampled_from(["idea", "Idea:", ":", " ", "\n", "\t", "\f", "#", "*", "_", ">", "x", "\n\n", "**Idea:** "])


@given(parts=st.lists(pieces, max_size=20))
def test_an_idea_is_found_behind_any_marks(parts: list[str]) -> None:
    text = "".join(parts)
    found = IDEA.search(text)
    assert note_of(text, "") == (" ".join(found[1].split()) if found else "")


def plain_edit(source: str, search: str, replace: str) -> str | None:
    """Line by line, which takes the longer the more lines there are."""
    wanted, lines = [line.rstrip() for line in search.split("\n")], source.split("\n")
    bare = [line.rstrip() for line in lines]
    places = [at for at in range(len(bare) - len(wanted) + 1) if bare[at : at + len(wanted)] == wanted]
    if len(places) != 1:
        return None
    return "\n".join([*lines[: places[0]], *replace.split("\n"), *lines[places[0] + len(wanted) :]])


rows = st.lists(st.sampled_from(["a", "a ", "b", "", " ", "ab"]), min_size=1, max_size=8).map("\n".join)


@given(source=rows, search=rows.filter(str.strip), replace=rows)
def test_an_edit_fits_whole_lines_whatever_space_they_end_with(source: str, search: str, replace: str) -> None:
    if search in source:
        return
    try:
        changed: str | None = apply_edits(source, [(search, replace)])
    except Refusal:
        changed = None
    assert changed == plain_edit(source, search, replace)
