"""Printing: JSON for programs, tables for people, errors in one line, and what is going on while it goes on.

Progress is one changing line on a terminal and plain lines in a pipe. Nothing is drawn in the background: a drawing
thread would run on the very cores that are being measured.
"""

from __future__ import annotations

import json
import sys
import time
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from kernelwright.judge.wording import shortened, stage_words
from kernelwright.paths import printable

if TYPE_CHECKING:
    from rich.console import Console

REDRAW_SECONDS = 0.2
CLAIMED = 60  # letters


def console() -> Console:
    """For people. In a pipe, lines are not cut to the width of a terminal that is not there."""
    out = _harmless_console()(highlight=False)
    return out if out.is_terminal else _harmless_console()(highlight=False, width=160)


@cache
def _harmless_console() -> type[Console]:
    """Obeys our markup and no letter of the text: much of it comes from certificates, archives and journals. Made where
    it is asked for: rich takes a while to import, and programs ask for JSON."""
    from rich.console import Console
    from rich.text import Text

    class HarmlessConsole(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(harmless(text), **options)

    return HarmlessConsole


def plain(text: str) -> str:
    """A stranger's text within a line of ours: without markup, and without letters that begin a line or are obeyed."""
    from rich.markup import escape

    return escape(printable(text))


def claimed(text: str) -> str:
    """A name, a version or a date that a stranger wrote, too short to fill a line and go on in one that seems ours."""
    return plain(shortened(text, CLAIMED))


def print_json(model: BaseModel) -> None:
    text = model.model_dump_json(indent=2)
    print("".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text), flush=True)


def print_text(text: str) -> None:
    """Text of a user's or a model's: to the letter in a pipe, and nothing that a terminal would obey on a terminal."""
    print(harmless(text) if sys.stdout.isatty() else text, end="", flush=True)


def complain(message: str) -> None:
    print(f"kernelwright: {harmless(' '.join(message.split()))}", file=sys.stderr, flush=True)


def harmless(text: str) -> str:
    """With every letter that is not printed, but for the ends of lines and tabs, written out as in a string."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


class Progress:
    def __init__(self, *, quiet: bool = False) -> None:
        self._stream = sys.stderr
        self._live = self._stream.isatty() and not quiet
        self._quiet = quiet
        self._subject = ""
        self._last_drawn = 0.0
        self._last_line = ""
        self._drawn = False

    def start(self, subject: str) -> None:
        self._subject = printable(subject)
        self._last_line = ""

    def label(self, subject: str) -> None:
        """What the next lines are about; a line that was printed before is not printed again."""
        self._subject = printable(subject)

    def __call__(self, text: str) -> None:
        if self._quiet:
            return
        if self._live:
            self._draw(text)
        else:
            self._line(text)

    def _draw(self, text: str) -> None:
        now = time.monotonic()
        if now - self._last_drawn < REDRAW_SECONDS:
            return
        self._last_drawn = now
        self._stream.write(f"\r\x1b[2K{self._subject}  {text}"[:200])
        self._stream.flush()
        self._drawn = True

    def _line(self, text: str) -> None:
        """In a pipe every stage is printed once, and trials and check points are not."""
        stage = stage_words(text)
        if stage != self._last_line:
            self._last_line = stage
            print(f"{self._subject}  {stage}", file=self._stream, flush=True)

    def clear(self) -> None:
        if self._drawn:
            self._stream.write("\r\x1b[2K")
            self._stream.flush()
            self._drawn = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.clear()
