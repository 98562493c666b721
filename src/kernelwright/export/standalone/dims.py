"""Sizes by name: read from the shapes of arguments, and put into formulas such as "rows * cols"."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Dim = int | str
Sizes = Mapping[str, Any]  # whole numbers, or torch's symbols for them
Formula = Callable[[Sizes], Any]
OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}
LONGEST = 400


class DimError(ValueError):
    """A formula that is not one."""


def formula(dim: Dim) -> Formula:
    """A dimension as a function of the sizes. It is never given to `eval`: a manifest may come from a stranger."""
    if isinstance(dim, int):
        return lambda sizes: dim
    if not isinstance(dim, str) or len(dim) > LONGEST:
        raise DimError(f"{str(dim)[:40]!r} is not a dimension")
    try:
        return _built(ast.parse(dim, mode="eval").body, dim)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise DimError(f"{dim[:40]!r} is not a dimension") from error


def _built(node: ast.expr, dim: str) -> Formula:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        value = node.value
        return lambda sizes: value
    if isinstance(node, ast.Name):
        name = node.id
        return lambda sizes: sizes[name]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _built(node.operand, dim)
        return lambda sizes: -inner(sizes)
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        apply, left, right = OPERATORS[type(node.op)], _built(node.left, dim), _built(node.right, dim)
        return lambda sizes: apply(left(sizes), right(sizes))
    raise DimError(f"{dim[:40]!r} may use whole numbers, names, + - * // and parentheses only")


class Shapes:
    """Reads the named sizes off the shapes of tensors, and says whether the shapes fit together."""

    def __init__(self, dims: Sequence[Sequence[Dim]]) -> None:
        self.ranks = tuple(len(shape) for shape in dims)
        self._bound: dict[str, tuple[int, int]] = {}
        self._checked: list[tuple[int, int, Formula]] = []
        for place, shape in enumerate(dims):
            for axis, dim in enumerate(shape):
                if isinstance(dim, str) and dim.isidentifier() and dim not in self._bound:
                    self._bound[dim] = place, axis
                else:
                    self._checked.append((place, axis, formula(dim)))

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._bound)

    def read(self, shapes: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """The sizes, without a look at whether they fit: symbols must not be compared."""
        return {name: shapes[place][axis] for name, (place, axis) in self._bound.items()}

    def fitting(self, shapes: Sequence[Sequence[int]]) -> dict[str, int] | None:
        """The sizes, or None where these shapes do not belong to one call."""
        if tuple(map(len, shapes)) != self.ranks:
            return None
        sizes = self.read(shapes)
        fits = all(shapes[place][axis] == wanted(sizes) for place, axis, wanted in self._checked)
        return sizes if fits else None
