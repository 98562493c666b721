"""Printing: JSON for programs, tables for people, errors in one line."""

from __future__ import annotations

import sys

from pydantic import BaseModel
from rich.console import Console


def console() -> Console:
    """For people. In a pipe, lines are not cut to the width of a terminal that is not there."""
    out = Console(highlight=False)
    return out if out.is_terminal else Console(highlight=False, width=160)


def print_json(model: BaseModel) -> None:
    print(model.model_dump_json(indent=2), flush=True)


def print_text(text: str) -> None:
    """Text of a user's or a model's: to the letter in a pipe, and nothing that a terminal would obey on a terminal."""
    print(harmless(text) if sys.stdout.isatty() else text, end="", flush=True)


def complain(message: str) -> None:
    print(f"kernelwright: {harmless(' '.join(message.split()))}", file=sys.stderr, flush=True)


def harmless(text: str) -> str:
    """With every letter that is not printed, but for the ends of lines and tabs, written out as in a string."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)
