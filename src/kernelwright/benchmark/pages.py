"""A leaderboard as Markdown, and as one HTML file that needs nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from kernelwright.benchmark.leaderboard import READING, BoardEntrant, Cell, Foreign, Leaderboard
from kernelwright.benchmark.metrics import claim, opened_tasks
from kernelwright.report.charts.svg import AxisScale, drawing, line, path, text
from kernelwright.report.html import rendered
from kernelwright.report.markdown import table
from kernelwright.report.text import code_span, prose

WIDTH, HEIGHT = 720.0, 260.0
LEFT, TOP, BOTTOM, RIGHT = 52.0, 14.0, 44.0, 14.0
SERIES = 6  # colours


def board_markdown(board: Leaderboard) -> str:
    lines = [f"## {code_span(board.suite)}", "", prose(board.conditions, 400), ""]
    for warning in board.warnings:
        lines += [f"> {prose(warning, 400)}", ""]
    for one in board.tables:
        lines += [f"### {one.title}", ""]
        if one.note:
            lines += [one.note, ""]
        lines += [*table(one.head, [[_cell(cell) for cell in row] for row in one.rows]), ""]
    lines.append(f"<sub>kernelwright {board.version}</sub>")
    return "\n".join(lines) + "\n"


def _cell(cell: Cell) -> str:
    if isinstance(cell, Foreign):
        return code_span(cell.text, cell=True) if cell.text else ""
    return cell


def board_page(board: Leaderboard) -> str:
    return rendered("leaderboard.html.j2", board=board, curves=curves(board.ranked), reading=READING, series=SERIES)


def curves(ranked: Sequence[BoardEntrant]) -> Markup:
    """fast_p for every p: of each entrant the share of tasks on which at least p times may be claimed."""
    claims = [_shares(one) for one in ranked]
    values = [value for one in claims for value, _ in one if value > 0]
    if not values:
        return Markup("")
    across = AxisScale(min(0.8, *values) / 1.05, max(2.5, *values) * 1.05, LEFT, WIDTH - RIGHT, log=True)
    up = AxisScale(0.0, 1.0, HEIGHT - BOTTOM, TOP)
    parts = []
    for tick in across.ticks(9):
        parts += [
            line(across(tick), TOP, across(tick), HEIGHT - BOTTOM, "one" if tick == 1 else "grid"),
            text(across(tick), HEIGHT - BOTTOM + 16, f"{tick:g}×", "tick", "middle"),
        ]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts += [
            line(LEFT, up(share), WIDTH - RIGHT, up(share), "grid"),
            text(LEFT - 6, up(share) + 4, f"{share:.0%}", "tick", "end"),
        ]
    parts.append(
        text((LEFT + WIDTH) / 2, HEIGHT - 8, "p: at least so many times over the best baseline", "soft", "middle")
    )
    for number, points in enumerate(claims):
        parts.append(path(_steps(points, across, up), f"series s{number % SERIES}"))
    told = "; ".join(f"{one.label}: fast_1 {one.metrics.overall.fast[1.0].value or 0:.0%}" for one in ranked)
    return drawing(WIDTH, HEIGHT, "fast_p by p", told, parts)


def _shares(one: BoardEntrant) -> list[tuple[float, float]]:
    """Each claim with the share of samples that have it or more, by task, the largest claim first."""
    tasks = opened_tasks(one.results)
    weighted = [
        (found, 1 / (task.weight * len(tasks)))
        for task in tasks
        for row in task.rows
        if (found := claim(row)) is not None
    ]
    total, points = 0.0, []
    for found, weight in sorted(weighted, reverse=True):
        total += weight
        points.append((found, total))
    return points


def _steps(points: Sequence[tuple[float, float]], across: AxisScale, up: AxisScale) -> list[tuple[float, float]]:
    """From the right: the share rises at each claim."""
    made = [(across(across.high), up(0.0))]
    before = 0.0
    for found, share in points:
        made += [(across(found), up(before)), (across(found), up(share))]
        before = share
    return [*made, (across(across.low), up(min(1.0, before)))] if math.isfinite(before) else made
