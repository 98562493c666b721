"""Sums of products of two operands whose subscripts are affine: stacks of matrix products, einsum, convolutions of any
rank, grouped, transposed or dilated, and their gradients.

The pattern says nothing of how: an axis is shared by both operands ("batch"), belongs to one of them ("first",
"second"), or is summed over ("depth"). Matrix products are the case without windows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kernelwright.proposers.templates.graph import (
    ONE,
    Broadcast,
    Extent,
    Graph,
    Permute,
    Pointwise,
    Shape,
    ViewNode,
    total,
)
from kernelwright.proposers.templates.nests.index_maps import Contraction, Index, IndexMap, IndexTerm, size_of
from kernelwright.proposers.templates.nests.nest_code import matched
from kernelwright.proposers.templates.patterns.nests import NestStep
from kernelwright.proposers.templates.patterns.rows import RowProgram


@dataclass(frozen=True)
class Axis:
    """One dimension of the space: those of the result in its order, then those that are summed over."""

    extent: Extent
    role: str  # "batch", "first", "second" or "depth"


@dataclass(frozen=True)
class Subscript:
    """The place along one dimension of an operand: (sum of coefficient × index + constant) / divisor.

    Where that is not a whole number, or is outside the dimension, there is no term: it adds nothing, whatever the
    other operand holds. `guarded` tells that this can happen.
    """

    terms: tuple[tuple[int, Extent], ...]  # axis and coefficient
    constant: int
    divisor: int
    size: Extent
    guarded: bool

    def coefficient(self, axis: int) -> Extent | None:
        return dict(self.terms).get(axis)


@dataclass(frozen=True)
class ContractionOperand:
    """`node` lies in memory in row-major order; there is a subscript for each dimension of a view of its elements."""

    node: int
    dtype: str
    subscripts: tuple[Subscript, ...]

    @property
    def axes(self) -> set[int]:
        return {axis for subscript in self.subscripts for axis, _ in subscript.terms}

    @property
    def guarded(self) -> bool:
        return any(s.guarded or s.divisor != 1 for s in self.subscripts)

    @property
    def slides(self) -> bool:
        """Whether a dimension is read at a sum of indices, as windows and groups are."""
        return self.guarded or any(len(s.terms) > 1 for s in self.subscripts)


@dataclass(frozen=True)
class ContractionForm:
    axes: tuple[Axis, ...]
    operands: tuple[ContractionOperand, ContractionOperand]
    dtype: str

    def of(self, role: str) -> tuple[int, ...]:
        return tuple(number for number, axis in enumerate(self.axes) if axis.role == role)

    def extent(self, axes: tuple[int, ...]) -> Extent:
        return total(tuple(self.axes[axis].extent for axis in axes))

    @property
    def kept(self) -> tuple[int, ...]:
        """The axes of the result."""
        return tuple(number for number, axis in enumerate(self.axes) if axis.role != "depth")

    @property
    def behind(self) -> int:
        """The first axis of the last run of axes of one operand: a row of the result goes from there."""
        kept = self.kept
        start = len(kept)
        while start and self.axes[kept[start - 1]].role == self.axes[kept[-1]].role:
            start -= 1
        return start

    @property
    def shape(self) -> tuple[Extent, Extent]:
        """Rows and columns, as programs that follow see the result."""
        extents = tuple(self.axes[axis].extent for axis in self.kept)
        return total(extents[: self.behind]), total(extents[self.behind :])


@dataclass(frozen=True)
class ContractionStep:
    """`nest` is the same step as a loop over elements, for renderers that know no better; `apart` is all of it."""

    form: ContractionForm
    first: str
    second: str
    output: str
    nest: NestStep
    epilogue: RowProgram | None = None
    pattern: ClassVar[str] = "contraction"


def recognise_contraction(graph: Graph, place: int) -> ContractionForm | None:
    node = graph.nodes[place]
    if not isinstance(node, Contraction) or node.operation != "sum" or not node.dtype.startswith(("float", "bfloat")):
        return None
    product = graph.nodes[node.inputs[0]]
    if not isinstance(product, Pointwise) or product.operation != "mul" or len(product.inputs) != 2:
        return None
    if node.dims != tuple(range(len(product.shape) - len(node.dims), len(product.shape))):
        return None
    operands = [_operand(graph, place, product.shape, deep=True) for place in product.inputs]
    if any(operand is not None and operand.slides for operand in operands):
        operands = [_operand(graph, place, product.shape, deep=False) for place in product.inputs]
    if operands[0] is None or operands[1] is None:
        return None
    axes = _axes(product.shape, len(node.shape), operands[0], operands[1])
    return None if axes is None else ContractionForm(axes, (operands[0], operands[1]), node.dtype)


def _axes(space: Shape, kept: int, first: ContractionOperand, second: ContractionOperand) -> tuple[Axis, ...] | None:
    """None where an operand alone is summed over an axis."""
    axes = []
    for number, extent in enumerate(space):
        reads = (number in first.axes, number in second.axes)
        if number >= kept:
            if not all(reads) and not extent.single:
                return None
            axes.append(Axis(extent, "depth"))
        elif all(reads):
            axes.append(Axis(extent, "batch"))
        else:
            axes.append(Axis(extent, "second" if reads[1] else "first"))
    return tuple(axes)


@dataclass(frozen=True)
class _Affine:
    terms: Mapping[int, Extent]
    constant: int = 0
    divisor: int = 1

    def plus(self, other: _Affine, sign: int = 1) -> _Affine | None:
        if self.divisor != 1 or other.divisor != 1:
            return None
        terms = dict(self.terms)
        for axis, coefficient in other.terms.items():
            own = terms.get(axis, Extent(0, 0))
            terms[axis] = Extent(own.first + sign * coefficient.first, own.second + sign * coefficient.second)
        return _Affine(
            {axis: c for axis, c in terms.items() if c != Extent(0, 0)}, self.constant + sign * other.constant
        )

    def times(self, factor: Extent) -> _Affine | None:
        if self.divisor != 1 or (self.constant and factor.literal is None):
            return None
        return _Affine({axis: c * factor for axis, c in self.terms.items()}, self.constant * factor.first)


def _operand(graph: Graph, place: int, space: Shape, *, deep: bool) -> ContractionOperand | None:
    """Down to the value whose elements lie in memory, through whatever only moves them; not `deep`, through one step.

    A window keeps the form that lowering gave it, which renderers know, and what was moved before it is stored.

    None where the step into the space itself is not affine: all of the space would have to be stored.
    """
    start = place
    at: list[_Affine] = [_Affine({} if e.single else {axis: ONE}) for axis, e in enumerate(space)]
    guarded: frozenset[int] = frozenset()
    node = graph.nodes[place]
    # A guard is about the dimensions of the very value that it guards, so nothing below it is looked through.
    form = space
    while isinstance(node, IndexMap | Permute | Broadcast | ViewNode) and not guarded and (deep or place == start):
        shape = graph.nodes[node.inputs[0]].shape
        if isinstance(node, ViewNode):
            below = graph.nodes[node.inputs[0]]
            order = _under_view(form, below) if isinstance(below, Permute) else None
            if order is None:
                break
            place, node = below.inputs[0], graph.nodes[below.inputs[0]]
            at, form = [at[dim] for dim in order], tuple(form[dim] for dim in order)
            break
        if isinstance(node, IndexMap):
            mapped = _mapped(node, at, shape)
            if mapped is None:
                break
            at, guarded = mapped
        elif isinstance(node, Permute):
            turned = dict(zip(node.dims, at, strict=True))
            at = [turned[dim] for dim in range(len(at))]
        else:
            at = [_Affine({}) if e.single else one for e, one in zip(shape, at[len(at) - len(shape) :], strict=True)]
        place, node = node.inputs[0], graph.nodes[node.inputs[0]]
        form = node.shape
    if place == start:
        return None
    subscripts = tuple(
        Subscript(tuple(sorted(one.terms.items())), one.constant, one.divisor, size, dim in guarded)
        for dim, (one, size) in enumerate(zip(at, form, strict=True))
    )
    return ContractionOperand(place, node.dtype, subscripts)


def _under_view(view: Shape, permuted: Permute) -> list[int] | None:
    """The dimensions of a view of a permuted value in the order of memory; None where it joins what lies apart."""
    runs = matched(view, permuted.shape)
    if any(len(outs) != 1 for outs, _ in runs):
        return None
    places = [tuple(permuted.dims[dim] for dim in ins) for _, ins in runs]
    if any(not ins or ins != tuple(range(ins[0], ins[0] + len(ins))) for ins in places):
        return None
    return [runs[n][0][0] for n in sorted(range(len(runs)), key=lambda n: places[n])]


def _mapped(node: IndexMap, at: list[_Affine], shape: Shape) -> tuple[list[_Affine], frozenset[int]] | None:
    found = [_affine(term, at) for term in node.at]
    affine = [one for one in found if one is not None]
    if len(node.inputs) != 1 or len(affine) != len(found):
        return None
    if node.guard is None:
        return (affine, frozenset()) if all(one.divisor == 1 for one in affine) else None
    guarded = _guarded(node, shape) if node.fill == 0 else None
    return None if guarded is None else (affine, guarded)


def _affine(term: IndexTerm, at: list[_Affine]) -> _Affine | None:
    match term:
        case int():
            return _Affine({}, term)
        case Index("i", (dim,)):
            found: _Affine | None = at[dim]
            return found
        case Index("+" | "-" as sign, (one, other)):
            left, right = _affine(one, at), _affine(other, at)
            return left.plus(right, 1 if sign == "+" else -1) if left and right else None
        case Index("*", (one, other)):
            factor, inner = (one, other) if isinstance(one, int | Extent) else (other, one)
            found = _affine(inner, at)
            if found is None or not isinstance(factor, int | Extent):
                return None
            return found.times(Extent(factor, factor) if isinstance(factor, int) else factor)
        case Index("/", (one, int() as divisor)):
            found = _affine(one, at)
            return _Affine(found.terms, found.constant, divisor) if found and found.divisor == 1 else None
    return None


def _guarded(node: IndexMap, shape: Shape) -> frozenset[int] | None:
    """The dimensions that a guard keeps inside the input; None where it asks for anything else."""
    found = set()
    for condition in _conditions(node.guard):
        dims = [dim for dim, term in enumerate(node.at) if _keeps(condition, term, shape[dim])]
        if not dims:
            return None
        found |= set(dims)
    return frozenset(found) if all(_whole(node, dim) for dim, _ in enumerate(node.at)) else None


def _conditions(guard: Any) -> list[Index]:
    if isinstance(guard, Index) and guard.operator == "&&":
        return [one for operand in guard.operands for one in _conditions(operand)]
    return [guard] if isinstance(guard, Index) else []


def _keeps(condition: Index, term: IndexTerm, size: Extent) -> bool:
    above = term.operands[0] if isinstance(term, Index) and term.operator == "/" else term
    match condition:
        case Index(">=", (one, 0)):
            return one in (term, above)
        case Index("<", (one, bound)):
            return bool(one == term and bound == size_of(size))
        case Index("==", (Index("%", (one, by)), 0)):
            return isinstance(term, Index) and term.operator == "/" and term.operands == (one, by)
    return False


def _whole(node: IndexMap, dim: int) -> bool:
    """A division must be guarded to be one without a rest."""
    term = node.at[dim]
    if not isinstance(term, Index) or term.operator != "/":
        return True
    return any(c.operator == "==" and _keeps(c, term, ONE) for c in _conditions(node.guard))


def apart(step: ContractionStep) -> tuple[NestStep | RowProgram, ...]:
    return (step.nest,) if step.epilogue is None else (step.nest, step.epilogue)
