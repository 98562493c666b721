"""Strategies to suggest, from the contract's craft. Each request gets one by chance, so that answers differ."""

from __future__ import annotations

import random

from kernelwright.contracts.craft import ANY
from kernelwright.contracts.registry import contract_named
from kernelwright.proposers.llm.view import Hint


def hints(contract: str) -> tuple[tuple[str, Hint], ...]:
    """All of a contract's hints, each with the limit that it is for (see insight/bottleneck.py) or `any`."""
    found = contract_named(contract).craft.hints
    return tuple((hint.limit, Hint(name=hint.name, text=hint.text)) for hint in found)


def sampled(contract: str, limit: str, seed: int) -> Hint | None:
    """One that suits what limits the parent; `limit` empty: any of them."""
    suited = [hint for kind, hint in hints(contract) if not limit or kind in (limit, ANY)]
    return random.Random(seed).choice(suited) if suited else None
