"""From a contraction to a product in batches: which axes are rows, columns, depth and batches, and how they are read.

A place that is divided (as a transposed convolution reads its input) has a batch of its own for each remainder of the
result's axis, since only every so many-th place of the window meets it: nothing is multiplied with zeros between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from kernelwright.proposers.templates.cuda.contractions.operands import (
    GatheredOperand,
    ProductForm,
    put_together,
    taken_apart,
)
from kernelwright.proposers.templates.cuda.kernels import KernelWriter
from kernelwright.proposers.templates.graph import ONE, CannotExpressError, Extent
from kernelwright.proposers.templates.patterns.contractions import (
    ContractionForm,
    ContractionOperand,
    Subscript,
    panel_of,
)
from kernelwright.proposers.templates.patterns.rows import HALVES

# Elements in 16 bytes of what tensor cores get, to which numbers of one byte are widened.
WIDEST = {"float32": 4, **dict.fromkeys(HALVES, 8)}


@dataclass(frozen=True)
class _Phased:
    """Axis `outer` of the result and axis `window` of the depth, of one subscript with a divisor.

    With outer = divisor × q + remainder, tap number j = first + every × j' of the window gives q + base - back × j'.
    `first` and `base` depend on the remainder; first = -1 where no tap meets it.
    """

    outer: int
    window: int
    divisor: int
    every: int
    back: int
    firsts: tuple[int, ...]
    bases: tuple[int, ...]


class FormWriter:
    """Axes are numbered as in the form. A loop variable of axis a is `i{a}`, of a remainder `p{a}`.

    With `led`, the last two axes of the result are rows and columns, and all before them batches.
    """

    def __init__(
        self, form: ContractionForm, first: str, second: str, code: KernelWriter, *, prefix: str = "", led: bool = False
    ) -> None:
        self.form, self.code, self.prefix = form, code, prefix
        self.phased = {one.outer: one for one in self._phases()}
        self.windows = {one.window: one for one in self.phased.values()}
        last = next((axis for axis in reversed(form.kept) if not form.axes[axis].extent.single), form.kept[-1])
        self.columns = "second" if form.axes[last].role != "first" else "first"
        rows = "first" if self.columns == "second" else "second"
        tensors = {"first": (first, form.operands[0]), "second": (second, form.operands[1])}
        self.left, self.right = tensors[rows], tensors[self.columns]
        self.batch_axes = form.of("batch")
        self.row_axes, self.col_axes, self.depth_axes = form.of(rows), form.of(self.columns), form.of("depth")
        if led:
            self.batch_axes, self.row_axes, self.col_axes = form.kept[:-2], form.kept[-2:-1], form.kept[-1:]
        self.extents = {axis: self._extent(axis) for axis in range(len(form.axes))}  # CUDA

    def _extent(self, axis: int) -> str:
        """Of the loop; its Python is `axis{a}_{step}`."""
        extent = self.form.axes[axis].extent
        python = self.code.size(extent)
        if axis in self.phased:
            self.code.set(f"{self.prefix}whole{axis}", python)
            python = f"ceil({python}, {self.phased[axis].divisor})"
        elif axis in self.windows:
            self.code.set(f"{self.prefix}whole{axis}", python)
            python = f"ceil({python}, {self.windows[axis].every})"
        self.code.set(f"{self.prefix}axis{axis}", python)
        return f"{self.prefix.upper()}AXIS{axis}_{self.code.step}" if not extent.single else "1"

    def _phases(self) -> list[_Phased]:
        found = []
        for operand in self.form.operands:
            for subscript in operand.subscripts:
                if subscript.divisor != 1:
                    found.append(self._phase(subscript))
        if len({one.outer for one in found}) != len(found) or len({one.window for one in found}) != len(found):
            raise CannotExpressError("no CUDA template covers two divided places of one axis")
        return found

    def _phase(self, subscript: Subscript) -> _Phased:
        divisor, depth = subscript.divisor, set(self.form.of("depth"))
        outer = [(axis, c) for axis, c in subscript.terms if axis not in depth]
        inner = [(axis, c) for axis, c in subscript.terms if axis in depth]
        window, step = inner[0] if inner else (-1, Extent(0, 0))
        plain = len(outer) == 1 and outer[0][1] == ONE and len(inner) <= 1
        if not plain or step.literal is None or step.literal > 0:
            raise CannotExpressError("no CUDA template covers such a divided place")
        gap = -step.literal
        every = divisor // gcd(divisor, gap)
        firsts, bases = [], []
        for remainder in range(divisor):
            rest = (remainder + subscript.constant) % divisor
            start = next((t for t in range(divisor) if (t * gap - rest) % divisor == 0), -1)
            firsts.append(start)
            bases.append((remainder + subscript.constant) // divisor - (start * gap - rest) // divisor)
        return _Phased(outer[0][0], window, divisor, every, gap * every // divisor, tuple(firsts), tuple(bases))

    def product(self) -> ProductForm:
        form, n = self.form, self.code.step
        phases = " * ".join(str(one.divisor) for one in self.phased.values()) or "1"
        batches = [f"{self.prefix}axis{axis}_{n}" for axis in self.batch_axes]
        _, columns = form.shape
        return ProductForm(
            " * ".join([*batches, phases]),
            self.count(self.row_axes),
            self.count(self.col_axes),
            self.count(self.depth_axes),
            self.gathered(*self.left, self.row_axes),
            self.gathered(*self.right, self.col_axes),
            self.place(),
            self.code.size(columns),
            f"({self.code.size(columns)}) % 2 == 0" if not self.phased and self._ends_in_columns() else "False",
        )

    def _ends_in_columns(self) -> bool:
        behind = self.form.kept[self.form.behind :]
        return all(axis in self.col_axes or self.form.axes[axis].extent.single for axis in behind)

    def count(self, axes: Sequence[int]) -> str:
        return " * ".join(f"{self.prefix}axis{axis}_{self.code.step}" for axis in axes) or "1"

    def _split(self, number: str, axes: Sequence[int]) -> list[str]:
        if not axes:
            return []
        return taken_apart(number, [f"i{axis}" for axis in axes], [self.extents[axis] for axis in axes])

    def _batch_lines(self) -> list[str]:
        """Declares loop variables of batches, and remainders as the fastest of them."""
        axes = [f"i{axis}" for axis in self.batch_axes]
        remainders = [f"p{outer}" for outer in self.phased]
        sizes = [*(self.extents[axis] for axis in self.batch_axes), *(str(p.divisor) for p in self.phased.values())]
        if not axes and not remainders:
            return []
        return taken_apart("batch", [*axes, *remainders], sizes)

    def gathered(self, tensor: str, operand: ContractionOperand, own: Sequence[int]) -> GatheredOperand:
        used = operand.axes
        members = [f"i{axis}" for axis in self.batch_axes if axis in used]
        moved = self._batch_lines() if members or self.phased else []
        set_lines = [f"this->i{axis} = i{axis};" for axis in self.batch_axes if axis in used]
        at = [*self._split("row", own), *self._split("k", self.depth_axes)]
        for outer, one in self.phased.items():
            if outer in used:
                members.append(f"base{outer}")
                set_lines.append(f"base{outer} = {_chosen(f'p{outer}', one.bases)};")
            if one.window in used or outer in used:
                members.append(f"first{outer}")
                set_lines.append(f"first{outer} = {_chosen(f'p{outer}', one.firsts)};")
        places, sizes = [], []
        for dim, subscript in enumerate(operand.subscripts):
            at += self._subscript(f"s{dim}", subscript)
            places.append(f"s{dim}")
            sizes.append(self._size(subscript.size))
        if not places:
            places, sizes = ["0"], ["1"]
        at.append(f"const long long place = {put_together(places, sizes)};")
        along, width = self._lies(operand, own)
        panel = panel_of(self.form) or operand.dtype
        return GatheredOperand(tensor, operand.dtype, panel, along, width, at, [*moved, *set_lines], members)

    def _size(self, extent: Extent) -> str:
        if extent.literal is not None:
            return str(extent.literal)
        known = next((a for a in range(len(self.form.axes)) if self.form.axes[a].extent == extent), None)
        if known is not None and known not in self.phased and known not in self.windows:
            return self.extents[known]
        name = f"{self.prefix}size_{extent.first}_{extent.second}"
        self.code.set(name, self.code.size(extent))
        return f"{name.upper()}_{self.code.step}"

    def _subscript(self, name: str, subscript: Subscript) -> list[str]:
        """Declares the place along one dimension, and leaves where there is none."""
        lines: list[str] = []
        terms: list[str] = []
        checked = subscript.guarded
        if subscript.divisor != 1:
            one = next(p for p in self.phased.values() if p.outer in dict(subscript.terms))
            terms = [f"i{one.outer}", f"base{one.outer}"]
            if one.window >= 0:
                terms.append(f"-{one.back} * i{one.window}")
                lines += self._tap(one)  # neither operand has a term beyond the window: a NaN times zero is none
            checked = True
        else:
            for axis, coefficient in subscript.terms:
                variable = f"i{axis}"
                if axis in self.windows:
                    one = self.windows[axis]
                    variable = f"(first{one.outer} + i{axis} * {one.every})"
                    lines += self._tap(one)
                terms.append(variable if coefficient == ONE else f"{variable} * {self._size(coefficient)}")
            if subscript.constant:
                terms.append(f"({subscript.constant})")
        lines.append(f"const int {name} = {' + '.join(terms) or '0'};")
        if checked:
            lines.append(f"if ({name} < 0 || {name} >= {self._size(subscript.size)}) return nullptr;")
        return lines

    def _tap(self, one: _Phased) -> list[str]:
        tap = f"first{one.outer} + i{one.window} * {one.every}"
        taps = f"{self.prefix.upper()}WHOLE{one.window}_{self.code.step}"
        return [f"if (first{one.outer} < 0 || {tap} >= {taps}) return nullptr;"]

    def _lies(self, operand: ContractionOperand, own: Sequence[int]) -> tuple[bool, str]:
        """Whether lines run along the depth, and Python for how many neighbours can be read at once."""
        inner = next((s for s in reversed(operand.subscripts) if s.terms), None)
        if inner is None:
            return True, "1"
        axis = max((a for a, _ in inner.terms), key=lambda a: self.form.axes[a].extent.first)
        along = axis in self.depth_axes
        order = [a for a in (self.depth_axes if along else own) if not self.form.axes[a].extent.single]
        run: list[Extent] = []
        for subscript in reversed(operand.subscripts):
            if subscript.size.single:
                continue
            plain = subscript.terms == ((order[-1], ONE),) if order else False
            if not plain or subscript.constant or subscript.divisor != 1 or subscript.guarded:
                break
            whole = self.form.axes[order[-1]].extent == subscript.size
            if order[-1] in self.windows or order[-1] in self.phased or not whole:
                break
            run.append(subscript.size)
            order.pop()
        if not run:
            return along, "1"
        length = " * ".join(self.code.size(extent) for extent in run)
        return along, f"widest({WIDEST[operand.dtype]}, {length})"

    def place(self) -> list[str]:
        form = self.form
        lines = [*self._batch_lines(), *self._split("m", self.row_axes), *self._split("n", self.col_axes)]
        names, sizes = {}, {}
        for axis in form.kept:
            names[axis], sizes[axis] = f"i{axis}", self.extents[axis]
            if axis in self.phased:
                one = self.phased[axis]
                lines.append(f"const int o{axis} = i{axis} * {one.divisor} + p{axis};")
                sizes[axis] = f"{self.prefix.upper()}WHOLE{axis}_{self.code.step}"
                lines.append(f"if (o{axis} >= {sizes[axis]}) return false;")
                names[axis] = f"o{axis}"
        for target, axes in (("row", form.kept[: form.behind]), ("c", form.kept[form.behind :])):
            whole = put_together([names[a] for a in axes], [sizes[a] for a in axes]) if axes else "0"
            lines.append(f"{target} = {whole};")
        return lines


def _chosen(name: str, values: Sequence[int]) -> str:
    if len(set(values)) == 1:
        return str(values[0])
    text = str(values[-1])
    for at in range(len(values) - 2, -1, -1):
        text = f"{name} == {at} ? {values[at]} : {text}"
    return text
