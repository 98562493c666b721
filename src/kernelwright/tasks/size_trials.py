"""Finds what a captured function asks of its sizes by calling it without data, since torch.export notes only what its
own operations refuse: some are multiples of a number, as halves of a gate are, some agree with others, and some hardly
vary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from kernelwright.tasks.exporting import SizeNames

MOST_UNIT = 64  # of which a size may have to be a multiple
MORE = (1, 2, 3)  # by how much a size is changed
PARTS = 4  # of the way to an end of a range, at which it is tried


class SizeTrial:
    """`ties` are symbols that another stands for."""

    def __init__(self, exported: Any, sizes: SizeNames, ties: Mapping[str, str] | None = None) -> None:
        self._exported = exported
        self._ties = dict(ties or {})
        self._placeholders = [node for node in exported.graph.nodes if node.op == "placeholder"]
        self._example = {symbol: sizes.values[name] for symbol, name in sizes.symbols.items()}
        self._can_try = self._runs(self._example)  # not where it needs data

    def ties(self) -> dict[str, str]:
        """Sizes, by symbol, that vary only with another one, which had the same value in the example."""
        found: dict[str, str] = {}
        if not self._can_try:
            return found
        free = [symbol for symbol in self._example if not self._varies([symbol], MORE[:1])]
        for place, symbol in enumerate(free):
            for other in free[:place]:
                alike = self._example[symbol] == self._example[other] and other not in found
                if alike and self._varies([symbol, other], MORE):
                    found[symbol] = other
                    break
        return found

    def units(self) -> dict[str, int]:
        """Sizes, by symbol, that are multiples of a number alone."""
        found: dict[str, int] = {}
        if not self._can_try:
            return found
        for symbol, value in self._example.items():
            units = (unit for unit in range(1, MOST_UNIT + 1) if value % unit == 0)
            fits = (unit for unit in units if self._varies([symbol], [more * unit for more in MORE]))
            found[symbol] = next(fits, 1)
        return {symbol: unit for symbol, unit in found.items() if unit > 1}

    def ends(self, symbol: str, low: int, high: int) -> tuple[int, int]:
        """The range of a size, narrowed to where the code runs: a table may hold for few sizes, or for one."""
        if not self._can_try:
            return low, high
        value = self._example[symbol]

        def reached(end: int) -> int:
            steps = (value + (end - value) * part // PARTS for part in range(PARTS, 0, -1))
            return next((size for size in steps if self._runs(self._example | {symbol: size})), value)

        return reached(low), reached(high)

    def _varies(self, symbols: list[str], by: Any) -> bool:
        return all(self._runs(self._example | {one: self._example[one] + more for one in symbols}) for more in by)

    def _runs(self, chosen: Mapping[str, int]) -> bool:
        try:
            with torch.no_grad():
                self._exported.graph_module(*(self._empty(node.meta["val"], chosen) for node in self._placeholders))
        except Exception:  # whatever its code raises at sizes that it cannot take
            return False
        return True

    def _empty(self, form: torch.Tensor, chosen: Mapping[str, int]) -> torch.Tensor:
        return torch.empty([self._size(one, chosen) for one in form.shape], dtype=form.dtype, device="meta")

    def _size(self, given: Any, chosen: Mapping[str, int]) -> int:
        if isinstance(given, int):
            return given
        expression = given.node.expr
        values = {one: self._value(str(one), chosen, given.node.hint) for one in expression.free_symbols}
        return int(expression.subs(values))

    def _value(self, symbol: str, chosen: Mapping[str, int], otherwise: Any) -> Any:
        return chosen.get(self._ties.get(symbol, symbol), otherwise)
