"""Writes the kernel of one stage of a row program: a team of threads for each row, its passes, and its results."""

from __future__ import annotations

from kernelwright.proposers.templates.cuda.kernels import TYPES, Kernel, expression
from kernelwright.proposers.templates.cuda.rows import dynamic_plan
from kernelwright.proposers.templates.cuda.rows.analysis import (
    HeldValues,
    Moments,
    held,
    moments,
    over_rows,
    recounted,
    stage_of,
)
from kernelwright.proposers.templates.cuda.rows.reductions import ColumnReductions
from kernelwright.proposers.templates.cuda.rows.writer import Elements, SingleElement
from kernelwright.proposers.templates.patterns.rows import Instruction, Span

NOTHING = HeldValues((), (), (), (), ())


class StageWriter(ColumnReductions):
    def kernel(self) -> Kernel:
        stage, tag = self.stage, self.tag
        found = held(self.program, stage)
        self.set_up(found)
        with_keep, without = self._body(found) if found.values else "", self._body(NOTHING)
        body = f"#if KEEP_{tag}\n{with_keep}#else\n{without}#endif\n" if with_keep else without
        recount = self.genes.get("recount") if stage.number == 0 else 0
        dense = self.dense
        return Kernel(
            f"rows_{tag}",
            tuple(self.parameters.values()),
            body,
            self.plan_lines,
            f"groups_{tag} * parts_{tag}",
            f"team_{tag} * teams_{tag}",
            cooperative=f"parts_{tag} > 1" if self.parted else "False",
            least_blocks=f"{self.resident} if parts_{tag} > 1 else {dense}" if self.parted else dense,
            shared=f"shared_{tag}" if found.values else "0",
            when=f"rows_{tag} > {recount}" if recount else f"not owned_{tag}" if stage.columns else "True",
            dynamic=self.dynamic,
        )

    def _body(self, keep: HeldValues) -> str:
        stage, tag = self.stage, self.tag
        constants = [
            f"constexpr int COLS = COLS_{tag}, WIDTH = WIDTH_{tag}, TEAM = TEAM_{tag}, TEAMS = TEAMS_{tag};",
            f"constexpr int CHUNKS = CHUNKS_{tag}, PARTS = PARTS_{tag};",
            f"using Index = INDEX_{tag};",
            f"constexpr Index ROWS = ROWS_{tag};",
            "constexpr bool WHOLE = TEAM >= 32 || ROWS % (32 / TEAM) == 0;",
        ]
        lines = [
            *(dynamic_plan.declarations(self) if self.dynamic else constants),
            *self.slots(),
            "const int team = threadIdx.x / TEAM, lane = threadIdx.x % TEAM, part = block % PARTS;",
            "const int me = block / PARTS * TEAMS + team, all = blocks / PARTS * TEAMS;",
            "(void)WHOLE, (void)lane, (void)part;",
            *self._kept(keep),
        ]
        again = recounted(self.program) if self.genes.get("recount") and stage.number else ()
        narrow = self.narrow_operands(stage.needed)
        loads = {p for p in self.single_places(narrow) if self.instruction(p).operation == "load"}
        lines += self.singles(loads, {})
        for number, place in enumerate(again):
            lines += [*(["__syncthreads();"] if number else []), *self._recount(place)]
        lines += self.singles(narrow, {place: f"t{place}" for place in again}, frozenset(loads))
        lines += [f"float t{p} = {self.join(p)}::nothing();" for p in stage.totals]
        lines += self.column_starts()
        lines.append("for (Index row = me; row < ROWS; row += all) {")
        lines += [f"  {line}" for line in self._row(keep)]
        lines += ["}", *self.column_ends(), *self.total_ends()]
        return "".join(f"  {line}\n" for line in lines)

    def _kept(self, keep: HeldValues) -> list[str]:
        """Room for what is kept, and `fetch`, which begins to read a row: the first before anything is waited for."""
        if not keep.values:
            return []
        tag = self.tag
        lines = ["extern __shared__ __align__(16) float kept[];", "(void)kept;"]
        shelf = "const Shelf<WIDTH, TEAM * TEAMS> k{}{{kept + (({}) * TEAM * TEAMS + threadIdx.x) * WIDTH}};"
        for number, place in enumerate(keep.values):
            lines += [f"#if OUTSIDE_{tag} > {number}", shelf.format(place, f"{number} * CHUNKS")]
            lines += ["#else", f"alignas(16) float k{place}[CHUNKS][WIDTH];", "#endif"]
        before = f"OUTSIDE_{tag} * CHUNKS"
        for place in keep.columns:
            count = f"HELD_{tag}_{place}"
            lines += [f"#if PARTS_{tag} > 1", shelf.format(place, before)]
            lines += ["#else", f"alignas(16) float k{place}[{count} ? {count} : 1][WIDTH];", "#endif"]
            before += f" + {count}"
        for place in keep.fetched:
            lines.append(f"alignas(16) float n{place}[AHEAD_{tag} ? CHUNKS : 1][WIDTH];")
        lines += [f"{TYPES[self.instruction(place).dtype]} r{place};" for place in keep.rows]
        lines += ["const auto fetch = [&](const Index row) {", "  if (row >= ROWS) return;"]
        lines += [f"  r{place} = {self._row_load(place)};" for place in keep.rows]
        loads = Elements(self.program, self.pointer, self.column, self.begin, keep.values)
        for place in keep.fetched:
            one = self.instruction(place)
            source = f"{self.pointer(one.tensor)} + {self.begin(one.at)} + c"
            loads.head.append(f"if (AHEAD_{tag}) load(n{place}[AHEAD_{tag} ? k : 0], {source});")
            loads.head.append(f"else load(k{place}[k], {source});")
        lines += [*(f"  {line}" for line in self.chunks(loads)), "};", "fetch(me);"]
        return [*lines, "if (PARTS == 1) {", *(f"  {line}" for line in self._columns_read(keep.columns, keep)), "}"]

    def _columns_read(self, columns: tuple[int, ...], keep: HeldValues) -> list[str]:
        """Reads what is the same for every row and has a place."""
        loads = Elements(self.program, self.pointer, self.column, self.begin, keep.values)
        for place in columns:
            here = f"k < HELD_{self.tag}_{place}"
            source = f"{self.pointer(self.instruction(place).tensor)} + c"
            loads.head.append(f"if ({here}) load(k{place}[{here} ? k : 0], {source});")
        return self.chunks(loads) if columns else []

    def _meanwhile(self, keep: HeldValues) -> list[str]:
        """What blocks of the first row do until they hear of each other: read what they need after the passes."""
        lines = self._columns_read(keep.late, keep)
        return ["if (row == me) {", *(f"  {line}" for line in lines), "}"] if lines else []

    def _row(self, keep: HeldValues) -> list[str]:
        stage, tag = self.stage, self.tag
        known = set(keep.fetched)
        lines = []
        if keep.fetched:
            copies = Elements(self.program, self.pointer, self.column, self.begin, keep.values)
            copies.head += [f"copy(k{place}[k], n{place}[AHEAD_{tag} ? k : 0]);" for place in keep.fetched]
            lines += [f"if (AHEAD_{tag}) {{", *(f"  {line}" for line in self.chunks(copies)), "}"]
        lines += self._settled(0, keep)
        if keep.values:
            lines.append(f"if (AHEAD_{tag} && all < ROWS) fetch(row + all);")
        pair = moments(self.program, stage) if self.parted or not keep.values else None
        for number, reductions in enumerate(stage.passes):
            if pair and number == pair.number:
                lines += self._around_the_mean(pair, keep, known)
            elif not pair or number != pair.number + 1:
                lines += self._declared(reductions)
                meanwhile = [] if number else self._meanwhile(keep)
                lines += [*self._pass(reductions, keep, known), *self.reduce_row(number, reductions, meanwhile)]
            lines += self._settled(number + 1, keep)
        lines += self.counted() if self.parted else []
        if stage.finishes:
            lines += self._finish(keep, known)
        lines += self.cleared() if self.parted else []
        if keep.values:
            lines.append(f"if (!AHEAD_{tag} && all < ROWS) fetch(row + all);")
        return lines

    def _elements(self, keep: HeldValues, known: set[int]) -> Elements:
        columns = {place: f"HELD_{self.tag}_{place}" for place in keep.columns}
        return Elements(self.program, self.pointer, self.column, self.begin, keep.values, columns, known)

    def _declared(self, reductions: tuple[int, ...]) -> list[str]:
        return [f"{'Found' if self.finds(place) else 'float'} a{place};" for place in reductions]

    def _pass(self, reductions: tuple[int, ...], keep: HeldValues, known: set[int]) -> list[str]:
        elements = self._elements(keep, known)
        lines = []
        for place in reductions:
            join, operand = self.join(place), self.instruction(place).operands[0]
            value = elements.value(operand)
            lines.append(f"a{place} = {join}::nothing();")
            if self.finds(place):
                sign = "-" if self.instruction(place).kind == "argmin" else ""
                elements.each.append(f"a{place} = First::join(a{place}, Found{{{sign}{value}, c + j}});")
            else:
                elements.each.append(f"a{place} = {join}::join(a{place}, static_cast<float>({value}));")
        return [*lines, *self.chunks(elements)]

    def _around_the_mean(self, pair: Moments, keep: HeldValues, known: set[int]) -> list[str]:
        """Two passes in one, unless the row lies in one block's registers, where a second pass is free and exact."""
        both = self.stage.passes[pair.number : pair.number + 2]
        lines = [*self._declared(both[0] + both[1]), *(f"float {n};" for n in pair.names if n.startswith("y"))]
        first, all_ = self._elements(keep, set(known)), self._elements(keep, set(known))
        once = self.one_pass(pair, first, all_, [] if pair.number else self._meanwhile(keep))
        if not keep.values:
            return [*lines, "{", *(f"  {line}" for line in once), "}"]
        twice = []
        for number, reductions in enumerate(both, pair.number):
            twice += [*self._pass(reductions, keep, known), *self.reduce_row(number, reductions)]
            twice += self._row_values(self.stage.needed, number + 1, keep) if number == pair.number else []
        return [*lines, "if (PARTS > 1) {", *once, "} else {", *twice, "}"]

    def _recount(self, place: int) -> list[str]:
        """A number over all rows that every block finds itself if they are few, which saves a launch."""
        join, needed = self.join(place), stage_of(self.program, 0).needed
        return [
            f"float t{place} = {join}::nothing();",
            f"if (ROWS <= {self.genes['recount']}) {{",
            *(f"  {line}" for line in self.singles(self.narrow_operands(needed), {})),
            "#pragma unroll 4",
            "  for (Index row = threadIdx.x; row < ROWS; row += TEAM * TEAMS) {",
            *(f"    {line}" for line in self._row_values(needed, 0, NOTHING)),
            f"    t{place} = {join}::join(t{place}, static_cast<float>(v{self.instruction(place).operands[0]}));",
            "  }",
            f"  t{place} = over_team<{join}, TEAM * TEAMS>(t{place}, slots[1][0]);",
            "} else {",
            f"  t{place} = {self.pointer(f'total_{self.step}_{place}')}[0];",
            "}",
        ]

    def _row_values(self, needed: frozenset[int], phase: int, keep: HeldValues) -> list[str]:
        """Values of the row that are known after so many passes; loads at an index as soon as the index is."""
        lines = []
        gathers = [p for p in sorted(needed) if self.instruction(p).operation == "gather"]
        at = {p: SingleElement(self.program, p, self.pointer, keep.fetched) for p in gathers}
        for place in sorted(needed):
            i = self.instruction(place)
            if i.span != Span.row or i.phase != phase or over_rows(i):
                continue
            if place in at and self.instruction(at[place].index).span == Span.one:
                lines += at[place].loads
            lines += self._row_value(place, i, keep)
            lines += [line for one in at.values() if one.index == place for line in one.loads]
        return lines

    def _settled(self, phase: int, keep: HeldValues) -> list[str]:
        """Values of the row that are known after so many passes, and what becomes of them."""
        lines = self._row_values(self.stage.needed, phase, keep)
        for tensor, place in self.stage.row_stores:
            if self.instruction(place).phase == phase:
                lines.append(
                    f"if (lane == 0 && part == 0) {self.pointer(tensor, written=True, read=False)}[row] = v{place};"
                )
        for place in self.stage.totals:
            operand = self.instruction(place).operands[0]
            if self.instruction(operand).phase == phase:
                lines.append(f"t{place} = {self.join(place)}::join(t{place}, static_cast<float>(v{operand}));")
        return lines

    def _row_value(self, place: int, i: Instruction, keep: HeldValues) -> list[str]:
        steps: list[str] = []
        if i.operation == "reduce":
            text = f"a{place}.at" if self.finds(place) else f"static_cast<{TYPES[i.dtype]}>(a{place})"
        elif i.operation == "load":
            text = f"r{place}" if place in keep.rows else self._row_load(place)
        elif i.operation == "index":
            text = self.row_number(i.at)
        elif i.operation == "gather":
            one = SingleElement(self.program, place, self.pointer, keep.fetched)
            steps, text = one.steps, one.result
        else:
            text = expression(i.operation, [f"v{p}" for p in i.operands], i.dtype)
        return [*steps, f"const {TYPES[i.dtype]} v{place} = {text};"]

    def _row_load(self, place: int) -> str:
        i = self.instruction(place)
        if i.at:
            return f"{self.pointer(i.tensor)}[{self.row_number(i.at)}]"
        if not i.period:
            return f"{self.pointer(i.tensor)}[row]"
        self.give(f"PERIOD_{self.step}_{place}", self.size(i.period))
        return f"{self.pointer(i.tensor)}[row % static_cast<long long>(PERIOD_{self.step}_{place})]"

    def _finish(self, keep: HeldValues, known: set[int]) -> list[str]:
        elements = self._elements(keep, known)
        for store in self.stage.stores:
            elements.store(store, "stream" if self.genes.get("stream") else "store")
            self.pointer(store.tensor, written=True, read=False)
        self.summed(elements)
        return self.chunks(elements)
