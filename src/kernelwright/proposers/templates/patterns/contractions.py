"""Sums of products of two operands whose subscripts are affine: stacks of matrix products, einsum, convolutions of any
rank, grouped, transposed or dilated, and their gradients.

The pattern says nothing of how: an axis is shared by both operands ("batch"), belongs to one of them ("first",
"second"), or is summed over ("depth"). Matrix products are the case without windows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from kernelwright.proposers.templates.graph import (
    ONE,
    Broadcast,
    Constant,
    Extent,
    Graph,
    Node,
    Number,
    Permute,
    Pointwise,
    Shape,
    ViewNode,
    total,
)
from kernelwright.proposers.templates.nests.index_maps import Contraction, Index, IndexMap, IndexTerm, size_of
from kernelwright.proposers.templates.nests.nest_code import matched
from kernelwright.proposers.templates.patterns.nests import NestStep
from kernelwright.proposers.templates.patterns.rows import HALVES, RowProgram
from kernelwright.tasks.dtypes import ITEM_BYTES, NARROW

MOST_SPLITS = 8  # of axes, for one contraction


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
    """`node` is a value that lies in memory in row-major order; subscripts are for a view of the same elements."""

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


def panel_of(form: ContractionForm) -> str | None:
    """The one dtype in which tensor cores get both operands: numbers of one byte as 16-bit floats, which hold all their
    values. None where the dtypes do not go together."""
    dtypes = {operand.dtype for operand in form.operands}
    wide = {dtype for dtype in dtypes if ITEM_BYTES[dtype] > 1}
    if len(wide) > 1 or (dtypes != wide and wide - set(NARROW)):
        return None
    return next(iter(wide), "float16")


class _SplitAxisError(Exception):
    """An operand lies in memory with several dimensions where the space has one axis."""

    def __init__(self, axis: int, sizes: Shape) -> None:
        super().__init__(axis, sizes)
        self.axis, self.sizes = axis, sizes


def recognise_contraction(
    graph: Graph, place: int, factors: list[Number] | None = None, *, mixed: bool = True
) -> ContractionForm | None:
    """With `factors`, numbers that whole operands are multiplied with are put there, and the operands are without.

    Unless `mixed`, operands whose dtypes tensor cores cannot have in common are taken as float32.
    """
    found: list[Number] = []
    form = _recognised(graph, place, None if factors is None else found, as_stored=True)
    if form is not None and not mixed and panel_of(form) is None:
        found = []
        form = _recognised(graph, place, None if factors is None else found, as_stored=False)
    if factors is not None:
        factors += found
    return form


def _recognised(graph: Graph, place: int, factors: list[Number] | None, *, as_stored: bool) -> ContractionForm | None:
    node = graph.nodes[place]
    if not isinstance(node, Contraction) or node.operation != "sum" or not node.dtype.startswith(("float", "bfloat")):
        return None
    product = graph.nodes[node.inputs[0]]
    if not isinstance(product, Pointwise) or product.operation != "mul" or len(product.inputs) != 2:
        return None
    if node.dims != tuple(range(len(product.shape) - len(node.dims), len(product.shape))):
        return None
    pieces: list[Shape] = [(extent,) for extent in product.shape]
    first = [_operand(graph, one, pieces, None, as_stored=as_stored, deep=False) for one in product.inputs]
    deep = not any(operand is not None and operand.slides for operand in first)
    for _ in range(MOST_SPLITS):
        found: list[Number] = []
        try:
            given = None if factors is None else found
            operands = [_operand(graph, one, pieces, given, as_stored=as_stored, deep=deep) for one in product.inputs]
        except _SplitAxisError as split:
            pieces = _split(pieces, split.axis, split.sizes)
            continue
        if factors is not None:
            factors += found
        break
    else:
        return None
    if operands[0] is None or operands[1] is None:
        return None
    space = tuple(extent for run in pieces for extent in run)
    axes = _axes(space, sum(len(run) for run in pieces[: len(node.shape)]), operands[0], operands[1])
    return None if axes is None else ContractionForm(axes, (operands[0], operands[1]), node.dtype)


def _split(pieces: list[Shape], axis: int, sizes: Shape) -> list[Shape]:
    made: list[Shape] = []
    number = 0
    for run in pieces:
        new: Shape = ()
        for extent in run:
            new += sizes if number == axis else (extent,)
            number += 1
        made.append(new)
    return made


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


def _operand(
    graph: Graph,
    place: int,
    pieces: Sequence[Shape],
    factors: list[Number] | None,
    *,
    as_stored: bool,
    deep: bool = True,
) -> ContractionOperand | None:
    """Down to the value whose elements lie in memory, through whatever only moves them; not `deep`, through one step.

    A window keeps the form that lowering gave it, which renderers know, and what was moved before it is stored.

    None where the step into the space itself is not affine: all of the space would have to be stored.
    """
    start, at = place, _own_places(pieces)
    extents = [extent for run in pieces for extent in run]
    guarded: frozenset[int] = frozenset()  # for dimensions of that very value, so that nothing is passed then
    node = graph.nodes[place]
    while not guarded and (deep or place == start):
        inner = node.inputs[0] if node.inputs else -1
        match node:
            case IndexMap():
                mapped = _mapped(node, at, graph.nodes[inner].shape)
                if mapped is None:
                    break
                at, guarded = mapped
            case Permute():
                turned = dict(zip(node.dims, at, strict=True))
                at = [turned[dim] for dim in range(len(at))]
            case Broadcast():
                shape = graph.nodes[inner].shape
                last = at[len(at) - len(shape) :]
                at = [_Affine({}) if e.single else one for e, one in zip(shape, last, strict=True)]
            case ViewNode() if _turned(graph, inner, factors is not None, as_stored):
                viewed = _viewed(node, graph.nodes[inner].shape, at, extents)
                if viewed is None:
                    break
                at = viewed
            case Pointwise() if as_stored and widened(graph, node):
                pass  # the same numbers, stored in less room
            case Pointwise() if factors is not None and (scaled := _scaled(graph, node)):
                inner = scaled[0]
                factors.append(scaled[1])
            case _:
                break
        place, node = inner, graph.nodes[inner]
    if place == start:
        return None
    subscripts = tuple(
        Subscript(tuple(sorted(one.terms.items())), one.constant, one.divisor, size, dim in guarded)
        for dim, (one, size) in enumerate(zip(at, node.shape, strict=True))
    )
    below = node
    while isinstance(below, ViewNode):
        below = graph.nodes[below.inputs[0]]
    if as_stored and widened(graph, below):  # in the same order, so that subscripts hold
        place, node = below.inputs[0], graph.nodes[below.inputs[0]]
    return ContractionOperand(place, node.dtype, subscripts)


def _own_places(pieces: Sequence[Shape]) -> list[_Affine]:
    """Along every dimension of the space, in terms of the axes that it was split into."""
    made, number = [], 0
    for run in pieces:
        terms = {}
        for n, extent in enumerate(run):
            if not extent.single:
                terms[number] = total(run[n + 1 :])
            number += 1
        made.append(_Affine(terms))
    return made


def _turned(graph: Graph, place: int, scaled: bool, as_stored: bool) -> bool:
    """Whether a value is another one with its elements moved, so that reading it where it lies saves a copy."""
    node = graph.nodes[place]
    if isinstance(node, Permute | Broadcast):
        return True
    if isinstance(node, ViewNode) or (as_stored and widened(graph, node)):
        return _turned(graph, node.inputs[0], scaled, as_stored)
    found = _scaled(graph, node) if scaled else None
    return found is not None  # also without a move: the number is taken apart


def _scaled(graph: Graph, node: Node) -> tuple[int, Number] | None:
    """Of a value times a number: both."""
    if not isinstance(node, Pointwise) or node.operation != "mul":
        return None
    for one, other in (node.inputs, node.inputs[::-1]):
        constant = graph.nodes[other]
        if isinstance(constant, Constant) and graph.nodes[one].shape == node.shape:
            return one, constant.value
    return None


def _viewed(node: ViewNode, given: Shape, at: list[_Affine], extents: Sequence[Extent]) -> list[_Affine] | None:
    """Places along the dimensions of the value that is viewed; None where they are not affine."""
    made: list[_Affine] = [_Affine({})] * len(given)
    for outs, ins in matched(node.shape, given):
        whole: _Affine | None = _Affine({})
        for n, dim in enumerate(outs):
            part = at[dim].times(total(tuple(node.shape[d] for d in outs[n + 1 :])))
            whole = whole.plus(part) if whole is not None and part is not None else None
        own = [dim for dim in ins if not given[dim].single]
        if whole is None:
            return None
        if len(own) == 1:
            made[own[0]] = whole
        elif own:
            parts = _dealt(whole, tuple(given[dim] for dim in own), extents)
            if parts is None:
                return None
            for dim, part in zip(own, parts, strict=True):
                made[dim] = part
    return made


def _dealt(whole: _Affine, sizes: Shape, extents: Sequence[Extent]) -> list[_Affine] | None:
    """The place in a row of dimensions as a place along each; axes that lie across several must be split."""
    if whole.constant or whole.divisor != 1:
        return None
    terms = sorted(whole.terms.items(), key=lambda term: term[1].first)
    found: list[_Affine] = []
    stride = ONE
    left = list(sizes)
    while left:
        size, own, inner = left.pop(), dict[int, Extent](), ONE
        while terms and inner != size:
            axis, coefficient = terms[0]
            if coefficient != stride * inner:
                return None
            extent = extents[axis]
            several = [size]
            while total(tuple(several)).first < extent.first and inner == ONE and left:
                several.insert(0, left.pop())
            if len(several) > 1:
                if total(tuple(several)) != extent:
                    return None
                raise _SplitAxisError(axis, tuple(several))
            terms.pop(0)
            own[axis] = inner
            inner = inner * extent
        if inner != size and own:
            return None
        found.insert(0, _Affine(own))
        stride = stride * size
    return found if not terms else None


def widened(graph: Graph, node: Node) -> bool:
    """Whether a value is a narrow one as float32: a product reads such operands as they lie, and loses nothing."""
    if not isinstance(node, Pointwise) or node.operation != "convert" or node.dtype != "float32":
        return False
    return graph.nodes[node.inputs[0]].dtype in HALVES


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
