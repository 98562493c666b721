"""Writes the passes along a row: a step on one vector, and the loop of unrolled steps around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelwright.proposers.templates.cpp.expressions import INFIX, expression, vector_type
from kernelwright.proposers.templates.genes import Genes
from kernelwright.proposers.templates.nests.index_maps import size_of
from kernelwright.proposers.templates.patterns.rows import Instruction, RowNumber, RowProgram, Span, Store
from kernelwright.proposers.templates.sizes import Sizes

IDENTITY = {"sum": "0.0f", "max": "-INF", "min": "INF"}
JOIN = {"sum": "plus", "max": "most", "min": "least"}


def row_number(at: RowNumber, sizes: Sizes, row: str) -> str:
    """A number of the row in C++, without brackets around it."""
    terms = [] if at.constant == 0 else [sizes.term(at.constant)]
    behind = ""
    for place in reversed(range(len(at.sizes))):
        along = f"{row}{behind and f' / ({behind})'}"
        along = along if place == 0 else f"{along} % {sizes.term(size_of(at.sizes[place]))}"
        if at.factors[place] != 0:
            terms.insert(0, f"{along} * {sizes.term(at.factors[place])}")
        behind = f"{sizes.term(size_of(at.sizes[place]))}{behind and f' * {behind}'}"
    return " + ".join(terms) or "0"


class PassWriter:
    def __init__(
        self,
        program: RowProgram,
        sizes: Sizes,
        pointers: Mapping[str, str],
        genes: Genes,
        kept: Sequence[int],
    ) -> None:
        self.program, self.sizes, self.pointers, self.genes = program, sizes, pointers, genes
        self.kept = list(kept)
        self.in_memory: set[int] = set()  # kept values that an earlier pass has stored
        self.unroll = int(genes["unroll"])

    def instruction(self, place: int) -> Instruction:
        return self.program.instructions[place]

    # Reducing passes.

    def part(self, number: int, reductions: Sequence[int]) -> str:
        fields, joins = [], []
        for place in reductions:
            kind = self.instruction(place).kind
            if kind.startswith("arg"):
                fields.append(f"Found v{place};")
                joins.append(f"if (before(other.v{place}, v{place})) v{place} = other.v{place};")
            else:
                fields.append(f"float v{place};")
                joins.append(f"v{place} = {JOIN[kind]}(v{place}, other.v{place});")
        lines = [f"struct Part{number} {{", *(f"  {f}" for f in fields)]
        return "\n".join(
            [*lines, f"  void join(const Part{number}& other) {{", *(f"    {j}" for j in joins), "  }", "};"]
        )

    def reducing(self, number: int, reductions: Sequence[int], operands: Sequence[int]) -> str:
        body = _Body(self, joint=1)
        for operand in operands:
            body.value(operand, 0)
        accumulators: list[tuple[str, str]] = []  # declaration, join of two
        updates: list[str] = []
        for place, operand in zip(reductions, operands, strict=True):
            self._accumulate(place, f"{body.name(operand, 0)}", accumulators, updates)
        names = [name for name, _ in accumulators]
        lines = [f"const auto pass{number} = [&](const Row& row0, int64_t low, int64_t high) {{"]
        lines += [f"  {line}" for line in body.hoisted]
        parameters = "".join(f", {'I' if name.startswith('at') else 'V'}& {name}" for name in names)
        lines.append(f"  const auto step = [&](auto lanes_, int64_t c{parameters}) __attribute__((always_inline)) {{")
        lines += [f"    {line}" for line in (*self._prefetches(body, number), *body.lines, *updates)]
        lines.append("  };")
        for name, start in accumulators:
            kind = "I" if name.startswith("at") else "V"
            copies = ", ".join(f"{name}_{u} = {start}" for u in range(self.unroll))
            lines.append(f"  {kind} {copies};")
        lines += [f"  {line}" for line in self._loop(names, align="")]
        results = []
        for place in reductions:
            lines += [f"  {line}" for line in self._joined(place)]
            results.append(self._across(place))
        lines.append(f"  return Part{number}{{{', '.join(results)}}};")
        return "\n".join([*lines, "};"])

    def _accumulate(self, place: int, value: str, accumulators: list[tuple[str, str]], updates: list[str]) -> None:
        kind = self.instruction(place).kind
        if kind.startswith("arg"):
            accumulators += [(f"a{place}", "wide(-INF)"), (f"at{place}", "wide(-1)")]
            sign = "-" if kind == "argmin" else ""
            updates.append(f"look({sign}{value}, c, a{place}, at{place}, counted(lanes_));")
            return
        if self.instruction(self.instruction(place).operands[0]).dtype == "bool":
            value = f"pick({value}, wide(1.0f), V{{}})"
        accumulators.append((f"a{place}", f"wide({IDENTITY[kind]})"))
        updates.append(f"a{place} = {JOIN[kind]}(a{place}, only({value}, {IDENTITY[kind]}, lanes_));")

    def _joined(self, place: int) -> list[str]:
        """Halves the accumulators until one is left, so that the order of additions stays shallow."""
        kind = self.instruction(place).kind
        if kind.startswith("arg"):
            return [
                f"Found f{place} = across(a{place}_0, at{place}_0);",
                *(
                    f"if (const Found other = across(a{place}_{u}, at{place}_{u}); before(other, f{place})) "
                    f"f{place} = other;"
                    for u in range(1, self.unroll)
                ),
            ]
        lines, half = [], self.unroll // 2
        while half:
            lines += [f"a{place}_{u} = {JOIN[kind]}(a{place}_{u}, a{place}_{u + half});" for u in range(half)]
            half //= 2
        return lines

    def _across(self, place: int) -> str:
        kind = self.instruction(place).kind
        if kind.startswith("arg"):
            return f"f{place}"
        return f"across<W / 2>(a{place}_0, [](V a, V b) {{ return {JOIN[kind]}(a, b); }})"

    def _prefetches(self, body: _Body, number: int) -> list[str]:
        distance = self.genes["prefetch"]
        if not distance or number:
            return []
        return [f"__builtin_prefetch({pointer} + c + {distance});" for pointer in body.streams]

    # The last pass.

    def finishing(self, stores: Sequence[Store], columns: Sequence[int], joint: int) -> str:
        body = _Body(self, joint)
        lines: list[str] = []
        for row in range(joint):
            for store in stores:
                body.value(store.place, row)
            for place in columns:
                body.value(self.instruction(place).operands[0], row)
        stream = bool(self.genes.get("stream")) and bool(stores)
        windows = any(store.at is not None for store in stores)
        for row in range(joint):
            for store in stores:
                put = f"({body.pointer(store.tensor, row, store.at)} + c, {body.name(store.place, row)}, lanes_);"
                if stream and (joint > 1 or windows):  # rows are aligned alike only if they are whole vectors long
                    lines.append(f"if (even) stream{put} else store{put}")
                else:
                    lines.append(f"{'stream' if stream else 'store'}{put}")
        if stream and windows:  # pieces of a row are aligned alike only if they lie whole vectors apart
            begins = [body.pointer(store.tensor, row, store.at) for row in range(joint) for store in stores]
            apart = " && ".join(f"({other} - {begins[0]}) % W == 0" for other in begins[1:])
            body.hoisted.append(f"const bool even = {apart or 'true'};")
        elif stream and joint > 1:
            body.hoisted.append("const bool even = cols % W == 0;")
        for place in columns:
            join = JOIN[self.instruction(place).kind]
            values = [body.name(self.instruction(place).operands[0], row) for row in range(joint)]
            while len(values) > 1:
                values = [f"{join}({a}, {b})" for a, b in zip(values[::2], values[1::2], strict=True)]
            held = f"load(c{place} + c, lanes_)"
            lines.append(f"store(c{place} + c, {join}({held}, {values[0]}), lanes_);")
        rows = ", ".join(f"const Row& row{row}" for row in range(joint))
        arguments = "".join(f", float* const c{place}" for place in columns)
        text = [f"const auto finish{joint} = [&]({rows}, int64_t low, int64_t high{arguments}) {{"]
        text += [f"  {line}" for line in body.hoisted]
        text.append("  const auto step = [&](auto lanes_, int64_t c) __attribute__((always_inline)) {")
        text += [f"    {line}" for line in (*self._prefetches(body, 0 if self._alone() else 1), *body.lines, *lines)]
        text.append("  };")
        align = body.pointer(stores[0].tensor, 0, stores[0].at) if stream else ""
        text += [f"  {line}" for line in self._loop([], align)]
        return "\n".join([*text, "};"])

    def _alone(self) -> bool:
        return not self.program.reduces_cols

    def column_loop(self, tensor: str, place: int) -> str:
        """A result with one element for each column, where it is not a sum itself."""
        body = _Body(self, 1)
        body.value(place, 0)
        lines = ["{", *(f"  {line}" for line in body.hoisted)]
        lines.append("  const int64_t low = 0, high = cols;")
        lines.append("  const auto step = [&](auto lanes_, int64_t c) __attribute__((always_inline)) {")
        lines += [f"    {line}" for line in body.lines]
        lines.append(f"    store({self.pointers[tensor]} + c, {body.name(place, 0)}, lanes_);")
        lines.append("  };")
        lines += [f"  {line}" for line in self._loop([], "")]
        return "\n".join([*lines, "}"])

    def _loop(self, names: Sequence[str], align: str) -> list[str]:
        def call(lanes: str, at: str, copy: int) -> str:
            return f"step({lanes}, {at}{''.join(f', {name}_{copy}' for name in names)});"

        lines = ["int64_t c = low;"]
        if align:
            lines += [
                f"const int64_t ahead = -(reinterpret_cast<std::intptr_t>({align} + low) / 4) & (W - 1);",
                "if (const int64_t head = std::min(ahead, high - low); head > 0) {",
                f"  {call('Some{static_cast<int>(head)}', 'c', 0)}",
                "  c += head;",
                "}",
            ]
        if self.unroll > 1:
            lines.append(f"for (; c + {self.unroll} * W <= high; c += {self.unroll} * W) {{")
            lines += [f"  {call('All{}', f'c + {u} * W', u)}" for u in range(self.unroll)]
            lines.append("}")
        lines.append(f"for (; c + W <= high; c += W) {call('All{}', 'c', 0)}")
        lines.append(f"if (c < high) {call('Some{static_cast<int>(high - c)}', 'c', 0)}")
        return lines

    def single_element(self, place: int, index: str) -> str:
        """One element of a full value, computed alone."""
        lines: list[str] = []
        seen: dict[int, str] = {}

        def value(at: int) -> str:
            if at in seen:
                return seen[at]
            i = self.instruction(at)
            if i.span == Span.one:
                name = f"v{at}"
            elif i.span == Span.row:
                name = f"row.v{at}"
            else:
                operands = [value(operand) for operand in i.operands]
                name = f"e{at}"
                lines.append(f"const auto {name} = {self._alone_text(i, operands)};")
            seen[at] = name
            return name

        result = value(place)
        return f"[&](int64_t c) {{ {' '.join(lines)} return {result}; }}({index})"

    def _alone_text(self, i: Instruction, operands: list[str]) -> str:
        if i.operation == "load":
            begin = row_number(i.at, self.sizes, "row.r") if i.at else "row.r * cols"
            offset = f"{begin} + c" if i.span == Span.full else "c"
            return f"{self.pointers[i.tensor]}[{offset}]"
        if i.operation == "position":
            return "c"
        source = self.instruction(i.operands[0]).dtype
        return expression(i.operation, operands, source, i.dtype, vector=False)


class _Body:
    """The statements of a step for one or several rows, and what can be said before the loop."""

    def __init__(self, writer: PassWriter, joint: int) -> None:
        self.writer, self.joint = writer, joint
        self.hoisted: list[str] = []
        self.lines: list[str] = []
        self.streams: list[str] = []
        self._names: dict[tuple[int, int], str] = {}
        self._pointers: dict[tuple[str, int, RowNumber | None], str] = {}

    def name(self, place: int, row: int) -> str:
        return self.value(place, row)

    def pointer(self, tensor: str, row: int, at: RowNumber | None = None) -> str:
        key = (tensor, row, at)
        if key not in self._pointers:
            name = f"p{len(self._pointers)}_{row}"
            begin = row_number(at, self.writer.sizes, f"row{row}.r") if at else f"row{row}.r * cols"
            self.hoisted.append(f"auto* const {name} = {self.writer.pointers[tensor]} + {begin};")
            self._pointers[key] = name
        return self._pointers[key]

    def value(self, place: int, row: int) -> str:
        i = self.writer.instruction(place)
        shared = not i.span & Span.row
        key = (place, 0 if shared else row)
        if key not in self._names:
            self._names[key] = self._made(place, i, key[1])
        return self._names[key]

    def _made(self, place: int, i: Instruction, row: int) -> str:
        kind = vector_type(i.dtype)
        if not i.span & Span.col:
            name = f"b{place}_{row}"
            held = f"v{place}" if i.span == Span.one else f"row{row}.v{place}"
            form = {"float32": held, "int64": f"static_cast<int>({held})", "bool": f"{held} ? -1 : 0"}[i.dtype]
            self.hoisted.append(f"const {kind} {name} = wide({form});")
            return name
        name = f"v{place}_{row}"
        self.lines.append(f"const {kind} {name} = {self._text(place, i, row)};")
        if place in self.writer.kept and place not in self.writer.in_memory:
            self.lines.append(f"store(row{row}.k{place} + c, {name}, lanes_);")
            self.writer.in_memory.add(place)
        return name

    def _text(self, place: int, i: Instruction, row: int) -> str:
        if place in self.writer.in_memory:
            return f"load(row{row}.k{place} + c, lanes_)"
        if i.operation == "load":
            if i.span == Span.col:
                return f"load({self.writer.pointers[i.tensor]} + c, lanes_)"
            pointer = self.pointer(i.tensor, row, i.at)
            self.streams.append(pointer)
            return f"load({pointer} + c, lanes_)"
        if i.operation == "reduce":
            return f"load(column{place} + c, lanes_)"
        if i.operation == "position":
            return "lanes() + static_cast<std::int32_t>(c)"
        if i.operation == "div" and not self.writer.instruction(i.operands[1]).span & Span.col:
            return f"{self.value(i.operands[0], row)} * {self._inverse(i.operands[1], row)}"
        operands = [self._operand(i, operand, row) for operand in i.operands]
        source = self.writer.instruction(i.operands[0]).dtype
        return expression(i.operation, operands, source, i.dtype, vector=True)

    def _operand(self, i: Instruction, place: int, row: int) -> str:
        """A mask among floats counts as ones and zeros."""
        given, text = self.writer.instruction(place), self.value(place, row)
        counted = given.dtype == "bool" and given.span & Span.col and i.dtype == "float32" and i.operation in INFIX
        return f"pick({text}, wide(1.0f), V{{}})" if counted else text

    def _inverse(self, place: int, row: int) -> str:
        """Dividing a whole row by one number is multiplying it, at one rounding more."""
        i = self.writer.instruction(place)
        name = f"i{place}_{0 if not i.span & Span.row else row}"
        line = f"const V {name} = 1.0f / {self.value(place, row)};"
        if line not in self.hoisted:
            self.hoisted.append(line)
        return name
