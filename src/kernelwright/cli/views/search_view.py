"""A search as it goes on: a changing table on a terminal, plain lines in a pipe.

Drawn when something happened and never in the background: a drawing thread would run on the cores that are measured.
"""

from __future__ import annotations

from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from kernelwright.cli.views.output import Progress
from kernelwright.judge.wording import about_times, counted, stage_words
from kernelwright.search.core.events import Event
from kernelwright.search.core.state import State
from kernelwright.search.progress import ANSWERS, WIDTH, line_of
from kernelwright.search.summary import money, of_the_bound

LAST = 6
TOLD = ("waiting", "opening", "the server")  # what is said of the judge's work in a pipe
MARGIN = 20  # of a screen, for the names of what stands beside it


class SearchView(Protocol):
    def __enter__(self) -> SearchView: ...

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None: ...

    def __call__(self, event: Event, state: State) -> None: ...

    def progress(self, text: str) -> None: ...


def status(state: State) -> list[tuple[str, str]]:
    """Names and values: where the search stands."""
    best = state.entries[state.best] if state.best is not None else None
    if best is None:
        text = "none yet"
    else:
        assert best.verdict is not None
        found = [b.speedup for r in best.verdict.workloads if (b := r.best_baseline)]
        low, high = min(s.low for s in found), max(s.high for s in found)
        text = f"{best.number:04d}  {best.score:.2f}× over the best baseline, by workload {low:.2f} to {high:.2f}"
    rows = [("best", text)]
    if best is not None and best.verdict is not None:
        rows.append(("of the bound", of_the_bound(state, best.verdict) or "not known"))
    if state.leader is not None and state.leader != state.best:
        leader = state.entries[state.leader]
        rows.append(("fastest", f"{leader.number:04d}  {about_times(leader.estimate or 0.0)} (estimate)"))
    same = f", {counted(state.duplicates, 'duplicate')}" if state.duplicates else ""
    refused = f"{state.refused - state.duplicates} refused{same}"
    rows.append(("candidates", f"{len(state.entries)}, {len(state.queue)} in the queue, {refused}"))
    if state.calls:
        rows.append(("models", money(state)))
    rows.append(("budget left", state.budget.left(state.spent)))
    return rows


class Lines:
    """For a pipe or a log, or for no reader (`quiet`)."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._progress = Progress(quiet=quiet)

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._progress.clear()

    def __call__(self, event: Event, state: State) -> None:
        found = line_of(event, state)
        if found is not None and not self._quiet:
            print(found, flush=True)

    def progress(self, text: str) -> None:
        if text.startswith(TOLD):  # stages of every judging would drown the verdicts
            self._progress.label(ANSWERS if text.startswith("waiting for an answer") else "judge")
            self._progress(text)


class Screen:
    """For a terminal."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._last: list[str] = []
        self._doing = ""
        self._state: State | None = None

    def __enter__(self) -> Screen:
        self._live.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._live.stop()

    def __call__(self, event: Event, state: State) -> None:
        self._state = state
        found = line_of(event, state, min(WIDTH, max(MARGIN, self._live.console.width - MARGIN)))
        if found is not None:
            self._last = [*self._last, found][-LAST:]
        self._draw()

    def progress(self, text: str) -> None:
        """Stages only: a drawing after every trial would disturb the next."""
        stage = stage_words(text)
        if stage != self._doing:
            self._doing = stage
            self._draw()

    def _draw(self) -> None:
        table = Table(box=None, padding=(0, 2), show_header=False)
        table.add_column(style="dim")
        table.add_column()
        for name, value in status(self._state) if self._state is not None else []:
            table.add_row(name, escape(value))
        table.add_row("now", escape(self._doing))
        for text in self._last:
            table.add_row("", escape(text))
        self._live.update(table, refresh=True)


def view_for(console: Console, *, quiet: bool) -> SearchView:
    return Screen(console) if console.is_terminal and not quiet else Lines(quiet=quiet)
