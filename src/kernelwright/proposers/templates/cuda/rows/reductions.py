"""Reductions along a row (in a warp, a block, or grid-wide where blocks share a long row) and over all rows.

Sums around a row's mean take one pass: each thread sums around a mean of its own, and these are put together with
their distances. A thread's mean is that of its first vector, so the rounding error is bounded by its number of vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kernelwright.proposers.templates.cuda.rows.analysis import Moments, moments, passed_on, stage_of
from kernelwright.proposers.templates.cuda.rows.stage_plan import StagePlan
from kernelwright.proposers.templates.cuda.rows.writer import JOINS, Elements, column_stores
from kernelwright.proposers.templates.patterns.rows import Span


class RowReductions(StagePlan):
    """Blocks that share a row leave a word for each reduction in a workspace, and wait for the words of all."""

    def slots(self) -> list[str]:
        """Two sets, so that one barrier is enough between a set's use and its next."""
        plain = max((sum(not self.finds(p) for p in reductions) for reductions in self.stage.passes), default=0)
        pair = moments(self.program, self.stage)
        plain = max(plain, len(pair.names) - 1 if pair else 0)
        found = max((sum(self.finds(p) for p in reductions) for reductions in self.stage.passes), default=0)
        lines = [f"__shared__ float slots[2][{max(plain, 1)}][32];", "int turn = 0;", "(void)slots, (void)turn;"]
        return [*lines, *([f"__shared__ Found finds[2][{found}][32];"] if found else [])]

    def finds(self, place: int) -> bool:
        return self.instruction(place).kind.startswith("arg")

    def join(self, place: int) -> str:
        return JOINS[self.instruction(place).kind]

    def reduce_row(self, number: int, reductions: tuple[int, ...], meanwhile: Sequence[str] = ()) -> list[str]:
        """Joins the threads' values `a` of pass `number`; blocks do something else until they hear of each other."""
        slots = self._slots_of(reductions)
        lines = [f"a{p} = over_team<{self.join(p)}, TEAM, WHOLE>(a{p}, {slots[p]});" for p in reductions]
        lines.append("turn ^= 1;")
        if not self.parted:
            return lines
        before = sum(map(len, self.stage.passes[:number]))
        inner = [*self.words({before + order: f"a{place}" for order, place in enumerate(reductions)}), *meanwhile]
        for place in reductions:
            kind = "Found" if self.finds(place) else "float"
            inner.append(f"a{place} = {self.join(place)}::nothing();")
            inner.append("for (int i = threadIdx.x; i < PARTS; i += TEAM)")
            inner.append(f"  a{place} = {self.join(place)}::join(a{place}, heard<{kind}>(words_a{place} + i));")
        inner += [f"a{p} = over_team<{self.join(p)}, TEAM>(a{p}, {slots[p]});" for p in reductions]
        return [*lines, "if (PARTS > 1) {", *(f"  {line}" for line in inner), "  turn ^= 1;", "}"]

    def _slots_of(self, reductions: tuple[int, ...]) -> dict[int, str]:
        taken = {True: 0, False: 0}
        slots = {}
        for place in reductions:
            found = self.finds(place)
            slots[place] = f"{'finds' if found else 'slots'}[turn][{taken[found]}]"
            taken[found] += 1
        return slots

    def words(self, names: dict[int, str]) -> list[str]:
        """The words of all parts of this row for each variable, by its order in the row; this part's are written."""
        met = self.pointer(f"met_{self.tag}", written=True, kind="unsigned long long")
        lines = [f"unsigned long long* const words = {met} + row * ({self.exchanged} * PARTS + 1);"]
        for order, name in names.items():
            lines.append(f"unsigned long long* const words_{name} = words + {order} * PARTS;")
        lines.append("if (threadIdx.x == 0) {")
        lines += [f"  tell(words_{name} + part, {name});" for name in names.values()]
        return [*lines, "}"]

    @property
    def unroll(self) -> str:
        """All chunks where columns lie in registers, which have no addresses."""
        few = str(self.genes["unroll"])
        return f"(COLUMNS_{self.tag} ? CHUNKS : {few})" if self.stage.columns else few

    def chunks(self, elements: Elements) -> list[str]:
        """A thread's share of a row, vector by vector."""
        return [
            f"#pragma unroll {'CHUNKS' if elements.keep else self.unroll}",
            "for (int k = 0; k < CHUNKS; ++k) {",
            "  const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;",
            "  if (c < COLS) {",
            *(f"    {line}" for line in elements.lines()),
            "  }",
            "}",
        ]

    def counted(self) -> list[str]:
        """Once a block has read the words of all, it says so; it need not know at once whether it was the last."""
        met = self.pointer(f"met_{self.tag}", written=True, kind="unsigned long long")
        return [
            "unsigned long long came = 0;",
            "if (PARTS > 1 && threadIdx.x == 0)",
            f"  came = atomicAdd({met} + (row + 1) * ({self.exchanged} * PARTS + 1) - 1, 1ull);",
        ]

    def cleared(self) -> list[str]:
        """The last block of a row leaves the words as it found them."""
        met = self.pointer(f"met_{self.tag}", written=True, kind="unsigned long long")
        return [
            "if (PARTS > 1 && threadIdx.x < 32) {",
            "  if (__shfl_sync(0xffffffffu, came, 0) == PARTS - 1)",
            f"    for (int i = threadIdx.x; i <= {self.exchanged} * PARTS; i += 32)",
            f"      {met}[row * ({self.exchanged} * PARTS + 1) + i] = 0;",
            "}",
        ]


COUNTS = [
    "constexpr int VECTORS = COLS / WIDTH, ROUND = PARTS * TEAM;",
    "const auto share = [](const int i) {  // how many elements part i of the row has",
    "  const int rest = VECTORS % ROUND - i * TEAM;",
    "  return (VECTORS / ROUND * TEAM + (rest < 0 ? 0 : rest < TEAM ? rest : TEAM)) * static_cast<float>(WIDTH);",
    "};",
    "const int order = part * TEAM + lane;",
    "const int own = (VECTORS / ROUND + (order < VECTORS % ROUND)) * WIDTH;",
]


class OnePassReductions(RowReductions):
    def counts(self) -> list[str]:
        """How many elements of a row threads and parts have."""
        if not self.dynamic:
            return COUNTS
        numbers = ["const int VECTORS = COLS / WIDTH;", "constexpr int ROUND = PARTS * TEAM;"]
        return [*numbers, *(line.replace("= [](", "= [&](") for line in COUNTS[1:])]

    def joins_of(self, pair: Moments) -> dict[str, str]:
        others = {f"a{place}": self.join(place) for place in pair.others}
        return {name: others.get(name, "Sum") for name in pair.names}

    def in_threads(self, pair: Moments, first: Elements, elements: Elements) -> list[str]:
        """Every thread's sums around `near`; `first` is written for its first vector alone."""
        first.each.append(f"near += {first.value(pair.values)} / WIDTH;")
        lines = ["float near = 0.0f;", "if (own > 0) {", "  constexpr int k = 0;", "  const int c = order * WIDTH;"]
        lines += [*(f"  {line}" for line in first.lines()), "  (void)k;", "}"]
        value = elements.value(pair.values)
        elements.each.append(f"const float off = {value} - near;")
        elements.each.append(f"a{pair.sum} += off;")
        if pair.squares is not None:
            elements.each.append(f"a{pair.squares} += off * off;")
        for product in pair.products:
            factor = elements.value(product.factor)
            elements.each.append(f"a{product.place} += {factor} * off;")
            if product.total is None:
                elements.each.append(f"y{product.place} += {factor};")
        for place in pair.others:
            other = elements.value(self.instruction(place).operands[0])
            elements.each.append(f"a{place} = {self.join(place)}::join(a{place}, static_cast<float>({other}));")
        lines += [f"{name} = {join}::nothing();" for name, join in self.joins_of(pair).items()]
        lines += self.chunks(elements)
        lines.append(f"const float beside = own > 0 ? a{pair.sum} / own : 0.0f;")
        if pair.squares is not None:
            lines.append(f"a{pair.squares} -= a{pair.sum} * beside;")
        lines += [f"a{p.place} -= {pair.factors[p.place]} * beside;" for p in pair.products]
        return [*lines, f"a{pair.sum} += own * near;", "near += beside;"]

    def in_block(self, pair: Moments) -> list[str]:
        """The sums of a team, from those of its threads around their own means."""
        lines = [f"a{pair.sum} = over_team<Sum, TEAM, WHOLE>(a{pair.sum}, slots[turn][0]);", "turn ^= 1;"]
        lines.append(f"const float beyond = own > 0 ? near - a{pair.sum} / share(part) : 0.0f;")
        if pair.squares is not None:
            lines.append(f"a{pair.squares} += own * beyond * beyond;")
        lines += [f"a{p.place} += {pair.factors[p.place]} * beyond;" for p in pair.products]
        return [*lines, *self._joined(pair, "TEAM, WHOLE")]

    def in_row(self, pair: Moments, team: str, lane: str, word: Callable[[str, str], str]) -> list[str]:
        """The sums of a row, from those of its parts; `word` reads a part's sum by its name and the part's number."""
        total = f"a{pair.sum}"
        joins = self.joins_of(pair)
        lines = [
            f"constexpr int EACH = (PARTS + {team} - 1) / {team};",
            "float sums[EACH];",
            f"{total} = 0.0f;",
            "#pragma unroll",
            "for (int e = 0; e < EACH; ++e) {",
            f"  const int i = e * {team} + {lane};",
            f"  sums[e] = i < PARTS ? {word(total, 'i')} : 0.0f;",
            f"  {total} += sums[e];",
            "}",
            f"{total} = over_team<Sum, {team}>({total}, slots[turn][0]);",
            "turn ^= 1;",
        ]
        lines += [f"{name} = {joins[name]}::nothing();" for name in pair.names[1:]]
        lines += ["#pragma unroll", "for (int e = 0; e < EACH; ++e) {", f"  const int i = e * {team} + {lane};"]
        lines += ["  if (i < PARTS) {", f"    const float count = share(i), off = sums[e] / count - {total} / COLS;"]
        factors = list(dict.fromkeys(pair.factors.values()))
        for name in factors:
            lines.append(f"    const float part_{name} = {word(name, 'i')};")
            lines.append(f"    {name} += part_{name};")
        if pair.squares is not None:
            lines.append(f"    a{pair.squares} += {word(f'a{pair.squares}', 'i')} + count * off * off;")
        for p in pair.products:
            lines.append(f"    a{p.place} += {word(f'a{p.place}', 'i')} + part_{pair.factors[p.place]} * off;")
        for name in (f"a{place}" for place in pair.others):
            if name not in factors:
                lines.append(f"    {name} = {joins[name]}::join({name}, {word(name, 'i')});")
        return [*lines, "  }", "}", *self._joined(pair, team)]

    def _joined(self, pair: Moments, team: str) -> list[str]:
        joins = self.joins_of(pair)
        lines = []
        for number, name in enumerate(pair.names[1:]):
            lines.append(f"{name} = over_team<{joins[name]}, {team}>({name}, slots[turn][{number}]);")
        return [*lines, "turn ^= 1;"]

    def one_pass(self, pair: Moments, first: Elements, elements: Elements, meanwhile: Sequence[str]) -> list[str]:
        """Both passes of a row in one; blocks that share it synchronise once."""
        lines = [*self.counts(), *self.in_threads(pair, first, elements), *self.in_block(pair)]
        if self.parted:
            before = sum(map(len, self.stage.passes[: pair.number]))
            inner = [*self.words({before + number: name for number, name in enumerate(pair.names)}), *meanwhile]
            inner += self.in_row(pair, "TEAM", "lane", lambda name, i: f"heard<float>(words_{name} + {i})")
            lines += ["if (PARTS > 1) {", *(f"  {line}" for line in inner), "}"]
        return lines


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
