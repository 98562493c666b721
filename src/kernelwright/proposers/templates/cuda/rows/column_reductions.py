"""Reductions over the rows: column sums and single numbers, from the first row to the last block."""

from __future__ import annotations

from kernelwright.proposers.templates.cuda.rows.analysis import passed_on, stage_of
from kernelwright.proposers.templates.cuda.rows.elements import Elements
from kernelwright.proposers.templates.cuda.rows.row_reductions import OnePassReductions
from kernelwright.proposers.templates.cuda.rows.writer import column_stores
from kernelwright.proposers.templates.patterns.rows import Span


class ColumnReductions(OnePassReductions):
    def column_starts(self) -> list[str]:
        lines = []
        for place in self.stage.columns:
            pointer = self.pointer(f"partial_{self.step}_{place}", written=True, read=False)
            lines.append(f"float* const partial{place} = {pointer} + static_cast<long long>(me) * COLS;")
            lines.append(f"alignas(16) float c{place}[COLUMNS_{self.tag} ? CHUNKS : 1][WIDTH];")
            lines.append(f"for (int k = 0; k < (COLUMNS_{self.tag} ? CHUNKS : 1); ++k)")
            lines.append(f"  for (int j = 0; j < WIDTH; ++j) c{place}[k][j] = {self.join(place)}::nothing();")
            lines += self._column_store(place, f"!COLUMNS_{self.tag} && !ONLY_{self.tag}", "0")
        return lines

    def summed(self, elements: Elements) -> None:
        """Adds a row's elements to the columns. The only row's are the columns, and need no memory in between."""
        for place in self.stage.columns:
            join, value = self.join(place), elements.value(self.instruction(place).operands[0])
            sum_ = f"c{place}[COLUMNS_{self.tag} ? k : 0][j]"
            elements.each.append(f"{sum_} = {join}::join(")
            elements.each.append(f"    !ONLY_{self.tag} ? {sum_} : {join}::nothing(), static_cast<float>({value}));")
            in_memory = f"!COLUMNS_{self.tag} && !ONLY_{self.tag}"
            elements.head.append(f"if ({in_memory}) load(c{place}[0], partial{place} + c);")
            elements.tail.append(f"if ({in_memory}) store(partial{place} + c, c{place}[0]);")
        if self.stage.columns and not self.stage.totals:
            elements.tail += [f"if (ONLY_{self.tag}) {{", *(f"  {line}" for line in self.column_vectors()), "}"]

    def column_vectors(self) -> list[str]:
        """Stores results for the columns at `c`, whose sums `c` are complete."""
        stores = column_stores(self.program, self.stage.number + 1)
        narrow, values = self.column_values("c + j")
        lines = [*narrow, *(f"alignas(16) float r_{tensor}[WIDTH];" for tensor, _ in stores)]
        later = stage_of(self.program, self.stage.number + 1).needed
        for place in self.stage.columns:
            if place in later:
                lines.append(f"store({self._column_memory(place)} + c, c{place}[0]);")
        lines += ["#pragma unroll", "for (int j = 0; j < WIDTH; ++j) {"]
        lines += [f"  const float a{place} = c{place}[0][j];" for place in self.stage.columns]
        lines += [f"  {line}" for line in values]
        lines += [f"  r_{tensor}[j] = v{place};" for tensor, place in stores]
        lines.append("}")
        for tensor, _ in stores:
            lines.append(f"store({self.pointer(tensor, written=True, read=False)} + c, r_{tensor});")
        return lines

    def _column_memory(self, place: int) -> str:
        memory = f"column_{self.step}_{place}"
        self.setup.append(f'{memory} = kw.scratch("{memory}", 4 * cols_{self.tag})')
        return self.pointer(memory, written=True, read=False)

    def column_ends(self) -> list[str]:
        lines = []
        for place in self.stage.columns:
            lines += self._column_store(place, f"COLUMNS_{self.tag}", f"COLUMNS_{self.tag} ? k : 0")
        return [*lines, *self._columns_joined()]

    def _column_store(self, place: int, condition: str, at: str) -> list[str]:
        return [
            f"if ({condition})",
            f"#pragma unroll {self.unroll}",
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
        came = self.pointer(joined, written=True, kind="unsigned")
        lines = [f"if (!ONLY_{self.tag} && last_to_come({came}, blocks))"]
        lines.append("  for (int c = threadIdx.x; c < COLS; c += TEAM * TEAMS) {")
        for place in stage.columns:
            pointer = self.pointer(f"partial_{self.step}_{place}", written=True)
            lines.append(f"    float a{place} = {self.join(place)}::nothing();")
            lines.append("#pragma unroll 4")
            lines.append("    for (int i = 0; i < all; ++i)")
            taken = f"fetched({pointer} + static_cast<long long>(i) * COLS + c)"
            lines.append(f"      a{place} = {self.join(place)}::join(a{place}, {taken});")
            lines += [f"    {line}" for line in self.column_kept(place, f"cols_{self.tag}")]
        lines += [f"    {line}" for line in self.column_results()]
        return [*lines, "  }"]

    def total_ends(self) -> list[str]:
        """The first block waits for the shares of all others, and goes on with what is single from here."""
        stage, program = self.stage, self.program
        if not stage.totals:
            return []
        lines = [f"__shared__ float ends[2][{len(stage.totals)}][32];", "if (!WHOLE) __syncthreads();"]
        for place in stage.totals:
            lines.append(f"t{place} = lane == 0 && part == 0 ? t{place} : {self.join(place)}::nothing();")

        def joined(turn: int) -> list[str]:
            return [
                f"t{place} = over_team<{self.join(place)}, TEAM * TEAMS>(t{place}, ends[{turn}][{number}]);"
                for number, place in enumerate(stage.totals)
            ]

        words = self.pointer(f"shares_{self.tag}", written=True, kind="unsigned long long")
        lines += [*joined(0), "if (blocks > 1) {"]
        lines += ["  if (block > 0) {", "    if (threadIdx.x == 0) {"]
        for number, place in enumerate(stage.totals):
            lines.append(f"      tell({words} + {number} * blocks + block, t{place});")
        lines += ["    }", "    return;", "  }"]
        for place in stage.totals:
            lines.append(f"  t{place} = threadIdx.x == 0 ? t{place} : {self.join(place)}::nothing();")
        lines.append("  for (int i = 1 + threadIdx.x; i < blocks; i += TEAM * TEAMS) {")
        for number, place in enumerate(stage.totals):
            word = f"{words} + {number} * blocks + i"
            lines.append(f"    t{place} = {self.join(place)}::join(t{place}, heard<float>({word}));")
            lines.append(f"    {words}[{number} * blocks + i] = 0;")
        lines += ["  }", *(f"  {line}" for line in joined(1)), "}", "if (threadIdx.x == 0) {"]
        lines += [
            f"  {self.pointer(f'total_{self.step}_{place}', written=True, read=False)}[0] = t{place};"
            for place in stage.totals
            if passed_on(program, stage)
        ]
        single = [
            (s.tensor, s.place)
            for s in program.stores
            if self.instruction(s.place).span == Span.one and self.instruction(s.place).stage == stage.number + 1
        ]
        held = {place: f"t{place}" for place in stage.totals}
        lines += [f"  {line}" for line in self.singles({place for _, place in single}, held)]
        lines += [f"  {self.pointer(tensor, written=True, read=False)}[0] = v{place};" for tensor, place in single]
        return [*lines, "}"]
