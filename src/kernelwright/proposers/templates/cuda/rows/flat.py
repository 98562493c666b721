"""Renders a row program without reductions: all elements in one line, a few vectors for each thread."""

from __future__ import annotations

from kernelwright.proposers.templates.cuda.kernels import TYPES, Kernel, expression
from kernelwright.proposers.templates.cuda.rows.analysis import stage_of
from kernelwright.proposers.templates.cuda.rows.writer import Elements, Writer, width_gene
from kernelwright.proposers.templates.genes import Gene, GenePool, Genes
from kernelwright.proposers.templates.graph import Graph
from kernelwright.proposers.templates.patterns.rows import RowProgram, Span
from kernelwright.proposers.templates.sizes import Sizes


def covers(program: RowProgram) -> bool:
    reduces = program.reduces_cols or program.reduces_rows
    gathers = any(i.operation == "gather" for i in program.instructions)
    return not reduces and not gathers and all(program.instructions[s.place].span == Span.full for s in program.stores)


def gene_pool(program: RowProgram) -> GenePool:
    return GenePool(
        (
            width_gene(program),
            Gene("unroll", (1, 2, 4, 8), (2, 4, 1)),
            Gene("threads", (128, 256, 512), (256, 128, 512)),
            Gene("stream", (False, True), (False, True)),
        )
    )


def describe(program: RowProgram, genes: Genes) -> str:
    text = f"{genes['unroll']} vectors of {genes['width']} for each of {genes['threads']} threads a block"
    return text + (", streaming stores" if genes["stream"] else "")


def render(program: RowProgram, genes: Genes, sizes: Sizes, graph: Graph, step: int) -> list[Kernel]:
    return [
        _FlatWriter(
            program=program, stage=stage_of(program, 0), genes=genes, sizes=sizes, graph=graph, step=step
        ).kernel()
    ]


class _FlatWriter(Writer):
    def kernel(self) -> Kernel:
        tag, genes = self.tag, self.genes
        add = self.setup.append
        add(f"rows_{tag} = {self.size(self.program.rows)}")
        add(f"cols_{tag} = {self.size(self.program.cols)}")
        if self._one_line():
            add(f"rows_{tag}, cols_{tag} = 1, rows_{tag} * cols_{tag}")
        add(f"width_{tag} = {self.width_of(f'cols_{tag}')}")
        add(f"vectors_{tag} = rows_{tag} * cols_{tag} // width_{tag}")
        if self.dynamic:
            self._give_sizes()
        else:
            for name in ("cols", "width", "vectors"):
                self.define(f"{name.upper()}_{tag}", f"{name}_{tag}")
        body = self._body()
        blocks = f"ceil(vectors_{tag}, {int(genes['threads']) * int(genes['unroll'])})"
        parameters, threads = tuple(self.parameters.values()), str(genes["threads"])
        return Kernel(f"flat_{tag}", parameters, body, self.plan_lines, blocks, threads, dynamic=self.dynamic)

    def _give_sizes(self) -> None:
        """For rows, a number to multiply with in the place of a division by what is not known when compiling."""
        tag, add = self.tag, self.setup.append
        self.define(f"WIDTH_{tag}", f"width_{tag}")
        self.give(f"VECTORS_{tag}", f"vectors_{tag}", "long long")
        if self._one_line():
            return
        add(f"line_{tag} = cols_{tag} // width_{tag}")
        self.define(f"NARROW_{tag}", f"int(vectors_{tag} < 2 ** 32)")
        self.give(f"COLS_{tag}", f"cols_{tag}", "long long")
        self.give(f"LINE_{tag}", f"line_{tag}", "long long")
        self.give(f"FACTOR_{tag}", f"(2 ** 64 - 1) // line_{tag} + 1 if line_{tag} > 1 else 0", "unsigned long long")

    def _places(self) -> list[str]:
        """`row` and `c` of vector i."""
        tag = self.tag
        if not self.dynamic:
            return ["const long long row = i * WIDTH / COLS, c = i * WIDTH - row * COLS;"]
        if self._one_line():
            return ["constexpr long long row = 0, COLS = 0;", "const long long c = i * WIDTH;"]
        exact = f"FACTOR_{tag} ? static_cast<long long>(__umul64hi(FACTOR_{tag}, i)) : i"
        return [
            f"const long long row = NARROW_{tag} ? ({exact}) : i / LINE_{tag};",
            "const long long c = i * WIDTH - row * COLS;",
        ]

    def _constants(self) -> list[str]:
        tag = self.tag
        if not self.dynamic:
            return [
                f"constexpr long long COLS = COLS_{tag}, VECTORS = VECTORS_{tag};",
                f"constexpr int WIDTH = WIDTH_{tag};",
            ]
        cols = [] if self._one_line() else [f"const long long COLS = COLS_{tag};"]
        return [f"const long long VECTORS = VECTORS_{tag};", *cols, f"constexpr int WIDTH = WIDTH_{tag};"]

    def _one_line(self) -> bool:
        """Nothing varies over rows or columns alone, so where a row ends does not matter."""
        plain = not self.program.windows
        return plain and all(
            i.span in (Span.full, Span.one) and i.operation != "position" for i in self.program.instructions
        )

    def _body(self) -> str:
        unroll, threads = self.genes["unroll"], self.genes["threads"]
        elements = Elements(self.program, self.pointer, self.column, self.begin)
        for store in self.stage.stores:
            elements.store(store, "stream" if self.genes["stream"] else "store")
            self.pointer(store.tensor, written=True, read=False)
        row_values = []
        for place in sorted(self.stage.needed):
            i = self.instruction(place)
            if i.span == Span.row:
                row_values.append(f"const {TYPES[i.dtype]} v{place} = {self._row_value(place)};")
        lines = [
            *self._constants(),
            *self.singles(self.narrow_operands(self.stage.needed), {}),
            f"#pragma unroll {unroll}",
            f"for (int u = 0; u < {unroll}; ++u) {{",
            f"  const long long i = (static_cast<long long>(block) * {unroll} + u) * {threads} + threadIdx.x;",
            "  if (i < VECTORS) {",
            *(f"    {line}" for line in self._places()),
            *(f"    {line}" for line in (*row_values, *elements.lines())),
            "  }",
            "}",
        ]
        return "".join(f"  {line}\n" for line in lines)

    def _row_value(self, place: int) -> str:
        i = self.instruction(place)
        if i.operation == "index":
            return self.row_number(i.at)
        if i.operation == "load":
            if i.at:
                return f"{self.pointer(i.tensor)}[{self.row_number(i.at)}]"
            if i.period:
                self.give(f"PERIOD_{self.step}_{place}", self.size(i.period))
                return f"{self.pointer(i.tensor)}[row % static_cast<long long>(PERIOD_{self.step}_{place})]"
            return f"{self.pointer(i.tensor)}[row]"
        return expression(i.operation, [f"v{p}" for p in i.operands], i.dtype)
