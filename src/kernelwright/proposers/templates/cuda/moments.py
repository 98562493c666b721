"""Recognises sums around a row's mean, which parts of a row can find without knowing that mean."""

from __future__ import annotations

from dataclasses import dataclass

from kernelwright.proposers.templates.cuda.stages import Stage
from kernelwright.proposers.templates.patterns.rows import RowProgram


@dataclass(frozen=True)
class Product:
    """A sum of y times the distance from the mean; `total` is the sum of y, where a pass makes that too."""

    place: int
    factor: int
    total: int | None


@dataclass(frozen=True)
class Moments:
    """The sum of a row's values and, in the next pass, only sums of products with their distance from the mean."""

    number: int  # of the first of the two passes
    sum: int
    values: int
    squares: int | None  # the sum of the squared distance
    products: tuple[Product, ...]
    others: tuple[int, ...]  # further reductions of the first pass

    @property
    def factors(self) -> dict[int, str]:
        """By a product's place, the variable with the sum of what the distance is multiplied with."""
        return {p.place: f"y{p.place}" if p.total is None else f"a{p.total}" for p in self.products}

    @property
    def names(self) -> tuple[str, ...]:
        """The variables that parts of a row exchange, the sum of its values first."""
        squares = [] if self.squares is None else [f"a{self.squares}"]
        products = [f"a{product.place}" for product in self.products]
        others = [f"a{place}" for place in self.others]
        return tuple(dict.fromkeys([f"a{self.sum}", *squares, *products, *self.factors.values(), *others]))


def moments(program: RowProgram, stage: Stage) -> Moments | None:
    for number in range(len(stage.passes) - 1):
        for place in stage.passes[number]:
            found = _around(program, stage, number, place)
            if found:
                return found
    return None


def _around(program: RowProgram, stage: Stage, number: int, total: int) -> Moments | None:
    """If all of the next pass is around the mean that comes from this sum."""
    instructions = program.instructions
    if instructions[total].kind != "sum":
        return None
    values = instructions[total].operands[0]
    firsts = {instructions[p].operands[0]: p for p in stage.passes[number] if instructions[p].kind == "sum"}
    squares: list[int] = []
    products: list[Product] = []
    for place in stage.passes[number + 1]:
        inner = instructions[instructions[place].operands[0]]
        if instructions[place].kind != "sum" or inner.operation != "mul":
            return None
        distances = [p for p in inner.operands if _is_distance(program, p, values, total)]
        if len(distances) == 2:
            squares.append(place)
            continue
        others = [p for p in inner.operands if p not in distances]
        if len(distances) != 1 or instructions[others[0]].phase > number:
            return None
        products.append(Product(place, others[0], firsts.get(others[0])))
    rest = tuple(p for p in stage.passes[number] if p != total)
    if len(squares) > 1 or any(instructions[p].kind.startswith("arg") for p in rest):
        return None
    return Moments(number, total, values, squares[0] if squares else None, tuple(products), rest)


def _is_distance(program: RowProgram, place: int, values: int, total: int) -> bool:
    distance = program.instructions[place]
    if distance.operation != "sub" or distance.operands[0] != values:
        return False
    mean = program.instructions[distance.operands[1]]
    if mean.operation != "div" or mean.operands[0] != total:
        return False
    return program.instructions[mean.operands[1]].number == program.cols
