"""Whole numbers that are not known yet: arithmetic on them is written down, and every choice made by them is recorded.

A plan runs once for each path through its choices. A choice that the ranges of sizes decide is not recorded; where
text, an index or a dictionary needs a number, each value that it can have becomes a path of its own.
"""

from __future__ import annotations

import builtins
import math
import sys
from typing import Any

from ranges import MOST, Interval, clipped, interval_of, inverse  # type: ignore[import-not-found]  # the copy beside it

MOST_NODES = 8000
MOST_CHOICES = 400  # on one path
MOST_VALUES = 64  # of a number that has to be known
COMPARED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
OPPOSITE = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}


class Inexpressible(BaseException):
    """Why a plan cannot be a formula. Not an Exception, so that a plan does not catch it by accident."""


class Path:
    """One run of the plan: what it has chosen, and what is therefore known of every node."""

    def __init__(self, nodes: list[Any], numbers: dict[Any, int], ranges: dict[str, Interval], prefix: list[Any]):
        self.nodes, self.numbers, self.ranges, self.prefix = nodes, numbers, ranges, prefix
        self.chosen: list[tuple[int, bool]] = []
        self.used: dict[int, None] = {}  # nodes of this path, operands first
        self.bounds: dict[int, Interval] = {}
        self.facts: dict[int, Interval] = {}
        self.residues: dict[int, list[tuple[int, int]]] = {}
        self.refusal: str | None = None

    def refuse(self, why: str) -> Inexpressible:
        """Kept, because the plan may catch it."""
        frame: Any = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename != "plan.py":
            frame = frame.f_back
        where = f"plan.py:{frame.f_lineno}" if frame is not None else "plan.py"
        self.refusal = self.refusal or f"{where}: {why}"
        return Inexpressible(self.refusal)

    def node(self, node: Any) -> int:
        key = (type(node), repr(node)) if not isinstance(node, tuple) else node
        at = self.numbers.get(key)
        if at is None:
            if len(self.nodes) >= MOST_NODES:
                raise self.refuse(f"the plan computes more than {MOST_NODES} different numbers from sizes")
            at = self.numbers[key] = len(self.nodes)
            self.nodes.append(node)
        if at not in self.used:
            self.used[at] = None
            self._bound(at)
        return at

    def _bound(self, at: int) -> None:
        node = self.nodes[at]
        if isinstance(node, str):
            found = self.ranges[node]
        elif isinstance(node, tuple):
            found = interval_of(node[0], [self.bounds[operand] for operand in node[1:]])
            if node[0] == "mod":
                found = clipped(found, self._residue(node))
        else:
            found = (node, node)
        self.bounds[at] = clipped(found, self.facts.get(at))

    def _residue(self, node: Any) -> Interval | None:
        """What is known of a remainder from one by a multiple of the same divisor."""
        divisor = self.bounds[node[2]]
        if divisor[0] == divisor[1] and divisor[0] > 0:
            for modulus, rest in self.residues.get(node[1], ()):
                if modulus % divisor[0] == 0:
                    return (rest % divisor[0],) * 2
        return None

    def refine(self, at: int, known: Interval) -> None:
        """Takes down that a node is in an interval, and what follows for its operands."""
        left, news = [(at, known)], False
        while left:
            at, known = left.pop()
            before = self.facts.get(at)
            self.facts[at] = clipped(known, before)
            news = news or clipped(self.bounds[at], self.facts[at]) != self.bounds[at]
            node = self.nodes[at]
            if self.facts[at] != before and isinstance(node, tuple):
                if node[0] == "mod" and known[0] == known[1] and self.bounds[node[2]][0] == self.bounds[node[2]][1]:
                    self.residues.setdefault(node[1], []).append((int(self.bounds[node[2]][0]), int(known[0])))
                left += inverse(node, self.facts[at], self.bounds)
        for one in self.used if news else ():
            self._bound(one)

    def choose(self, at: int) -> bool:
        """Whether a node is true: decided by what is known, or else both ways, one path each."""
        low, high = self.bounds[at]
        if low > 0 or high < 0:
            return True
        if low == high == 0:
            return False
        order = len(self.chosen)
        if order >= MOST_CHOICES:
            raise self.refuse(f"the plan makes more than {MOST_CHOICES} choices by sizes")
        taken = True
        if order < len(self.prefix):
            expected, taken = self.prefix[order]
            if expected != at:
                raise self.refuse("the plan does not choose the same way twice")
        self.chosen.append((at, taken))
        self.assume(at, taken)
        return taken

    def assume(self, at: int, truth: bool) -> None:
        node = self.nodes[at]
        operation = node[0] if isinstance(node, tuple) else ""
        if operation == "not":
            self.assume(node[1], not truth)
        elif operation in COMPARED:
            self.refine(at, (int(truth), int(truth)))
            self._compared(operation if truth else OPPOSITE[operation], node[1], node[2])
            self._compared(COMPARED[operation if truth else OPPOSITE[operation]], node[2], node[1])
        elif not truth:
            self.refine(at, (0, 0))
        elif self.bounds[at][0] == 0:
            self.refine(at, (1, MOST))

    def _compared(self, operation: str, one: int, other: int) -> None:
        low, high = self.bounds[other]
        whole = all(isinstance(end, int) for end in (*self.bounds[one], low, high))
        step = 1 if whole else 0
        if operation == "eq":
            self.refine(one, (low, high))
        elif operation in ("lt", "le"):
            self.refine(one, (-MOST, high - (step if operation == "lt" else 0)))
        elif operation in ("gt", "ge"):
            self.refine(one, (low + (step if operation == "gt" else 0), MOST))
        elif low == high and whole:
            first, last = self.bounds[one]
            self.refine(one, (first + (first == low), last - (last == low)))

    def value_of(self, symbol: Symbol, why: str) -> int:
        """The number itself: every value that it can have is a path of its own."""
        if symbol.kind == "real":
            raise self.refuse(f"{why} depends on a fraction of sizes")
        while True:
            low, high = self.bounds[symbol.at]
            if low == high:
                return bool(low) if symbol.kind == "bool" else int(low)
            at = self._narrow(symbol.at)
            if at is None:
                raise self.refuse(f"{why} depends on sizes in more than {MOST_VALUES} ways")
            low, _ = self.bounds[at]
            if self.choose(self.node(("eq", at, self.node(int(low))))):
                self.refine(at, (low, low))

    def _narrow(self, at: int) -> int | None:
        """The number with few values that decides most about another one: itself, or what it is computed from. Of
        a power of two that is the exponent."""
        left, seen = [at], {at}
        while left:
            at = left.pop(0)
            low, high = self.bounds[at]
            if low != high and high - low < MOST_VALUES and isinstance(low, int) and isinstance(high, int):
                return at
            node = self.nodes[at]
            for operand in node[1:] if isinstance(node, tuple) and low != high else ():
                if operand not in seen:
                    seen.add(operand)
                    left.append(operand)
        return None


path = Path([], {}, {}, [])  # the one under way


def _kind(value: Any) -> str:
    if isinstance(value, Symbol):
        return value.kind
    return "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "real"


def _at(value: Any) -> int:
    if isinstance(value, Symbol):
        if value.at not in path.used:
            raise path.refuse("the plan keeps a number from one call to the next")
        return value.at
    if isinstance(value, float) and not math.isfinite(value):
        raise path.refuse("the plan computes with a number that is not finite")
    if not isinstance(value, float) and abs(value) > MOST:
        raise path.refuse("the plan computes with a number larger than any size")
    return path.node(value)


def _result(operation: str, operands: list[Any]) -> Any:
    kinds = [_kind(operand) for operand in operands]
    if operation in COMPARED or operation in ("not", "bool"):
        kind = "bool"
    elif operation in ("truediv", "float", "sqrt", "log2"):
        kind = "real"
    elif operation in ("int", "ceil", "floor", "bits"):
        kind = "int"
    elif operation in ("and", "or", "xor") and set(kinds) == {"bool"}:
        kind = "bool"
    else:
        kind = "real" if "real" in kinds else "int"
    at = path.node((operation, *(_at(operand) for operand in operands)))
    low, high = path.bounds[at]
    if low == high and kind != "real":
        return bool(low) if kind == "bool" else int(low)
    return Symbol(at, kind)


def apply(operation: str, *operands: Any) -> Any:
    """The number, or what an operation on it gives."""
    if not all(isinstance(operand, (Symbol, int, float)) for operand in operands):
        return NotImplemented
    return _result(operation, list(operands))


class Symbol:
    """A number that depends on sizes."""

    __slots__ = ("at", "kind")

    def __init__(self, at: int, kind: str) -> None:
        self.at, self.kind = at, kind

    def __bool__(self) -> bool:
        return path.choose(_at(self))

    def __index__(self) -> int:
        return path.value_of(self, "a loop or an index")

    def __int__(self) -> int:
        return path.value_of(self, "a number in a library's function")

    def __float__(self) -> float:
        return float(path.value_of(self, "a number in a library's function"))

    def __hash__(self) -> int:
        return hash(path.value_of(self, "a lookup"))

    def __str__(self) -> str:
        return str(path.value_of(self, "a kernel's name or a definition"))

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return format(path.value_of(self, "a kernel's name or a definition"), spec)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __round__(self, digits: Any = None) -> Any:
        if self.kind == "real" or digits is not None:
            raise path.refuse("round() of what depends on sizes: write // or math.ceil")
        return self

    def __ceil__(self) -> Any:
        return _result("ceil", [self]) if self.kind == "real" else self

    def __floor__(self) -> Any:
        return _result("floor", [self]) if self.kind == "real" else self

    def __trunc__(self) -> Any:
        return _result("int", [self])

    def __neg__(self) -> Any:
        return _result("neg", [self])

    def __pos__(self) -> Any:
        return _result("pos", [self])

    def __abs__(self) -> Any:
        return _result("abs", [self])

    def __invert__(self) -> Any:
        return _result("invert", [self])

    def bit_length(self) -> Any:
        return _result("bits", [self])

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise path.refuse("a copy of what depends on sizes")

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __copy__(self) -> Any:
        return self


def _install() -> None:
    def forward(operation: str) -> Any:
        return lambda self, other: apply(operation, self, other)

    def backward(operation: str) -> Any:
        return lambda self, other: apply(operation, other, self)

    for operation in ("add", "sub", "mul", "floordiv", "mod", "truediv", "pow", "and", "or", "xor", "lshift", "rshift"):
        setattr(Symbol, f"__{operation}__", forward(operation))
        setattr(Symbol, f"__r{operation}__", backward(operation))
    for operation in COMPARED:
        setattr(Symbol, f"__{operation}__", forward(operation))


_install()


def _extreme(operation: str) -> Any:
    plain = getattr(builtins, operation)

    def found(*values: Any, **options: Any) -> Any:
        given = list(values[0]) if len(values) == 1 else list(values)
        numbers = all(isinstance(value, (Symbol, int, float)) for value in given)
        if options or not given or not numbers or not any(isinstance(value, Symbol) for value in given):
            return plain(given, **options)
        best = given[0]
        for value in given[1:]:
            best = apply(operation, best, value)
        return best

    return found


def _type(plain: type, operation: str, kinds: tuple[str, ...]) -> type:
    """Stands for int, float or bool: converts, and is what isinstance asks for."""

    class Stand(type):
        def __call__(cls, *given: Any, **options: Any) -> Any:
            if len(given) == 1 and isinstance(given[0], Symbol):
                return given[0] if given[0].kind == kinds[0] else _result(operation, [given[0]])
            return plain(*given, **options)

        def __instancecheck__(cls, value: Any) -> bool:
            return value.kind in kinds if isinstance(value, Symbol) else isinstance(value, plain)

        def __getattr__(cls, name: str) -> Any:
            return getattr(plain, name)

    return Stand(plain.__name__, (), {})


REPLACED = {
    "min": _extreme("min"),
    "max": _extreme("max"),
    "int": _type(int, "int", ("int", "bool")),
    "float": _type(float, "float", ("real",)),
    "bool": _type(bool, "bool", ("bool",)),
}


def _math(name: str) -> Any:
    plain = getattr(math, name)

    def found(*given: Any) -> Any:
        if len(given) == 1 and isinstance(given[0], Symbol):
            return _result(name, [given[0]])
        return plain(*given)

    return found


MATH = {name: _math(name) for name in ("sqrt", "log2")}
