"""Texts of others: shown to the letter, never obeyed."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.report.text import code_span, fenced, one_line, prose, visible
from tests.report.made import ATTACKS


@given(st.text())
def test_nothing_is_left_that_is_not_printed(text: str) -> None:
    assert all(letter.isprintable() or letter in "\n\t" for letter in visible(text))


def test_what_is_printed_stays_as_it_is() -> None:
    assert visible("a × b\n\tµs → 你好") == "a × b\n\tµs → 你好"


def test_escapes_and_turns_of_direction_are_spelt_out() -> None:
    assert visible("\x1b[31m\u202eab\u200b\r\n") == "\\x1b[31m\\u202eab\\u200b\n"


@given(st.text(alphabet="`| \n\\ab", max_size=40))
def test_a_code_span_cannot_be_ended_from_inside(text: str) -> None:
    span = code_span(text)
    opening = re.match("`+", span)
    assert opening is not None and span.endswith(opening[0]) and "\n" not in span
    inside = span[len(opening[0]) : -len(opening[0])]
    assert opening[0] not in re.findall("`+", inside)


@given(st.text(alphabet="|\\a`", max_size=20))
def test_a_bar_does_not_end_a_cell(text: str) -> None:
    assert not re.search(r"(?<!\\)\|", code_span(text, cell=True))


@given(st.text(alphabet="`~\na", max_size=60))
def test_a_fence_is_longer_than_any_in_the_text(text: str) -> None:
    first, *_, last = fenced(text, "diff").split("\n")
    fence = first.removesuffix("diff")
    assert last == fence and set(fence) == {"`"} and fence not in re.findall("`+", text)


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_could_be_markup_is_code(attack: str) -> None:
    assert prose(f"Slower on {attack}", 500).startswith("`")


def test_plain_sentences_stay_prose() -> None:
    sentence = "Faster than every baseline on 2 of 3 public workloads: at least 1.15× (cpu: Xeon @ 2.50GHz)."
    assert prose(sentence) == sentence
    assert prose("see www.example.org").startswith("`") and prose("see http://x").startswith("`")


def test_a_line_is_cut_between_words() -> None:
    assert one_line("one two\nthree", 9) == "one two…"
