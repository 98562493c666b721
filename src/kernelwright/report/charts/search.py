"""Charts of a search: how its best rose, which candidates the best comes from, and what a launch keeps busy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from markupsafe import Markup

from kernelwright.judge.verdict import LaunchProfile
from kernelwright.judge.wording import duration
from kernelwright.report.charts.svg import Scale, circle, drawing, line, path, rectangle, text
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
    across = Scale(0.0, float(last), LEFT, WIDTH - 14)
    lowest, highest = min(1.0, *values, *scores), max(1.0, *values, *scores)
    up = Scale(lowest / 1.08, highest * 1.08, HEIGHT - BOTTOM, TOP, log=True)

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


def _axes(across: Scale, up: Scale, *, by_time: bool) -> list[Markup]:
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


BOX, TALL, GAP_X, GAP_Y = 132.0, 44.0, 40.0, 14.0
MOST_IN_A_ROW = 5  # generations beside each other; what is older wraps into a band above


def lineage(nodes: Sequence[Ancestor], best: int) -> Markup:
    """Ancestors from left to right by generation, wrapped into bands; an arrow leads from a parent to its child."""
    if len(nodes) < 2:
        return Markup("")
    heights = Counter(one.generation for one in nodes)
    bands = 1 + max(heights) // MOST_IN_A_ROW
    tops = [0.0]
    for band in range(bands):
        tallest = max(
            (count for generation, count in heights.items() if generation // MOST_IN_A_ROW == band), default=1
        )
        tops.append(tops[-1] + tallest * (TALL + GAP_Y) + GAP_Y)
    placed: dict[int, tuple[float, float]] = {}
    rows: Counter[int] = Counter()
    for one in nodes:
        band, column = divmod(one.generation, MOST_IN_A_ROW)
        placed[one.number] = (column * (BOX + GAP_X) + 2, tops[band] + 6 + rows[one.generation] * (TALL + GAP_Y))
        rows[one.generation] += 1
    parts = [_arrow(placed[parent], placed[one.number]) for one in nodes for parent in one.parents]
    for one in nodes:
        parts += _box(one, *placed[one.number], chosen=one.number == best)
    width = max(x for x, _ in placed.values()) + BOX + 4
    told = "; ".join(f"{one.number:04d} from {', '.join(f'{p:04d}' for p in one.parents) or 'none'}" for one in nodes)
    return drawing(width, tops[-1] + 4, "Lineage of the best", told, parts)


def _arrow(start: tuple[float, float], end: tuple[float, float]) -> Markup:
    (x1, y1), (x2, y2) = start, end
    if x2 > x1:
        middle = x1 + BOX + (x2 - x1 - BOX) / 2
        points = [(x1 + BOX, y1 + TALL / 2), (middle, y1 + TALL / 2), (middle, y2 + TALL / 2), (x2, y2 + TALL / 2)]
    else:  # into the next band
        between = y2 - GAP_Y / 2
        points = [(x1 + BOX / 2, y1 + TALL), (x1 + BOX / 2, between), (x2 + BOX / 2, between), (x2 + BOX / 2, y2)]
    return path(points, "edge") + circle(*points[-1], 3, "tip")


def _box(one: Ancestor, x: float, y: float, *, chosen: bool) -> list[Markup]:
    speed = f"{one.score:.2f}×" if one.score else f"about {one.estimate:.2f}×" if one.estimate else ""
    origin = one.origin if len(one.origin) <= 20 else f"{one.origin[:19]}…"
    return [
        rectangle(x, y, BOX, TALL, "box best" if chosen else "box", one.note or one.origin),
        text(x + 8, y + 18, f"{one.number:04d}", "value"),
        text(x + BOX - 8, y + 18, speed, "value", "end"),
        text(x + 8, y + 35, origin, "tick"),
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
    across = Scale(0.0, 1.0, 90, 290)
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
