"""The steps over elements that follow on a product, done to each element while it is in a register."""

from __future__ import annotations

from kernelwright.proposers.templates.cuda.expressions import TYPES, expression
from kernelwright.proposers.templates.cuda.pen import Pen
from kernelwright.proposers.templates.cuda.stages import stage_of
from kernelwright.proposers.templates.cuda.writer import Writer
from kernelwright.proposers.templates.patterns.rows import RowProgram, Span


class Last:
    """Statements over `product`, the element at (`row`, `c`) of ROWS × COLS."""

    def __init__(self, pen: Pen, program: RowProgram | None, output: str) -> None:
        self.program, self.output = program, output
        self.pen: Pen = pen
        if program is not None:
            self.writer = Writer(
                program=program,
                stage=stage_of(program, 0),
                genes=pen.genes,
                sizes=pen.sizes,
                graph=pen.graph,
                step=pen.step,
                setup=pen.setup,
                parameters=pen.parameters,
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
        return self.pen.pointer(tensor, written=True, read=False)

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
        pointer = self.pen.pointer(i.tensor)
        if i.span == Span.full:
            return f"{pointer}[row * COLS + c]"
        if i.span == Span.col:
            return f"{pointer}[c]"
        if i.period:
            self.pen.define(f"PERIOD_{self.pen.step}_{place}", self.pen.size(i.period))
            return f"{pointer}[row % static_cast<long long>(PERIOD_{self.pen.step}_{place})]"
        return f"{pointer}[row]"
