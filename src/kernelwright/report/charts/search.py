"""Charts of a search: how its best rose, which candidates the best comes from, and what a launch keeps busy."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from markupsafe import Markup

from kernelwright.judge.verdict import LaunchProfile
from kernelwright.judge.wording import duration
from kernelwright.report.charts.svg import AxisScale, circle, drawing, line, path, rectangle, text
from kernelwright.report.model import Ancestor, CurvePoint

WIDTH, HEIGHT = 720.0, 280.0
LEFT, TOP, BOTTOM = 52.0, 18.0, 46.0
MOST_DOTS = 1_200  # of a long run every so many: their cloud looks the same


def curve(points: Sequence[CurvePoint], *, by_time: bool) -> Markup:
    """Every judged candidate's estimate, and the best by estimate and by proof so far."""
    values = [one.estimate for one in points if one.estimate]
    if not values:
        return Markup("")
    scores = [one.best_score for one in points if one.best_score]
    last = (points[-1].seconds if by_time else points[-1].evaluations) or 1
    across = AxisScale(0.0, float(last), LEFT, WIDTH - 14)
    lowest, highest = min(1.0, *values, *scores), max(1.0, *values, *scores)
    up = AxisScale(lowest / 1.08, highest * 1.08, HEIGHT - BOTTOM, TOP, log=True)

    def place(one: CurvePoint) -> float:
        return across(one.seconds if by_time else one.evaluations)

    parts = _axes(across, up, by_time=by_time)
    every = max(1, -(-len(points) // MOST_DOTS))
    for one in points[::every]:
        if one.estimate:
            words = f"{one.number:04d}: about {one.estimate:.2f}×"
            parts.append(circle(place(one), up(one.estimate), 2.6, "try", words))
    parts.append(path(_steps([(place(one), up(one.best_estimate)) for one in points if one.best_estimate]), "estimate"))
    proved = [(place(one), up(one.best_score)) for one in points if one.best_score]
    if proved:
        parts.append(path(_steps([*proved, (across(float(last)), proved[-1][1])]), "proved"))
    parts += [circle(place(one), up(one.score), 4, "final", f"{one.number:04d}: final, {one.score:.2f}×")
              for one in points if one.kind == "final" and one.score]  # fmt: skip
    unit = "wall time" if by_time else "evaluations"
    told = f"Best estimate {max(values):.2f}×" + (f", best proved {scores[-1]:.2f}×" if scores else ", nothing proved")
    return drawing(WIDTH, HEIGHT, f"Search curve over {unit}", told, parts)


def _axes(across: AxisScale, up: AxisScale, *, by_time: bool) -> list[Markup]:
    parts = []
    for value in across.ticks(7):
        words = duration(value) if by_time and value else f"{value:.0f}"
        parts += [line(across(value), TOP, across(value), HEIGHT - BOTTOM, "grid"),
                  text(across(value), HEIGHT - BOTTOM + 16, words, "tick", "middle")]  # fmt: skip
    for value in up.ticks(6):
        parts += [line(LEFT, up(value), WIDTH - 14, up(value), "one" if value == 1 else "grid"),
                  text(LEFT - 6, up(value) + 4, f"{value:g}×", "tick", "end")]  # fmt: skip
    parts.append(text((LEFT + WIDTH) / 2, HEIGHT - 8, "wall time" if by_time else "evaluations", "soft", "middle"))
    return parts


def _steps(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """What was best stays so until something else is."""
    found: list[tuple[float, float]] = []
    for x, y in points:
        if found and found[-1][1] != y:
            found.append((x, found[-1][1]))
        found.append((x, y))
    return found


BOX, TALL, GAP_X, GAP_Y = 132.0, 58.0, 14.0, 22.0
IN_A_ROW = 5
MOST_IN_CHAIN = 25
ORIGIN = 20  # characters


def lineage(nodes: Sequence[Ancestor], best: int) -> Markup:
    """The best and its first parents, the oldest first, in rows; other parents are named below a candidate. Of a long
    line the youngest."""
    line_of = chain(nodes, best)[-MOST_IN_CHAIN:]
    if len(line_of) < 2:
        return Markup("")
    places = [_place(index) for index in range(len(line_of))]
    parts = [_arrow(*pair) for pair in itertools.pairwise(places)]
    for one, (x, y) in zip(line_of, places, strict=True):
        parts += _box(one, x, y, chosen=one.number == best)
    rows = -(-len(line_of) // IN_A_ROW)
    width = min(len(line_of), IN_A_ROW) * (BOX + GAP_X) + 4
    told = " → ".join(f"{one.number:04d}" for one in line_of)
    return drawing(width, rows * (TALL + GAP_Y), "Lineage of the best", told, parts)


def chain(nodes: Sequence[Ancestor], best: int) -> list[Ancestor]:
    """By first parents, the oldest first."""
    known = {one.number: one for one in nodes}
    found: list[Ancestor] = []
    number: int | None = best
    while number is not None and number in known and len(found) < len(nodes):
        found.append(known[number])
        number = known[number].parents[0] if known[number].parents else None
    return found[::-1]


def _place(index: int) -> tuple[float, float]:
    row, column = divmod(index, IN_A_ROW)
    return column * (BOX + GAP_X) + 2, row * (TALL + GAP_Y) + 2


def _arrow(start: tuple[float, float], end: tuple[float, float]) -> Markup:
    """To the next box, or around the end of a row to the first one below."""
    (x1, y1), (x2, y2) = start, end
    if y1 == y2:
        points = [(x1 + BOX, y1 + TALL / 2), (x2, y2 + TALL / 2)]
    else:
        between = y2 - GAP_Y / 2
        points = [(x1 + BOX / 2, y1 + TALL), (x1 + BOX / 2, between), (x2 + BOX / 2, between), (x2 + BOX / 2, y2)]
    return path(points, "edge") + circle(*points[-1], 3, "tip")


def _box(one: Ancestor, x: float, y: float, *, chosen: bool) -> list[Markup]:
    speed = f"{one.score:.2f}×" if one.score else f"≈{one.estimate:.2f}×" if one.estimate else ""
    others = f"with {', '.join(f'{number:04d}' for number in one.parents[1:])}" if len(one.parents) > 1 else ""
    return [
        rectangle(x, y, BOX, TALL, "box best" if chosen else "box", one.note or one.origin),
        text(x + 8, y + 18, f"{one.number:04d}", "value"),
        text(x + BOX - 8, y + 18, speed, "value", "end"),
        text(x + 8, y + 34, one.origin if len(one.origin) <= ORIGIN else f"{one.origin[: ORIGIN - 1]}…", "tick"),
        text(x + 8, y + 49, others, "tick"),
    ]


UNITS = (
    ("DRAM", "of_dram"),
    ("L2", "of_l2"),
    ("SM", "of_sm"),
    ("float32", "of_float32"),
    ("tensor cores", "of_tensor"),
    ("occupancy", "occupancy"),
    ("issuing", "issuing"),
)


def busy(launch: LaunchProfile) -> Markup:
    """How much of its peak each unit reaches in one launch."""
    shares = [(name, share) for name, key in UNITS if (share := getattr(launch, key)) is not None]
    if not shares:
        return Markup("")
    across = AxisScale(0.0, 1.0, 90, 290)
    parts = []
    for index, (name, share) in enumerate(shares):
        y = index * 20 + 4
        parts += [
            text(84, y + 11, name, "soft", "end"),
            rectangle(90, y, 200, 13, "track"),
            rectangle(90, y, across(share) - 90, 13, "bar kernel" if share >= 0.6 else "bar baseline"),
            text(338, y + 11, f"{share:.0%}", "value", "end"),
        ]
    told = ", ".join(f"{name} {share:.0%}" for name, share in shares)
    return drawing(340, len(shares) * 20 + 6, "Units kept busy", told, parts)
