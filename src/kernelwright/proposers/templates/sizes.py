"""Writes symbolic sizes and numbers as expressions over a kernel's arguments, the same in C++ and CUDA."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

from kernelwright.proposers.templates.graph import (
    CannotExpressError,
    Convolution,
    ConvolutionInput,
    ConvolutionWeight,
    Extent,
    Formula,
    Graph,
    Node,
    Number,
    PoolBackward,
    PoolNode,
    Shape,
    total,
)
from kernelwright.proposers.templates.nests.index_maps import IndexTerm

MANY = 16  # sizes of which products are searched
_SIZE = re.compile(r"\{(\d+),(\d+)\}")  # in a closed form


@dataclass(frozen=True)
class Sizes:
    graph: Graph
    _found: dict[Extent, str] = field(default_factory=dict, compare=False)

    @cached_property
    def _closed(self) -> dict[Extent, str]:
        return dict(self.graph.closed)

    @cached_property
    def _runs(self) -> dict[Extent, Shape]:
        """Products of neighbouring dimensions of values."""
        found: dict[Extent, Shape] = {}
        for shape in dict.fromkeys(node.shape for node in self.graph.nodes):
            for low in range(len(shape)):
                for high in range(low + 2, len(shape) + 1):
                    run = tuple(extent for extent in shape[low:high] if not extent.single)
                    if len(run) > 1:
                        found.setdefault(total(run), run)
        return found

    @cached_property
    def _apart(self) -> dict[Extent, Shape]:
        """Products of dimensions that are not neighbours, as a batch norm reduces them."""
        found: dict[Extent, Shape] = {}
        for shape in dict.fromkeys(node.shape for node in self.graph.nodes):
            sizes = tuple(extent for extent in shape if not extent.single)
            for count in range(2, len(sizes)):
                for chosen in combinations(sizes, count):
                    found.setdefault(total(chosen), chosen)
        return found

    def expression(self, extent: Extent) -> str:
        """In terms of `tensor.size(d)`."""
        if extent.literal is not None:
            return str(extent.literal)
        if extent not in self._found:
            self._found[extent] = self._search(extent)
        return self._found[extent]

    def _search(self, extent: Extent) -> str:
        if extent in self.graph.unclear:
            raise CannotExpressError(f"{self.graph.task}: templates cannot tell sizes of {extent.first} apart")
        for known, text in self._known():
            if known == extent:
                return text
        if extent in self._closed:
            return _SIZE.sub(lambda s: self.expression(Extent(int(s[1]), int(s[2]))), self._closed[extent])
        if extent in self._runs:
            return " * ".join(self.expression(one) for one in self._runs[extent])
        for known, text in self._known():
            if known == Extent(extent.first + 1, extent.second + 1):  # the last place of a dimension
                return f"({text} - 1)"
        if extent in self._apart:
            return " * ".join(self.expression(one) for one in self._apart[extent])
        raise CannotExpressError(f"{self.graph.task}: templates cannot compute the size {extent.first} from arguments")

    def _known(self) -> Iterator[tuple[Extent, str]]:
        singles: dict[Extent, str] = {}
        for tensor in self.graph.tensors:
            for dim, extent in enumerate(tensor.shape):
                singles.setdefault(extent, f"{tensor.name}.size({dim})")
        yield from singles.items()
        for tensor in self.graph.tensors:
            for low in range(len(tensor.shape)):
                for high in range(low + 2, len(tensor.shape) + 1):
                    yield (
                        total(tensor.shape[low:high]),
                        " * ".join(f"{tensor.name}.size({d})" for d in range(low, high)),
                    )
        slid = dict(self._slid(singles))
        yield from slid.items()
        singles |= slid
        if len(singles) > MANY:
            return
        for count in (2, 3, 4):
            for chosen in combinations(singles.items(), count):
                yield total(tuple(extent for extent, _ in chosen)), " * ".join(text for _, text in chosen)

    def _slid(self, singles: dict[Extent, str]) -> Iterator[tuple[Extent, str]]:
        """Sizes of what a window leaves of a size, also of one that another window left."""
        known = dict(singles)
        for node in self.graph.nodes:
            for axis, (size, made) in enumerate(self._sizes_around(node)):
                if made not in known and size in known:
                    window = node.window  # type: ignore[attr-defined]
                    more = 2 * window.padding[axis] - window.dilation[axis] * (window.kernel[axis] - 1) - 1
                    known[made] = f"(({known[size]} + ({more})) / {window.stride[axis]} + 1)"
                    yield made, known[made]

    def _sizes_around(self, node: Node) -> list[tuple[Extent, Extent]]:
        """Height and width before and after the window of a node that has one."""
        shapes = [self.graph.nodes[place].shape for place in node.inputs]
        match node:
            case PoolNode() | Convolution():
                before, after = shapes[0], node.shape
            case PoolBackward() | ConvolutionInput():
                before, after = node.shape, shapes[0]
            case ConvolutionWeight():
                before, after = shapes[1], shapes[0]
            case _:
                return []
        return list(zip(before[-2:], after[-2:], strict=True))

    def term(self, term: IndexTerm) -> str:
        """A whole number that follows from sizes alone."""
        match term:
            case int():
                return str(term) if term >= 0 else f"({term})"
            case Extent():
                text = self.expression(term)
                return text if text.isdigit() else f"({text})"
        return f"({self.term(term.operands[0])} {term.operator} {self.term(term.operands[1])})"

    def number(self, value: Number) -> str:
        """As a double."""
        match value:
            case bool():
                return "1.0" if value else "0.0"
            case Extent():
                return f"static_cast<double>({self.expression(value)})"
            case Formula():
                return self._formula(value)
            case str():
                return value
        return number_text(float(value))

    def _formula(self, formula: Formula) -> str:
        operands = [self.number(operand) for operand in formula.operands]
        match formula.operator:
            case "neg":
                return f"(-{operands[0]})"
            case "pow":
                return f"std::pow({operands[0]}, {operands[1]})"
        return f"({operands[0]} {formula.operator} {operands[1]})"


def number_text(value: float) -> str:
    if value != value:
        return "std::numeric_limits<double>::quiet_NaN()"
    if value in (float("inf"), float("-inf")):
        sign = "-" if value < 0 else ""
        return f"{sign}std::numeric_limits<double>::infinity()"
    return repr(value)
