"""What the kernels of a row program have in common: loads, pointwise steps, single values, and results for columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from zlib import crc32

from kernelwright.proposers.templates.cuda.kernels import (
    TYPES,
    Kernel,
    KernelWriter,
    depends_on_sizes,
    expression,
    python_number,
)
from kernelwright.proposers.templates.cuda.rows.analysis import RowStage, over_rows, stage_of
from kernelwright.proposers.templates.genes import Gene
from kernelwright.proposers.templates.graph import Extent
from kernelwright.proposers.templates.nests.index_maps import IndexTerm, size_of
from kernelwright.proposers.templates.patterns.rows import Instruction, RowNumber, RowProgram, Span, Store

PICKED = 16  # as many elements a thread may have of a row in which one is picked out


@dataclass
class Elements:
    """One vector of a row: `head` loads it, `each` is done for every element j of it, `tail` stores.

    `c` is the first column of the vector, `k` the number of the chunk it is in the thread's share of the row.
    """

    program: RowProgram
    pointer: Callable[[str], str]  # of a tensor or memory, in CUDA
    column: Callable[[int], str]  # the memory of a reduction over the rows
    begin: Callable[[RowNumber | None], str]  # where a row begins in a tensor
    keep: Sequence[int] = ()
    columns: Mapping[int, str] = field(default_factory=dict)  # of loads that are the same for every row: chunks in `k`
    held: set[int] = field(default_factory=set)  # kept values that an earlier pass has computed
    head: list[str] = field(default_factory=list)
    each: list[str] = field(default_factory=list)
    tail: list[str] = field(default_factory=list)
    _names: dict[int, str] = field(default_factory=dict)

    def value(self, place: int) -> str:
        if place not in self._names:
            self._names[place] = self._made(place, self.program.instructions[place])
        return self._names[place]

    def store(self, store: Store, how: str) -> None:
        tensor, place = store.tensor, store.place
        name = f"s_{tensor}" if store.at is None else f"s_{tensor}_{len(self.tail)}"
        self.head.append(f"alignas(16) float {name}[WIDTH];")
        self.each.append(f"{name}[j] = {self.value(place)};")
        self.tail.append(f"{how}({self.pointer(tensor)} + {self.begin(store.at)} + c, {name});")

    def _made(self, place: int, i: Instruction) -> str:
        if not i.span & Span.col:
            return f"v{place}"
        if place in self.held:
            self.head.append(f"alignas(16) float h{place}[WIDTH];")
            self.head.append(f"load(h{place}, k{place}[k]);")
            return f"h{place}[j]"
        if i.operation == "position":
            return "static_cast<long long>(c + j)"
        if i.operation in ("load", "reduce"):
            return self._loaded(place, i)
        name = f"v{place}"
        operands = [self.value(operand) for operand in i.operands]
        self.each.append(f"const {TYPES[i.dtype]} {name} = {expression(i.operation, operands, i.dtype)};")
        if place in self.keep:
            self.each.append(f"k{place}[k][j] = {name};")
            self.held.add(place)
        return name

    def _loaded(self, place: int, i: Instruction) -> str:
        at = f"{self.begin(i.at)} + c" if i.span == Span.full else "c"
        source = self.pointer(i.tensor) if i.operation == "load" else self.column(place)
        if place in self.keep:
            self.head.append(f"load(k{place}[k], {source} + {at});")
            self.held.add(place)
            return f"k{place}[k][j]"
        self.head.append(f"alignas(16) float l{place}[WIDTH];")
        if place in self.columns:
            here = f"k < {self.columns[place]}"
            if i.memory:  # not a float in memory, but one where it is kept
                self.head.append(f"if ({here}) copy(l{place}, k{place}[{here} ? k : 0]);")
                self.head.append(f"else load(l{place}, {source} + {at});")
                return f"l{place}[j]"
            self.head.append(f"load(l{place}, {here} ? k{place}[{here} ? k : 0] : {source} + {at});")
        else:
            self.head.append(f"load(l{place}, {source} + {at});")
        return f"l{place}[j]"

    def lines(self) -> list[str]:
        each = ["#pragma unroll", "for (int j = 0; j < WIDTH; ++j) {", *(f"  {line}" for line in self.each), "}"]
        return [*self.head, *(each if self.each else []), *self.tail]


@dataclass
class SingleElement:
    """One element of a full value, computed alone: its loads as soon as the place is known, the rest in its turn.

    What a few lanes keep of the row is asked of the lane that has it.
    """

    program: RowProgram
    gather: int
    pointer: Callable[[str], str]
    kept: Sequence[int] = ()
    loads: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    _names: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        values, self.index = self.program.instructions[self.gather].operands
        self.result = self._value(values)

    def _value(self, place: int) -> str:
        i = self.program.instructions[place]
        if not i.span & Span.col:
            return f"v{place}"
        if i.operation == "position":
            return f"v{self.index}"
        if place not in self._names:
            self._names[place] = f"g{self.gather}_{place}"
            if i.operation == "load":
                at = f"row * COLS + v{self.index}" if i.span == Span.full else f"v{self.index}"
                source = f"{self.pointer(i.tensor)}[{at}]"
                source = f"static_cast<float>({source})" if i.memory else source
                if place in self.kept:
                    near = f"picked<WIDTH, CHUNKS, TEAM < 32 ? TEAM : 32, WHOLE>(k{place}, v{self.index})"
                    source = f"TEAM <= 32 && PARTS == 1 && CHUNKS * WIDTH <= {PICKED} ? {near} : {source}"
                self.loads.append(f"const float {self._names[place]} = {source};")
            else:
                text = expression(i.operation, [self._value(operand) for operand in i.operands], i.dtype)
                self.steps.append(f"const {TYPES[i.dtype]} {self._names[place]} = {text};")
        return self._names[place]


def width_gene(program: RowProgram) -> Gene:
    """16 bytes of what lies in memory, at most."""
    if program.memory:
        return Gene("width", (1, 2, 4, 8), (8, 4, 2))
    return Gene("width", (1, 2, 4), (4, 2, 1))


JOINS = {"sum": "Sum", "max": "Most", "min": "Least", "argmax": "First", "argmin": "First"}


def column_stores(program: RowProgram, number: int) -> list[tuple[str, int]]:
    instructions = program.instructions
    return [
        (s.tensor, s.place)
        for s in program.stores
        if instructions[s.place].stage == number and instructions[s.place].span == Span.col
    ]


@dataclass(kw_only=True)
class Writer(KernelWriter):
    """What the kernels of a program have in common: numbers and single values."""

    program: RowProgram
    stage: RowStage
    numbers: str = "NUMBER"  # another word where a step has a second program, whose places are counted from 0 as well

    def __post_init__(self) -> None:
        super().__post_init__()
        self.types |= self.program.memory

    @property
    def tag(self) -> str:
        return f"{self.step}_{self.stage.number}"

    def instruction(self, place: int) -> Instruction:
        return self.program.instructions[place]

    def begin(self, at: RowNumber | None) -> str:
        """Where a row begins in a tensor."""
        return "row * COLS" if at is None else self.row_number(at)

    def row_number(self, at: RowNumber | None, row: str = "static_cast<long long>(row)") -> str:
        """A number of the row, from sizes that are definitions."""
        assert at is not None and not self.dynamic
        known = [self._defined(at.constant)]
        behind = "1LL"
        for place in reversed(range(len(at.sizes))):
            size = self._defined(size_of(at.sizes[place]))
            along = f"{row} / ({behind})" if place == 0 else f"{row} / ({behind}) % {size}"
            if at.factors[place] != 0:
                known.append(f"{along} * {self._defined(at.factors[place])}")
            behind = f"{behind} * {size}"
        return f"({' + '.join(known)})"

    def _defined(self, term: IndexTerm) -> str:
        if isinstance(term, int):
            return f"({term}LL)"
        text = self.whole(term)
        name = f"SIZE_{self.step}_{crc32(text.encode()):08x}"
        self.define(name, f"'{{}}LL'.format({text})")
        return f"({name})"

    def whole(self, term: IndexTerm) -> str:
        """A whole number that follows from sizes alone, in Python."""
        match term:
            case int():
                return f"({term})"
            case Extent():
                return f"({self.size(term)})"
        return f"({self.whole(term.operands[0])} {term.operator} {self.whole(term.operands[1])})"

    def width_of(self, columns: str) -> str:
        """As many elements as a vector may have so that every row begins with a whole one, in Python."""
        loads = (i.at for i in self.program.instructions if i.operation == "load" and i.span & Span.col)
        starts = [at for at in (*loads, *(store.at for store in self.program.stores)) if at is not None]
        terms = dict.fromkeys(self.whole(term) for at in starts for term in (at.constant, *at.factors))
        size = f"math.gcd({', '.join([columns, *terms])})" if starts else columns
        return f"widest({self.genes['width']}, {size})"

    def column(self, place: int) -> str:
        return self.pointer(f"column_{self.step}_{place}")

    def singles(self, places: set[int], totals: dict[int, str], known: frozenset[int] = frozenset()) -> list[str]:
        """Declarations of the single values among `places` and of all that they need, in order, but for `known`."""
        wanted = self.single_places(places) - known
        return [f"const {self._type(p)} v{p} = {self._single(p, totals)};" for p in sorted(wanted)]

    def single_places(self, places: set[int]) -> set[int]:
        wanted: set[int] = set()
        left = [p for p in places if self.instruction(p).span == Span.one]
        while left:
            place = left.pop()
            if place not in wanted:
                wanted.add(place)
                if not over_rows(self.instruction(place)):
                    left += self.instruction(place).operands
        return wanted

    def _type(self, place: int) -> str:
        return TYPES[self.instruction(place).dtype]

    def _single(self, place: int, totals: dict[int, str]) -> str:
        i = self.instruction(place)
        if i.operation == "number":
            return self._number(place, i)
        if i.operation == "load":
            return f"{self.pointer(i.tensor)}[{self.row_number(i.at, '0') if i.at else 0}]"
        if i.operation == "index":
            return self.row_number(i.at, "0")
        if i.operation == "reduce":
            return totals.get(place) or f"{self.pointer(f'total_{self.step}_{place}')}[0]"
        return expression(i.operation, [f"v{p}" for p in i.operands], i.dtype)

    def _number(self, place: int, i: Instruction) -> str:
        name = f"{self.numbers}_{self.step}_{place}"
        number = python_number(i.number, self.sizes)
        if self.dynamic and depends_on_sizes(i.number):
            self.give(name, number, TYPES[i.dtype])
        else:
            self.define(name, f"literal({'float' if i.dtype == 'float32' else 'int'}({number}))")
        return name

    def narrow_operands(self, places: set[int] | frozenset[int]) -> set[int]:
        return {o for p in places for o in self.instruction(p).operands if self.instruction(o).span == Span.one}

    def column_kept(self, place: int, count: str) -> list[str]:
        """The statement that leaves a joined column `a` for the rows of the next stage, if they need it."""
        if place not in stage_of(self.program, self.stage.number + 1).needed:
            return []
        memory = f"column_{self.step}_{place}"
        self.setup.append(f'{memory} = kw.scratch("{memory}", 4 * {count})')
        return [f"{self.pointer(memory, written=True, read=False)}[c] = a{place};"]

    def column_results(self) -> list[str]:
        """Statements that store results with an element for each column, from the joined columns `a`."""
        narrow, lines = self.column_values()
        stores = column_stores(self.program, self.stage.number + 1)
        lines += [f"{self.pointer(tensor, written=True, read=False)}[c] = v{place};" for tensor, place in stores]
        return [*narrow, *lines]

    def column_values(self, at: str = "c") -> tuple[list[str], list[str]]:
        """Declarations of single values, and then of the results with an element for each column."""
        lines: list[str] = []
        seen: set[int] = set()

        def make(place: int) -> None:
            i = self.instruction(place)
            if place in seen or i.span == Span.one:
                return
            seen.add(place)
            if place in self.stage.columns:
                text = f"a{place}"
            elif i.operation == "load":
                text = f"{self.pointer(i.tensor)}[{at}]"
            elif i.operation == "reduce":
                text = f"{self.column(place)}[{at}]"
            else:
                for operand in i.operands:
                    make(operand)
                text = expression(i.operation, [f"v{p}" for p in i.operands], i.dtype)
            lines.append(f"const {TYPES[i.dtype]} v{place} = {text};")

        for _, place in column_stores(self.program, self.stage.number + 1):
            make(place)
        return self.singles(self.narrow_operands(seen), {}), lines


JOIN_THREADS = 256


class JoinWriter(Writer):
    """Joins the partial results of columns: a thread for each column, several where there are many results to join."""

    def kernel(self) -> Kernel:
        tag, stage = self.tag, self.stage
        self.setup.append(f"columns_{tag} = {self.size(self.program.cols)}")
        self.give(f"JOINED_{tag}", f"columns_{tag}")
        partials = f"groups_{tag} * teams_{tag}" if stage.columns else "0"
        most = JOIN_THREADS // 32
        sharing = f"({most} if {partials} >= {most} else 1)" if self.dynamic else f"min({most}, power({partials}))"
        self.setup.append(f"sharing_{tag} = {sharing}")
        self.define(f"SHARING_{tag}", f"sharing_{tag}")
        self.give(f"PARTIALS_{tag}", partials)
        if self.dynamic:
            lines = [f"const int COLS = JOINED_{tag}, PARTIALS = PARTIALS_{tag};"]
            lines.append(f"constexpr int GROUPS = SHARING_{tag};")
        else:
            lines = [f"constexpr int COLS = JOINED_{tag}, PARTIALS = PARTIALS_{tag}, GROUPS = SHARING_{tag};"]
        lines.append(f"constexpr int LANES = {JOIN_THREADS} / GROUPS;")
        lines.append(f"__shared__ float found[{max(1, len(stage.columns))}][GROUPS][LANES];")
        lines.append("const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;")
        lines.append("const int c = block * LANES + lane;")
        for number, place in enumerate(stage.columns):
            join = JOINS[self.instruction(place).kind]
            pointer = self.pointer(f"partial_{self.step}_{place}")
            lines.append(f"float a{place} = {join}::nothing();")
            lines.append("if (c < COLS)")
            lines.append("#pragma unroll 4")
            lines.append("  for (int i = group; i < PARTIALS; i += GROUPS)")
            lines.append(f"    a{place} = {join}::join(a{place}, {pointer}[static_cast<long long>(i) * COLS + c]);")
            lines.append(f"found[{number}][group][lane] = a{place};")
        lines.append("__syncthreads();")
        lines.append("if (group == 0 && c < COLS) {")
        for number, place in enumerate(stage.columns):
            join = JOINS[self.instruction(place).kind]
            lines.append(
                f"  for (int i = 1; i < GROUPS; ++i) a{place} = {join}::join(a{place}, found[{number}][i][lane]);"
            )
            lines += [f"  {line}" for line in self.column_kept(place, f"columns_{tag}")]
        lines += [f"  {line}" for line in self.column_results()]
        return Kernel(
            f"columns_{tag}",
            tuple(self.parameters.values()),
            "".join(f"  {line}\n" for line in [*lines, "}"]),
            self.plan_lines,
            f"ceil(columns_{tag}, {JOIN_THREADS} // sharing_{tag})",
            str(JOIN_THREADS),
            when=f"not (only_{tag} or owned_{tag})" if stage.columns else "True",
            dynamic=self.dynamic,
        )
