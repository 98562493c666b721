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


def complain(message: str) -> None:
    one_line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in " ".join(message.split()))
    print(f"kernelwright: {one_line}", file=sys.stderr, flush=True)
