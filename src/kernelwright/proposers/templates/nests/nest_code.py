"""Writes the value of one element as C++ that g++ and the CUDA compiler both take: loops, guards and index arithmetic.

Everything between an element and the tensors in memory is written out where it is used; a value that is asked for
twice at the same index in the same block of code is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from kernelwright.proposers.templates.graph import (
    Broadcast,
    CannotExpressError,
    Constant,
    Extent,
    Gather,
    Graph,
    Node,
    Number,
    Permute,
    Pointwise,
    Position,
    Reduce,
    Shape,
    ViewNode,
)
from kernelwright.proposers.templates.nests.index_maps import Index, IndexMap, IndexValue, Join
from kernelwright.tasks.dtypes import NARROW

CHUNK = 128  # terms of a sum that share an accumulator before it is added to the whole
COMPUTED = {"float32": "float", **dict.fromkeys(NARROW, "float"), "float64": "double", "bool": "bool"}
_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "logical_and": "&&", "logical_or": "||", "logical_xor": "!="}
_INFIX |= {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}
_INFIX |= {"bitwise_left_shift": "<<", "bitwise_right_shift": ">>"}
_COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_SPELLED = {
    "neg": "-{0}",
    "reciprocal": "T(1) / {0}",
    "rsqrt": "T(1) / nest_sqrt({0})",
    "relu": "nest_most({0}, T(0))",
    "sigmoid": "T(1) / (T(1) + nest_exp(-{0}))",
    "maximum": "nest_most<T>({0}, {1})",
    "minimum": "nest_least<T>({0}, {1})",
    "logical_not": "!({0})",
    "bitwise_not": "~{0}",
    "where": "{0} ? {1} : {2}",
    "div_floor": "nest_floor_div({0}, {1})",
    "div_trunc": "nest_trunc_div({0}, {1})",
    "sign": "nest_sign({0})",
    "fmax": "{1} != {1} ? {0} : {0} >= {1} || {0} != {0} && {1} != {1} ? {0} : {1}",
    "fmin": "{1} != {1} ? {0} : {0} <= {1} || {0} != {0} && {1} != {1} ? {0} : {1}",
}


def computed(dtype: str) -> str:
    """The type in which values of a dtype are computed."""
    return COMPUTED.get(dtype, "long long")


@dataclass(frozen=True)
class NestTarget:
    """What differs between C++ and CUDA."""

    load: Callable[[int, str], str]  # a held node and the number of an element
    size: Callable[[Extent], str]
    number: Callable[[Number, str], str]  # in a type
    index: str  # the type of indices


@dataclass
class NestCode:
    graph: Graph
    held: Mapping[int, str]
    target: NestTarget
    lines: list[str] = field(default_factory=list)
    known: dict[Any, str] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=count)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """What is computed inside is not known behind it."""
        before = dict(self.known)
        self.lines.append(f"{head} {{")
        start = len(self.lines)
        yield
        self.lines[start:] = [f"  {line}" for line in self.lines[start:]]
        self.lines.append("}")
        self.known = before

    def named(self, kind: str, text: str, prefix: str = "v") -> str:
        if (kind, text) not in self.known:
            name = f"{prefix}{next(self.numbers)}"
            self.lines.append(f"const {kind} {name} = {text};")
            self.known[kind, text] = name
        return self.known[kind, text]

    def linear(self, shape: Shape, at: tuple[str, ...]) -> str:
        text = "0"
        for extent, one in zip(shape, at, strict=True):
            if text == "0":
                text = one
            elif not extent.single:
                text = f"({text} * {self.target.size(extent)} + {one})"
        return text

    def split(self, linear: str, shape: Shape) -> tuple[str, ...]:
        """The index of an element of that number."""
        at: list[str] = []
        varying = [dim for dim, extent in enumerate(shape) if not extent.single]
        for dim in reversed(range(len(shape))):
            if shape[dim].single:
                at.insert(0, "0")
            elif dim == varying[0]:
                at.insert(0, self.simple(linear))
            else:
                size = self.target.size(shape[dim])
                linear = self.simple(linear)
                at.insert(0, self.named(self.target.index, f"{linear} % {size}", "i"))
                linear = f"{linear} / {size}"
        return tuple(at)

    def simple(self, text: str) -> str:
        """A name for an index, if it is not one already."""
        return text if text.isidentifier() or text.isdigit() else self.named(self.target.index, text, "i")

    def value(self, place: int, at: tuple[str, ...]) -> str:
        key = (place, at)
        if key not in self.known:
            self.known[key] = self._value(place, self.graph.nodes[place], at)
        return self.known[key]

    def _value(self, place: int, node: Node, at: tuple[str, ...]) -> str:
        kind = computed(node.dtype)
        if place in self.held:
            number = self.simple(self.linear(node.shape, at))
            return self.named(kind, self.target.load(place, number))
        match node:
            case Constant():
                return self.target.number(node.value, kind)
            case Broadcast():
                return self.value(node.inputs[0], self._narrowed(node.inputs[0], at))
            case ViewNode():
                return self.value(node.inputs[0], self._viewed(node, at))
            case Permute():
                turned = dict(zip(node.dims, at, strict=True))
                return self.value(node.inputs[0], tuple(turned[dim] for dim in range(len(at))))
            case Position():
                return at[-1]
            case IndexValue():
                return self.named(kind, self.term(node, node.index, at))
            case Gather():
                index = self.value(node.inputs[1], at)
                size = self.target.size(self.graph.nodes[node.inputs[0]].shape[-1])
                return self.value(node.inputs[0], (*at[:-1], self._wrapped(index, size)))
            case IndexMap():
                return self._mapped(node, at)
            case Join():
                return self._joined(node, at)
            case Pointwise():
                return self._pointwise(node, at)
            case Reduce():
                return self.reduced(node, at)
        raise CannotExpressError(f"{self.graph.task}: no template covers {type(node).__name__.lower()} here")

    def _narrowed(self, place: int, at: tuple[str, ...]) -> tuple[str, ...]:
        shape = self.graph.nodes[place].shape
        return tuple("0" if e.single else one for e, one in zip(shape, at[len(at) - len(shape) :], strict=True))

    def _viewed(self, node: ViewNode, at: tuple[str, ...]) -> tuple[str, ...]:
        """Dimension by dimension where both shapes agree; the others by the number of the element."""
        shape, given = node.shape, self.graph.nodes[node.inputs[0]].shape
        found: list[str] = []
        for outs, ins in matched(shape, given):
            own = [dim for dim in ins if not given[dim].single]
            new = [dim for dim in outs if not shape[dim].single]
            if len(own) == 1 and len(new) == 1 and given[own[0]] == shape[new[0]]:
                part = tuple(at[new[0]] if dim == own[0] else "0" for dim in ins)
            else:
                linear = self.linear(tuple(shape[d] for d in outs), tuple(at[d] for d in outs))
                part = self.split(linear, tuple(given[d] for d in ins))
            found += part
        return tuple(found)

    def _wrapped(self, index: str, size: str) -> str:
        return self.named(self.target.index, f"{index} < 0 ? {index} + {size} : {index}", "i")

    def term(self, node: Node, term: Any, at: tuple[str, ...]) -> str:
        match term:
            case bool() | int():
                return str(int(term)) if term >= 0 else f"({term})"
            case Extent():
                return self.target.size(term)
        assert isinstance(term, Index)
        if term.operator == "i":
            return str(at[term.operands[0]])
        if term.operator == "value":
            which, where, size = term.operands
            index = self.value(node.inputs[which], tuple(self.simple(self.term(node, one, at)) for one in where))
            return self._wrapped(index, self.term(node, size, at))
        texts = [self.term(node, operand, at) for operand in term.operands]
        if term.operator in ("min", "max"):
            return f"nest_{term.operator}<{self.target.index}>({', '.join(texts)})"
        return f"({texts[0]} {term.operator} {texts[1]})"

    def _mapped(self, node: IndexMap, at: tuple[str, ...]) -> str:
        if node.guard is None:
            return self.value(node.inputs[0], tuple(self.simple(self.term(node, one, at)) for one in node.at))
        kind = computed(node.dtype)
        name = f"v{next(self.numbers)}"
        self.lines.append(f"{kind} {name} = {self.target.number(node.fill, kind)};")
        with self.block(f"if ({self.term(node, node.guard, at)})"):
            inner = self.value(node.inputs[0], tuple(self.simple(self.term(node, one, at)) for one in node.at))
            self.lines.append(f"{name} = {inner};")
        return name

    def _joined(self, node: Join, at: tuple[str, ...]) -> str:
        kind = computed(node.dtype)
        name = f"v{next(self.numbers)}"
        self.lines.append(f"{kind} {name} = 0;")
        offset = "0"
        for number, place in enumerate(node.inputs):
            size = self.target.size(self.graph.nodes[place].shape[node.dim])
            end = size if offset == "0" else f"{offset} + {size}"
            last = number + 1 == len(node.inputs)
            head = "else" if last else f"{'else ' if number else ''}if ({at[node.dim]} < {end})"
            with self.block(head):
                shifted = at[node.dim] if offset == "0" else self.simple(f"{at[node.dim]} - ({offset})")
                moved = (*at[: node.dim], shifted, *at[node.dim + 1 :])
                self.lines.append(f"{name} = {self.value(place, self._narrowed(place, moved))};")
            offset = end
        return name

    def _pointwise(self, node: Pointwise, at: tuple[str, ...]) -> str:
        kind = computed(node.dtype)
        given = [self.value(place, self._narrowed(place, at)) for place in node.inputs]
        kinds = [computed(self.graph.nodes[place].dtype) for place in node.inputs]
        return self.named(kind, pointwise_text(node.operation, given, kinds, kind))

    def reduced(self, node: Reduce, at: tuple[str, ...]) -> str:
        """In place, by loops of this thread alone."""
        fold = Fold(node, self.graph.nodes[node.inputs[0]].dtype)
        names = fold.begin(self, f"{next(self.numbers)}")
        with self.loops(node) as inner:
            self.take_term(node, fold, names, at, inner)
        return fold.end(self, names)

    def _full(self, node: Reduce, at: tuple[str, ...], inner: tuple[str, ...]) -> tuple[str, ...]:
        kept, reduced = iter(at), iter(inner)
        shape = self.graph.nodes[node.inputs[0]].shape
        return tuple(next(reduced) if dim in node.dims else next(kept) for dim in range(len(shape)))

    def take_term(
        self, node: Reduce, fold: Fold, names: tuple[str, ...], at: tuple[str, ...], inner: tuple[str, ...]
    ) -> None:
        """The term of the result at `at` that has the index `inner` among the reduced dimensions."""
        shape = self.graph.nodes[node.inputs[0]].shape
        number = self.linear(tuple(shape[dim] for dim in node.dims), inner) if fold.places else ""
        fold.take(self, names, self.value(node.inputs[0], self._full(node, at, inner)), number)

    @contextmanager
    def loops(self, node: Reduce) -> Iterator[tuple[str, ...]]:
        """Nested over the reduced dimensions; yields their indices."""
        shape = self.graph.nodes[node.inputs[0]].shape
        names = {dim: f"r{next(self.numbers)}" for dim in node.dims if not shape[dim].single}
        starts: list[tuple[int, dict[Any, str]]] = []
        for dim, name in names.items():
            head = f"for ({self.target.index} {name} = 0; {name} < {self.target.size(shape[dim])}; ++{name}) {{"
            self.lines.append(head)
            starts.append((len(self.lines), dict(self.known)))
        yield tuple(names.get(dim, "0") for dim in node.dims)
        for start, known in reversed(starts):
            self.lines[start:] = [f"  {line}" for line in self.lines[start:]]
            self.lines.append("}")
            self.known = known


@dataclass(frozen=True)
class Fold:
    """How a reduction takes one value after another. Long sums have an accumulator for each stretch of terms."""

    node: Reduce
    dtype: str  # of what is reduced

    @property
    def places(self) -> bool:
        return self.node.operation.startswith("arg")

    @property
    def kind(self) -> str:
        return computed(self.dtype if self.places else self.node.dtype)

    @property
    def start(self) -> str:
        sums = {"sum": "0", "prod": "1", "any": "false", "all": "true"}
        if self.node.operation in sums:
            return sums[self.node.operation]
        return f"nest_{'lowest' if self.node.operation.endswith('max') else 'highest'}<{self.kind}>()"

    def begin(self, code: NestCode, tag: str) -> tuple[str, ...]:
        code.lines.append(f"{self.kind} a{tag} = {self.start};")
        if self.places:
            code.lines.append(f"long long p{tag} = -1;")
            return f"a{tag}", f"p{tag}"
        if self._stretched:
            code.lines.append(f"{self.kind} b{tag} = 0;")
            code.lines.append(f"int n{tag} = 0;")
            return f"a{tag}", f"b{tag}", f"n{tag}"
        return (f"a{tag}",)

    @property
    def _stretched(self) -> bool:
        return self.node.operation == "sum" and self.kind in ("float", "double")

    def take(self, code: NestCode, names: tuple[str, ...], value: str, place: str) -> None:
        if self.places:
            code.lines.append(
                f"if ({names[1]} < 0 || {self.better(value, names[0])}) {names[0]} = {value}, {names[1]} = {place};"
            )
        elif self._stretched:
            code.lines.append(f"{names[1]} += {value};")
            code.lines.append(f"if (++{names[2]} == {CHUNK}) {names[0]} += {names[1]}, {names[1]} = 0, {names[2]} = 0;")
        else:
            code.lines.append(f"{names[0]} = {self.join(names[0], value)};")

    def better(self, one: str, other: str) -> str:
        """Whether `one`, which comes later, is the extreme so far; a NaN is, and stays it."""
        sign = ">" if self.node.operation == "argmax" else "<"
        return f"({one} {sign} {other} || ({one} != {one} && {other} == {other}))"

    def join(self, one: str, other: str) -> str:
        match self.node.operation:
            case "sum":
                return f"{one} + {other}"
            case "prod":
                return f"{one} * {other}"
            case "any":
                return f"{one} || {other}"
            case "all":
                return f"{one} && {other}"
            case "max":
                return f"nest_most<{self.kind}>({one}, {other})"
        return f"nest_least<{self.kind}>({one}, {other})"

    def end(self, code: NestCode, names: tuple[str, ...]) -> str:
        if self.places:
            return names[1]
        return code.named(self.kind, f"{names[0]} + {names[1]}") if self._stretched else names[0]


def pointwise_text(operation: str, given: list[str], kinds: list[str], kind: str) -> str:
    if operation in _COMPARED:
        return f"{given[0]} {_COMPARED[operation]} {given[1]}"
    if operation in ("isnan", "isinf"):
        return f"nest_{operation}({given[0]})"
    first = kinds.copy()
    cast = [
        text if own == kind or (operation == "where" and n == 0) else f"static_cast<{kind}>({text})"
        for n, (text, own) in enumerate(zip(given, first, strict=True))
    ]
    if operation == "convert":
        return f"{given[0]} != 0" if kind == "bool" and kinds[0] != "bool" else cast[0]
    if kind == "bool" and operation.startswith("logical"):
        cast = [text if own == "bool" else f"({text} != 0)" for text, own in zip(given, kinds, strict=True)]
    if operation in _INFIX:
        joined = f"{cast[0]} {_INFIX[operation]} {cast[1]}"
        return joined if kind != "bool" or operation.startswith(("logical", "bitwise")) else f"({joined}) != 0"
    if operation in _SPELLED:
        return _SPELLED[operation].format(*cast).replace("T(", f"{kind}(").replace("<T>", f"<{kind}>")
    return f"nest_{operation}({', '.join(cast)})"


def matched(shape: Shape, given: Shape) -> list[tuple[list[int], list[int]]]:
    """Runs of dimensions of both shapes with as many elements; sizes of one go with the run before."""
    runs: list[tuple[list[int], list[int]]] = []
    out, inn = 0, 0
    while out < len(shape) or inn < len(given):
        outs, ins = [], []
        a, b = Extent(1, 1), Extent(1, 1)
        if out < len(shape):
            a, outs, out = shape[out], [out], out + 1
        if inn < len(given):
            b, ins, inn = given[inn], [inn], inn + 1
        while a != b:
            if (a.first < b.first or inn >= len(given)) and out < len(shape):
                a, outs, out = a * shape[out], [*outs, out], out + 1
            elif inn < len(given):
                b, ins, inn = b * given[inn], [*ins, inn], inn + 1
            else:
                break
        runs.append((outs, ins))
    return runs
