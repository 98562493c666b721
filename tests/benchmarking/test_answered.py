"""Runs whose prompts somebody answered, as they are kept."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from benchmarks.pages import answered
from benchmarks.pages.answered import NOT_KEPT, Answered, Other
from benchmarks.shared.kept import ANSWERED, unpacked

from kernelwright.contracts.registry import read_source
from kernelwright.contracts.tunables import render
from kernelwright.judge import certificate
from kernelwright.judge.verdict import Outcome, SpeedStatus
from kernelwright.search.run import create, look
from tests.search import toy

RUNS = answered.read()


@pytest.fixture(params=RUNS, ids=lambda one: one.ref)
def one(request: pytest.FixtureRequest) -> Answered:
    found: Answered = request.param
    return found


def test_every_run_that_is_kept_has_a_best_with_a_certificate() -> None:
    assert RUNS and [one.folder for one in RUNS] == sorted(unpacked(ANSWERED).iterdir())


def test_the_certificate_is_of_the_kernel_that_lies_there(one: Answered) -> None:
    assert one.state.best is not None
    best = one.state.entries[one.state.best].proposal.candidate
    certified = {certificate.read(path).candidate.id for path in (one.folder / "certificates").glob("*.json")}
    assert certified == {best.id} == {render(read_source(one.folder / "best")).id}
    assert one.final.verdict is Outcome.accepted and one.final.candidate == best.id
    assert sum(result.hidden for result in one.final.workloads) >= 3


def test_the_best_came_from_an_answer_that_is_kept_with_its_prompt(one: Answered) -> None:
    assert one.state.best is not None and one.state.best not in one.state.starts
    entry = one.state.entries[one.state.best]
    number = entry.proposal.candidate.name.removeprefix("answer-")
    requests = one.folder / "requests"
    assert (requests / f"{number}.md").is_file() and list(requests.glob(f"{number}.answer.*"))
    prompts = {path.name.split(".")[0] for path in requests.glob("*.md")}
    assert prompts == {path.name.split(".")[0] for path in requests.glob("*.answer.*")}
    assert one.proposals <= 12


def test_nothing_of_the_machine_is_in_what_is_kept(one: Answered) -> None:
    for path in one.folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert b"/root/" not in content and b"/home/" not in content and b"/tmp/" not in content, path


def test_keeping_a_kept_run_changes_nothing_that_can_be_read(one: Answered, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(one.folder, run)
    for name in NOT_KEPT:
        (run / name).write_text("")
    (run / "requests" / "9999.md").write_text("nobody answered this")
    kept = answered.keep(run, one.folder / "certificates", tmp_path / "kept")
    files = {path.relative_to(one.folder) for path in one.folder.rglob("*") if path.is_file()}
    assert {path.relative_to(kept) for path in kept.rglob("*") if path.is_file()} == files
    assert look(kept).best == one.state.best


def test_a_run_about_a_file_of_somebodys_is_not_kept(tmp_path: Path) -> None:
    task = tmp_path / "mine.py"
    task.write_text("precious")
    run = create(tmp_path / "runs", toy.started(task=str(task)))
    with pytest.raises(SystemExit, match="that others do not have"):
        answered.keep(run, tmp_path, tmp_path / "kept")
    assert task.read_text() == "precious" and not (tmp_path / "kept").exists()


def test_the_fastest_of_all_else_counts_wherever_it_was_measured() -> None:
    rows = {"rows": [{"task": "linear@a=1 a=1", "us": {"eager": 1.0, "compile": 5.0}}]}
    claims = {"rows": {"linear@a=1": {"public": {"workloads": [{"baselines_us": {"eager": 1.0, "compile": 6.0}}]}}}}
    elsewhere = {"us": {"linear@a=1": {"compile": 7.0}}, "others": {"linear@a=1": {"by hand": 5.5}}}
    assert answered.best_else("linear@a=1", rows, claims, elsewhere) == Other("compile", 5.0)


def test_a_speed_that_was_not_measured_wins_nothing() -> None:
    (first, *_) = RUNS
    slow = Other("slow", 1e9)
    assert first.won(slow) and not first.won(Other("quick", first.us / 2))
    workloads = tuple(entry.model_copy(update={"speed": SpeedStatus.noisy}) for entry in first.final.workloads)
    noisy = Answered(first.folder, first.state, first.final.model_copy(update={"workloads": workloads}))
    assert not noisy.won(slow)


def test_a_part_ends_where_the_run_stopped(one: Answered) -> None:
    parts = list(answered.stretches(one.folder))
    assert parts and all(0 < part.share <= 1 for part in parts)
    assert sum(part.judging for part in parts) <= one.state.spent.device  # one may end after the stop
    assert sum(part.judging for part in parts) > 0.95 * one.state.spent.device
