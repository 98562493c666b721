"""Texts that make a careless pattern look at everything again from every place, and a limit for reading them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
LENGTH = 200_000
LIMIT_SECONDS = 5.0  # a tenth of it is usual, and minutes are what it took before


def long(part: str) -> str:
    return part * (LENGTH // len(part))


def quickly(work: Callable[P, R], *arguments: P.args, **options: P.kwargs) -> R:
    begin = time.process_time()
    result = work(*arguments, **options)
    assert time.process_time() - begin < LIMIT_SECONDS
    return result
