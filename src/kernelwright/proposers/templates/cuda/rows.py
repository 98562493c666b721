"""Renders a row program: a team of threads for each row, from four lanes to many blocks.

Every stage is a kernel. What is reduced over the rows leaves it as partial results: single numbers are joined by the
block that comes last, columns by a kernel of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kernelwright.proposers.templates.cuda.elements import Elements, single_element
from kernelwright.proposers.templates.cuda.expressions import TYPES, expression, python_number
from kernelwright.proposers.templates.cuda.kernels import Kernel
from kernelwright.proposers.templates.cuda.pen import Pen
from kernelwright.proposers.templates.cuda.stages import Stage, kept, over_rows, read_later, stage_of
from kernelwright.proposers.templates.genes import Gene, GenePool, Genes
from kernelwright.proposers.templates.graph import CannotExpressError, Graph
from kernelwright.proposers.templates.patterns.rows import Instruction, RowProgram, Span
from kernelwright.proposers.templates.sizes import Sizes

JOINS = {"sum": "Sum", "max": "Most", "min": "Least", "argmax": "First", "argmin": "First"}
COLUMN_REGISTERS = 64
JOIN_THREADS = 256


def gene_pool(program: RowProgram) -> GenePool:
    over = program.reduces_rows
    genes = [
        Gene("width", (1, 2, 4), (4, 2, 1)),
        Gene("elements", (4, 8, 16, 32), (16, 8, 32)),
        Gene("most", (128, 256, 512, 1024), (256, 512, 128)),
        Gene("persist", (1, 2, 4, 8) if over else (0, 1, 2, 4, 8), (4, 2, 8) if over else (0, 4, 8)),
        Gene("unroll", (1, 2, 4), (4, 2, 1)),
    ]
    if any(program.instructions[s.place].span == Span.full for s in program.stores):
        genes.append(Gene("stream", (False, True), (False, True)))
    if program.reduces_cols:
        genes.append(Gene("keep", (0, 32, 64, 96), (64, 0, 96)))
        genes.append(Gene("split", (0, 256, 512, 1024), (1024, 512, 0)))
    return GenePool(tuple(genes))


def describe(program: RowProgram, genes: Genes) -> str:
    parts = [f"about {genes['elements']} elements a thread and at most {genes['most']} threads a row"]
    parts.append(f"vectors of {genes['width']}")
    if genes["persist"]:
        parts.append(f"{genes['persist']} persistent blocks on each multiprocessor")
    if genes.get("keep"):
        parts.append("rows kept in registers where they fit")
    if genes.get("split"):
        parts.append(f"a long row split over blocks of {genes['split']} threads that meet in a workspace")
    if genes.get("stream"):
        parts.append("streaming stores")
    return ", ".join(parts)


def render(program: RowProgram, genes: Genes, sizes: Sizes, graph: Graph, step: int) -> list[Kernel]:
    kernels = []
    for number in range(program.stages):
        stage = stage_of(program, number)
        given: dict[str, Any] = {"genes": genes, "sizes": sizes, "graph": graph, "step": step}
        if stage.works:
            kernels.append(_StageWriter(program=program, stage=stage, **given).kernel())
        if stage.columns or column_stores(program, number + 1):
            kernels.append(_JoinWriter(program=program, stage=stage, **given).kernel())
    if any(program.instructions[s.place].stage == 0 and _narrow(program, s.place) for s in program.stores):
        raise CannotExpressError(f"{graph.task}: no CUDA template covers a result that does not vary over the rows")
    return kernels


def _narrow(program: RowProgram, place: int) -> bool:
    return not program.instructions[place].span & Span.row and not program.rows.single


def column_stores(program: RowProgram, number: int) -> list[tuple[str, int]]:
    instructions = program.instructions
    return [
        (s.tensor, s.place)
        for s in program.stores
        if instructions[s.place].stage == number and instructions[s.place].span == Span.col
    ]


@dataclass(kw_only=True)
class Writer(Pen):
    """What the kernels of a program have in common: numbers and single values."""

    program: RowProgram
    stage: Stage

    @property
    def tag(self) -> str:
        return f"{self.step}_{self.stage.number}"

    def instruction(self, place: int) -> Instruction:
        return self.program.instructions[place]

    def column(self, place: int) -> str:
        return self.pointer(f"column_{self.step}_{place}")

    def singles(self, places: set[int], totals: dict[int, str]) -> list[str]:
        """Declarations of the single values among `places` and of all that they need, in order."""
        wanted: set[int] = set()
        left = [p for p in places if self.instruction(p).span == Span.one]
        while left:
            place = left.pop()
            if place not in wanted:
                wanted.add(place)
                if not over_rows(self.instruction(place)):
                    left += self.instruction(place).operands
        return [f"const {self._type(p)} v{p} = {self._single(p, totals)};" for p in sorted(wanted)]

    def _type(self, place: int) -> str:
        return TYPES[self.instruction(place).dtype]

    def _single(self, place: int, totals: dict[int, str]) -> str:
        i = self.instruction(place)
        if i.operation == "number":
            return self._number(place, i)
        if i.operation == "load":
            return f"{self.pointer(i.tensor)}[0]"
        if i.operation == "reduce":
            return totals.get(place) or f"{self.pointer(f'total_{self.step}_{place}')}[0]"
        return expression(i.operation, [f"v{p}" for p in i.operands], i.dtype)

    def _number(self, place: int, i: Instruction) -> str:
        name = f"NUMBER_{self.step}_{place}"
        number = python_number(i.number, self.sizes)
        self.define(name, f"literal({'float' if i.dtype == 'float32' else 'int'}({number}))")
        return name

    def narrow_operands(self, places: set[int] | frozenset[int]) -> set[int]:
        return {o for p in places for o in self.instruction(p).operands if self.instruction(o).span == Span.one}


class _StageWriter(Writer):
    @property
    def name(self) -> str:
        return f"rows_{self.tag}"

    def kernel(self) -> Kernel:
        stage = self.stage
        keep = kept(self.program, stage)
        self._setup(len(keep))
        with_keep, without = self._body(keep), self._body([]) if keep else ""
        body = f"#if KEEP_{self.tag}\n{with_keep}#else\n{without}#endif\n" if keep else with_keep
        tag = self.tag
        return Kernel(
            self.name,
            tuple(self.parameters.values()),
            body,
            self.plan_lines,
            f"groups_{tag} * parts_{tag}",
            f"team_{tag} * teams_{tag}",
            cooperative=f"parts_{tag} > 1" if stage.passes and self.genes.get("split") else "False",
            least_blocks=f"1024 // team_{tag} if parts_{tag} > 1 else 1",
        )

    # The plan's part.

    def _setup(self, kept_count: int) -> None:
        tag, genes, stage = self.tag, self.genes, self.stage
        add = self.setup.append
        add(f"rows_{tag}, cols_{tag} = {self._size('rows')}, {self._size('cols')}")
        add(f"width_{tag} = widest({genes['width']}, cols_{tag})")
        add(f"team_{tag} = min({genes['most']}, max(4, power(ceil(cols_{tag}, {genes['elements']}))))")
        add(f"parts_{tag} = 1")
        if stage.passes and genes.get("split"):
            long = f"cols_{tag} >= {4 * int(genes['most']) * int(genes['elements'])}"
            add(f"if 2 * rows_{tag} <= kw.device.multiprocessors and {long}:")
            add(f"    team_{tag} = {genes['split']}")
            add(f"    room_{tag} = kw.device.multiprocessors * {1024 // int(genes['split'])} // rows_{tag}")
            add(f"    parts_{tag} = min(room_{tag}, ceil(cols_{tag}, team_{tag} * width_{tag}))")
        add(f"teams_{tag} = max(1, 128 // team_{tag}) if team_{tag} <= 32 else 1")
        add(f"groups_{tag} = ceil(rows_{tag}, teams_{tag})")
        if genes["persist"]:
            most = f"kw.device.multiprocessors * max(1, {genes['persist']} * 256 // (team_{tag} * teams_{tag}))"
            add(f"groups_{tag} = groups_{tag} if parts_{tag} > 1 else min(groups_{tag}, {most})")
        add(f"chunks_{tag} = ceil(cols_{tag}, team_{tag} * width_{tag} * parts_{tag})")
        for name in ("rows", "cols", "width", "team", "parts", "teams", "chunks"):
            self.define(f"{name.upper()}_{tag}", f"{name}_{tag}")
        if kept_count:
            fits = f"{kept_count} * chunks_{tag} * width_{tag} <= {genes['keep']}"
            self.define(f"KEEP_{tag}", f"int({fits})")
        if stage.columns:
            fits = f"{len(stage.columns)} * chunks_{tag} * width_{tag} <= {COLUMN_REGISTERS}"
            self.define(f"COLUMNS_{tag}", f"int({fits})")
        self._memory()

    def _memory(self) -> None:
        tag, stage, step = self.tag, self.stage, self.step
        add = self.setup.append
        for place in stage.columns:
            name = f"partial_{step}_{place}"
            add(f'{name} = kw.scratch("{name}", 4 * cols_{tag} * groups_{tag} * teams_{tag})')
        for place in stage.totals:
            name = f"partial_{step}_{place}"
            add(f'{name} = kw.scratch("{name}", 4 * groups_{tag} * parts_{tag})')
            if read_later(self.program, place):
                add(f'total_{step}_{place} = kw.scratch("total_{step}_{place}", 4)')
        if stage.totals:
            add(f'came_{tag} = kw.workspace("came_{tag}", 4)')
        if stage.passes and self.genes.get("split"):
            add(f'parted_{tag} = kw.scratch("parted_{tag}", 8 * {self._reductions} * rows_{tag} * parts_{tag})')
            counters = len(stage.passes) + 1
            add(f'met_{tag} = kw.workspace("met_{tag}", 4 * {counters} * (rows_{tag} if parts_{tag} > 1 else 1))')

    def _size(self, name: str) -> str:
        return self.size(getattr(self.program, name))

    @property
    def _reductions(self) -> int:
        return sum(map(len, self.stage.passes))

    # The kernel's part.

    def _body(self, keep: list[int]) -> str:
        stage, tag = self.stage, self.tag
        lines = [f"constexpr int COLS = COLS_{tag}, WIDTH = WIDTH_{tag}, TEAM = TEAM_{tag}, TEAMS = TEAMS_{tag};"]
        lines.append(f"constexpr int CHUNKS = CHUNKS_{tag}, PARTS = PARTS_{tag};")
        lines.append(f"constexpr long long ROWS = ROWS_{tag};")
        lines += self._slots()
        lines.append("const int team = threadIdx.x / TEAM, lane = threadIdx.x % TEAM, part = block % PARTS;")
        lines.append("const int me = block / PARTS * TEAMS + team, all = blocks / PARTS * TEAMS;")
        lines += self.singles(self.narrow_operands(stage.needed) | set(), {})
        lines += [f"float t{p} = {self._join(p)}::nothing();" for p in stage.totals]
        lines += self._column_starts()
        lines.append("for (long long row = me; row < ROWS; row += all) {")
        lines += [f"  {line}" for line in self._row(keep)]
        lines.append("}")
        lines += self._column_ends()
        lines += self._total_ends()
        return "".join(line if line.startswith("#") and line.endswith("\n") else f"  {line}\n" for line in lines)

    def _slots(self) -> list[str]:
        """Two sets, so that one barrier is enough between a set's use and its next."""
        plain = max((sum(not self._found(p) for p in reductions) for reductions in self.stage.passes), default=0)
        found = max((sum(self._found(p) for p in reductions) for reductions in self.stage.passes), default=0)
        lines = [f"__shared__ float slots[2][{max(plain, 1)}][32];", "int turn = 0;", "(void)slots, (void)turn;"]
        return [*lines, *([f"__shared__ Found finds[2][{found}][32];"] if found else [])]

    def _found(self, place: int) -> bool:
        return self.instruction(place).kind.startswith("arg")

    def _join(self, place: int) -> str:
        return JOINS[self.instruction(place).kind]

    def _row(self, keep: list[int]) -> list[str]:
        stage = self.stage
        lines = [f"alignas(16) float k{place}[CHUNKS][WIDTH];" for place in keep]
        held: set[int] = set()
        lines += self._settled(0)
        for number, reductions in enumerate(stage.passes):
            lines += self._pass(number, reductions, keep, held)
            lines += self._settled(number + 1)
        if stage.finishes:
            lines += self._finish(keep, held)
        if stage.passes and self.genes.get("split"):
            lines += self._left()
        return lines

    def _chunks(self, elements: Elements) -> list[str]:
        unroll = "CHUNKS" if elements.keep or self.stage.columns else str(self.genes["unroll"])
        return [
            f"#pragma unroll {unroll}",
            "for (int k = 0; k < CHUNKS; ++k) {",
            "  const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;",
            "  if (c < COLS) {",
            *(f"    {line}" for line in elements.lines()),
            "  }",
            "}",
        ]

    def _elements(self, keep: list[int], held: set[int]) -> Elements:
        return Elements(self.program, self.pointer, self.column, keep, held)

    def _pass(self, number: int, reductions: tuple[int, ...], keep: list[int], held: set[int]) -> list[str]:
        elements = self._elements(keep, held)
        lines = []
        for place in reductions:
            join, operand = self._join(place), self.instruction(place).operands[0]
            value = elements.value(operand)
            if self._found(place):
                lines.append(f"Found a{place} = First::nothing();")
                sign = "-" if self.instruction(place).kind == "argmin" else ""
                elements.each.append(f"a{place} = First::join(a{place}, Found{{{sign}{value}, c + j}});")
            else:
                lines.append(f"float a{place} = {join}::nothing();")
                elements.each.append(f"a{place} = {join}::join(a{place}, static_cast<float>({value}));")
        return [*lines, *self._chunks(elements), *self._meeting(number, reductions)]

    def _meeting(self, number: int, reductions: tuple[int, ...]) -> list[str]:
        lines, apart, before = [], [], sum(map(len, self.stage.passes[:number]))
        places = {True: 0, False: 0}
        for order, place in enumerate(reductions):
            found, join = self._found(place), self._join(place)
            kind = "Found" if found else "float"
            slots = f"{'finds' if found else 'slots'}[turn][{places[found]}]"
            places[found] += 1
            lines.append(f"a{place} = over_team<{join}, TEAM>(a{place}, {slots});")
            if self.genes.get("split"):
                parted = self.pointer(f"parted_{self.tag}", written=True, kind="double")
                where = f"reinterpret_cast<{kind}*>({parted} + (row * {self._reductions} + {before + order}) * PARTS)"
                apart.append(f"  {kind}* const parts{place} = {where};")
                apart.append(f"  if (threadIdx.x == 0) parts{place}[part] = a{place};")
        lines.append("turn ^= 1;")
        if not apart:
            return lines
        counters = len(self.stage.passes) + 1
        met = self.pointer(f"met_{self.tag}", written=True, kind="unsigned")
        lines += ["if (PARTS > 1) {", *apart]
        lines.append(f"  arrive_and_wait({met} + row * {counters} + {number}, PARTS);")
        places = {True: 0, False: 0}
        for place in reductions:
            found, join = self._found(place), self._join(place)
            slots = f"{'finds' if found else 'slots'}[turn][{places[found]}]"
            places[found] += 1
            lines.append(f"  a{place} = {join}::nothing();")
            lines.append("  for (int i = threadIdx.x; i < PARTS; i += TEAM)")
            lines.append(f"    a{place} = {join}::join(a{place}, fetched(parts{place} + i));")
            lines.append(f"  a{place} = over_team<{join}, TEAM>(a{place}, {slots});")
        return [*lines, "  turn ^= 1;", "}"]

    def _left(self) -> list[str]:
        """The last block of a row leaves the counters as it found them."""
        counters = len(self.stage.passes) + 1
        met = self.pointer(f"met_{self.tag}", written=True, kind="unsigned")
        return [
            "if (PARTS > 1 && threadIdx.x == 0) {",
            f"  unsigned* const met = {met} + row * {counters};",
            f"  if (atomicAdd(met + {counters - 1}, 1u) == PARTS - 1)",
            f"    for (int i = 0; i < {counters}; ++i) met[i] = 0;",
            "}",
        ]

    def _settled(self, phase: int) -> list[str]:
        """Values of the row that are known after so many passes, and what becomes of them."""
        lines = []
        for place in sorted(self.stage.needed):
            i = self.instruction(place)
            if i.span == Span.row and i.phase == phase and not over_rows(i):
                lines.append(f"const {TYPES[i.dtype]} v{place} = {self._row_value(place, i)};")
        for tensor, place in self.stage.row_stores:
            if self.instruction(place).phase == phase:
                lines.append(
                    f"if (lane == 0 && part == 0) {self.pointer(tensor, written=True, read=False)}[row] = v{place};"
                )
        for place in self.stage.totals:
            operand = self.instruction(place).operands[0]
            if self.instruction(operand).phase == phase:
                lines.append(f"t{place} = {self._join(place)}::join(t{place}, static_cast<float>(v{operand}));")
        return lines

    def _row_value(self, place: int, i: Instruction) -> str:
        if i.operation == "reduce":
            return f"a{place}.at" if self._found(place) else f"static_cast<{TYPES[i.dtype]}>(a{place})"
        if i.operation == "load":
            period = f" % static_cast<long long>(PERIOD_{self.step}_{place})" if i.period else ""
            if i.period:
                self.define(f"PERIOD_{self.step}_{place}", self.size(i.period))
            return f"{self.pointer(i.tensor)}[row{period}]"
        if i.operation == "gather":
            return single_element(self.program, i.operands[0], f"v{i.operands[1]}", self.pointer)
        return expression(i.operation, [f"v{p}" for p in i.operands], i.dtype)

    def _finish(self, keep: list[int], held: set[int]) -> list[str]:
        elements = self._elements(keep, held)
        for tensor, place in self.stage.stores:
            elements.store(tensor, place, "stream" if self.genes.get("stream") else "store")
            self.pointer(tensor, written=True, read=False)
        for place in self.stage.columns:
            join, value = self._join(place), elements.value(self.instruction(place).operands[0])
            elements.each.append(f"c{place}[COLUMNS_{self.tag} ? k : 0][j] = {join}::join(")
            elements.each.append(f"    c{place}[COLUMNS_{self.tag} ? k : 0][j], static_cast<float>({value}));")
            elements.head.append(f"if (!COLUMNS_{self.tag}) load(c{place}[0], partial{place} + c);")
            elements.tail.append(f"if (!COLUMNS_{self.tag}) store(partial{place} + c, c{place}[0]);")
        return self._chunks(elements)

    # What is reduced over the rows.

    def _column_starts(self) -> list[str]:
        lines = []
        for place in self.stage.columns:
            pointer = self.pointer(f"partial_{self.step}_{place}", written=True, read=False)
            lines.append(f"float* const partial{place} = {pointer} + static_cast<long long>(me) * COLS;")
            lines.append(f"alignas(16) float c{place}[COLUMNS_{self.tag} ? CHUNKS : 1][WIDTH];")
            lines.append(f"for (int k = 0; k < (COLUMNS_{self.tag} ? CHUNKS : 1); ++k)")
            lines.append(f"  for (int j = 0; j < WIDTH; ++j) c{place}[k][j] = {self._join(place)}::nothing();")
            lines += self._column_store(place, f"!COLUMNS_{self.tag}", "0")
        return lines

    def _column_ends(self) -> list[str]:
        lines = []
        for place in self.stage.columns:
            lines += self._column_store(place, f"COLUMNS_{self.tag}", f"COLUMNS_{self.tag} ? k : 0")
        return lines

    def _column_store(self, place: int, condition: str, at: str) -> list[str]:
        return [
            f"if ({condition})",
            "#pragma unroll",
            "  for (int k = 0; k < CHUNKS; ++k) {",
            "    const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;",
            f"    if (c < COLS) store(partial{place} + c, c{place}[{at}]);",
            "  }",
        ]

    def _total_ends(self) -> list[str]:
        """Blocks leave their shares in memory; the last one joins them and goes on with what is single from here."""
        stage, program = self.stage, self.program
        if not stage.totals:
            return []
        lines = ["__syncthreads();"]
        for place in stage.totals:
            join, partial = self._join(place), f"partial_{self.step}_{place}"
            pointer = self.pointer(partial, written=True)
            lines.append(f"t{place} = lane == 0 && part == 0 ? t{place} : {join}::nothing();")
            lines.append(f"t{place} = over_team<{join}, TEAM * TEAMS>(t{place}, slots[turn][0]);")
            lines.append(f"if (threadIdx.x == 0) {pointer}[block] = t{place};")
            lines.append("__syncthreads();")
        came = self.pointer(f"came_{self.tag}", written=True, kind="unsigned")
        lines.append(f"if (last_to_come({came}, blocks)) {{")
        for place in stage.totals:
            join, pointer = self._join(place), self.pointer(f"partial_{self.step}_{place}", written=True)
            lines.append(f"  t{place} = {join}::nothing();")
            lines.append("  for (int i = threadIdx.x; i < blocks; i += TEAM * TEAMS)")
            lines.append(f"    t{place} = {join}::join(t{place}, fetched({pointer} + i));")
            lines.append(f"  t{place} = over_team<{join}, TEAM * TEAMS>(t{place}, slots[turn][0]);")
            lines.append("  __syncthreads();")
        lines.append("  if (threadIdx.x == 0) {")
        lines += [
            f"    {self.pointer(f'total_{self.step}_{place}', written=True, read=False)}[0] = t{place};"
            for place in stage.totals
            if read_later(program, place)
        ]
        single = [
            (s.tensor, s.place)
            for s in program.stores
            if self.instruction(s.place).span == Span.one and self.instruction(s.place).stage == stage.number + 1
        ]
        held = {place: f"t{place}" for place in stage.totals}
        lines += [f"    {line}" for line in self.singles({place for _, place in single}, held)]
        lines += [f"    {self.pointer(tensor, written=True, read=False)}[0] = v{place};" for tensor, place in single]
        return [*lines, "  }", "}"]


class _JoinWriter(Writer):
    """Joins the partial results of columns, one thread for each column and share of them."""

    def kernel(self) -> Kernel:
        tag, stage = self.tag, self.stage
        self.setup.append(f"columns_{tag} = {self.size(self.program.cols)}")
        self.define(f"JOINED_{tag}", f"columns_{tag}")
        self.define(f"PARTIALS_{tag}", f"groups_{tag} * teams_{tag}" if stage.columns else "0")
        stores = column_stores(self.program, stage.number + 1)
        groups = JOIN_THREADS // 32
        lines = [f"constexpr int COLS = JOINED_{tag}, PARTIALS = PARTIALS_{tag}, GROUPS = {groups};"]
        lines.append(f"__shared__ float found[{max(1, len(stage.columns))}][GROUPS][32];")
        lines.append("const int lane = threadIdx.x % 32, group = threadIdx.x / 32;")
        lines.append("const int c = block * 32 + lane;")
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
            if self._wanted_by_rows(place):
                memory = f"column_{self.step}_{place}"
                self.setup.append(f'{memory} = kw.scratch("{memory}", 4 * columns_{tag})')
                lines.append(f"  {self.pointer(memory, written=True, read=False)}[c] = a{place};")
        lines += [f"  {line}" for line in self._stored(stores)]
        return Kernel(
            f"columns_{tag}",
            tuple(self.parameters.values()),
            "".join(f"  {line}\n" for line in [*lines, "}"]),
            self.plan_lines,
            f"ceil(columns_{tag}, 32)",
            str(JOIN_THREADS),
        )

    def _wanted_by_rows(self, place: int) -> bool:
        later = stage_of(self.program, self.stage.number + 1)
        return place in later.needed

    def _stored(self, stores: list[tuple[str, int]]) -> list[str]:
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
                text = f"{self.pointer(i.tensor)}[c]"
            elif i.operation == "reduce":
                text = f"{self.column(place)}[c]"
            else:
                for operand in i.operands:
                    make(operand)
                text = expression(i.operation, [f"v{p}" for p in i.operands], i.dtype)
            lines.append(f"const {TYPES[i.dtype]} v{place} = {text};")

        for _, place in stores:
            make(place)
        narrow = self.singles(self.narrow_operands(seen), {})
        lines += [f"{self.pointer(tensor, written=True, read=False)}[c] = v{place};" for tensor, place in stores]
        return [*narrow, *lines]
