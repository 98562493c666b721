"""How sizes and numbers follow from the sizes of arguments, from a third trace in which sizes are symbols.

The two traces of trace.py say what a number is at two choices of sizes; this one says why. Where torch cannot trace
with symbols, or does something else then, there is nothing to learn, and trace.py does with what it knows itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx

from kernelwright.proposers.templates.graph import Extent, Formula

TracedNodes = Sequence[torch.fx.Node]


@dataclass
class ClosedForms:
    """By what a number is in the two traces: C++ for a size, a formula for another number."""

    sizes: dict[Extent, str] = field(default_factory=dict)
    numbers: dict[tuple[float, float], Formula] = field(default_factory=dict)
    ambiguous: set[Extent] = field(default_factory=set)  # two sizes that are the same in both traces
    expressions: dict[Extent, Any] = field(default_factory=dict)


def tensor_operations(nodes: TracedNodes) -> list[torch.fx.Node]:
    """Without arithmetic on sizes, and without slices that leave everything, which only a trace with symbols has."""
    kept = (n for n in nodes if n.op == "call_function" and not _counts(n.meta.get("val")))
    return [n for n in kept if not _whole_slice(n)]


def _whole_slice(node: torch.fx.Node) -> bool:
    if node.target is not torch.ops.aten.slice.Tensor or not isinstance(node.args[0], torch.fx.Node):
        return False
    sizes = [[str(size) for size in one.meta["val"].shape] for one in (node, node.args[0])]
    return sizes[0] == sizes[1]


def _counts(value: Any) -> bool:
    return isinstance(value, int | float | torch.SymInt | torch.SymFloat | torch.SymBool)


def closed_forms(trace: Callable[[], TracedNodes], first: TracedNodes, second: TracedNodes) -> ClosedForms:
    """`trace` makes the third trace; the others are those with sizes."""
    found = ClosedForms()
    try:
        with _quiet():
            third = trace()
    except Exception:  # whatever torch cannot do with symbols, the other traces stand without it
        return found
    lists = [tensor_operations(nodes) for nodes in (first, second, third)]
    if len({tuple(str(node.target) for node in nodes) for nodes in lists}) != 1:
        return found
    symbols = dict(_symbols(first, second, third))
    for one, other, symbolic in zip(*lists, strict=True):
        for a, b, s in _numbers(one, other, symbolic):
            _learn(found, a, b, s, symbols)
    return found


@contextmanager
def _quiet() -> Iterator[None]:
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def _symbols(first: TracedNodes, second: TracedNodes, third: TracedNodes) -> Iterator[tuple[Any, Extent]]:
    """What each symbol stands for: the size of an argument."""
    places = [[node for node in nodes if node.op == "placeholder"] for nodes in (first, second, third)]
    for one, other, symbolic in zip(*places, strict=True):
        for a, b, s in zip(*(node.meta["val"].shape for node in (one, other, symbolic)), strict=True):
            if isinstance(s, torch.SymInt) and s.node.expr.is_Symbol:
                yield s.node.expr, Extent(int(a), int(b))


def _numbers(one: torch.fx.Node, other: torch.fx.Node, symbolic: torch.fx.Node) -> Iterator[tuple[Any, Any, Any]]:
    shapes = [_shapes(node.meta.get("val")) for node in (one, other, symbolic)]
    yield from zip(*shapes, strict=False)
    yield from _pairs(one.args, other.args, symbolic.args)
    for name, value in one.kwargs.items():
        yield from _pairs(value, other.kwargs.get(name), symbolic.kwargs.get(name))


def varying(one: torch.fx.Node, other: torch.fx.Node) -> Iterator[tuple[float, float]]:
    """Sizes and numbers of an operation that are not the same in two traces."""
    for a, b, _ in _numbers(one, other, one):
        if isinstance(a, int | float) and isinstance(b, int | float) and a != b and a == a:
            yield a, b


def _shapes(value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return list(value.shape)
    return [size for one in value for size in _shapes(one)] if isinstance(value, list | tuple) else []


def _pairs(one: Any, other: Any, symbolic: Any) -> Iterator[tuple[Any, Any, Any]]:
    if isinstance(one, list | tuple):
        if isinstance(symbolic, list | tuple) and len(symbolic) == len(one) == len(other):
            for parts in zip(one, other, symbolic, strict=True):
                yield from _pairs(*parts)
    elif isinstance(one, int | float) and not isinstance(one, bool):
        yield one, other, symbolic.meta.get("val") if isinstance(symbolic, torch.fx.Node) else symbolic


def _learn(found: ClosedForms, one: Any, other: Any, symbolic: Any, symbols: dict[Any, Extent]) -> None:
    if one == other or not isinstance(symbolic, torch.SymInt | torch.SymFloat):
        return
    fixed = {symbol: extent.literal for symbol, extent in symbols.items() if extent.literal is not None}
    expression = symbolic.node.expr.subs(fixed)
    if any(symbol not in symbols for symbol in expression.free_symbols):
        return
    for which, value in (("first", one), ("second", other)):
        at = {symbol: getattr(symbols[symbol], which) for symbol in expression.free_symbols}
        if abs(float(expression.subs(at)) - value) > 1e-12 * abs(value):
            return
    if isinstance(symbolic, torch.SymInt):
        text, extent = whole_text(expression, symbols), Extent(int(one), int(other))
        if not _agree(found.expressions.setdefault(extent, expression), expression):
            found.ambiguous.add(extent)
        if text is not None:
            found.sizes.setdefault(extent, text)
    else:
        formula = _formula(expression, symbols)
        if isinstance(formula, Formula):
            found.numbers.setdefault((float(one), float(other)), formula)


def _agree(one: Any, other: Any) -> bool:
    """At sizes of every kind: what is equal there is the same."""
    if one == other:
        return True
    symbols = sorted(one.free_symbols | other.free_symbols, key=str)
    points = ([start + step * number for number in range(len(symbols))] for start in range(40, 56) for step in (7, 12))
    return all(one.subs(at) == other.subs(at) for at in (dict(zip(symbols, p, strict=True)) for p in points))


def whole_text(expression: Any, symbols: dict[Any, Extent]) -> str | None:
    """As C++ with `{first,second}` for each size; "/" is whole division of what is not negative."""
    if expression.is_Integer:
        return f"({expression})" if expression < 0 else str(expression)
    if expression.is_Symbol:
        extent = symbols[expression]
        return f"{{{extent.first},{extent.second}}}"
    parts = [whole_text(part, symbols) for part in expression.args]
    if any(part is None for part in parts):
        return None
    texts = [part for part in parts if part is not None]
    match type(expression).__name__:
        case "Add":
            return f"({' + '.join(texts)})"
        case "Mul":
            return f"({' * '.join(texts)})"
        case "Pow" if expression.args[1].is_Integer and expression.args[1] > 0:
            return f"({' * '.join([texts[0]] * int(expression.args[1]))})"
        case "FloorDiv" | "CleanDiv":
            sample = expression.args[0].subs({symbol: extent.first for symbol, extent in symbols.items()})
            if sample < 0:
                return f"(-((-{texts[0]} + {texts[1]} - 1) / {texts[1]}))"
            return f"({texts[0]} / {texts[1]})"
        case "Mod" | "PythonMod":
            return f"({texts[0]} % {texts[1]})"
    return None


def _formula(expression: Any, symbols: dict[Any, Extent]) -> Formula | Extent | float | None:
    if expression.is_number:
        return float(expression)
    if expression.is_Symbol:
        return symbols[expression]
    parts = [_formula(part, symbols) for part in expression.args]
    if any(part is None for part in parts):
        return None
    given = [part for part in parts if part is not None]
    operator = {"Add": "+", "Mul": "*", "Pow": "pow", "FloatPow": "pow", "PowByNatural": "pow", "FloatTrueDiv": "/"}
    operator |= {"IntTrueDiv": "/", "ToFloat": "float", "OpaqueUnaryFn_sqrt": "sqrt", "FloorDiv": "floor_div"}
    known = operator.get(type(expression).__name__)
    if known is None or known == "floor_div":
        return None
    if known == "float":
        return given[0]
    if known == "sqrt":
        return Formula("pow", (given[0], 0.5))
    made: Any = given[0]
    for part in given[1:]:
        made = Formula(known, (made, part))
    return made if isinstance(made, Formula) else None
