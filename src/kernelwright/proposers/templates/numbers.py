"""Floats that remember how they came from scalar arguments, so that a kernel computes them from its arguments.

A reference does arithmetic on its scalars in Python (`1 - beta2**step`) before torch sees a plain number. While it
is traced the scalars are `TracedFloat`: every result of arithmetic is noted with its formula, and the number that
appears in the graph is looked up by value.
"""

from __future__ import annotations

from typing import Any

from kernelwright.proposers.templates.graph import Formula

Term = Formula | str | float


class Ledger:
    """Which formula produced which value. Values are drawn so that no two formulas meet by chance."""

    def __init__(self) -> None:
        self._terms: dict[float, Term] = {}

    def argument(self, name: str, value: float) -> TracedFloat:
        return self.note(value, name)

    def note(self, value: float, term: Term) -> TracedFloat:
        self._terms.setdefault(value, term)
        return TracedFloat(value, term, self)

    def term(self, value: float) -> Term | None:
        return self._terms.get(value)


def _term(value: Any) -> Term | None:
    if isinstance(value, TracedFloat):
        return value.term
    return float(value) if isinstance(value, int | float) else None


class TracedFloat(float):
    term: Term
    ledger: Ledger

    def __new__(cls, value: float, term: Term, ledger: Ledger) -> TracedFloat:
        made = super().__new__(cls, value)
        made.term = term
        made.ledger = ledger
        return made

    def _combined(self, operator: str, left: Any, right: Any, value: Any) -> Any:
        first, second = _term(left), _term(right)
        if value is NotImplemented or first is None or second is None or not isinstance(value, float):
            return value
        return self.ledger.note(value, Formula(operator, (first, second)))

    def __add__(self, other: Any) -> Any:
        return self._combined("+", self, other, float.__add__(self, other))

    def __radd__(self, other: Any) -> Any:
        return self._combined("+", other, self, float.__radd__(self, other))

    def __sub__(self, other: Any) -> Any:
        return self._combined("-", self, other, float.__sub__(self, other))

    def __rsub__(self, other: Any) -> Any:
        return self._combined("-", other, self, float.__rsub__(self, other))

    def __mul__(self, other: Any) -> Any:
        return self._combined("*", self, other, float.__mul__(self, other))

    def __rmul__(self, other: Any) -> Any:
        return self._combined("*", other, self, float.__rmul__(self, other))

    def __truediv__(self, other: Any) -> Any:
        return self._combined("/", self, other, float.__truediv__(self, other))

    def __rtruediv__(self, other: Any) -> Any:
        return self._combined("/", other, self, float.__rtruediv__(self, other))

    def __pow__(self, other: Any, modulus: None = None) -> Any:
        return self._combined("pow", self, other, float.__pow__(self, other))

    def __rpow__(self, other: Any, modulus: None = None) -> Any:
        return self._combined("pow", other, self, float.__rpow__(self, other))

    def __neg__(self) -> Any:
        return self.ledger.note(float.__neg__(self), Formula("neg", (self.term,)))
