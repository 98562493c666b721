"""The epilogue of a product: steps over its elements, done to each one while it is in a register."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kernelwright.proposers.templates.cuda.kernels import TYPES, KernelWriter, Parameter, expression
from kernelwright.proposers.templates.cuda.rows.analysis import stage_of
from kernelwright.proposers.templates.cuda.rows.writer import Writer
from kernelwright.proposers.templates.patterns.heavy import MatmulStep
from kernelwright.proposers.templates.patterns.rows import RowProgram, Span


class Epilogue:
    """Statements over `product`, the element at (`row`, `c`) of ROWS × COLS."""

    def __init__(self, code: KernelWriter, program: RowProgram | None, output: str, beside: str = "") -> None:
        self.program, self.output, self.beside = program, output, beside
        self.code: KernelWriter = code
        if program is not None:
            self.writer = Writer(
                program=program,
                stage=stage_of(program, 0),
                genes=code.genes,
                sizes=code.sizes,
                graph=code.graph,
                step=code.step,
                setup=code.setup,
                parameters=code.parameters,
            )

    def singles(self) -> list[str]:
        """What is the same for all elements; stands before the loops."""
        if self.program is None:
            return []
        return self.writer.singles(self.writer.narrow_operands(self.writer.stage.needed), {})

    def stores(self) -> list[str]:
        if self.program is None:
            return [f"{self.target(self.output)}[row * COLS + c] = product;"]
        lines, names = self._values([store.place for store in self.program.stores])
        stored = {store.tensor: name for store, name in zip(self.program.stores, names, strict=True)}
        stored = stored if self.output in stored else {self.output: "product", **stored}
        return [*lines, *(f"{self.target(tensor)}[row * COLS + c] = {name};" for tensor, name in stored.items())]

    def apart(self) -> tuple[dict[str, str], list[str], dict[str, str]]:
        """Loads by name, statements after them, and the name of what goes to each tensor.

        Apart, so that a kernel can load before it has the product.
        """
        if self.program is None:
            return {}, [], {self.output: "product"}
        lines, names = self._values([store.place for store in self.program.stores])
        stored = {store.tensor: name for store, name in zip(self.program.stores, names, strict=True)}
        stored = stored if self.output in stored else {self.output: "product", **stored}
        loads = {f"v{p}": self._loaded(p) for p in sorted(self.writer.stage.needed) if self._loads_float(p)}
        return loads, [line for line in lines if line.split(" = ")[0].split()[-1] not in loads], stored

    def _loads_float(self, place: int) -> bool:
        i = self.writer.instruction(place)
        return i.operation == "load" and i.dtype == "float32" and i.span != Span.one and i.tensor != self.output

    def value(self) -> tuple[list[str], str]:
        """Statements, and the name of the value that goes to the output."""
        if self.program is None:
            return [], "product"
        place = next(store.place for store in self.program.stores if store.tensor == self.output)
        lines, (name,) = self._values([place])
        return lines, name

    def target(self, tensor: str) -> str:
        return self.code.pointer(tensor, written=True, read=False)

    def _values(self, places: list[int]) -> tuple[list[str], list[str]]:
        assert self.program is not None
        lines: list[str] = []
        names: dict[int, str] = {}

        def make(place: int) -> str:
            if place not in names:
                i = self.writer.instruction(place)
                if i.operation == "load" and i.tensor == self.output:
                    names[place] = "product"
                elif i.span == Span.one:
                    names[place] = f"v{place}"
                else:
                    text = self._loaded(place) if i.operation == "load" else "c"
                    if i.operation not in ("load", "position"):
                        text = expression(i.operation, [make(operand) for operand in i.operands], i.dtype)
                    lines.append(f"const {TYPES[i.dtype]} v{place} = {text};")
                    names[place] = f"v{place}"
            return names[place]

        return lines, [make(place) for place in places]

    def _loaded(self, place: int) -> str:
        i = self.writer.instruction(place)
        if i.tensor == self.beside:
            return "beside"
        pointer = self.code.pointer(i.tensor)
        if i.span == Span.full:
            return f"{pointer}[row * COLS + c]"
        if i.span == Span.col:
            return f"{pointer}[c]"
        if i.period:
            self.code.give(f"PERIOD_{self.code.step}_{place}", self.code.size(i.period))
            return f"{pointer}[row % static_cast<long long>(PERIOD_{self.code.step}_{place})]"
        return f"{pointer}[row]"


@dataclass(frozen=True)
class Placing:
    """Where a result of a product in batches belongs: statements over `batch`, `m` and `n` that set `row` and `c`."""

    columns: str  # CUDA
    statements: Sequence[str]
    run: str  # CUDA: how many neighbours along n lie together


def written_epilogue(code: KernelWriter, step: MatmulStep, beside: str = "") -> tuple[str, str]:
    """Structures with the sizes and the end of a product, and the statement that makes `last`.

    `beside` is a tensor whose element `last.extra` is given, and does not load.
    """
    end, last = written_end(code, step.epilogue, step.output, beside=beside)
    return "".join(f"{line}\n" for line in _shape(code)) + end, last


def written_end(
    code: KernelWriter, program: RowProgram | None, output: str, placing: Placing | None = None, beside: str = ""
) -> tuple[str, str]:
    """`last.extra` is apart from `last.finish`, so that a kernel loads before it has the product."""
    inner = replace(code, parameters={})
    inner.types = code.types
    steps = Epilogue(inner, program, output, beside)
    loads, lines, stored = steps.apart()
    stores = [f"{_store(code, tensor)}({steps.target(tensor)} + row * COLS + first, s_{tensor});" for tensor in stored]
    singles = steps.singles()
    members = list(inner.parameters.values())
    for one in members:
        if one.value:
            code.parameters[one.name] = one
        else:
            code.pointer(one.name, written=one.written, read=one.read, kind=one.type)
    n = code.step
    columns = placing.columns if placing else f"N_{n}"
    given = ", const float beside = 0.0f" if beside else ""
    first = f"N_{n}, " if code.dynamic else ""
    text = [
        f"struct Extra_{n} {{",
        *(f"  float {name};" for name in loads),
        "};",
        f"struct Last_{n} {{",
        "  long long COLS;" if code.dynamic else f"  static constexpr long long COLS = {columns};",
        *(member(one) for one in members),
        *(placed(placing) if placing else []),
        f"  __device__ __forceinline__ Extra_{n} extra(const long long row, const long long c{given}) const {{",
        f"    return {{{', '.join(loads.values())}}};",
        "  }",
        "  template <int Run>",
        "  __device__ __forceinline__ void finish(",
        "      const float (&products)[Run], const long long row, const long long first,",
        f"      const Extra_{n} (&extras)[Run]) const {{",
        *(f"    {line}" for line in singles),
        *(f"    alignas(16) float s_{tensor}[Run];" for tensor in stored),
        "#pragma unroll",
        "    for (int j = 0; j < Run; ++j) {",
        "      const long long c = first + j;",
        "      const float product = products[j];",
        *(f"      const float {name} = extras[j].{name};" for name in loads),
        *(f"      {line}" for line in lines),
        *(f"      s_{tensor}[j] = {name};" for tensor, name in stored.items()),
        "    }",
        *(f"    {line}" for line in stores),
        "  }",
        "};",
    ]
    return "".join(
        f"{line}\n" for line in text if line
    ), f"const Last_{n} last{{{first}{', '.join(o.pointer for o in members)}}};"


def stored_types(program: RowProgram) -> dict[str, str]:
    """The dtypes in memory of all that a program reads and writes."""
    found = {i.tensor: i.memory or i.dtype for i in program.instructions if i.operation == "load"}
    return found | {s.tensor: s.memory or program.instructions[s.place].dtype for s in program.stores}


def _store(code: KernelWriter, tensor: str) -> str:
    return "store" if code.types.get(tensor, "float32") == "float32" else "store_narrow"


def placed(placing: Placing) -> list[str]:
    """False where no result belongs to the place at all."""
    return [
        f"  static constexpr int RUN = {placing.run};",
        "  __device__ __forceinline__ bool place(",
        "      const int batch, const int m, const int n, long long& row, long long& c) const {",
        *(f"    {line}" for line in placing.statements),
        "    return true;",
        "  }",
    ]


def _shape(code: KernelWriter) -> list[str]:
    """The sizes of a product: constants of the type, or numbers that the kernel is given."""
    n = code.step
    if not code.dynamic:
        return [f"struct Shape_{n} {{", f"  static constexpr int ROWS = M_{n}, COLS = N_{n}, DEPTH = K_{n};", "};"]
    return [f"struct Shape_{n} {{", f"  static constexpr bool EVEN = EVEN_{n};", "  int ROWS, COLS, DEPTH;", "};"]


def member(one: Parameter) -> str:
    if one.value:
        return f"  {one.type} {one.pointer};"
    return f"  {'' if one.written else 'const '}{one.type}* {one.pointer};"
