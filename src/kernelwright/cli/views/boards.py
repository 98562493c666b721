"""A leaderboard on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from kernelwright.benchmark.leaderboard import READING, BoardTable, Cell, Foreign, Leaderboard
from kernelwright.cli.views.output import plain
from kernelwright.report.text import one_line

BY_TASK = ("By task", "By category")
FOREIGN = 70  # characters


def show_board(out: Console, board: Leaderboard, *, tasks: bool = True) -> None:
    out.print(f"[bold]{plain(board.suite)}[/]  [dim]{plain(board.conditions)}[/]", soft_wrap=True)
    for warning in board.warnings:
        out.print(f"  [yellow]{plain(warning)}[/]", soft_wrap=True)
    for one in board.tables:
        if tasks or one.title not in BY_TASK:
            out.print(f"\n[bold]{one.title}[/]")
            out.print(_table(one))
            if one.note and one.note != READING:
                out.print(f"  [dim]{one.note}[/]")
    out.print(f"\n[dim]{READING}[/]")


def _table(one: BoardTable) -> Table:
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for title in one.head:
        table.add_column(title)
    for row in one.rows:
        table.add_row(*(_shown(cell) for cell in row))
    return table


def _shown(cell: Cell) -> str:
    return plain(one_line(cell.text, FOREIGN)) if isinstance(cell, Foreign) else cell
