"""Sums around a row's mean in one pass: each thread around a mean of its own, put together with their distances.

A thread's mean is that of its first vector, so what rounding costs is bounded by how many vectors it has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kernelwright.proposers.templates.cuda.elements import Elements
from kernelwright.proposers.templates.cuda.meetings import Meetings
from kernelwright.proposers.templates.cuda.moments import Moments

COUNTS = [
    "constexpr int VECTORS = COLS / WIDTH, ROUND = PARTS * TEAM;",
    "const auto share = [](const int i) {  // how many elements part i of the row has",
    "  const int rest = VECTORS % ROUND - i * TEAM;",
    "  return (VECTORS / ROUND * TEAM + (rest < 0 ? 0 : rest < TEAM ? rest : TEAM)) * static_cast<float>(WIDTH);",
    "};",
    "const int order = part * TEAM + lane;",
    "const int own = (VECTORS / ROUND + (order < VECTORS % ROUND)) * WIDTH;",
]


class OnePass(Meetings):
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
        """Both passes of a row in one; blocks that share it meet once."""
        lines = [*COUNTS, *self.in_threads(pair, first, elements), *self.in_block(pair)]
        if self.parted:
            before = sum(map(len, self.stage.passes[: pair.number]))
            inner = [*self.words({before + number: name for number, name in enumerate(pair.names)}), *meanwhile]
            inner += self.in_row(pair, "TEAM", "lane", lambda name, i: f"heard<float>(words_{name} + {i})")
            lines += ["if (PARTS > 1) {", *(f"  {line}" for line in inner), "}"]
        return lines
