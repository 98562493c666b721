"""Charts of speed: intervals of speedups, times beside the bound, and the roofline."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from kernelwright.judge.verdict import SpeedStatus
from kernelwright.judge.wording import duration
from kernelwright.report.charts.svg import (
    AxisScale,
    circle,
    drawing,
    line,
    log_ticks,
    path,
    rectangle,
    short,
    text,
)
from kernelwright.report.model import WorkloadView

WIDTH = 720.0
NAMES, VALUES = 130.0, 80.0  # left for names, right for values
ROW, BAR = 22.0, 14.0
TOP, BOTTOM = 14.0, 34.0


def intervals(workloads: Sequence[WorkloadView]) -> Markup:
    """Each speedup with its interval, on a logarithmic axis; what may be claimed is the lower end."""
    rows = [(one, found) for one in workloads for found in one.result.baselines]
    if not rows:
        return Markup("")
    lows, highs = zip(*((found.speedup.low, found.speedup.high) for _, found in rows), strict=True)
    across = AxisScale(min(0.9, *lows) / 1.05, max(1.1, *highs) * 1.05, NAMES, WIDTH - VALUES, log=True)
    groups = {one.name: one for one in workloads}
    height = TOP + ROW * (len(rows) + len(groups)) + BOTTOM
    parts = [*_grid(across, TOP, height - BOTTOM, "×"), line(across(1), TOP, across(1), height - BOTTOM, "one")]
    y = TOP
    for one in groups.values():
        y += ROW
        parts.append(text(0, y - 7, _marked(one), "name"))
        for found in one.result.baselines:
            y += ROW
            middle, speedup = y - ROW / 2, found.speedup
            decided = one.result.speed is SpeedStatus.measured
            kind = "gain" if decided and speedup.low > 1 else "loss" if decided and speedup.high < 1 else "open"
            words = f"{found.baseline}: {speedup.low:.2f}× to {speedup.high:.2f}×, median {speedup.mid:.2f}×"
            start, end = across(speedup.low), across(speedup.high)
            parts += [
                text(14, middle + 4, f"over {found.baseline}", "soft"),
                rectangle(start, middle - 5, max(2.0, end - start), 10, f"bar {kind}", words),
                line(start, middle - 8, start, middle + 8, f"claim {kind}"),
                circle(across(speedup.mid), middle, 2.5, "dot"),
                text(WIDTH, middle + 4, f"{speedup.low:.2f}×", f"value {kind}", "end"),
            ]
    claims = ", ".join(f"{one.name} over {found.baseline} {found.speedup.low:.2f}" for one, found in rows)
    return drawing(WIDTH, height, "Speedups with 95% intervals", f"Lower ends: {claims}", parts)


def _marked(one: WorkloadView) -> str:
    undecided = "" if one.result.speed is SpeedStatus.measured else f" · {one.result.speed.value.replace('_', ' ')}"
    return f"{one.name} · {one.result.dtype}{' · hidden' if one.result.hidden else ''}{undecided}"


def _grid(across: AxisScale, top: float, bottom: float, unit: str = "") -> list[Markup]:
    parts = []
    for value in across.ticks():
        x = across(value)
        parts += [line(x, top, x, bottom, "grid"), text(x, bottom + 16, f"{value:g}{unit}", "tick", "middle")]
    return parts


def times(workloads: Sequence[WorkloadView]) -> Markup:
    """What a call takes: the kernel, every baseline, and the bound."""
    shown = [one for one in workloads if one.result.seconds]
    if not shown:
        return Markup("")
    longest = max(seconds for one in shown for _, seconds, _ in _times(one))
    across = AxisScale(0.0, longest, NAMES, WIDTH - VALUES)
    count = sum(1 + len(_times(one)) for one in shown)
    parts, y = [], TOP
    for one in shown:
        y += ROW
        parts.append(text(0, y - 7, _marked(one), "name"))
        for name, seconds, kind in _times(one):
            y += ROW
            parts += [
                text(14, y - ROW / 2 + 4, name, "soft"),
                rectangle(NAMES, y - ROW / 2 - BAR / 2, across(seconds) - NAMES, BAR, f"bar {kind}", duration(seconds)),
                text(WIDTH, y - ROW / 2 + 4, duration(seconds), "value", "end"),
            ]
    told = "; ".join(f"{one.name}: " + ", ".join(f"{n} {duration(s)}" for n, s, _ in _times(one)) for one in shown)
    return drawing(WIDTH, TOP + ROW * count + 8, "Time of a call", told, parts)


def _times(one: WorkloadView) -> list[tuple[str, float, str]]:
    found = [("the bound", one.bound_seconds, "bound")] if one.bound_seconds else []
    found += [("this kernel", one.result.seconds, "kernel")] if one.result.seconds else []
    found += [(each.baseline, each.seconds, "baseline") for each in one.result.baselines]
    return [(name, seconds, kind) for name, seconds, kind in found if seconds]


LEFT, RIGHT, HIGH = 70.0, 150.0, 320.0


def roofline(workloads: Sequence[WorkloadView]) -> Markup:
    """Operations a second over operations per byte. At each workload's intensity a cap shows what its bound allows;
    slanted lines are rates of moving bytes. The peaks behind a bound are not part of a verdict, so no roof is drawn."""
    known = [(one, found) for one in workloads if (found := one.bound) and found.operations and found.moved_bytes]
    known = [(one, found) for one, found in known if one.result.seconds]
    if not known:
        return Markup("")
    points = {one.name: (found.operations / found.moved_bytes, found.operations) for one, found in known}
    rates = [points[one.name][1] / seconds for one, _ in known for _, seconds, _ in _times(one)]
    intensities = [x for x, _ in points.values()]
    across = AxisScale(min(intensities) / 4, max(intensities) * 4, LEFT, WIDTH - RIGHT, log=True)
    up = AxisScale(min(rates) / 2, max(rates) * 2, HIGH - BOTTOM - 10, TOP, log=True)
    parts = [*_axes(across, up), *_slopes(across, up)]
    for one, found in known:
        x, operations = across(points[one.name][0]), points[one.name][1]
        top = up(operations / found.seconds)
        slowest = max(seconds for _, seconds, _ in _times(one))
        parts += [line(x, top, x, up(operations / slowest), "stem"), line(x - 22, top, x + 22, top, "cap")]
        for name, seconds, kind in _times(one):
            if kind != "bound":
                words = f"{one.name}: {name}, {short(operations / seconds)}op/s"
                parts.append(
                    circle(x, up(operations / seconds), 5.5 if kind == "kernel" else 4.5, f"mark {kind}", words)
                )
    parts += _legend()
    told = "; ".join(
        f"{one.name}: {short(found.operations / found.moved_bytes)} operations per byte, "
        + ", ".join(f"{name} {short(found.operations / seconds)}op/s" for name, seconds, _ in _times(one))
        for one, found in known
    )
    return drawing(WIDTH, HIGH, "Roofline", told, parts)


def _axes(across: AxisScale, up: AxisScale) -> list[Markup]:
    parts = []
    for value in across.ticks(5):
        parts += [line(across(value), TOP, across(value), up.start, "grid"),
                  text(across(value), up.start + 16, short(value), "tick", "middle")]  # fmt: skip
    for value in up.ticks(5):
        parts += [line(LEFT, up(value), WIDTH - RIGHT, up(value), "grid"),
                  text(LEFT - 6, up(value) + 4, short(value), "tick", "end")]  # fmt: skip
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(text(middle, HIGH - 4, "operations per byte that must be moved", "soft", "middle"))
    parts.append(text(2, TOP - 3, "operations a second", "soft"))
    return parts


def _slopes(across: AxisScale, up: AxisScale) -> list[Markup]:
    """Lines of equal bandwidth, clipped to the chart."""
    lowest, highest = up.low / across.high, up.high / across.low
    parts = []
    for bandwidth in log_ticks(lowest, highest, 5):
        left = max(across.low, up.low / bandwidth)
        right = min(across.high, up.high / bandwidth)
        if right <= left * 1.2:
            continue
        ends = [(across(left), up(bandwidth * left)), (across(right), up(bandwidth * right))]
        parts += [path(ends, "slope"), text(ends[0][0] + 4, ends[0][1] - 4, f"{short(bandwidth)}B/s", "tick")]
    return parts


def _legend() -> list[Markup]:
    x = WIDTH - RIGHT + 18
    rows = (("kernel", "this kernel"), ("baseline", "baselines"))
    parts = [line(x - 6, TOP + 12, x + 6, TOP + 12, "cap"), text(x + 14, TOP + 16, "its bound", "soft")]
    for index, (kind, words) in enumerate(rows, 1):
        y = TOP + 12 + index * 20
        parts += [circle(x, y, 5, f"mark {kind}"), text(x + 14, y + 4, words, "soft")]
    return parts
