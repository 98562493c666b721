"""Strategies to suggest, by contract: `hints.toml`. Each request gets one by chance, so that answers differ."""

from __future__ import annotations

import random
import tomllib
from functools import cache
from pathlib import Path

from kernelwright.proposers.llm.view import Hint

FILE = Path(__file__).parent / "hints.toml"
ANY = "any"


@cache
def hints(contract: str) -> tuple[tuple[str, Hint], ...]:
    """All of a contract's hints, each with the limit that it is for (see insight/bottleneck.py) or `any`."""
    found = tomllib.loads(FILE.read_text(encoding="utf-8")).get(contract, [])
    return tuple((entry["limit"], Hint(name=entry["name"], text=entry["text"].strip())) for entry in found)


def sampled(contract: str, limit: str, seed: int) -> Hint | None:
    """One that suits what limits the parent; `limit` empty: any of them."""
    suited = [hint for kind, hint in hints(contract) if not limit or kind in (limit, ANY)]
    return random.Random(seed).choice(suited) if suited else None
