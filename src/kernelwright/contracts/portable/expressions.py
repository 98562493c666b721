"""Arithmetic over named sizes as a table of nodes, each of which refers to earlier ones only.

A table has no loops and no recursion, so evaluating it costs at most one operation for each node. Every operation is
Python's own, on numbers of bounded magnitude: what a plan would have computed, this computes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .reading import MalformedData, identifier

MOST_NODES = 8192
MAGNITUDE = 1 << 127  # whole numbers beyond it are refused: no grid, size or offset needs them
MOST_EXPONENT = 128

Number = int | float  # and bool, which Python counts among int


class FormulaError(ValueError):
    """Why a formula has no value at some sizes, in one line."""


@dataclass(frozen=True)
class Ref:
    """The value of a node."""

    at: int


Term = int | float | Ref
Node = int | float | str | tuple[str, tuple[int, ...]]
"""A literal, the name of a size, or an operation on earlier nodes."""


def _power(base: Number, exponent: Number) -> Number:
    if abs(exponent) > MOST_EXPONENT:
        raise FormulaError(f"the exponent {exponent} is larger than {MOST_EXPONENT}")
    raised = base**exponent
    if isinstance(raised, complex):
        raise FormulaError("the root of a negative number")
    return raised


def _shift(apply: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def shifted(value: int, count: int) -> int:
        if not 0 <= count <= MOST_EXPONENT:
            raise FormulaError(f"a shift by {count}: from 0 to {MOST_EXPONENT}")
        return apply(value, count)

    return shifted


UNARY: dict[str, Callable[..., Number]] = {
    "neg": operator.neg,
    "pos": operator.pos,
    "abs": abs,
    "invert": operator.invert,
    "not": operator.not_,
    "int": int,
    "float": float,
    "bool": bool,
    "ceil": math.ceil,
    "floor": math.floor,
    "sqrt": math.sqrt,
    "log2": math.log2,
    "bits": int.bit_length,
}
BINARY: dict[str, Callable[..., Number]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "truediv": operator.truediv,
    "pow": _power,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "lshift": _shift(operator.lshift),
    "rshift": _shift(operator.rshift),
    "min": min,
    "max": max,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
ARITY = {**dict.fromkeys(UNARY, 1), **dict.fromkeys(BINARY, 2)}
_OPERATIONS = {**UNARY, **BINARY}


@dataclass(frozen=True)
class Nodes:
    """A table of nodes. It is checked when it is made, so an evaluation ends and meets known operations only."""

    table: tuple[Node, ...] = ()

    def __post_init__(self) -> None:
        if len(self.table) > MOST_NODES:
            raise MalformedData(f"more than {MOST_NODES} nodes")
        for number, node in enumerate(self.table):
            _check(node, number)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(node for node in self.table if isinstance(node, str))

    def at(self, sizes: Mapping[str, int]) -> Values:
        return Values(self.table, sizes)

    def to_json(self) -> list[object]:
        return [[node[0], *node[1]] if isinstance(node, tuple) else node for node in self.table]

    @classmethod
    def from_json(cls, raw: object) -> Nodes:
        if not isinstance(raw, list) or len(raw) > MOST_NODES:
            raise MalformedData(f"nodes: not a list of at most {MOST_NODES}")
        return cls(tuple(_read(entry) for entry in raw))


def _check(node: Node, number: int) -> None:
    if isinstance(node, tuple):
        operation, operands = node
        if ARITY.get(operation) != len(operands):
            raise MalformedData(f"node {number}: {operation!r} of {len(operands)} is not an operation")
        if not all(type(at) is int and 0 <= at < number for at in operands):
            raise MalformedData(f"node {number} does not refer to earlier nodes")
    elif isinstance(node, str):
        identifier(node, f"node {number}")
    else:
        bounded(node)


def _read(entry: object) -> Node:
    if isinstance(entry, list):
        if not entry or not isinstance(entry[0], str) or not all(type(at) is int for at in entry[1:]):
            raise MalformedData("a node is not an operation and its operands")
        return entry[0], tuple(entry[1:])
    if isinstance(entry, (int, float, str)):
        return entry
    raise MalformedData("a node is not a number, a name or an operation")


def bounded(value: Number) -> Number:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise FormulaError("a value is not finite")
    elif not -MAGNITUDE < value < MAGNITUDE:
        raise FormulaError("a value is larger than any size")
    return value


class Values:
    """The values of a table's nodes at some sizes, each computed when it is first asked for and once."""

    def __init__(self, table: tuple[Node, ...], sizes: Mapping[str, int]) -> None:
        self._table, self._sizes = table, sizes
        self._known: dict[int, Number] = {}

    def __getitem__(self, at: int) -> Number:
        known = self._known
        left = [at]
        while left:
            place = left[-1]
            node = self._table[place]
            if place in known:
                left.pop()
            elif isinstance(node, tuple):
                missing = [operand for operand in node[1] if operand not in known]
                if missing:
                    left += missing
                else:
                    known[place] = self._applied(node[0], [known[operand] for operand in node[1]])
            else:
                known[place] = self._size(node) if isinstance(node, str) else node
        return known[at]

    def term(self, term: Term) -> Number:
        return self[term.at] if isinstance(term, Ref) else term

    def _size(self, name: str) -> int:
        value = self._sizes.get(name)
        if type(value) is not int or not 0 <= value < MAGNITUDE:
            raise FormulaError(f"the size {name} is not given")
        return value

    @staticmethod
    def _applied(operation: str, operands: list[Number]) -> Number:
        try:
            return bounded(_OPERATIONS[operation](*operands))
        except FormulaError:
            raise
        except (ArithmeticError, ValueError, TypeError) as error:
            raise FormulaError(f"{operation}: {error}") from None
