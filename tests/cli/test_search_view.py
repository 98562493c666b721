"""What is shown of a search while it goes on."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from tests.search import toy
from tests.search.test_policy import contested, genes, state_with
from tests.search.test_state import evaluated

from kernelwright.cli.search_view import Lines, Screen, line, status, view_for
from kernelwright.judge.verdict import Outcome
from kernelwright.search.events import Continued, Refused, Stopped
from kernelwright.search.state import fold


def test_where_it_stands() -> None:
    rows = dict(status(state_with(1.0, 3.0, budget="50evals,1h", waiting=2, bounds={"a": 0.1e-3})))
    assert rows["best"] == "none yet" and rows["fastest"] == "0002  about 3.00× (provisional)"
    assert rows["candidates"] == "4, 2 in the queue, 0 refused" and rows["budget left"] == "48 evaluations, 1h"
    crowned = dict(status(state_with(1.0, 3.0, events=(contested(1, 2.0, won=True),), bounds={"a": 0.1e-3})))
    assert crowned["best"].startswith("0001  2.00× over the best baseline") and crowned["of the bound"] == "20%"


def test_a_bound_that_is_beaten_is_not_called_one() -> None:
    rows = dict(status(state_with(2.0, events=(contested(1, 2.0, won=True),), bounds={"a": 0.57e-3})))
    assert rows["of the bound"].startswith("114% (more than the bound allows")


def test_events_in_a_line_each() -> None:
    state = fold([toy.started()])
    assert line(evaluated(3, genes(3), 2.0), state) == "0003  accepted, about 2.00× (provisional)"
    assert line(evaluated(3, genes(3), 2.0, outcome=Outcome.rejected), state) == "0003  rejected: its result is wrong"
    assert line(Refused(at=1.0, request=1, name="x", why="no", duplicate_of=2), state) is None
    assert line(Refused(at=1.0, request=1, name="x.md", why="has no code"), state) == "refused: x.md has no code"
    assert line(Stopped(at=1.0, reason="at_the_bound", detail="98%"), state) == "stopped: at the bound 98%"
    assert line(Continued(at=1.0, budget=""), state) is None


def test_a_terminal_gets_a_screen_that_is_drawn_on_events_only() -> None:
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=100)
    with view_for(console, quiet=False) as view:
        assert isinstance(view, Screen)
        view(evaluated(1, genes(1), 2.0), state_with(2.0))
        view.progress("building")
        assert "building" in written.getvalue() and "about 2.00×" in written.getvalue()
        view.progress("rows=4: trial 1")
        length = len(written.getvalue())
        view.progress("rows=4: trial 2")
        assert len(written.getvalue()) == length


def test_a_pipe_gets_plain_lines_and_json_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    event, state = evaluated(1, genes(1), 2.0), state_with(2.0)
    for quiet, said in ((False, "0001  accepted, about 2.00× (provisional)\n"), (True, "")):
        view = view_for(Console(file=io.StringIO()), quiet=quiet)
        assert isinstance(view, Lines)
        with view:
            view(event, state)
            view.progress("rows=4: trial 1")
        assert capsys.readouterr().out == said
