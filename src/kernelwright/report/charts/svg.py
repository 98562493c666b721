"""The little SVG that our charts need: elements with escaped text, linear and logarithmic scales, round ticks.

A chart says what it shows in `title` and `desc`, for readers that do not see it. Colours are classes: a `style`
attribute would need a laxer Content-Security-Policy, and light, dark and print differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from kernelwright.report.text import one_line

LABEL = 60  # characters
MANTISSAS: tuple[tuple[float, ...], ...] = (
    (1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.75, 2, 2.5, 3, 4, 5, 7),
    (1, 1.25, 1.5, 2, 3, 5, 7),
    (1, 2, 5),
    (1,),
)


def element(name: str, content: str | Markup = "", **attributes: str | float | None) -> Markup:
    """One element. Content that is not Markup is a text of others, and is escaped; `class_` is `class`."""
    given = Markup("").join(
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), _attribute(value))
        for key, value in attributes.items()
        if value is not None
    )
    inner = content if isinstance(content, Markup) else Markup.escape(one_line(content, LABEL * 4))
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(name), given, inner)


def _attribute(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")


def text(x: float, y: float, words: str, class_: str = "", anchor: str = "start") -> Markup:
    return element("text", one_line(words, LABEL), x=x, y=y, class_=class_ or None, text_anchor=anchor)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def rectangle(x: float, y: float, width: float, height: float, class_: str, title: str = "") -> Markup:
    inner = element("title", title) if title else Markup("")
    return element("rect", inner, x=x, y=y, width=max(0.0, width), height=height, rx=2, class_=class_)


def circle(x: float, y: float, radius: float, class_: str, title: str = "") -> Markup:
    inner = element("title", title) if title else Markup("")
    return element("circle", inner, cx=x, cy=y, r=radius, class_=class_)


def path(points: Sequence[tuple[float, float]], class_: str) -> Markup:
    steps = " ".join(f"{'M' if index == 0 else 'L'}{x:.1f} {y:.1f}" for index, (x, y) in enumerate(points))
    return element("path", d=steps, class_=class_, fill="none")


def drawing(width: float, height: float, title: str, description: str, parts: Iterable[Markup]) -> Markup:
    """A whole chart; `parts` come in the order in which they are painted."""
    return element(
        "svg",
        element("title", title) + element("desc", description) + Markup("").join(parts),
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        role="img",
        class_="chart",
        xmlns="http://www.w3.org/2000/svg",
        width=width,
        height=height,
    )


@dataclass(frozen=True)
class AxisScale:
    """From values to places; `log` for ratios and rates."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, here = (math.log(one) if self.log else one for one in (self.low, self.high, value))
        share = 0.5 if high == low else (here - low) / (high - low)
        return self.start + (self.end - self.start) * min(1.0, max(0.0, share))

    def ticks(self, most: int = 6) -> list[float]:
        return log_ticks(self.low, self.high, most) if self.log else linear_ticks(self.low, self.high, most)


def linear_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round values from low to high."""
    if not high > low:
        return [low]
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    first = math.ceil(low / step - 1e-9)
    return [index * step for index in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """The finest set of round values that is not too many: 1, 1.1, …; 1, 2, 5; powers of ten; some of those."""
    if not 0 < low < high:
        return [low]
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for mantissas in (
        (1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.75, 2, 2.5, 3, 4, 5, 7),
        (1, 1.25, 1.5, 2, 3, 5, 7),
        (1, 2, 5),
        (1,),
    ):
        found = [mantissa * 10.0**power for power in decades for mantissa in mantissas]
        inside = [value for value in found if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]
        if len(inside) <= most:
            return inside
    return inside[:: math.ceil(len(inside) / most)]


def short(value: float) -> str:
    """A number with a unit of thousands, as axes have it."""
    for unit, scale in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= scale:
            return f"{value / scale:.3g}{unit}"
    return f"{value:.3g}"
