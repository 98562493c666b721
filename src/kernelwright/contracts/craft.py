"""What prompts say of a contract beyond its rules: who the author is, advice, hints, and what reviewers look for.

Trusted text that a contract keeps in a TOML file of its own; every part may be left out.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

ANY = "any"


@dataclass(frozen=True)
class CraftHint:
    """A strategy to suggest. `limit` is what holds the parent back (insight/bottleneck.py), or `any`."""

    name: str
    text: str
    limit: str = ANY


@dataclass(frozen=True)
class Craft:
    role: str = "You are one of the best engineers of numerical kernels there are."
    form: str = ""  # more about the form, after the skeleton
    tunables: str = ""  # how an author declares them
    advice: str = ""  # what is worth knowing of the language and the device
    answer: str = ""  # what the one block of code holds: "kernel.cu, and at its end ..."
    compilation: str = ""  # what keeps a source from building, for a reviewer: "a missing header, ..."
    memory: str = ""  # and what makes it leave its memory
    hints: tuple[CraftHint, ...] = ()


def read_craft(path: Path) -> Craft:
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    hints = tuple(CraftHint(one["name"], one["text"].strip(), one["limit"]) for one in raw.pop("hints", []))
    return Craft(**{name: text.strip() for name, text in raw.items()}, hints=hints)
