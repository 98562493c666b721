"""Text of others on pages of ours: every letter shown, none obeyed.

Sources, names, notes and models' answers may hold anything: markup, terminal escapes, letters that turn the direction
of a line or that show nothing. HTML escaping leaves the latter three as they are, so they are spelt out here.
"""

from __future__ import annotations

import re

from kernelwright.judge.wording import shortened
from kernelwright.paths import printable

_KEPT = re.compile(r"[^\n\t]+")
_TICKS = re.compile(r"`+")
_PROSE = re.compile(r"(?!.*(?://|www\.))(?:[^\W_]|[ .,;:%×=+()'—…-]|/|@ )*")
CELL = 160  # characters of a note in a table
FENCE = 3


def visible(text: str) -> str:
    """With every letter that is not printed spelt out, but for the ends of lines and tabs."""
    if text.isascii() and text.isprintable():
        return text
    return _KEPT.sub(lambda part: printable(part[0]), text.replace("\r\n", "\n"))


def one_line(text: str, most: int = CELL) -> str:
    """In one line of at most so many characters."""
    return shortened(visible(text), most)


def code_span(text: str, most: int = CELL, *, cell: bool = False) -> str:
    """Markdown that shows a stranger's text in one line. Within code there are neither links, mentions nor markup.
    In a cell of a table a bar would end the cell, in code too."""
    shown = one_line(text, most) or " "
    ticks = "`" * (1 + max((len(run) for run in _TICKS.findall(shown)), default=0))
    padded = f" {shown} " if shown.startswith("`") or shown.endswith("`") else shown
    return f"{ticks}{padded.replace('|', chr(92) + '|') if cell else padded}{ticks}"


def fenced(text: str, language: str = "") -> str:
    """A block of code in Markdown that nothing inside of it can end."""
    shown = visible(text)
    longest = max((len(run) for run in _TICKS.findall(shown)), default=0)
    fence = "`" * max(FENCE, longest + 1)
    return f"{fence}{language}\n{shown.rstrip(chr(10))}\n{fence}"


def prose(text: str, most: int = CELL) -> str:
    """Markdown that shows a sentence of ours with names of others in it: as it is where nothing in it could be markup,
    a link or a mention, and else in code."""
    shown = one_line(text, most)
    return shown if _PROSE.fullmatch(shown) else code_span(shown, most)
