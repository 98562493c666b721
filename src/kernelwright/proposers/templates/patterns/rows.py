"""Row programs: pointwise steps, reductions along rows and reductions along columns over one space of rows × columns.

One pattern for fused pointwise chains, softmax, normalisations, losses and their gradients. Every value varies over
rows, over columns, over both or over neither (its span). A reduction along a row ends a *phase*: what needs its
result needs another pass over the row. A reduction over the rows ends a *stage*: what needs it waits for all rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntFlag

from kernelwright.proposers.templates.graph import (
    ONE,
    Broadcast,
    CannotExpressError,
    Constant,
    Extent,
    Gather,
    Graph,
    Node,
    Number,
    Pointwise,
    Position,
    Reduce,
    Shape,
    ViewNode,
    total,
)
from kernelwright.proposers.templates.nests.index_maps import IndexTerm
from kernelwright.proposers.templates.patterns.simplify import simplified
from kernelwright.tasks.dtypes import NARROW

FLOAT = "float32"
REDUCTIONS = frozenset(("sum", "max", "min", "argmax", "argmin"))
OPERATIONS = frozenset(
    (
        *("add", "sub", "mul", "div", "neg", "exp", "log", "sqrt", "rsqrt", "abs", "relu", "sigmoid", "tanh", "erf"),
        *("reciprocal", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or"),
        *("logical_not", "sign", "log1p", "expm1", "sin", "cos", "floor", "round", "trunc", "pow", "where", "convert"),
    )
)
WHOLE = ("int8", "uint8")  # in memory; as floats where they are read, and written from whole floats
HALVES = (*NARROW, *WHOLE)  # in memory; computed in float32
DTYPES = (FLOAT, "int64", "bool", *HALVES)


class Span(IntFlag):
    one = 0
    row = 1  # varies over the rows
    col = 2  # varies over the columns
    full = 3


@dataclass(frozen=True)
class RowNumber:
    """A whole number for each row: `constant`, and `factor` times the place along each dimension of the rows.

    `sizes` and `factors` go from the outer dimension to the inner one and take up all rows.
    """

    constant: IndexTerm
    sizes: Shape = ()
    factors: tuple[IndexTerm, ...] = ()

    @property
    def varies(self) -> bool:
        return any(factor != 0 for factor in self.factors)


@dataclass(frozen=True)
class Instruction:
    """One value of the program; operands are places of earlier instructions."""

    operation: str  # "load", "number", "index", "position", "gather", "reduce" or a pointwise operation
    operands: tuple[int, ...]
    span: Span
    dtype: str
    stage: int = 0
    phase: int = 0
    over: Span = Span.one  # of a reduction: Span.col along a row, Span.row over the rows
    kind: str = ""  # of a reduction
    tensor: str = ""  # of a load
    period: Extent | None = None  # of a load that repeats over the rows: after how many
    number: Number = 0
    memory: str = ""  # of a load: the dtype in memory, where it is not the one that is computed in
    at: RowNumber | None = None  # of a load that is not of whole rows: where a row begins; of an index: its value


@dataclass(frozen=True)
class Store:
    tensor: str
    place: int
    memory: str = ""  # as of a load
    at: RowNumber | None = None  # as of a load


@dataclass(frozen=True)
class RowProgram:
    instructions: tuple[Instruction, ...]
    stores: tuple[Store, ...]
    rows: Extent
    cols: Extent

    @property
    def pattern(self) -> str:
        if self.sums_columns:
            return "column_reduction"
        return "row_reduction" if self.reduces_cols else "pointwise"

    @property
    def memory(self) -> dict[str, str]:
        """Tensors whose dtype in memory is not the one that is computed in."""
        loads = {i.tensor: i.memory for i in self.instructions if i.memory}
        return loads | {store.tensor: store.memory for store in self.stores if store.memory}

    @property
    def windows(self) -> bool:
        """Whether it reads or writes part of the rows of a tensor."""
        return any(i.at is not None for i in self.instructions) or any(store.at is not None for store in self.stores)

    @property
    def stages(self) -> int:
        return 1 + max(self.instructions[store.place].stage for store in self.stores)

    @property
    def reduces_rows(self) -> bool:
        return any(i.operation == "reduce" and i.over == Span.row for i in self.instructions)

    @property
    def sums_columns(self) -> bool:
        return any(i.operation == "reduce" and i.over == Span.row and i.span == Span.col for i in self.instructions)

    @property
    def reduces_cols(self) -> bool:
        return any(i.operation == "reduce" and i.over == Span.col for i in self.instructions)


def computed_in(dtype: str) -> str:
    return FLOAT if dtype in HALVES else dtype


def memory_of(dtype: str) -> str:
    return dtype if dtype in HALVES else ""


class MisfitError(Exception):
    """The space that was tried does not fit; the message says why."""


def recognise(graph: Graph, wanted: Sequence[tuple[str, int]], held: Mapping[int, str]) -> RowProgram:
    """The program that makes the `wanted` (tensor, node) pairs from nodes that are `held` in tensors."""
    needed = _needed(graph, [node for _, node in wanted], held)
    reason = "no operation"
    for full, split in _spaces(graph, needed, [node for _, node in wanted]):
        try:
            return _Reading(graph, held, full[:split], full[split:]).program(wanted, needed)
        except MisfitError as misfit:
            reason = str(misfit)
    raise CannotExpressError(f"{graph.task}: no template covers {reason}")


def _needed(graph: Graph, nodes: Sequence[int], held: Mapping[int, str]) -> list[int]:
    found: set[int] = set()
    left = list(nodes)
    while left:
        node = left.pop()
        if node in found:
            continue
        found.add(node)
        if node not in held:
            left += graph.nodes[node].inputs
    return sorted(found)


def _spaces(graph: Graph, needed: Sequence[int], wanted: Sequence[int]) -> list[tuple[Shape, int]]:
    """Shapes of the whole and where to split them into rows and columns: the largest first, reductions along rows
    before others."""
    shapes = {graph.nodes[node].shape for node in (*needed, *wanted)}
    largest = max(total(shape).first for shape in shapes)
    reductions = [graph.nodes[n] for n in needed if isinstance(graph.nodes[n], Reduce)]
    full = sorted((s for s in shapes if total(s).first == largest), key=len, reverse=True)
    spaces = []
    for reduce in reductions:
        assert isinstance(reduce, Reduce)
        shape = graph.nodes[reduce.inputs[0]].shape
        if total(shape).first == largest:
            whole = len(reduce.dims) == len(shape)
            trailing = reduce.dims[-1] == len(shape) - 1
            spaces.append((shape, 0 if whole else reduce.dims[0] if trailing else reduce.dims[-1] + 1))
    spaces += [(shape, split) for shape in full for split in range(len(shape) + 1)]
    return list(dict.fromkeys(spaces))


class _Reading:
    """One attempt to read the graph as a program over `rows` × `cols`."""

    def __init__(self, graph: Graph, held: Mapping[int, str], over_rows: Shape, over_cols: Shape) -> None:
        rows, cols = total(over_rows), total(over_cols)
        if rows == cols and not rows.single:
            raise MisfitError("a square of literal sizes, where rows and columns cannot be told apart")
        self.graph, self.held, self.rows, self.cols = graph, held, rows, cols
        self.periods = {total(over_rows[start:]) for start in range(1, len(over_rows))}
        self.instructions: list[Instruction] = []
        self.at: dict[int, int] = {}

    def program(self, wanted: Sequence[tuple[str, int]], needed: Sequence[int]) -> RowProgram:
        for node in needed:
            self.at[node] = self._read(node, self.graph.nodes[node])
        stores = []
        for tensor, node in wanted:
            place = self._as_wide(self.at[node], self._span(self.graph.nodes[node].shape, tensor))
            stores.append(Store(tensor, place, memory_of(self.graph.nodes[node].dtype)))
        instructions, places = simplified(self.instructions, [store.place for store in stores])
        stores = [replace(store, place=place) for store, place in zip(stores, places, strict=True)]
        program = RowProgram(levelled(instructions), tuple(stores), self.rows, self.cols)
        check(program)
        return program

    def _add(self, instruction: Instruction) -> int:
        self.instructions.append(instruction)
        return len(self.instructions) - 1

    def _span(self, shape: Shape, what: str) -> Span:
        """By element count, since rows, columns and their product differ, and order in memory is kept throughout."""
        count = total(shape)
        if count.single:
            return Span.one
        if self.rows.single:
            if count == self.cols:
                return Span.full
        elif count == self.rows * self.cols:
            return Span.full if not self.cols.single else Span.row
        elif count == self.rows:
            return Span.row
        elif count == self.cols:
            return Span.col
        elif count in self.periods:
            return Span.row
        raise MisfitError(f"broadcasting of {what}")

    def _as_wide(self, place: int, span: Span) -> int:
        """A result that is narrower than its tensor is repeated over it."""
        held = self.instructions[place]
        if span == Span.row and held.span == Span.row:
            self._check_rows(place)
        if held.span == span or (self.rows.single and held.span in (Span.row, Span.one) and span == Span.one):
            return place
        return self._add(Instruction("repeat", (place,), span, held.dtype))

    def _check_rows(self, place: int) -> None:
        """A value that repeats over the rows is not a result for each row."""
        i = self.instructions[place]
        if i.period is not None and all(self.instructions[p].period is not None for p in i.operands):
            raise MisfitError("a result that repeats over the rows")

    def _read(self, number: int, node: Node) -> int:
        if node.dtype not in DTYPES and not isinstance(node, Constant):
            raise CannotExpressError(f"{self.graph.task}: templates compute in float32; {node.dtype} is not covered")
        if number in self.held:
            tensor = self.held[number]
            return self._load(node, tensor)
        match node:
            case Constant():
                return self._add(Instruction("number", (), Span.one, computed_in(node.dtype), number=node.value))
            case Position():
                return self._position(node)
            case ViewNode():
                return self._view(node)
            case Broadcast():
                return self.at[node.inputs[0]]
            case Pointwise():
                return self._pointwise(node)
            case Reduce():
                return self._reduce(node)
            case Gather():
                return self._gather(node)
        raise MisfitError(f"{type(node).__name__.lower()} among the steps of a row")

    def _load(self, node: Node, tensor: str) -> int:
        span, count = self._span(node.shape, tensor), total(node.shape)
        period = count if span == Span.row and count != self.rows else None
        kind, memory = computed_in(node.dtype), memory_of(node.dtype)
        return self._add(Instruction("load", (), span, kind, tensor=tensor, period=period, memory=memory))

    def _position(self, node: Node) -> int:
        if node.shape[-1] != self.cols:
            raise MisfitError("positions along part of a row")
        return self._add(Instruction("position", (), Span.full, "int64"))

    def _view(self, node: Node) -> int:
        """Rows stay rows only if no element changes its place among them, which equal counts show."""
        place = self.at[node.inputs[0]]
        self._span(node.shape, "a reshaped value")
        return place

    def _pointwise(self, node: Pointwise) -> int:
        operands = tuple(self.at[place] for place in node.inputs)
        if node.operation not in OPERATIONS:
            raise MisfitError(f"{node.operation} among the steps of a row")
        kind = computed_in(node.dtype)
        if node.operation == "convert" and computed_in(self.graph.nodes[node.inputs[0]].dtype) == kind:
            if node.dtype not in WHOLE or self.instructions[operands[0]].operation in ("round", "trunc"):
                return operands[0]
            return self._add(Instruction("trunc", operands, self.instructions[operands[0]].span, kind))
        if node.operation != "convert" and any(d in WHOLE for d in (node.dtype, *self._dtypes(node))):
            raise MisfitError(f"{node.operation} of {node.dtype}")
        truth = [self.graph.nodes[p].dtype == "bool" for p in node.inputs]
        if any(truth) and kind not in ("bool", FLOAT) and node.operation not in ("convert", "where"):
            raise MisfitError(f"{node.operation} of truth values")
        span = Span.one
        for place in operands:
            span |= self.instructions[place].span
        shape = self._span(node.shape, node.operation)
        if span & ~shape and not self.rows.single:
            raise MisfitError(f"broadcasting in {node.operation}")
        for place, given in zip(operands, node.inputs, strict=True):
            self._check_lie(self.instructions[place].span, self.graph.nodes[given].shape, node)
        return self._add(Instruction(node.operation, operands, span, kind))

    def _dtypes(self, node: Node) -> list[str]:
        return [self.graph.nodes[place].dtype for place in node.inputs]

    def _check_lie(self, span: Span, given: Shape, node: Node) -> None:
        """Counts alone could take a value for each row for one of each column where fixed sizes are equal."""
        if span in (Span.one, Span.full) or total(given) == total(node.shape):
            return
        lifted = (ONE,) * (len(node.shape) - len(given)) + given
        varies = [not own.single for own, whole in zip(lifted, node.shape, strict=True) if not whole.single]
        behind = total(tuple(w for o, w in zip(lifted, node.shape, strict=True) if not w.single)[_end(varies) :])
        if span == Span.col and not (behind.single and total(given) == self.cols):
            raise MisfitError("broadcasting along rows")
        if span == Span.row and behind != self.cols and total(node.shape) == self.rows * self.cols:
            raise MisfitError("broadcasting over rows")
        run = varies[varies.index(True) : _end(varies)] if any(varies) else []
        if not all(run):
            raise MisfitError("broadcasting in the middle")

    def _reduce(self, node: Reduce) -> int:
        if node.operation not in REDUCTIONS or not node.dims:
            raise MisfitError(f"{node.operation} over dimensions {list(node.dims)}")
        if any(dtype in WHOLE for dtype in self._dtypes(node)):
            raise MisfitError(f"{node.operation} of whole numbers")
        place = self.at[node.inputs[0]]
        shape = self.graph.nodes[node.inputs[0]].shape
        held, rank = self.instructions[place], len(shape)
        if node.dims == tuple(range(node.dims[0], rank)) and total(shape[node.dims[0] :]) == self.cols:
            return self._along(place, held.span, Span.full, Span.col, node)
        if node.dims == tuple(range(len(node.dims))) and total(shape[: len(node.dims)]) == self.rows:
            return self._along(place, held.span, held.span, Span.row, node)
        if len(node.dims) == rank and held.span == Span.full:
            along = self._along(place, held.span, Span.full, Span.col, node)
            return self._along(along, Span.row, Span.row, Span.row, node)
        raise MisfitError(f"{node.operation} over dimensions {list(node.dims)} of {rank}")

    def _along(self, place: int, span: Span, required: Span, over: Span, node: Reduce) -> int:
        if span != required or not span & over or (node.operation.startswith("arg") and over != Span.col):
            raise MisfitError(f"{node.operation} over dimensions {list(node.dims)} of a broadcast value")
        left = Span.row if over == Span.col else span & ~Span.row
        kind = computed_in(node.dtype)
        return self._add(Instruction("reduce", (place,), left, kind, over=over, kind=node.operation))

    def _gather(self, node: Gather) -> int:
        values, index = (self.at[place] for place in node.inputs)
        if self.instructions[values].span != Span.full or self.instructions[index].span & Span.col:
            raise MisfitError("gather from anything but whole rows")
        return self._add(Instruction("gather", (values, index), Span.row, computed_in(node.dtype)))


def _end(varies: Sequence[bool]) -> int:
    """Behind the last dimension that varies."""
    return max((n + 1 for n, one in enumerate(varies) if one), default=0)


def levelled(instructions: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """Puts each instruction into its stage and phase."""
    levelled: list[Instruction] = []
    for instruction in instructions:
        stage, phase = max(((levelled[p].stage, levelled[p].phase) for p in instruction.operands), default=(0, 0))
        if instruction.operation == "reduce":
            stage, phase = (stage, phase + 1) if instruction.over == Span.col else (stage + 1, 0)
        levelled.append(replace(instruction, stage=stage, phase=phase))
    # Within a later stage, phases count every pass along the row that the value needs there.
    again: list[Instruction] = []
    for instruction in levelled:
        phase = max((again[p].phase for p in instruction.operands), default=0)
        if instruction.operation == "reduce":
            phase = phase + 1 if instruction.over == Span.col else 0
        again.append(replace(instruction, phase=phase))
    return tuple(again)


def check(program: RowProgram) -> None:
    for instruction in program.instructions:
        along = bool(instruction.span & Span.col)
        if along and instruction.dtype == "int64" and instruction.operation != "position":
            raise MisfitError("integer arithmetic along rows")
        if along and instruction.dtype == "bool" and instruction.operation == "load":
            raise MisfitError("a mask for each element")
    for store in program.stores:
        stored = program.instructions[store.place]
        if stored.span & Span.col and stored.dtype != FLOAT:
            raise MisfitError(f"a {stored.dtype} result for each element")
