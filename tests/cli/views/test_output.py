"""What is printed of text that is not ours."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.cli.views.output import harmless, print_text


@given(text=st.text())
def test_nothing_is_left_that_a_terminal_would_obey(text: str) -> None:
    shown = harmless(text)
    assert all(letter.isprintable() or letter in "\n\t" for letter in shown)
    assert shown == text or not all(letter.isprintable() or letter in "\n\t" for letter in text)


def test_in_a_pipe_text_is_printed_to_the_letter(capsys: pytest.CaptureFixture[str]) -> None:
    print_text("a\x1b[31mb\r\n")
    assert capsys.readouterr().out == "a\x1b[31mb\r\n"
