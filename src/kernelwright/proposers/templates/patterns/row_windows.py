"""Reads a value as a row program whose operands are windows of tensors: parts of rows, rows that are shared.

The graph is read from its result downwards, each value at an affine index of the space of rows × columns. What moves
elements changes that index; what lies in memory becomes a load that begins each row at an offset of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kernelwright.proposers.templates.graph import (
    ONE,
    Broadcast,
    Constant,
    Extent,
    Graph,
    Node,
    Permute,
    Pointwise,
    Position,
    Reduce,
    Shape,
    ViewNode,
    total,
)
from kernelwright.proposers.templates.nests.index_maps import (
    Contraction,
    Index,
    IndexMap,
    IndexTerm,
    IndexValue,
    Join,
    minus,
    plus,
    size_of,
    times,
)
from kernelwright.proposers.templates.nests.nest_code import matched
from kernelwright.proposers.templates.patterns.affine import (
    ZERO,
    Affine,
    NotAffineError,
    affine_of,
    along,
    extent_of,
    least_of,
    linear,
    value_of,
)
from kernelwright.proposers.templates.patterns.rows import (
    FLOAT,
    OPERATIONS,
    REDUCTIONS,
    WHOLE,
    Instruction,
    MisfitError,
    RowNumber,
    RowProgram,
    Span,
    Store,
    check,
    computed_in,
    levelled,
    memory_of,
)
from kernelwright.proposers.templates.patterns.simplify import simplified
from kernelwright.tasks.dtypes import NARROW

FLIPPED = {"<": "gt", "<=": "ge", ">": "lt", ">=": "le"}
NAMED = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
At = tuple[Affine, ...]


class CutError(Exception):
    """The columns have to be cut at this place, counted from the first of them, for a row to be made of one thing."""

    def __init__(self, place: IndexTerm) -> None:
        super().__init__("a row of several parts")
        self.place = place


@dataclass(frozen=True)
class ColumnPiece:
    """Columns from `start` up to `end`."""

    start: IndexTerm
    end: IndexTerm

    @property
    def extent(self) -> Extent:
        return extent_of(minus(self.end, self.start))


class WindowReading:
    """One attempt to read a value over `rows` × `cols`."""

    def __init__(self, graph: Graph, held: Mapping[int, str], rows: Shape, cols: Shape, may_cut: bool) -> None:
        self.graph, self.held = graph, held
        self.over_rows, self.over_cols = rows, cols
        self.space = (*rows, *cols)
        self.may_cut = may_cut and len(cols) == 1
        self.instructions: list[Instruction] = []
        self.stores: list[Store] = []
        self.known: dict[tuple[int, At], int] = {}
        self.written: dict[tuple[int, int], IndexTerm] = {}

    # Results.

    def program(self) -> RowProgram:
        instructions, places = simplified(self.instructions, [store.place for store in self.stores])
        stores = tuple(replace(store, place=place) for store, place in zip(self.stores, places, strict=True))
        program = RowProgram(levelled(instructions), stores, total(self.over_rows), total(self.over_cols))
        check(program)
        if not program.rows.single and any(i.span == Span.col and i.operation != "load" for i in program.instructions):
            program = replace(program, instructions=tuple(map(_widened, program.instructions)))
        return program

    def store(self, tensor: str, root: int, cols: Shape, piece: ColumnPiece | None) -> None:
        """`cols` are those of the whole result, of which a piece is some."""
        node = self.graph.nodes[root]
        space: At = tuple(along(dim, extent) for dim, extent in enumerate(self.space))
        if piece is not None:
            space = (*space[:-1], space[-1] + Affine(piece.start))
        shape = (*self.over_rows, *cols)
        if total(node.shape) == total(shape):
            at = _seen(node.shape, shape, space)
            span = Span.full
        elif total(node.shape) == total(self.over_rows):
            at = _seen(node.shape, self.over_rows, space[: len(self.over_rows)])
            span = Span.row
        else:
            raise MisfitError("a result of neither rows nor elements")
        place = self.value(root, at)
        begin, step = self._divided(linear(node.shape, at))
        if step != (1 if span == Span.full and not total(self.over_cols).single else 0):
            raise MisfitError("a result that is not stored row by row")
        plain = self._is_plain(begin, span)
        if not plain and span == Span.row:
            raise MisfitError("results for rows that are apart")
        if self.instructions[place].span != span and not (total(self.over_rows).single and span == Span.row):
            place = self._add(Instruction("repeat", (place,), span, self.instructions[place].dtype))
        self.stores.append(Store(tensor, place, memory_of(node.dtype), None if plain else begin))

    # Values.

    def value(self, place: int, at: At) -> int:
        key = (place, at)
        if key not in self.known:
            self.known[key] = self._read(place, self.graph.nodes[place], at)
        return self.known[key]

    def _add(self, instruction: Instruction) -> int:
        if instruction not in self.instructions:
            self.instructions.append(instruction)
        return self.instructions.index(instruction)

    def _made(self, operation: str, *operands: int, dtype: str = "bool") -> int:
        span = Span.one
        for operand in operands:
            span |= self.instructions[operand].span
        return self._add(Instruction(operation, operands, span, dtype))

    def _number(self, value: float, dtype: str) -> int:
        return self._add(Instruction("number", (), Span.one, dtype, number=value))

    def _read(self, place: int, node: Node, at: At) -> int:
        if place in self.held:
            return self._load(node, self.held[place], at)
        match node:
            case Constant():
                return self._add(Instruction("number", (), Span.one, computed_in(node.dtype), number=node.value))
            case Broadcast():
                return self.value(node.inputs[0], self._narrowed(node.inputs[0], at))
            case ViewNode():
                return self._view(node, at)
            case Permute():
                turned = dict(zip(node.dims, at, strict=True))
                return self.value(node.inputs[0], tuple(turned[dim] for dim in range(len(at))))
            case Position():
                return self._whole_number(at[-1])
            case IndexValue():
                return self._index_value(node, at)
            case IndexMap():
                return self._mapped(node, at)
            case Join():
                return self._joined(node, at)
            case Pointwise():
                return self._pointwise(node, at)
            case Reduce() if not isinstance(node, Contraction):
                return self._reduce(node, at)
        raise MisfitError(f"{type(node).__name__.lower()} among the steps of a row")

    def _narrowed(self, place: int, at: At) -> At:
        shape = self.graph.nodes[place].shape
        tail = at[len(at) - len(shape) :]
        return tuple(ZERO if extent.single else one for extent, one in zip(shape, tail, strict=True))

    def _view(self, node: ViewNode, at: At) -> int:
        base = node.inputs[0]
        while isinstance(self.graph.nodes[base], ViewNode) and base not in self.held:
            base = self.graph.nodes[base].inputs[0]
        given = self.graph.nodes[base]
        if base in self.held:  # the same elements in the same order
            return self._load(replace(given, shape=node.shape), self.held[base], at)
        return self.value(base, _seen(given.shape, node.shape, at))

    def _load(self, node: Node, tensor: str, at: At) -> int:
        begin, step = self._divided(linear(node.shape, at))
        if step not in (0, 1):
            raise MisfitError("elements of a row that are apart")
        span = (Span.col if step else Span.one) | (Span.row if begin.varies else Span.one)
        if node.dtype == "bool":
            return self._truth(tensor, begin, step, span)
        if node.dtype != FLOAT and node.dtype not in NARROW and (node.dtype != "int64" or step):
            raise MisfitError(f"{node.dtype} along a row")
        return self._loaded(tensor, begin, span, computed_in(node.dtype), memory_of(node.dtype))

    def _truth(self, tensor: str, begin: RowNumber, step: int, span: Span) -> int:
        """A truth value is read as a number, along a row as a float."""
        if not step:
            return self._loaded(tensor, begin, span, "bool", "")
        place = self._loaded(tensor, begin, span, FLOAT, "bool")
        return self._made("ne", place, self._number(0.0, FLOAT))

    def _loaded(self, tensor: str, begin: RowNumber, span: Span, dtype: str, memory: str) -> int:
        if span == Span.col and (total(self.over_rows).single or begin.constant != 0):
            span = Span.full
        plain = self._is_plain(begin, span)
        at = None if plain else begin
        return self._add(Instruction("load", (), span, dtype, tensor=tensor, memory=memory, at=at))

    def _is_plain(self, begin: RowNumber, span: Span) -> bool:
        """Whether rows begin where those of a whole tensor of that span do."""
        if begin.constant != 0:
            return False
        if span in (Span.one, Span.col) or total(self.over_rows).single:
            return True
        apart = extent_of(begin.factors[0]) if len(begin.factors) == 1 else None
        return apart == (total(self.over_cols) if span & Span.col else ONE)

    def _divided(self, number: Affine) -> tuple[RowNumber, int]:
        """Where a row begins, and how far its elements are apart."""
        rank = len(self.over_rows)
        cols = _merged(self.over_cols, [number.factor(rank + dim) for dim in range(len(self.over_cols))])
        sizes, factors = _merged(self.over_rows, [number.factor(dim) for dim in range(rank)])
        if len(cols[1]) > 1:
            raise MisfitError("rows that are not in one piece")
        step = extent_of(cols[1][0]).literal if cols[1] else 0
        if step is None:
            raise MisfitError("elements of a row that are apart")
        return RowNumber(self._same(number.constant), sizes, tuple(map(self._same, factors))), step

    def _same(self, term: IndexTerm) -> IndexTerm:
        """One way to write a number, so that what is loaded twice is loaded once."""
        first, second = value_of(term)
        return first if first == second else self.written.setdefault((first, second), term)

    def _index_value(self, node: IndexValue, at: At) -> int:
        if isinstance(node.index, Index) and (
            node.index.operator in NAMED or node.index.operator in ("&&", "||", "==")
        ):
            return self._condition(node.index, at)
        return self._whole_number(affine_of(node.index, at))

    def _whole_number(self, index: Affine) -> int:
        """The number of a column, or one that is the same along a row."""
        begin, step = self._divided(index)
        if step == 1 and begin.constant == 0 and not begin.varies:
            return self._add(Instruction("position", (), Span.full, "int64"))
        if step:
            raise MisfitError("whole numbers along a row")
        span = Span.row if begin.varies else Span.one
        return self._add(Instruction("index", (), span, "int64", at=begin))

    def _condition(self, term: IndexTerm, at: At) -> int:
        found = self._decided(term, at)
        if found is not None:
            return self._number(int(found), "bool")
        assert isinstance(term, Index)
        if term.operator in ("&&", "||"):
            one, other = (self._condition(operand, at) for operand in term.operands)
            return self._made("logical_and" if term.operator == "&&" else "logical_or", one, other)
        left, right = (affine_of(operand, at) for operand in term.operands)
        if term.operator == "==":
            pair = (self._compared("<=", left - right), self._compared(">=", left - right))
            return self._made("logical_and", *pair)
        if term.operator not in NAMED:
            raise NotAffineError(f"a condition with {term.operator}")
        return self._compared(term.operator, left - right)

    def _compared(self, operator: str, apart: Affine) -> int:
        """Whether a difference is below, above or at zero: the column against a number of the row."""
        begin, step = self._divided(apart)
        rank = len(self.over_rows)
        rest = Affine(apart.constant, tuple((dim, factor) for dim, factor in apart.factors if dim < rank))
        if step == 0:
            return self._made(NAMED[operator], self._whole_number(rest), self._number(0, "int64"))
        if step not in (1, -1):
            raise MisfitError("a condition on places that are apart")
        if step == 1 and not begin.varies:
            bound = minus(0, begin.constant)
            self._cut(bound if operator in ("<", ">=") else plus(bound, 1))
        position = self._add(Instruction("position", (), Span.full, "int64"))
        if step == 1:
            return self._made(NAMED[operator], position, self._whole_number(ZERO - rest))
        return self._made(FLIPPED[operator], position, self._whole_number(rest))

    def _cut(self, place: IndexTerm) -> None:
        """Cuts the columns at a place that is one of them whatever the sizes are, if rows need not stay whole."""
        if not self.may_cut:
            return
        inside = [least_of(Affine(one), ()) for one in (place, minus(size_of(self.over_cols[0]), place))]
        if all(one is not None and one >= 1 for one in inside):
            raise CutError(place)

    def _decided(self, term: IndexTerm, at: At) -> bool | None:
        """A condition that holds everywhere, or nowhere, whatever the sizes are."""
        if not isinstance(term, Index) or term.operator not in (*NAMED, "&&", "||"):
            return None
        if term.operator in ("&&", "||"):
            found = [self._decided(operand, at) for operand in term.operands]
            absorbing = term.operator == "||"
            if absorbing in found:
                return absorbing
            return None if None in found else not absorbing
        one, other = (affine_of(operand, at) for operand in term.operands)
        if term.operator in (">", "<="):
            one, other = other, one
        # one < other, or one >= other
        above, below = least_of(other - one, self.space), least_of(one - other, self.space)
        less = True if above is not None and above >= 1 else False if below is not None and below >= 0 else None
        if less is None:
            return None
        return less if term.operator in ("<", ">") else not less

    def _mapped(self, node: IndexMap, at: At) -> int:
        guard = None if node.guard is None else self._condition(node.guard, at)
        held = None if guard is None else self.instructions[guard]
        kind = computed_in(node.dtype)
        if held is not None and held.operation == "number":
            if not held.number:
                return self._number(node.fill, kind)  # type: ignore[arg-type]
            held = None
        inner = tuple(affine_of(term, at) for term in node.at)
        if held is not None and not self._inside(node.inputs[0], inner):
            raise MisfitError("a read that only a guard keeps inside")
        value = self.value(node.inputs[0], inner)
        if held is None:
            return value
        assert guard is not None
        fill = self._add(Instruction("number", (), Span.one, kind, number=node.fill))
        return self._chosen(guard, value, fill, kind)

    def _chosen(self, condition: int, one: int, other: int, kind: str) -> int:
        if kind != "bool":
            return self._made("where", condition, one, other, dtype=kind)
        given_pair = tuple(self.instructions[place] for place in (one, other))
        if (
            all(given.operation == "number" for given in given_pair)
            and given_pair[0].number
            and not given_pair[1].number
        ):
            return condition
        no = self._made("logical_not", condition)
        pair = (self._made("logical_and", condition, one), self._made("logical_and", no, other))
        return self._made("logical_or", *pair)

    def _inside(self, place: int, at: At) -> bool:
        shape = self.graph.nodes[place].shape
        for extent, one in zip(shape, at, strict=True):
            low = least_of(one, self.space)
            high = least_of(Affine(size_of(extent)) - one, self.space)
            if low is None or low < 0 or high is None or high < 1:
                return False
        return True

    def _joined(self, node: Join, at: At) -> int:
        """The part that the index lies in for all elements of the space."""
        index, start = at[node.dim], Affine(0)
        for number, place in enumerate(node.inputs):
            end = start + Affine(size_of(self.graph.nodes[place].shape[node.dim]))
            above = least_of(index - end, self.space)
            if number + 1 == len(node.inputs) or above is None or above < 0:
                below = least_of(end - index, self.space)
                if number + 1 < len(node.inputs) and (below is None or below < 1):
                    begin, step = self._divided(index)
                    if step == 1 and not begin.varies:
                        self._cut(minus(end.constant, begin.constant))
                    raise MisfitError("a join that is not along the rows")
                moved = (*at[: node.dim], index - start, *at[node.dim + 1 :])
                return self.value(place, self._narrowed(place, moved))
            start = end
        raise MisfitError("a join of nothing")

    def _pointwise(self, node: Pointwise, at: At) -> int:
        if node.operation not in OPERATIONS:
            raise MisfitError(f"{node.operation} among the steps of a row")
        kinds = [self.graph.nodes[place].dtype for place in node.inputs]
        kind = computed_in(node.dtype)
        if any(dtype in WHOLE for dtype in (node.dtype, *kinds)):
            raise MisfitError(f"{node.operation} of {node.dtype}")
        if kind not in (FLOAT, "bool", "int64"):
            raise MisfitError(f"{node.operation} of {node.dtype}")
        operands = tuple(self.value(place, self._narrowed(place, at)) for place in node.inputs)
        if node.operation == "convert" and computed_in(kinds[0]) == kind:
            return operands[0]
        if "bool" in kinds and kind not in ("bool", FLOAT) and node.operation not in ("convert", "where"):
            raise MisfitError(f"{node.operation} of truth values")
        if node.operation == "where":
            condition, one, other = operands
            return self._chosen(condition, one, other, kind)
        return self._made(node.operation, *operands, dtype=kind)

    def _reduce(self, node: Reduce, at: At) -> int:
        shape = self.graph.nodes[node.inputs[0]].shape
        if node.operation not in (*REDUCTIONS, "any"):
            raise MisfitError(f"{node.operation} over dimensions {list(node.dims)}")
        rank = len(self.over_rows)
        if tuple(shape[dim] for dim in node.dims) != self.over_cols or total(self.over_cols).single:
            raise MisfitError(f"{node.operation} over dimensions {list(node.dims)}")
        if any(dim >= rank for one in at for dim, _ in one.factors):
            raise MisfitError("a reduction for each element")
        kept = iter(at)
        inner = iter(along(rank + dim, extent) for dim, extent in enumerate(self.over_cols))
        place = self.value(
            node.inputs[0], tuple(next(inner) if dim in node.dims else next(kept) for dim in range(len(shape)))
        )
        if self.instructions[place].span not in (Span.full, Span.col):
            raise MisfitError(f"{node.operation} of a value that is the same along the row")
        if self.instructions[place].span == Span.col:
            place = self._add(Instruction("repeat", (place,), Span.full, self.instructions[place].dtype))
        kind, operation = computed_in(node.dtype), "max" if node.operation == "any" else node.operation
        if node.operation == "any":
            kind = FLOAT
            if self.instructions[place].dtype != "bool":
                place = self._made("ne", place, self._number(0, self.instructions[place].dtype))
        found = self._add(Instruction("reduce", (place,), Span.row, kind, over=Span.col, kind=operation))
        return self._made("gt", found, self._number(0.0, FLOAT)) if node.operation == "any" else found


def _widened(instruction: Instruction) -> Instruction:
    """A value that is computed from columns alone is computed for each element, so that no loop over columns is due."""
    narrow = instruction.span == Span.col and instruction.operation != "load"
    return replace(instruction, span=Span.full) if narrow else instruction


def _merged(shape: Shape, factors: Sequence[IndexTerm]) -> tuple[Shape, tuple[IndexTerm, ...]]:
    """Neighbouring dimensions as one where their elements follow each other."""
    sizes: list[Extent] = []
    found: list[IndexTerm] = []
    for extent, factor in zip(shape, factors, strict=True):
        if extent.single:
            continue
        if found and value_of(found[-1]) == value_of(times(factor, size_of(extent))):
            sizes[-1], found[-1] = sizes[-1] * extent, factor
        else:
            sizes.append(extent)
            found.append(factor)
    return tuple(sizes), tuple(found)


def _seen(shape: Shape, whole: Shape, at: At) -> At:
    """The index in a tensor of one shape of what has the index `at` in another with as many elements."""
    found: list[Affine] = []
    for own, given in matched(shape, whole):
        varying = [dim for dim in own if not shape[dim].single]
        inner = [dim for dim in given if not whole[dim].single]
        if len(varying) > 1 and [shape[d] for d in varying] != [whole[d] for d in inner]:
            raise MisfitError("a dimension that is taken apart")
        if len(varying) == 1:
            number = linear(tuple(whole[dim] for dim in given), [at[dim] for dim in given])
            found += [number if dim in varying else ZERO for dim in own]
        else:
            each = iter(at[dim] for dim in inner)
            found += [next(each) if dim in varying else ZERO for dim in own]
    return tuple(found)
