"""One way to compute a product, as a renderer writes it: lines of the body, and Python for its launch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Way:
    """The body has `last`, with which elements end (ends.py)."""

    body: list[str]
    blocks: str
    threads: str
    shared: str = "0"
    least_blocks: str = "1"
    heavy: bool = False
    needs: tuple[str, ...] = ()  # CUDA beside the prelude
    helpers: tuple[str, ...] = ()  # functions of the plan
