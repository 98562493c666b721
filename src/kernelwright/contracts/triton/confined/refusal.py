"""Why host code cannot be recorded or interpreted, in one line with the author's line number."""

from __future__ import annotations

import traceback
from types import TracebackType

SOURCE_NAME = "kernel.py"
LONGEST = 380


class HostCodeRefused(BaseException):
    """Not an Exception, so that `except Exception` in host code does not swallow it."""


class Refusals:
    """The first one counts, whatever host code does with the exception."""

    def __init__(self) -> None:
        self.first = ""

    def refuse(self, why: str) -> HostCodeRefused:
        line = author_line(None)
        said = f"line {line}: {why}" if line else why
        self.first = self.first or said
        return HostCodeRefused(self.first)


def author_line(trace: TracebackType | None) -> int:
    """The innermost line of the module that led here, or 0."""
    frames = traceback.extract_tb(trace) if trace is not None else traceback.extract_stack()
    found = [frame.lineno for frame in frames if frame.filename.endswith(f"/{SOURCE_NAME}")]
    return (found[-1] or 0) if found else 0


def told(error: BaseException) -> str:
    """An exception that host code raised, in one line; of Triton's compiler, its own words and the line it quotes."""
    while error.__cause__ is not None and _quoted(error):  # wrapped once for each function that was inlined
        error = error.__cause__
    line = author_line(error.__traceback__)
    head = f"line {line}: " if line else ""
    message = getattr(error, "error_message", None)
    words = " ".join(str(error if message is None else message).split()) or "without a message"
    return f"{head}{type(error).__name__}: {words}{_quoted(error)}"[:LONGEST]


def _quoted(error: BaseException) -> str:
    """The line of a kernel at which the compiler stopped."""
    source, node = getattr(error, "src", None), getattr(error, "node", None)
    if not isinstance(source, str) or node is None:
        return ""
    lines = source.splitlines()
    at = getattr(node, "lineno", 0) - 1
    return f" in `{lines[at].strip()}`" if 0 <= at < len(lines) else ""
