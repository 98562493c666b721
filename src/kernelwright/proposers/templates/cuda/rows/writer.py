"""What the kernels of a row program have in common, and the kernel that joins partial results of columns."""

from __future__ import annotations

from dataclasses import dataclass

from kernelwright.proposers.templates.cuda.kernel_writer import TYPES, KernelWriter, expression, python_number
from kernelwright.proposers.templates.cuda.kernels import Kernel
from kernelwright.proposers.templates.cuda.rows.analysis import RowStage, over_rows, stage_of
from kernelwright.proposers.templates.patterns.rows import Instruction, RowProgram, Span

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

    @property
    def tag(self) -> str:
        return f"{self.step}_{self.stage.number}"

    def instruction(self, place: int) -> Instruction:
        return self.program.instructions[place]

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
        self.define(f"JOINED_{tag}", f"columns_{tag}")
        partials = f"groups_{tag} * teams_{tag}" if stage.columns else "0"
        self.setup.append(f"sharing_{tag} = min({JOIN_THREADS // 32}, power({partials}))")
        self.define(f"SHARING_{tag}", f"sharing_{tag}")
        self.define(f"PARTIALS_{tag}", partials)
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
        )
