"""Arithmetic on sizes, inside of an imported graph: on numbers alone, and never beyond 64 bits.

Python's own would repeat lists, format text, and compute powers until memory ends.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

NUMBERS = (int, float, torch.SymInt, torch.SymFloat, torch.SymBool)
LARGEST, LARGEST_EXPONENT = 1 << 63, 64


def _numbers(*given: Any) -> None:
    if not all(isinstance(one, NUMBERS) for one in given):
        raise ValueError("arithmetic on sizes takes numbers alone")


def _bounded(found: Any) -> Any:
    if isinstance(found, int) and not -LARGEST <= found <= LARGEST:
        raise ValueError("a size has more than 64 bits")
    return found


def _named(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of this module under a name of its own, as torch.fx writes it into code."""

    def checked(*given: Any) -> Any:
        _numbers(*given)
        return _bounded(function(*given))

    checked.__name__ = checked.__qualname__ = name
    return checked


add = _named("add", operator.add)
sub = _named("sub", operator.sub)
mul = _named("mul", operator.mul)


def pow_(base: Any, exponent: Any) -> Any:
    _numbers(base, exponent)
    if not isinstance(exponent, int | float) or abs(exponent) > LARGEST_EXPONENT:
        raise ValueError(f"a size is raised to a power above {LARGEST_EXPONENT}")
    return _bounded(operator.pow(base, exponent))


def mod(left: Any, right: Any) -> Any:
    _numbers(left, right)
    return operator.mod(left, right)


CHECKED: dict[str, Callable[..., Any]] = {"add": add, "sub": sub, "mul": mul, "mod": mod, "pow": pow_}
