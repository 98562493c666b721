"""Writes the kernel of one stage of a row program: a team of threads for each row, its passes, and what is left."""

from __future__ import annotations

from kernelwright.proposers.templates.cuda.elements import Elements, single_element
from kernelwright.proposers.templates.cuda.expressions import TYPES, expression
from kernelwright.proposers.templates.cuda.kernels import Kernel
from kernelwright.proposers.templates.cuda.stage_plan import StagePlan
from kernelwright.proposers.templates.cuda.stages import (
    Moments,
    kept,
    moments,
    over_rows,
    read_later,
    recounted,
    stage_of,
)
from kernelwright.proposers.templates.cuda.writer import JOINS
from kernelwright.proposers.templates.patterns.rows import Instruction, Span


class StageWriter(StagePlan):
    @property
    def name(self) -> str:
        return f"rows_{self.tag}"

    def kernel(self) -> Kernel:
        stage = self.stage
        keep = kept(self.program, stage)
        self.set_up(len(keep))
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

    def _body(self, keep: list[int]) -> str:
        stage, tag = self.stage, self.tag
        lines = [f"constexpr int COLS = COLS_{tag}, WIDTH = WIDTH_{tag}, TEAM = TEAM_{tag}, TEAMS = TEAMS_{tag};"]
        lines.append(f"constexpr int CHUNKS = CHUNKS_{tag}, PARTS = PARTS_{tag};")
        lines.append(f"constexpr long long ROWS = ROWS_{tag};")
        lines += self._slots()
        lines.append("const int team = threadIdx.x / TEAM, lane = threadIdx.x % TEAM, part = block % PARTS;")
        lines.append("const int me = block / PARTS * TEAMS + team, all = blocks / PARTS * TEAMS;")
        again = recounted(self.program) if self.genes.get("recount") else ()
        lines += [line for place in again for line in self._recount(place)]
        lines += self.singles(self.narrow_operands(stage.needed), {place: f"t{place}" for place in again})
        lines += [f"float t{p} = {self._join(p)}::nothing();" for p in stage.totals]
        lines += self._column_starts()
        lines.append("for (long long row = me; row < ROWS; row += all) {")
        lines += [f"  {line}" for line in self._row(keep)]
        lines.append("}")
        lines += self._column_ends()
        lines += self._columns_joined()
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
        pair = moments(self.program, stage) if self.genes.get("split") else None
        for number, reductions in enumerate(stage.passes):
            if pair and number == pair.number:
                lines += self._both_moments(pair, keep, held)
            elif pair and number == pair.number + 1:
                lines += self._second_moment(pair, keep, held)
            else:
                lines += [*self._pass(number, reductions, keep, held), *self._meeting(number, reductions)]
            lines += self._settled(number + 1)
        if stage.finishes:
            lines += self._finish(keep, held)
        if stage.passes and self.genes.get("split"):
            lines += self._left()
        return lines

    @property
    def _unroll(self) -> str:
        """All chunks where columns lie in registers, which have no addresses."""
        few = str(self.genes["unroll"])
        return f"(COLUMNS_{self.tag} ? CHUNKS : {few})" if self.stage.columns else few

    def _chunks(self, elements: Elements) -> list[str]:
        unroll = "CHUNKS" if elements.keep else self._unroll
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
        return [*lines, *self._chunks(elements)]

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
                where = f"reinterpret_cast<{kind}*>({parted} + (row * {self.reductions} + {before + order}) * PARTS)"
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

    def _both_moments(self, pair: Moments, keep: list[int], held: set[int]) -> list[str]:
        """The sum as ever; of a row in parts also the squares, so that its blocks meet once instead of twice."""
        first, second, tag = f"a{pair.sum}", f"a{pair.squares}", self.tag
        lines = self._pass(pair.number, (pair.sum,), keep, held)
        lines.append(f"{first} = over_team<Sum, TEAM>({first}, slots[turn][0]);")
        lines += ["turn ^= 1;", f"float {second} = 0.0f;"]
        own = self._elements(keep, set(held))
        own.each.append(f"const float apart = {own.value(pair.values)} - near;")
        own.each.append(f"{second} += apart * apart;")
        parted = self.pointer(f"parted_{tag}", written=True, kind="double")
        met = self.pointer(f"met_{tag}", written=True, kind="unsigned")
        before = sum(map(len, self.stage.passes[: pair.number]))
        inner = [
            "const auto share = [](int i) {  // how many elements part i has",
            "  int count = 0;",
            "  for (int k = 0; k < CHUNKS; ++k) {",
            "    const int left = COLS - (k * PARTS + i) * TEAM * WIDTH;",
            "    count += left < 0 ? 0 : left < TEAM * WIDTH ? left : TEAM * WIDTH;",
            "  }",
            "  return static_cast<float>(count);",
            "};",
            f"const float near = {first} / share(part);",
            *self._chunks(own),
            f"{second} = over_team<Sum, TEAM>({second}, slots[turn][0]);",
            "turn ^= 1;",
            f"double* const room = {parted} + (row * {self.reductions} + {before}) * PARTS;",
            "float* const sums = reinterpret_cast<float*>(room);",
            "float* const squares = reinterpret_cast<float*>(room + PARTS);",
            f"if (threadIdx.x == 0) sums[part] = {first}, squares[part] = {second};",
            f"arrive_and_wait({met} + row * {len(self.stage.passes) + 1} + {pair.number}, PARTS);",
            f"{first} = 0.0f;",
            f"for (int i = threadIdx.x; i < PARTS; i += TEAM) {first} += fetched(sums + i);",
            f"{first} = over_team<Sum, TEAM>({first}, slots[turn][0]);",
            "turn ^= 1;",
            f"{second} = 0.0f;",
            "for (int i = threadIdx.x; i < PARTS; i += TEAM) {",
            f"  const float count = share(i), off = fetched(sums + i) / count - {first} / COLS;",
            f"  {second} += fetched(squares + i) + count * off * off;",
            "}",
            f"{second} = over_team<Sum, TEAM>({second}, slots[turn][0]);",
            "turn ^= 1;",
        ]
        return [*lines, "if (PARTS > 1) {", *(f"  {line}" for line in inner), "}"]

    def _second_moment(self, pair: Moments, keep: list[int], held: set[int]) -> list[str]:
        """Known already where the row is in parts."""
        _, *lines = self._pass(pair.number + 1, (pair.squares,), keep, held)
        name = f"a{pair.squares}"
        lines += [f"{name} = over_team<Sum, TEAM>({name}, slots[turn][0]);", "turn ^= 1;"]
        return ["if (PARTS == 1) {", *(f"  {line}" for line in lines), "}"]

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

    def _recount(self, place: int) -> list[str]:
        join, needed = self._join(place), stage_of(self.program, 0).needed
        return [
            f"float t{place} = {join}::nothing();",
            "{",
            *(f"  {line}" for line in self.singles(self.narrow_operands(needed), {})),
            "  for (long long row = threadIdx.x; row < ROWS; row += TEAM * TEAMS) {",
            *(f"    {line}" for line in self._row_values(needed, 0)),
            f"    t{place} = {join}::join(t{place}, static_cast<float>(v{self.instruction(place).operands[0]}));",
            "  }",
            f"  t{place} = over_team<{join}, TEAM * TEAMS>(t{place}, slots[0][0]);",
            "  __syncthreads();",
            "}",
        ]

    def _row_values(self, needed: frozenset[int], phase: int) -> list[str]:
        lines = []
        for place in sorted(needed):
            i = self.instruction(place)
            if i.span == Span.row and i.phase == phase and not over_rows(i):
                lines.append(f"const {TYPES[i.dtype]} v{place} = {self._row_value(place, i)};")
        return lines

    def _settled(self, phase: int) -> list[str]:
        """Values of the row that are known after so many passes, and what becomes of them."""
        lines = self._row_values(self.stage.needed, phase)
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
            f"#pragma unroll {self._unroll}",
            "  for (int k = 0; k < CHUNKS; ++k) {",
            "    const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;",
            f"    if (c < COLS) store(partial{place} + c, c{place}[{at}]);",
            "  }",
        ]

    def _columns_joined(self) -> list[str]:
        stage = self.stage
        if self.genes.get("joined") != "last" or not stage.columns or stage.totals:
            return []
        joined = f"joined_{self.tag}"
        self.setup.append(f'{joined} = kw.workspace("{joined}", 4)')
        lines = [f"if (last_to_come({self.pointer(joined, written=True, kind='unsigned')}, blocks))"]
        lines.append("  for (int c = threadIdx.x; c < COLS; c += TEAM * TEAMS) {")
        for place in stage.columns:
            pointer = self.pointer(f"partial_{self.step}_{place}", written=True)
            lines.append(f"    float a{place} = {self._join(place)}::nothing();")
            lines.append("#pragma unroll 4")
            lines.append("    for (int i = 0; i < all; ++i)")
            taken = f"fetched({pointer} + static_cast<long long>(i) * COLS + c)"
            lines.append(f"      a{place} = {self._join(place)}::join(a{place}, {taken});")
            lines += [f"    {line}" for line in self.column_kept(place, f"cols_{self.tag}")]
        lines += [f"    {line}" for line in self.column_results()]
        return [*lines, "  }"]

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
