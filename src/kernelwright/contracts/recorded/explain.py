"""Finds closed forms over sizes for numbers that were recorded: products, quotients rounded up or down, limits, sums.

A form is taken only if it gives every recorded number exactly. Whether it holds elsewhere is not decided here.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations_with_replacement

from kernelwright.contracts.recorded.planned import Number
from kernelwright.contracts.symbolic import Expression, SymbolicSignature, SymbolicTensor, value_of

Sizes = Mapping[str, int]
Column = tuple[int, ...]
"""The values of one expression, or of one number, at every recording."""

TILES = tuple(sorted({factor << shift for factor in (1, 3) for shift in range(1, 15)}))
FACTORS = tuple(1 << shift for shift in range(13))
ITEMS = (1, 2, 4, 8)
MOST_DIVISOR = 1 << 24


def atoms_of(symbolic: SymbolicSignature) -> tuple[Expression, ...]:
    """What launches are made of: sizes, dimensions, products of dimensions that lie together, products of two sizes."""
    sizes: list[Expression] = [size.name for size in symbolic.sizes]
    found: dict[Expression, None] = dict.fromkeys(sizes)
    shapes = [one.shape for one in symbolic.arguments if isinstance(one, SymbolicTensor)]
    for shape in shapes:
        found |= dict.fromkeys(dim for dim in shape if not isinstance(dim, int))
    for shape in shapes:
        for first in range(len(shape)):
            for last in range(first + 1, len(shape)):
                found[product(shape[first : last + 1])] = None
    for pair in combinations_with_replacement(sizes, 2):
        found[product(pair)] = None
    return tuple(one for one in found if not isinstance(one, int))


def product(factors: Sequence[Expression]) -> Expression:
    """Of equal factors in another order it is the same."""
    number = math.prod(one for one in factors if isinstance(one, int))
    rest = sorted((one for one in factors if not isinstance(one, int)), key=str)
    if not rest or number == 0:
        return number
    made: Expression = rest[0]
    for one in rest[1:]:
        made = ("mul", made, one)
    return made if number == 1 else ("mul", made, number)


class FormFinder:
    """Explains columns of numbers at one list of sizes."""

    def __init__(self, atoms: Sequence[Expression], sizes: Sequence[Sizes]) -> None:
        self._count = len(sizes)
        self._atoms: dict[Column, Expression] = {}
        for atom in atoms:
            column = tuple(value_of(atom, at) for at in sizes)
            if len(set(column)) > 1:
                self._atoms.setdefault(column, atom)
        self._parts: dict[Column, Expression] | None = None

    def explain(self, numbers: Sequence[Number]) -> tuple[str, Expression] | None:
        """The type and form of a number, whose type is the same at all recordings; None where no form is found."""
        kind = numbers[0][0]
        column = tuple(value for _, value in numbers if isinstance(value, int))
        if len(set(column)) == 1:
            return kind, column[0]
        for read in _READINGS.get(kind, (_as_whole,)):
            found = read(self, kind, column)
            if found is not None:
                return found
        return None

    def whole(self, column: Column) -> Expression | None:
        return self._plain(column) or self._limited(column) or self._sum(column)

    def _plain(self, column: Column) -> Expression | None:
        for way in (self._scaled, self._divided, self._power, self._affine, self._multiplied):
            found = way(column)
            if found is not None:
                return found
        return None

    def _scaled(self, column: Column) -> Expression | None:
        return self._scaled_of(self._atoms, column)

    @staticmethod
    def _scaled_of(forms: Mapping[Column, Expression], column: Column) -> Expression | None:
        for values, form in forms.items():
            if all(value * column[0] == one * values[0] for value, one in zip(values, column, strict=True)):
                common = math.gcd(column[0], values[0])
                up, down = column[0] // common, values[0] // common if common else 0
                if up and down:
                    scaled = form if up == 1 else ("mul", form, up)
                    return scaled if down == 1 else ("floordiv", scaled, down)
        return None

    def _divided(self, column: Column) -> Expression | None:
        """A quotient rounded up or down, perhaps times a number, and one more."""
        whole = math.gcd(*column)
        for factor in dict.fromkeys((1, whole)):
            wanted = tuple(one // factor for one in column) if factor else column
            for values, form in self._atoms.items():
                found = _up(values, wanted, form) or _down(values, wanted, form)
                if found is not None:
                    return found if factor == 1 else ("mul", found, factor)
        return None

    def _power(self, column: Column) -> Expression | None:
        """The next power of two."""
        powers = {
            tuple(1 << (value - 1).bit_length() for value in values): _next_power(form)
            for values, form in self._atoms.items()
            if min(values) >= 1
        }
        return self._scaled_of({values: form for values, form in powers.items() if len(set(values)) > 1}, column)

    def _affine(self, column: Column) -> Expression | None:
        for values, form in self._atoms.items():
            slope = _slope(values, column)
            if slope is not None:
                scaled = form if slope == 1 else ("mul", form, slope)
                return ("add", scaled, column[0] - slope * values[0])
        return None

    def _multiplied(self, column: Column) -> Expression | None:
        """A product of two quotients or sizes, with a power of two."""
        parts = self._quotients()
        common = math.gcd(*column)
        for factor in (one for one in FACTORS if common % one == 0):
            wanted = tuple(one // factor for one in column)
            for values, form in parts.items():
                if any(value == 0 or one % value for value, one in zip(values, wanted, strict=True)):
                    continue
                other = parts.get(tuple(one // value for value, one in zip(values, wanted, strict=True)))
                if other is not None:
                    return product((form, other, factor))
        return None

    def _quotients(self) -> dict[Column, Expression]:
        if self._parts is None:
            self._parts = dict(self._atoms)
            for values, form in self._atoms.items():
                for tile in TILES:
                    up = tuple(-(-value // tile) for value in values)
                    self._parts.setdefault(up, ("floordiv", ("add", form, tile - 1), tile))
        return self._parts

    def _limited(self, column: Column) -> Expression | None:
        """The lesser, or the greater, of a form and a number."""
        for operation, limit, beyond in (("min", max(column), _not_less), ("max", min(column), _not_more)):
            free = [place for place, one in enumerate(column) if one != limit]
            if not free or len(free) > self._count - 2:
                continue
            part = FormFinder((), ())
            part._count = len(free)
            part._atoms = {tuple(values[place] for place in free): form for values, form in self._atoms.items()}
            found = part._plain(tuple(column[place] for place in free)) if len(free) > 1 else None
            if found is None:
                continue
            pairs = zip(self._values(found), column, strict=True)
            if all(beyond(value, limit) if one == limit else value == one for value, one in pairs):
                return operation, found, limit
        return None

    def _sum(self, column: Column) -> Expression | None:
        for values, form in self._atoms.items():
            for factor in ITEMS:
                rest = tuple(one - factor * value for value, one in zip(values, column, strict=True))
                if min(rest) > 0:
                    found = self._scaled(rest)
                    if found is not None:
                        return ("add", form if factor == 1 else ("mul", form, factor), found)
        return None

    def _values(self, form: Expression) -> Column:
        """Of a form over the atoms, at the recordings."""
        known = {form: values for values, form in self._atoms.items()}

        def value(one: Expression, place: int) -> int:
            if isinstance(one, int):
                return one
            if one in known:
                return known[one][place]
            assert isinstance(one, tuple)
            return _applied(one[0], [value(operand, place) for operand in one[1:]])  # type: ignore[arg-type]

        return tuple(value(form, place) for place in range(self._count))

    def real(self, kind: str, column: Column) -> Expression | None:
        """A real number: a size, its root or the inverse of either, rounded to the type."""
        for values, form in self._atoms.items():
            if min(values) < 1:
                continue
            for make, expression in _REALS:
                if all(_bits(kind, make(value)) == one for value, one in zip(values, column, strict=True)):
                    return expression(form)
        return None


def _not_less(value: int, limit: int) -> bool:
    return value >= limit


def _not_more(value: int, limit: int) -> bool:
    return value <= limit


def _applied(operation: str, operands: list[int]) -> int:
    from kernelwright.contracts.portable.expressions import BINARY, UNARY

    return int((UNARY | BINARY)[operation](*operands))


def _up(values: Column, wanted: Column, form: Expression) -> Expression | None:
    """ceil(value / d) == one, which says between which numbers d lies."""
    if min(wanted) < 1:
        return None
    least = max(-(-value // one) for value, one in zip(values, wanted, strict=True))
    most = min((value - 1) // (one - 1) if one > 1 else MOST_DIVISOR for value, one in zip(values, wanted, strict=True))
    divisor = _roundest(least, most)
    return None if divisor is None else ("floordiv", ("add", form, divisor - 1), divisor)


def _down(values: Column, wanted: Column, form: Expression) -> Expression | None:
    least = max(value // (one + 1) + 1 for value, one in zip(values, wanted, strict=True))
    most = min(value // one if one else MOST_DIVISOR for value, one in zip(values, wanted, strict=True))
    divisor = _roundest(least, most)
    return None if divisor is None else ("floordiv", form, divisor)


def _roundest(least: int, most: int) -> int | None:
    """The number between two that is divided by the highest power of two; None where it is 1 or there is none."""
    if not 1 <= least <= most or most < 2:
        return None
    step = 1 << most.bit_length()
    while step and most // step * step < max(least, 1):
        step //= 2
    found = most // step * step
    return found if found > 1 else None


def _slope(values: Column, column: Column) -> int | None:
    other = next((at for at, value in enumerate(values) if value != values[0]), 0)
    run, rise = values[other] - values[0], column[other] - column[0]
    if run == 0 or rise % run or rise == 0:
        return None
    slope = rise // run
    fits = (one - column[0] == slope * (value - values[0]) for value, one in zip(values, column, strict=True))
    return slope if all(fits) else None


def _next_power(form: Expression) -> Expression:
    return ("lshift", 1, ("bits", ("sub", form, 1)))


def _bits(kind: str, value: float) -> int:
    return int.from_bytes(struct.pack({"f32": "<f", "f64": "<d"}[kind], value), "little")


_REALS: tuple[tuple[Callable[[int], float], Callable[[Expression], Expression]], ...] = (
    (float, lambda form: ("float", form)),
    (lambda value: 1 / value, lambda form: ("truediv", 1, form)),
    (lambda value: 1 / math.sqrt(value), lambda form: ("truediv", 1, ("sqrt", form))),
    (math.sqrt, lambda form: ("sqrt", form)),
)


def _as_whole(forms: FormFinder, kind: str, column: Column) -> tuple[str, Expression] | None:
    """Of a signed type where all numbers fit: bytes are the same, and a greater number is refused, not wrapped."""
    found = forms.whole(column)
    if found is None:
        return None
    bits = int(kind[1:]) if kind else 0
    signed = f"i{bits}" if bits in (32, 64) and max(column) < 1 << bits - 1 else kind
    return signed, found


def _as_real(forms: FormFinder, kind: str, column: Column) -> tuple[str, Expression] | None:
    real = f"f{kind[1:]}"
    found = forms.real(real, column)
    return None if found is None else (real, found)


_READINGS: Mapping[str, tuple[Callable[[FormFinder, str, Column], tuple[str, Expression] | None], ...]] = {
    "u32": (_as_whole, _as_real),
    "u64": (_as_whole, _as_real),
}


def columns(rows: Sequence[Sequence[Number]]) -> Iterator[tuple[Number, ...]]:
    """The numbers of several calls of one form, place by place."""
    yield from zip(*rows, strict=True)
