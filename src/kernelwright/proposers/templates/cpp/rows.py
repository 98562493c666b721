"""Renders a row program: threads over rows, or over the columns of each row where rows are few.

For each stage: the passes along a row as lambdas over a range of columns, what becomes of their results (settle),
and one parallel region that calls them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kernelwright.proposers.templates.cpp.expressions import expression, scalar_type
from kernelwright.proposers.templates.cpp.passes import IDENTITY, JOIN, PassWriter, row_number
from kernelwright.proposers.templates.cpp.row_genes import describe, gene_pool, kept
from kernelwright.proposers.templates.genes import Genes
from kernelwright.proposers.templates.patterns.rows import Instruction, RowProgram, Span, Store
from kernelwright.proposers.templates.sizes import Sizes

__all__ = ["describe", "gene_pool", "render", "render_epilogue"]


@dataclass(frozen=True)
class _Stage:
    """What one stage computes. `passes[p]` are the reductions along rows that pass p makes."""

    number: int
    needed: frozenset[int]
    passes: tuple[tuple[int, ...], ...]
    stores: tuple[Store, ...]  # of full values, in the last pass
    columns: tuple[int, ...]  # reductions of full values over the rows, in the last pass
    totals: tuple[int, ...]  # reductions of row values over the rows
    row_stores: tuple[tuple[str, int], ...]

    @property
    def works(self) -> bool:
        return bool(self.stores or self.columns or self.totals or self.row_stores)

    @property
    def finishes(self) -> bool:
        return bool(self.stores or self.columns)


def render(program: RowProgram, genes: Genes, sizes: Sizes, pointers: Mapping[str, str]) -> str:
    """A block of statements for the body of `kernel`."""
    return _Writer(program, genes, sizes, pointers).text()


def render_epilogue(program: RowProgram, genes: Genes, sizes: Sizes, pointers: Mapping[str, str]) -> str:
    """A lambda `last(row, from, to)` for a program that only goes over elements, for use on a finished block."""
    return _Writer(program, {"prefetch": 0, "unroll": 2} | genes, sizes, pointers).epilogue()


class _Writer:
    def __init__(self, program: RowProgram, genes: Genes, sizes: Sizes, pointers: Mapping[str, str]) -> None:
        self.program, self.genes, self.sizes, self.pointers = program, genes, sizes, pointers
        self.lines: list[str] = []
        self.defined: set[int] = set()
        self.kept = kept(program) if genes.get("keep") else []
        self.joint = int(genes.get("joint", 1))

    def emit(self, text: str, depth: int = 1) -> None:
        self.lines += ["  " * depth + line if line else "" for line in text.splitlines()]

    def instruction(self, place: int) -> Instruction:
        return self.program.instructions[place]

    def text(self) -> str:
        self.emit("{", 1)
        self.emit(f"const int64_t rows = {self.sizes.expression(self.program.rows)};", 2)
        self.emit(f"const int64_t cols = {self.sizes.expression(self.program.cols)};", 2)
        for number in range(self.program.stages):
            stage = self._stage(number)
            self._singles(number)
            if stage.works:
                self._rows(stage)
        self.emit("}", 1)
        return "\n".join(self.lines) + "\n"

    def epilogue(self) -> str:
        self.emit(f"const int64_t cols = {self.sizes.expression(self.program.cols)};", 0)
        self._singles(0)
        stage = self._stage(0)
        row_values = self._definitions(stage)
        self.emit(self._settle(stage, 0, row_values), 0)
        writer = PassWriter(self.program, self.sizes, self.pointers, self.genes, [])
        self.emit(writer.finishing(stage.stores, (), 1), 0)
        self.emit("const auto last = [&](int64_t r, int64_t low, int64_t high) {", 0)
        self.emit("Row row{r, true};", 1)
        self.emit("Totals totals;", 1)
        self.emit("settle0(row, totals);", 1)
        self.emit("finish1(row, low, high);", 1)
        self.emit("};", 0)
        return "\n".join(self.lines) + "\n"

    # What a stage holds.

    def _stage(self, number: int) -> _Stage:
        program = self.program
        stores = [s for s in program.stores if self.instruction(s.place).stage == number]
        full = tuple(s for s in stores if self.instruction(s.place).span == Span.full)
        row = tuple((s.tensor, s.place) for s in stores if self.instruction(s.place).span == Span.row)
        over = [
            place
            for place, i in enumerate(program.instructions)
            if i.operation == "reduce" and i.over == Span.row and i.stage == number + 1
        ]
        columns = tuple(p for p in over if self.instruction(p).span == Span.col)
        totals = tuple(p for p in over if self.instruction(p).span == Span.one)
        targets = [*(s.place for s in full), *(p for _, p in row)] + [self.instruction(p).operands[0] for p in over]
        needed = self._needed(targets)
        reductions = [p for p in needed if self._along(p)]
        count = max((self.instruction(p).phase for p in reductions), default=0)
        passes = tuple(tuple(p for p in sorted(reductions) if self.instruction(p).phase == n + 1) for n in range(count))
        return _Stage(number, frozenset(needed), passes, full, columns, totals, row)

    def _along(self, place: int) -> bool:
        instruction = self.instruction(place)
        return instruction.operation == "reduce" and instruction.over == Span.col

    def _needed(self, targets: list[int]) -> set[int]:
        """Down to what is stored: loads, single values and results of reductions over the rows."""
        found: set[int] = set()
        left = list(targets)
        while left:
            place = left.pop()
            if place not in found and self.instruction(place).span != Span.one:
                found.add(place)
                if not (self.instruction(place).operation == "reduce" and not self._along(place)):
                    left += self.instruction(place).operands
        return found

    # Values that are the same everywhere, and results of a stage before.

    def _singles(self, number: int) -> None:
        for place, i in enumerate(self.program.instructions):
            if i.span == Span.one and i.stage == number and place not in self.defined:
                self.emit(f"const {scalar_type(i.dtype)} v{place} = {self._single(i)};", 2)
                self.defined.add(place)
        for store in self.program.stores:
            i = self.instruction(store.place)
            if i.stage == number and i.span == Span.one:
                self.emit(f"{self.pointers[store.tensor]}[0] = v{store.place};", 2)
            elif i.stage == number and i.span == Span.col and i.operation != "reduce":
                writer = PassWriter(self.program, self.sizes, self.pointers, self.genes, [])
                self.emit(writer.column_loop(store.tensor, store.place), 2)

    def _single(self, i: Instruction) -> str:
        if i.operation == "number":
            return f"static_cast<{scalar_type(i.dtype)}>({self.sizes.number(i.number)})"
        if i.operation == "load":
            return f"{self.pointers[i.tensor]}[{row_number(i.at, self.sizes, '0') if i.at else 0}]"
        if i.operation == "index":
            return self._index(i, "0")
        if i.operation == "reduce":
            return f"total{self.program.instructions.index(i)}"
        operands = [f"v{place}" for place in i.operands]
        return expression(i.operation, operands, self._source(i), i.dtype, vector=False)

    def _index(self, i: Instruction, row: str) -> str:
        assert i.at is not None
        return f"static_cast<int64_t>({row_number(i.at, self.sizes, row)})"

    def _source(self, i: Instruction) -> str:
        return self.instruction(i.operands[0]).dtype if i.operands else i.dtype

    # The loops over rows.

    def _rows(self, stage: _Stage) -> None:
        writer = PassWriter(self.program, self.sizes, self.pointers, self.genes, self.kept)
        for place in stage.totals:
            self.emit(f"{scalar_type(self.instruction(place).dtype)} total{place};", 2)
        for place in stage.columns:
            if self._read_later(place):
                self.emit(f"static std::vector<float> columns{place};", 2)
                self.emit(f"columns{place}.resize(std::max<size_t>(columns{place}.size(), cols));", 2)
                self.emit(f"float* const column{place} = columns{place}.data();", 2)
        self.emit(f"{{  // stage {stage.number}", 2)
        row_values = self._definitions(stage)
        for number, reductions in enumerate(stage.passes):
            self.emit(writer.part(number, reductions), 3)
            self.emit(writer.reducing(number, reductions, self._pass_needs(reductions)), 3)
        for phase in range(len(stage.passes) + 1):
            self.emit(self._settle(stage, phase, row_values), 3)
        if stage.finishes:
            for joint in sorted({1, self.joint if stage.columns else 1}):
                self.emit(writer.finishing(stage.stores, stage.columns, joint), 3)
        self._region(stage)
        self.emit("}", 2)

    def _definitions(self, stage: _Stage) -> list[int]:
        """The struct of what a row holds and the one of what a thread sums up; returns the row's values."""
        row_values = sorted(p for p in stage.needed if self.instruction(p).span == Span.row)
        fields = "".join(f" {scalar_type(self.instruction(p).dtype)} v{p};" for p in row_values)
        keeps = "".join(f" float* k{p};" for p in self.kept)
        self.emit(f"struct Row {{ int64_t r; bool mine;{keeps}{fields} }};", 3)
        totals = "".join(f" {self._total_type(p)} v{p} = {self._identity(p)};" for p in stage.totals)
        self.emit(f"struct Totals {{{totals} }};", 3)
        return row_values

    def _pass_needs(self, reductions: tuple[int, ...]) -> list[int]:
        return [self.instruction(p).operands[0] for p in reductions]

    def _total_type(self, place: int) -> str:
        return "double" if self.instruction(place).kind == "sum" else "float"

    def _identity(self, place: int) -> str:
        return IDENTITY[self.instruction(place).kind]

    def _settle(self, stage: _Stage, phase: int, row_values: list[int]) -> str:
        part = f"const Part{phase - 1}& part, " if phase else ""
        lines = [f"auto settle{phase} = [&](Row& row, {part}Totals& totals) {{"]
        for place in row_values:
            i = self.instruction(place)
            if i.phase == phase:
                lines.append(f"  row.v{place} = {self._row_value(place, i)};")
        stored = [(t, p) for t, p in stage.row_stores if self.instruction(p).phase == phase]
        summed = [p for p in stage.totals if self.instruction(self.instruction(p).operands[0]).phase == phase]
        if stored or summed:
            lines.append("  if (row.mine) {")
            lines += [f"    {self.pointers[tensor]}[row.r] = row.v{place};" for tensor, place in stored]
            for place in summed:
                value = f"row.v{self.instruction(place).operands[0]}"
                kind = self.instruction(place).kind
                join = f"totals.v{place} + {value}" if kind == "sum" else f"{JOIN[kind]}(totals.v{place}, {value})"
                lines.append(f"    totals.v{place} = {join};")
            lines.append("  }")
        return "\n".join([*lines, "};"])

    def _row_value(self, place: int, i: Instruction) -> str:
        if i.operation == "reduce":
            return f"part.v{place}.at" if i.kind.startswith("arg") else f"part.v{place}"
        if i.operation == "index":
            return self._index(i, "row.r")
        if i.operation == "load" and i.at is not None:
            return f"{self.pointers[i.tensor]}[{row_number(i.at, self.sizes, 'row.r')}]"
        if i.operation == "load":
            period = f" % ({self.sizes.expression(i.period)})" if i.period else ""
            return f"{self.pointers[i.tensor]}[row.r{period}]"
        if i.operation == "gather":
            writer = PassWriter(self.program, self.sizes, self.pointers, self.genes, [])
            return writer.single_element(i.operands[0], self._row_operand(i.operands[1]))
        operands = [self._row_operand(p) for p in i.operands]
        return expression(i.operation, operands, self._source(i), i.dtype, vector=False)

    def _row_operand(self, place: int) -> str:
        return f"row.v{place}" if self.instruction(place).span == Span.row else f"v{place}"

    def _region(self, stage: _Stage) -> None:
        """Allocates, runs the rows, joins what threads have found."""
        columns, kept = len(stage.columns), len(self.kept)
        joint = self.joint if stage.columns else 1
        each = columns + kept * joint
        emit = self.emit
        work = "rows * cols" if stage.passes or stage.finishes else "rows"
        emit(f"const int most_threads = {work} < {self.genes['grain']} ? 1 : omp_get_max_threads();", 3)
        few = f"rows < {self.genes.get('split', 1)} * most_threads"
        emit(f"const bool split = most_threads > 1 && {few};", 3)
        emit("const int64_t pitch = (cols + 31) / 16 * 16;", 3)
        if each:
            emit("static std::vector<float> memory;", 3)
            emit(f"const size_t room = static_cast<size_t>(pitch) * {each} * (split ? 1 : most_threads) + 16;", 3)
            emit("if (memory.size() < room) memory.resize(room);", 3)
            emit("float* const scratch = aligned(memory.data());", 3)
        emit("std::vector<Totals> found(most_threads);", 3)
        for number in range(len(stage.passes)):
            emit(f"std::vector<Part{number}> parts{number}(2 * most_threads);", 3)
        emit("#pragma omp parallel num_threads(most_threads)", 3)
        emit("{", 3)
        emit("const int me = omp_get_thread_num(), team = omp_get_num_threads();", 4)
        emit("const int64_t share = ((cols + team - 1) / team + 63) / 64 * 64;", 4)
        emit("const int64_t low = split ? std::min(cols, share * me) : 0;", 4)
        emit("const int64_t high = split ? std::min(cols, low + share) : cols;", 4)
        emit("Totals totals;", 4)
        if each:
            emit(f"float* const own = scratch + (split ? 0 : me) * {each} * pitch;", 4)
        for n, place in enumerate(stage.columns):
            emit(f"float* const c{place} = own + {n} * pitch;", 4)
            emit(f"std::fill(c{place} + low, c{place} + high, {self._identity(place)});", 4)
        keeps = "".join(f", own + ({columns} + {kept} * slot + {n}) * pitch" for n in range(kept))
        emit("const auto row_at = [&](int64_t r, [[maybe_unused]] int slot) {", 4)
        emit(f"return Row{{r, !split || me == 0{keeps}}};", 5)
        emit("};", 4)
        self._split_rows(stage)
        self._own_rows(stage, joint)
        emit("found[me] = totals;", 4)
        if stage.columns:
            self._join_columns(stage)
        if self.genes.get("stream") and stage.stores:
            emit("streamed();", 4)
        emit("}", 3)
        # What later stages read must outlive this block.
        self._join_totals(stage)

    def _columns_arguments(self, stage: _Stage) -> str:
        return "".join(f", c{place}" for place in stage.columns)

    def _split_rows(self, stage: _Stage) -> None:
        emit = self.emit
        emit("if (split) {", 4)
        emit("for (int64_t r = 0; r < rows; ++r) {", 5)
        emit("Row row = row_at(r, 0);", 6)
        emit("settle0(row, totals);", 6)
        for number in range(len(stage.passes)):
            parts = f"parts{number}"
            emit(f"{parts}[(r & 1) * team + me] = pass{number}(row, low, high);", 6)
            emit("#pragma omp barrier", 6)
            emit(f"Part{number} part{number} = {parts}[(r & 1) * team];", 6)
            emit(f"for (int t = 1; t < team; ++t) part{number}.join({parts}[(r & 1) * team + t]);", 6)
            emit(f"settle{number + 1}(row, part{number}, totals);", 6)
        if stage.finishes:
            emit(f"finish1(row, low, high{self._columns_arguments(stage)});", 6)
        emit("}", 5)
        emit("} else {", 4)

    def _own_rows(self, stage: _Stage, joint: int) -> None:
        emit = self.emit
        emit("const auto prepared = [&](int64_t r, int slot) {", 5)
        emit("Row row = row_at(r, slot);", 6)
        emit("settle0(row, totals);", 6)
        for number in range(len(stage.passes)):
            emit(f"settle{number + 1}(row, pass{number}(row, 0, cols), totals);", 6)
        emit("return row;", 6)
        emit("};", 5)
        emit("const auto run = [&](int64_t r, int64_t end) {", 5)
        arguments = self._columns_arguments(stage)
        if joint > 1:
            emit(f"for (; r + {joint} <= end; r += {joint}) {{", 6)
            for n in range(joint):
                emit(f"const Row row{n} = prepared(r + {n}, {n});", 7)
            emit(f"finish{joint}({', '.join(f'row{n}' for n in range(joint))}, 0, cols{arguments});", 7)
            emit("}", 6)
        emit("for (; r < end; ++r) {", 6)
        emit("[[maybe_unused]] const Row row = prepared(r, 0);", 7)
        if stage.finishes:
            emit(f"finish1(row, 0, cols{arguments});", 7)
        emit("}", 6)
        emit("};", 5)
        block = self.genes.get("block", 0)
        if block:
            size = max(int(block), joint)
            emit("#pragma omp for schedule(dynamic, 1) nowait", 5)
            emit(f"for (int64_t r = 0; r < rows; r += {size}) run(r, std::min(rows, r + {size}));", 5)
        else:
            emit("run(rows * me / team, rows * (me + 1) / team);", 5)
        emit("}", 4)

    def _join_columns(self, stage: _Stage) -> None:
        """Every thread joins its share of the columns, straight into a result where one is wanted."""
        emit = self.emit
        emit("#pragma omp barrier", 4)
        emit("const int copies = split ? 1 : team;", 4)
        emit("const int64_t first = std::min(cols, share * me), end = std::min(cols, first + share);", 4)
        width = (len(stage.columns) + len(self.kept) * self.joint) if self.kept else len(stage.columns)
        for n, place in enumerate(stage.columns):
            targets = [self.pointers[s.tensor] for s in self.program.stores if s.place == place]
            targets += [f"column{place}"] if self._read_later(place) else []
            join = JOIN[self.instruction(place).kind]
            emit("for (int64_t c = first; c < end; ++c) {", 4)
            emit(f"float value = scratch[{n} * pitch + c];", 5)
            emit(
                f"for (int t = 1; t < copies; ++t) value = {join}(value, scratch[(t * {width} + {n}) * pitch + c]);", 5
            )
            for target in targets:
                emit(f"{target}[c] = value;", 5)
            emit("}", 4)

    def _read_later(self, place: int) -> bool:
        return any(place in i.operands for i in self.program.instructions)

    def _join_totals(self, stage: _Stage) -> None:
        for place in stage.totals:
            join = JOIN[self.instruction(place).kind]
            kind = self._total_type(place)
            self.emit(f"{kind} sum{place} = {self._identity(place)};", 3)
            one = f"sum{place} + t.v{place}" if kind == "double" else f"{join}(sum{place}, t.v{place})"
            self.emit(f"for (const Totals& t : found) sum{place} = {one};", 3)
            self.emit(f"total{place} = static_cast<{scalar_type(self.instruction(place).dtype)}>(sum{place});", 3)
