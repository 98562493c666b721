"""A results file: appended line by line, whole after any crash, and never an average of two machines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kernelwright.benchmark.journal import ResultsFile, read_results
from kernelwright.benchmark.results import (
    Begun,
    BenchmarkEnvironment,
    PutDown,
    ResultLine,
    Results,
    ResultsError,
    Unopened,
    environment_of,
    fold,
    require_comparable,
)
from tests.benchmark.made import ENVIRONMENT, plan, results, row


def written(path: Path, *lines: ResultLine) -> Path:
    file = ResultsFile(path)
    for line in lines:
        file.append(line)
    file.close()
    return path


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "r.jsonl", plan(), ENVIRONMENT, row("a"), row("b"))
    found = read_results(path)
    assert found.plan == plan()
    assert found.rows == (row("a"), row("b"))
    assert (found.judged, found.planned) == (2, 2)


def test_of_a_sample_the_last_row_counts(tmp_path: Path) -> None:
    path = written(tmp_path / "r.jsonl", plan(), ENVIRONMENT, row("a", low=1.1), row("a", low=3.0))
    assert read_results(path).rows == (row("a", low=3.0),)


@pytest.mark.parametrize("kept", [1, 20, -1])
def test_a_line_that_was_cut_off_is_not_seen_and_the_next_writer_removes_it(tmp_path: Path, kept: int) -> None:
    path = written(tmp_path / "r.jsonl", plan(), ENVIRONMENT)
    whole = path.read_bytes()
    path.write_bytes(whole + row("a").model_dump_json().encode()[:kept])
    assert read_results(path).rows == ()
    written(path, row("b"))
    assert read_results(path).rows == (row("b"),)
    assert path.read_bytes().startswith(whole)


def test_one_command_at_a_time(tmp_path: Path) -> None:
    file = ResultsFile(tmp_path / "r.jsonl")
    with pytest.raises(ResultsError, match="another command is at work on it"):
        ResultsFile(tmp_path / "r.jsonl")
    file.close()
    ResultsFile(tmp_path / "r.jsonl").close()


def test_another_file_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not ours, and without an end of line")
    with pytest.raises(ResultsError, match=r"is not a results file .*; give --output another name"):
        ResultsFile(path)
    assert path.read_text() == "not ours, and without an end of line"
    with pytest.raises(ResultsError) as read:
        read_results(path)
    assert "--output" not in str(read.value)  # who only reads it gives no such option


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"line": "plan", "version": 2}\n', "is not a results file of version 1"),
        ('{"schema_version": 1, "command": "optimize"}\n', "is not a results file of version 1"),
        ("", "is empty"),
    ],
)
def test_what_is_not_a_results_file_is_refused_in_one_line(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(content)
    with pytest.raises(ResultsError, match=said) as caught:
        read_results(path)
    assert "\n" not in str(caught.value)


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "r.jsonl", plan(), ENVIRONMENT)
    path.write_text(path.read_text() + '{"line": "row"}\n')
    with pytest.raises(ResultsError, match="line 3 cannot be understood"):
        read_results(path)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([ENVIRONMENT], "first line"),
        ([plan(), plan()], "first line"),
        ([plan(), row("a")], "environment that is not there"),
        ([plan(), ENVIRONMENT, row("c")], "which its plan does not have"),
        ([plan(), ENVIRONMENT, row("a", 1)], "which its plan does not have"),
        ([plan(["a", "a"])], "a task twice"),
    ],
)
def test_lines_that_do_not_go_together_are_refused(lines: list[ResultLine], said: str) -> None:
    with pytest.raises(ResultsError, match=said):
        fold(lines, "r.jsonl")


def test_attempts_that_ended_without_a_word_are_counted_and_interrupted_ones_are_not() -> None:
    begun = Begun(task="a", sample=0, at=1.0)
    assert fold([plan(), begun, begun], "r").attempts == {"a 0": 2}
    assert fold([plan(), begun, PutDown(task="a", sample=0, at=2.0)], "r").attempts == {}
    assert fold([plan(), begun, begun.model_copy(update={"run": "a-1"})], "r").runs == {"a 0": "a-1"}


def test_a_task_that_could_be_opened_later_counts() -> None:
    closed = Unopened(task="a", why="out of memory", at=1.0)
    assert fold([plan(), ENVIRONMENT, closed], "r").planned == 1
    found = fold([plan(), ENVIRONMENT, closed, row("a")], "r")
    assert (found.unopened, found.judged, found.planned) == ({}, 1, 2)


OTHERS = {
    "device": "cuda: H200",
    "threads": 4,
    "driver": "580.1",
    "torch": "2.12.0",
    "judge_version": "0.2.0",
    "judge_code": "d" * 64,
}


def other(**changed: object) -> BenchmarkEnvironment:
    return ENVIRONMENT.model_copy(update=changed)


@pytest.mark.parametrize("field", OTHERS)
def test_rows_of_two_machines_or_judges_are_never_averaged(field: str) -> None:
    lines = [plan(), ENVIRONMENT, row("a"), other(**{field: OTHERS[field]}), row("b", environment=1)]
    with pytest.raises(ResultsError, match=r"^r.jsonl: its rows cannot be averaged: [^\n]+ differs"):
        environment_of(fold(lines, "r.jsonl"))


@pytest.mark.parametrize("field", OTHERS)
def test_files_of_two_machines_or_judges_do_not_stand_on_one_leaderboard(field: str) -> None:
    there = results([row("a")], environment=other(**{field: OTHERS[field]}), origin="there.jsonl")
    with pytest.raises(ResultsError, match=r"^toy.jsonl and there.jsonl cannot stand on one leaderboard"):
        require_comparable([results([row("a")]), there])


def test_the_same_machine_on_another_day_is_the_same() -> None:
    lines = [plan(), ENVIRONMENT, row("a"), other(at=9e5, load=3.0, kernel="6.2"), row("b", environment=1)]
    assert environment_of(fold(lines, "r.jsonl")) == ENVIRONMENT


@pytest.mark.parametrize(
    ("there", "said"),
    [
        (results([row("c")]), "different tasks"),
        (results([row("a")], baselines=("eager",)), "the baselines differ"),
    ],
)
def test_other_tasks_or_baselines_are_not_compared(there: Results, said: str) -> None:
    with pytest.raises(ResultsError, match=said):
        require_comparable([results([row("a")]), there])


HUGE = 1e300
ERRORS = {"result": "out", "rms": 1.0, "eager_rms": 1.0, "ulp": 1.0, "eager_ulp": 1.0, "share": 1.0, "finding": ""}
LEVEL = {"low": 1.0, "mid": 1.0, "high": 1.0}


@pytest.mark.parametrize(
    "part",
    [
        {"environment": -1},
        {"cost": {"usd": -1.0}},
        {"cost": {"wall_seconds": HUGE}},
        {"workloads": [{"of_bound": HUGE}]},
        {"workloads": [{"sol": -HUGE}]},
        {"workloads": [{"baselines": [{"baseline": "eager", "speedup": LEVEL, "seconds": -1.0}]}]},
        *({"workloads": [{"baselines": [{"baseline": "eager", "speedup": LEVEL | {"low": low}}]}]} for low in (0, -1)),
        {"workloads": [{"baselines": [{"baseline": "eager", "speedup": LEVEL | {"high": HUGE}}]}]},
        {
            "errors": [
                {"result": "out", "rms": HUGE, "eager_rms": 1, "ulp": 1, "eager_ulp": 1, "share": 1, "finding": ""}
            ]
        },
    ],
)
def test_numbers_of_which_no_metric_could_be_made_are_refused_in_one_line(tmp_path: Path, part: dict[str, Any]) -> None:
    """They ended the command in the middle of a sum or a logarithm."""
    made = row("a").model_dump(mode="json")
    workload = {"name": "n=64", "dtype": "float32", "hidden": False, "speed": "measured"}
    made |= part | ({"workloads": [workload | one for one in part["workloads"]]} if "workloads" in part else {})
    path = written(tmp_path / "r.jsonl", plan(), ENVIRONMENT)
    path.write_text(path.read_text() + json.dumps(made) + "\n")
    with pytest.raises(ResultsError, match="line 3 cannot be understood"):
        read_results(path)


def test_a_plan_of_more_categories_than_a_page_has_room_for_is_refused() -> None:
    with pytest.raises(ResultsError, match="categories"):
        fold([plan([(f"t{number}", f"c{number}") for number in range(300)])], "r.jsonl")
