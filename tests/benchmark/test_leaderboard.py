"""A leaderboard: ranked, with what it was measured on, in three forms that show others' texts and obey none of them."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from kernelwright.benchmark.leaderboard import Foreign, leaderboard
from kernelwright.benchmark.pages import board_markdown, board_page
from kernelwright.benchmark.results import RejectionClass, ResultsError, RowOutcome, Unopened, fold
from tests.benchmark.made import ENVIRONMENT, plan, results, row, workload

HOSTILE = "<script>alert(1)</script>|`[x](http://evil)`\x1b[31m\u202e"
FAST = [row("a", low=2.5), row("b", low=1.2)]
SLOW = [row("a", low=0.5), row("b", outcome=RowOutcome.rejected, why=HOSTILE, rejections={RejectionClass.protocol: 1})]


def test_the_fastest_comes_first_and_every_figure_has_its_place() -> None:
    board = leaderboard([results(SLOW, entrant="slow"), results(FAST, entrant="fast")])
    assert [one.label for one in board.ranked] == ["fast", "slow"]
    first = dict(zip(board.tables[0].head, board.tables[0].rows[0], strict=True))
    assert first["entrant"] == Foreign("fast")
    assert str(first["right"]).startswith("100%")
    assert str(first["fast_2"]).startswith("50%")
    assert str(first["speedup"]).startswith("1.73×")
    assert str(first["speedup"]).endswith("(2)")
    assert board.warnings == ()
    rejected = next(one for one in board.tables if one.title == "Rejected, by class")
    assert dict(zip(rejected.head, rejected.rows[1], strict=True))["protocol"] == "1"


def test_entrants_of_one_name_are_told_apart_by_their_files() -> None:
    board = leaderboard([results(FAST, origin="one.jsonl"), results(FAST, origin="two.jsonl")])
    assert {one.label for one in board.ranked} == {"toy (one.jsonl)", "toy (two.jsonl)"}


def test_results_of_two_machines_are_refused() -> None:
    there = results(FAST, environment=ENVIRONMENT.model_copy(update={"device": "cuda: H200"}), origin="there.jsonl")
    with pytest.raises(ResultsError, match=r"^toy.jsonl and there.jsonl cannot stand on one leaderboard: the device"):
        leaderboard([results(FAST), there])


def test_what_is_missing_is_said_before_the_figures() -> None:
    board = leaderboard([results([row("a", other_cores=1.7)], ["a", "b"])])
    assert "1 of 2 samples judged so far" in board.warnings[0]
    assert "busy machine (others kept 1.7 cores busy" in board.warnings[1]
    for shown in (board_markdown(board), board_page(board)):
        assert "judged so far" in shown
        assert "busy machine" in shown


def test_tasks_that_are_left_out_are_listed() -> None:
    lines = [plan(["a", "b"]), ENVIRONMENT, row("a"), Unopened(task="b", why="cannot be traced", at=1.0)]
    board = leaderboard([fold(lines, "x.jsonl")])
    assert board.tables[-1].rows == ((Foreign("b"), Foreign("cannot be traced")),)


def test_what_torch_carries_out_is_shown_beside_the_outcome_and_counted() -> None:
    board = leaderboard([results([row("a", library=("mm",)), row("b")])])
    shown = next(one for one in board.tables if one.title == "By task")
    outcomes = [dict(zip(shown.head, cells, strict=True))["outcome"] for cells in shown.rows]
    assert outcomes == [Foreign("accepted; library: torch (mm)"), "accepted"]
    counts = next(one for one in board.tables if one.title == "What came of the samples")
    assert dict(zip(counts.head, counts.rows[0], strict=True))["library: torch"] == "1"


def test_categories_are_shown_where_there_are_several() -> None:
    board = leaderboard([results(FAST, [("a", "norms"), ("b", "products")])])
    table = next(one for one in board.tables if one.title == "By category")
    assert [cells[0] for cells in table.rows] == [Foreign("norms"), Foreign("products")]


def test_a_tie_and_an_undecided_speed_are_named() -> None:
    rows = [row("a", workloads=[workload(0.9, of_bound=0.97)]), row("b", low=None)]
    table = next(one for one in leaderboard([results(rows)]).tables if one.title == "By task")
    by_task = {cells[0]: dict(zip(table.head, cells, strict=True)) for cells in table.rows}
    assert by_task[Foreign("a")]["claim"] == "1.00× (tie)"
    assert by_task[Foreign("b")]["why"] == "speed undecided: noisy"


class Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)


def test_a_page_is_one_file_without_scripts_in_which_nothing_hostile_is_an_element() -> None:
    board = leaderboard([results(SLOW, entrant=HOSTILE, suite=HOSTILE), results(FAST)])
    page = board_page(board)
    parser = Elements()
    parser.feed(page)
    assert "script" not in parser.tags
    assert "&lt;script&gt;" in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "default-src &#39;none&#39;" in page
    assert not re.search(r"(?:src|href)=", page)
    assert len(page.encode()) < 60_000
    assert page == board_page(board)


def test_markdown_keeps_others_texts_in_code() -> None:
    text = board_markdown(leaderboard([results(SLOW, entrant=HOSTILE)]))
    assert "\x1b" not in text
    outside = re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", text)
    assert "<script>" not in outside
    assert "](http" not in outside
    tables = [line for line in text.splitlines() if line.startswith("| ")]
    heads = [line for line in tables if line.startswith("| task ")]
    width = heads[0].count(" | ")
    rows = [line for line in tables if line.startswith("| `a`")]
    assert all(line.count(" | ") == width for line in rows)
