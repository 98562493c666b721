"""Few rows of many columns whose sums over the rows are wanted: three kernels, of which the last takes whole columns.

Blocks of the first go over all rows, each with columns of its own, and leave what they add to each row's reductions.
A block of the second joins those of a row. A thread of the third goes down its columns, with all that a row has come
to at hand, stores the elements and keeps the columns' sums in registers. Every element is read twice and no partial
sum of columns ever lies in memory.
"""

from __future__ import annotations

from collections.abc import Callable

from kernelwright.proposers.templates.cuda.kernels import TYPES, Kernel
from kernelwright.proposers.templates.cuda.rows.analysis import Moments, held, moments, row_results
from kernelwright.proposers.templates.cuda.rows.reductions import COUNTS
from kernelwright.proposers.templates.cuda.rows.stage import NOTHING, StageWriter
from kernelwright.proposers.templates.cuda.rows.writer import Elements

THREADS = 256
CHUNKS = 4  # vectors of a row for each thread of the first kernel


class _ColumnThreadWriter(StageWriter):
    @property
    def tag(self) -> str:
        return f"{self.step}_{self.stage.number}_owned"

    def kernel_of(self, name: str, lines: list[str], blocks: str) -> Kernel:
        parameters, body = tuple(self.parameters.values()), "".join(f"  {line}\n" for line in lines)
        when = f"owned_{self.step}_{self.stage.number}"
        return Kernel(f"{name}_{self.tag}", parameters, body, self.plan_lines, blocks, str(THREADS), when=when)

    def constants(self) -> list[str]:
        tag = self.tag
        return [
            f"constexpr int COLS = COLS_{tag}, WIDTH = WIDTH_{tag}, TEAM = {THREADS}, CHUNKS = {CHUNKS};",
            f"constexpr int PARTS = PARTS_{tag};",
            f"using Index = INDEX_{tag};",
            f"constexpr Index ROWS = ROWS_{tag};",
            "constexpr bool WHOLE = true;",
            "(void)WHOLE, (void)CHUNKS, (void)TEAM, (void)ROWS, (void)PARTS;",
        ]

    @property
    def pair(self) -> Moments | None:
        return moments(self.program, self.stage)

    @property
    def names(self) -> tuple[str, ...]:
        return self.pair.names if self.pair else tuple(f"a{place}" for place in self.stage.passes[0])

    def shares(self) -> str:
        return self.pointer(f"shares_{self.tag}", written=True)

    def results(self) -> list[int]:
        return row_results(self.program, self.stage)


class RowShares(_ColumnThreadWriter):
    def kernel(self) -> Kernel:
        tag, add = self.tag, self.setup.append
        add(f"rows_{tag}, cols_{tag} = {self.size(self.program.rows)}, {self.size(self.program.cols)}")
        add(f"owned_{self.step}_{self.stage.number} = {self.uses_column_threads(tag)}")
        add(f"width_{tag} = widest(4, cols_{tag})")
        add(f"parts_{tag} = ceil(cols_{tag}, {THREADS * CHUNKS} * width_{tag})")
        for name in ("rows", "cols", "width", "parts"):
            self.define(f"{name.upper()}_{tag}", f"{name}_{tag}")
        self.define(f"INDEX_{tag}", f"'int' if rows_{tag} * cols_{tag} < 2 ** 31 else 'long long'")
        count = f"rows_{tag} * parts_{tag} if owned_{self.step}_{self.stage.number} else 1"
        add(f'shares_{tag} = kw.scratch("shares_{tag}", {4 * len(self.names)} * ({count}))')
        keep = held(self.program, self.stage)
        lines = [*self.constants(), "const int lane = threadIdx.x, part = block;", *self.slots()]
        lines += self._columns(keep.columns)
        lines += self.singles(self.narrow_operands(self.stage.needed), {})
        lines += ["for (Index row = 0; row < ROWS; ++row) {"]
        lines += [f"  {line}" for line in self._row_values(self.stage.needed, 0, NOTHING)]
        lines += [f"  {line}" for line in self._sums(keep.columns)]
        lines.append("  if (threadIdx.x == 0) {")
        lines.append(f"    float* const share = {self.shares()} + (row * PARTS + part) * {len(self.names)};")
        lines += [f"    share[{number}] = {name};" for number, name in enumerate(self.names)]
        return self.kernel_of("shares", [*lines, "  }", "}"], f"parts_{tag}")

    def _columns(self, columns: tuple[int, ...]) -> list[str]:
        """What is the same for every row is read once."""
        lines = [f"alignas(16) float k{place}[CHUNKS][WIDTH];" for place in columns]
        loads = Elements(self.program, self.pointer, self.column, self.begin, (-1,))
        for place in columns:
            loads.head.append(f"load(k{place}[k], {self.pointer(self.instruction(place).tensor)} + c);")
        return [*lines, *self.chunks(loads)] if columns else []

    def _sums(self, columns: tuple[int, ...]) -> list[str]:
        def elements() -> Elements:
            return Elements(
                self.program, self.pointer, self.column, self.begin, (-1,), dict.fromkeys(columns, "CHUNKS")
            )

        lines = [f"float {', '.join(self.names)};"]
        if self.pair:
            return [
                *lines,
                *COUNTS,
                *self.in_threads(self.pair, elements(), elements()),
                *self.in_block(self.pair),
            ]
        reductions = self.stage.passes[0]
        one = elements()
        for place in reductions:
            value = one.value(self.instruction(place).operands[0])
            lines.append(f"a{place} = {self.join(place)}::nothing();")
            one.each.append(f"a{place} = {self.join(place)}::join(a{place}, static_cast<float>({value}));")
        lines += self.chunks(one)
        for number, place in enumerate(reductions):
            lines.append(f"a{place} = over_team<{self.join(place)}, TEAM>(a{place}, slots[turn][{number}]);")
        return [*lines, "turn ^= 1;"]


class RowResults(_ColumnThreadWriter):
    def kernel(self) -> Kernel:
        count = len(self.names)

        def word(name: str, i: str) -> str:
            return f"{self.shares()}[(row * PARTS + {i}) * {count} + {self.names.index(name)}]"

        lines = [*self.constants(), "const Index row = block;", "const int lane = threadIdx.x, part = 0;"]
        lines += [*self.slots(), *self.singles(self.narrow_operands(self.stage.needed), {})]
        lines.append(f"float {', '.join(self.names)};")
        if self.pair:
            lines += [*COUNTS, "(void)own;", *self.in_row(self.pair, "TEAM", "lane", word)]
        else:
            lines += self._plain(word)
        for phase in range(len(self.stage.passes) + 1):
            lines += self._row_values(self.stage.needed, phase, NOTHING)
        lines += ["(void)part;", "if (lane == 0) {"]
        for place in self.results():
            name = f"result_{self.step}_{place}"
            self.setup.append(f'{name} = kw.scratch("{name}", 4 * rows_{self.tag})')
            lines.append(f"  {self.pointer(name, written=True, read=False)}[row] = v{place};")
        for tensor, place in self.stage.row_stores:
            lines.append(f"  {self.pointer(tensor, written=True, read=False)}[row] = v{place};")
        return self.kernel_of("results", [*lines, "}"], f"rows_{self.tag}")

    def _plain(self, word: Callable[[str, str], str]) -> list[str]:
        lines = []
        for number, place in enumerate(self.stage.passes[0]):
            join = self.join(place)
            lines.append(f"a{place} = {join}::nothing();")
            lines.append("for (int i = lane; i < PARTS; i += TEAM)")
            lines.append(f"  a{place} = {join}::join(a{place}, {word(f'a{place}', 'i')});")
            lines.append(f"a{place} = over_team<{join}, TEAM>(a{place}, slots[0][{number}]);")
        return lines


class ColumnThreads(_ColumnThreadWriter):
    def kernel(self) -> Kernel:
        stage = self.stage
        lines = [*self.constants(), f"const int c = (block * {THREADS} + threadIdx.x) * WIDTH;", "constexpr int k = 0;"]
        lines += ["if (c >= COLS) return;", "(void)k;"]
        columns = held(self.program, stage).columns
        for place in columns:
            lines.append(f"alignas(16) float k{place}[1][WIDTH];")
            lines.append(f"load(k{place}[0], {self.pointer(self.instruction(place).tensor)} + c);")
        lines += self.singles(self.narrow_operands(stage.needed), {})
        for place in stage.columns:
            lines.append(f"alignas(16) float c{place}[1][WIDTH];")
            lines.append(f"for (int j = 0; j < WIDTH; ++j) c{place}[0][j] = {self.join(place)}::nothing();")
        lines += [f"#pragma unroll {self.genes['unroll']}", "for (Index row = 0; row < ROWS; ++row) {"]
        lines += [f"  {line}" for line in [*self._row_values(stage.needed, 0, NOTHING), *self._known()]]
        elements = Elements(self.program, self.pointer, self.column, self.begin, (), dict.fromkeys(columns, "CHUNKS"))
        for store in stage.stores:
            elements.store(store, "stream" if self.genes.get("stream") else "store")
            self.pointer(store.tensor, written=True, read=False)
        for place in stage.columns:
            value = elements.value(self.instruction(place).operands[0])
            sum_ = f"c{place}[0][j]"
            elements.each.append(f"{sum_} = {self.join(place)}::join({sum_}, static_cast<float>({value}));")
        lines += [*(f"  {line}" for line in elements.lines()), "}", *self.column_vectors()]
        return self.kernel_of("owners", lines, f"ceil(cols_{self.tag}, {THREADS} * width_{self.tag})")

    def _known(self) -> list[str]:
        lines = []
        for place in self.results():
            kind = TYPES[self.instruction(place).dtype]
            lines.append(f"const {kind} v{place} = {self.pointer(f'result_{self.step}_{place}')}[row];")
        return lines
