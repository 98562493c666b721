"""Named sizes, and the small expressions over them in which shapes and bounds are written."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from functools import cache

from kernelwright.errors import KernelwrightError

Sizes = Mapping[str, int]
Dim = int | str

LONGEST = 200


class TaskError(KernelwrightError):
    """A task that cannot be used, said in one line that names the file and the fix."""


class NotFiniteError(TaskError):
    """What a task draws leads its reference to NaN or infinities: the draws do not fit the reference."""


_OPERATORS: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


@cache
def _parsed(dim: str) -> ast.expr:
    """Cached, because drawing hidden workloads evaluates the same few dimensions thousands of times."""
    if len(dim) > LONGEST:
        raise TaskError(f"dimension {dim[:20]!r}... is longer than {LONGEST} characters")
    try:
        return ast.parse(dim.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise TaskError(f"dimension {dim!r} is not an expression") from error


@cache
def _compiled(dim: str) -> Callable[[Sizes], int]:
    """The expression as nested functions: choosing check points evaluates it tens of thousands of times."""

    def build(node: ast.expr) -> Callable[[Sizes], int]:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            value = node.value
            return lambda sizes: value
        if isinstance(node, ast.Name):
            return operator.itemgetter(node.id)
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            apply, left, right = _OPERATORS[type(node.op)], build(node.left), build(node.right)
            return lambda sizes: apply(left(sizes), right(sizes))
        raise TaskError(f"dimension {dim!r} may use whole numbers, names, + - * // and parentheses only")

    return build(_parsed(dim))


def evaluate(dim: Dim, sizes: Sizes) -> int:
    """The value of a dimension such as 64, "rows" or "(height - 2) // 2 + 1" under a workload's sizes."""
    if type(dim) is int:
        return dim
    if not isinstance(dim, str):
        raise TaskError(f"dimension {dim!r} is neither a whole number nor an expression over sizes")
    try:
        return _compiled(dim)(sizes)
    except KeyError as error:
        raise TaskError(
            f"dimension {dim!r} needs the size {error.args[0]!r}, which the workload does not give"
        ) from None
    except ZeroDivisionError:
        raise TaskError(f"dimension {dim!r} divides by zero for {described(sizes)}") from None


def names_in(dim: Dim) -> frozenset[str]:
    """The sizes that a dimension depends on."""
    if not isinstance(dim, str):
        return frozenset()
    return frozenset(node.id for node in ast.walk(_parsed(dim)) if isinstance(node, ast.Name))


def described(sizes: Sizes) -> str:
    return " ".join(f"{name}={value}" for name, value in sizes.items())
