"""The pages of measurements are what their scripts make of the results, and the README says the same."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from benchmarks.gpu.templates_gpu import ROWS
from benchmarks.pages import answered, coverage_table, precision_tables, report, report_gpu, results_page, tables
from benchmarks.pages.claimed import read_claims
from benchmarks.shared.kept import optimized
from benchmarks.shared.record import RESULTS, ROOT, load

from kernelwright.judge.oracle.right.constants import CONSTANTS
from kernelwright.judge.verdict import ErrorReport
from tests.search import toy

LONGEST = 60  # words of a paragraph, an item or a cell

HOSTILE = {
    "before": {"verdict": "accepted"},
    "after": {"verdict": "accepted"},
    "inside_band": {"rows=1": True},
    "accepted": ["zeros"],
    "outcomes": [
        {"name": "zeros", "verdict": "accepted"},
        {"name": "hog", "verdict": "accepted"},
        {"name": "endless", "verdict": "undecided"},
        {"name": "endless", "verdict": "rejected"},
    ],
}


def test_pages_are_up_to_date() -> None:
    assert results_page.PAGE.read_text() == results_page.page(), "run python benchmarks/pages/results_page.py"
    assert report.PAGE.read_text() == report.page(), "run python benchmarks/pages/report.py"


@pytest.mark.parametrize("page", [results_page.PAGE, report.PAGE], ids=lambda path: path.stem)
def test_scripts_that_a_page_names_are_there_today(page: Path) -> None:
    named = set(re.findall(r"benchmarks/(?:\w+/)?(\w+\.py)", page.read_text()))
    assert named and not [name for name in named if not list((ROOT / "benchmarks").glob(f"*/{name}"))]


@pytest.mark.parametrize("page", [results_page.PAGE, report.PAGE], ids=lambda path: path.stem)
def test_a_page_is_made_of_short_pieces(page: Path) -> None:
    lines = page.read_text().splitlines()
    pieces = [piece for line in lines for piece in (line.split(" | ") if line.startswith("| ") else [line])]
    assert not [piece for piece in pieces if len(piece.split()) > LONGEST]


def test_what_was_measured_when_the_server_was_an_oracle_is_told_in_todays_words() -> None:
    text, rows = report.commands({"eager": {"own oracle, built before": [2.0], "warm oracle": [1.0]}})
    assert "| eager | no server, built before | 2.0 | 1 |" in rows and "| eager | warm server | 1.0 | 1 |" in rows
    assert "`--own-oracle`" in text
    text, _ = report.commands({"eager": {"warm server": [1.0]}})
    assert "oracle" not in text


def test_the_readme_counts_as_the_page_does() -> None:
    claims = load(RESULTS / "claims_gpu.json")
    every = read_claims(claims, load(RESULTS / "templates_gpu.json"), optimized("cuda"), ROWS)
    won = [one for one in every if one.won]
    said = (ROOT / "README.md").read_text()
    assert f"on {len(won)} of {len(every)} rows" in said
    assert f"on {sum(not one.doubts for one in won)} of these" in said
    assert f"{sum(not one.judged for one in every)} rows were not judged" in said


def test_the_readme_says_of_answers_what_the_page_says() -> None:
    known = [load(RESULTS / f"{name}.json") for name in ("judge_gpu", "claims_gpu", "elsewhere_h200")]
    rows, claims, elsewhere = known[0]["rows"], *known[1:]
    runs = answered.read()
    won = [one for one in runs if one.won(answered.best_else(one.ref, rows, claims, elsewhere))]
    said = (ROOT / "README.md").read_text()
    assert f"on {len(won)} of {len(runs)} rows that were answered" in said
    least, most = min(one.over_eager for one in runs), max(one.over_eager for one in runs)
    assert f"{least:.1f} to {most:.1f} times as fast as eager" in said
    assert f"at most {max(one.proposals for one in runs)} answers" in said


def test_rows_that_nobody_judged_are_on_the_page_and_count() -> None:
    claims = load(RESULTS / "claims_gpu.json")
    judged = dict(list(claims["rows"].items())[:1])
    told = "\n".join(results_page.claims({**claims, "rows": judged}, load(RESULTS / "elsewhere_h200.json"), ROWS))
    assert f"of {len(ROWS)} rows" in told
    assert len(re.findall(r"\| not judged \|", told)) == len(ROWS) - 1


def test_a_row_that_was_refused_claims_nothing_although_old_certificates_lie_there() -> None:
    claims = load(RESULTS / "claims_gpu.json")
    (ref, row), *_ = claims["rows"].items()
    refused = {**row, "public": {**row["public"], "verdict": "rejected", "reason": "wrong"}}
    (one,) = read_claims({"rows": {ref: refused}}, {}, optimized("cuda"), ())
    assert one.judged and not one.accepted and not one.won
    assert "no claim: rejected (wrong)" in results_page.cells(one)


def test_undecided_is_not_rejected_and_accepted_is_not_harmless() -> None:
    (told,) = report_gpu.hostile(HOSTILE)
    assert "4 hostile candidates of 3 kinds: 2 accepted, 1 undecided, 1 rejected." in told
    assert "`zeros`, which it must not be" in told
    assert "`hog`, which the benchmark counts as harmless" in told
    (told,) = report_gpu.hostile({**HOSTILE, "harmless": {"hog": "it is slow"}})
    assert "`hog`, which the benchmark counts as harmless (it is slow)" in told


def test_a_sample_as_the_noise_demands_is_shown_where_there_is_one() -> None:
    one = {"eager_seconds": 1e-3, "aa": [0.9, 1.0, 1.1]}
    text = "\n".join(report.noise({"rows=1": {"12 blocks": one, "as the noise demands": {**one, "trials": 48}}}))
    assert "| rows=1 | 1.00 | 0.90 to 1.10 | 0.90 to 1.10 (48 blocks) |" in text


def test_errors_stand_beside_eagers_and_a_column_without_any_is_left_out() -> None:
    kernel = toy.verdict_of(toy.candidate_of((1,) * 8), [("a", 2.0, False)])
    assert tables.errors(None) == tables.errors(kernel) == tables.NONE
    figures = {"elements": 9, "share": 0.1, "mean": 0.0, "eager_mean": 0.0, "ulp": 3, "eager_ulp": 3}
    fine = ErrorReport(result="y", rms=0.5, eager_rms=0.6, finding="float32", **figures)
    worse = ErrorReport(result="z", rms=1.2, eager_rms=0.4, finding="indistinguishable", **figures)
    told = tables.errors(kernel.model_copy(update={"errors": (fine, worse)}))
    assert told == "1.2 (0.4), indistinguishable"
    head = ("task", tables.ERRORS)
    assert tables.ERRORS not in tables.without_empty(head, [("a", tables.NONE)], tables.ERRORS)
    assert told in tables.without_empty(head, [("a", tables.NONE), ("b", told)], tables.ERRORS)


def test_the_coverage_in_the_page_is_what_was_measured() -> None:
    page = coverage_table.PAGE.read_text()
    assert coverage_table.BEGIN in page and coverage_table.END in page
    assert page == coverage_table.written(page), "run python benchmarks/pages/coverage_table.py"


def test_the_page_of_precision_has_the_tables_of_the_last_runs_and_every_constant() -> None:
    page = precision_tables.PAGE.read_text()
    assert page == precision_tables.written(page), "run python benchmarks/pages/precision_tables.py"
    statistics = CONSTANTS.statistics
    for part in (CONSTANTS, statistics, statistics.judging):
        constants = {field.name for field in fields(part)} - {"statistics", "judging", "workload", "point"}
        assert not [name for name in constants if not re.search(rf"^\|.*\b{name}\b", page, re.MULTILINE)]
    for name in ("mean", "standard_errors", "ratio", "share"):
        values = (getattr(limits, name) for limits in (statistics.judging, statistics.workload, statistics.point))
        assert f"| {name} | {' | '.join(f'{value:g}' for value in values)} |" in page


def test_every_kernel_of_the_page_of_precision_was_measured() -> None:
    tolerance, errors = load(RESULTS / "tolerance_corpus.json"), load(RESULTS / "precision_corpus.json")["summary"]
    variants = {row["variant"] for row in tolerance["rows"]}
    measured = {*errors["nearest by kernel"], *errors["seen"]}
    for line in (*precision_tables.HONEST, *precision_tables.BAD):
        assert not line.tolerance or precision_tables.chosen(variants, line.tolerance), line
        assert not line.errors or precision_tables.chosen(measured, line.errors), line
