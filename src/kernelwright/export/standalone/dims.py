"""Sizes by name: read from the shapes of arguments, and put into formulas such as "rows * cols"."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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


def solved(dim: Dim) -> tuple[str, int, int] | None:
    """The size that a dimension tells: `name, factor, rest` of "2 * cols + 1", and None of "rows + cols"."""
    terms = _linear(ast.parse(dim, mode="eval").body) if isinstance(dim, str) else None
    if terms is None:
        return None
    rest = terms.pop("", 0)
    named = [(name, factor) for name, factor in terms.items() if factor]
    return (*named[0], rest) if len(named) == 1 else None


def _linear(node: ast.expr) -> dict[str, int] | None:
    """The factor of each name, and the constant under no name; None of what is not a sum of multiples."""
    match node:
        case ast.Constant(value=int(value)):
            return {"": value}
        case ast.Name(id=name):
            return {name: 1}
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _scaled(_linear(operand), -1)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() as op, right=right):
            one, other = _linear(left), _linear(right)
            if one is None or other is None:
                return None
            if isinstance(op, ast.Mult):
                if set(one) <= {""}:
                    one, other = other, one
                return _scaled(one, other.get("", 0)) if set(other) <= {""} else None
            sign = 1 if isinstance(op, ast.Add) else -1
            return {name: one.get(name, 0) + sign * other.get(name, 0) for name in {**one, **other}}
        case _:
            return None


def _scaled(terms: dict[str, int] | None, factor: int) -> dict[str, int] | None:
    return None if terms is None else {name: value * factor for name, value in terms.items()}


@dataclass(frozen=True)
class _Source:
    """Where a size is read: this axis of this tensor is `factor` times the size, and `rest`."""

    place: int
    axis: int
    factor: int = 1
    rest: int = 0

    def read(self, shapes: Sequence[Sequence[Any]]) -> Any:
        size = shapes[self.place][self.axis]
        return size if (self.factor, self.rest) == (1, 0) else (size - self.rest) // self.factor


class Shapes:
    """Reads the named sizes off the shapes of tensors, and says whether the shapes fit together."""

    def __init__(self, dims: Sequence[Sequence[Dim]]) -> None:
        self.ranks = tuple(len(shape) for shape in dims)
        self._bound: dict[str, _Source] = {}
        self._checked: list[tuple[int, int, Formula]] = []
        for place, shape in enumerate(dims):
            for axis, dim in enumerate(shape):
                if isinstance(dim, str) and dim.isidentifier() and dim not in self._bound:
                    self._bound[dim] = _Source(place, axis)
                else:
                    self._checked.append((place, axis, formula(dim)))
        for place, shape in enumerate(dims):
            for axis, dim in enumerate(shape):
                if (found := solved(dim)) is not None:
                    self._bound.setdefault(found[0], _Source(place, axis, *found[1:]))

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._bound)

    def read(self, shapes: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """The sizes, without a look at whether they fit: symbols must not be compared."""
        return {name: source.read(shapes) for name, source in self._bound.items()}

    def fitting(self, shapes: Sequence[Sequence[int]]) -> dict[str, int] | None:
        """The sizes, or None where these shapes do not belong to one call."""
        if tuple(map(len, shapes)) != self.ranks:
            return None
        sizes = self.read(shapes)
        fits = all(shapes[place][axis] == wanted(sizes) for place, axis, wanted in self._checked)
        return sizes if fits else None
