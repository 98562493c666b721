"""What is going on, while it goes on: one changing line on a terminal, plain lines in a pipe.

Nothing is drawn in the background: a drawing thread would run on the very cores that are being measured.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType

from kernelwright.paths import printable

REDRAW_SECONDS = 0.2


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
        """Whose doing is told next; what was said before is not said again."""
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
        """In a pipe every stage is said once; single trials are not."""
        stage = text.split(": trial ")[0]
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
