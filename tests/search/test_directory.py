"""The directory of a run: readable with ls and cat, made from the journal, nothing hidden in it."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from kernelwright.errors import KernelwrightError
from kernelwright.proposers.model import Proposal
from kernelwright.search.core.events import Refused, Stopped, StopReason
from kernelwright.search.core.policies import policy_named
from kernelwright.search.core.state import State
from kernelwright.search.directory import Directory
from kernelwright.search.driver import Driver
from kernelwright.search.pool import JudgePool
from kernelwright.search.run import create, look, take_up
from tests.search import toy


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, State]:
    start = Proposal(toy.candidate_of((0, 1, 2, 3, 3, 2, 1, 0)), "start")
    folder = create(tmp_path_factory.mktemp("runs"), toy.started(), [start])
    run = take_up(folder, "50evals", time.time())
    directory = Directory(folder)
    directory.restore(run.state)
    run.watch(directory)
    state = Driver(run, toy.ToyProposer(), JudgePool([toy.ToyJudge()]), policy_named("greedy")).go()
    run.close()
    return folder, state


def tree(folder: Path) -> dict[str, str]:
    kept = (p for p in folder.rglob("*") if p.is_file() and not p.name.startswith("journal"))
    return {str(path.relative_to(folder)): path.read_text() for path in kept}


def test_every_candidate_has_its_folder(finished: tuple[Path, State]) -> None:
    folder, state = finished
    names = sorted(path.name for path in (folder / "candidates").iterdir())
    assert len(names) == len(state.entries) and names[0].startswith("0001-")
    first = folder / "candidates" / names[0]
    assert (first / "kernel.cpp").read_text() == state.entries[1].proposal.candidate.source
    assert json.loads((first / "about.json").read_text())["origin"] == "start"
    assert json.loads((first / "verdict.json").read_text())["view"] == "author"


def test_best_is_the_one_that_won(finished: tuple[Path, State]) -> None:
    folder, state = finished
    assert state.best is not None
    about = json.loads((folder / "best" / "about.json").read_text())
    assert about["number"] == state.best and about["score"] == state.entries[state.best].score
    assert f"best: {state.best:04d}" in (folder / "summary.md").read_text()
    assert "gain over the start" in (folder / "summary.md").read_text()


def test_nothing_hidden_is_in_it(finished: tuple[Path, State]) -> None:
    texts = tree(finished[0])
    assert not any('"hidden": true' in text or '"label": "c"' in text for text in texts.values())


def test_it_can_be_made_again_from_the_journal(finished: tuple[Path, State], tmp_path: Path) -> None:
    folder, _ = finished
    for name in ("journal.db", "journal.db-wal"):
        if (folder / name).exists():
            shutil.copy(folder / name, tmp_path / name)
    Directory(tmp_path).restore(look(tmp_path))
    made, there = tree(tmp_path), tree(folder)
    assert made.keys() == there.keys()
    assert all(made[name] == there[name] for name in made if not name.startswith("best/"))


def test_what_others_put_into_a_folder_is_not_in_the_way(finished: tuple[Path, State], tmp_path: Path) -> None:
    folder, state = finished
    copy = tmp_path / "run"
    shutil.copytree(folder, copy)
    assert state.best is not None
    directory = Directory(copy)
    (directory.of(state.entries[state.best]) / "__pycache__").mkdir()
    shutil.rmtree(copy / "best")
    directory.restore(state)
    assert {path.name for path in (copy / "best").iterdir()} == {path.name for path in (folder / "best").iterdir()}


def test_one_line_where_nothing_can_be_written(tmp_path: Path) -> None:
    folder = create(tmp_path, toy.started(), [Proposal(toy.candidate_of((1,) * 8), "start")])
    (folder / "candidates").write_text("in the way")
    with pytest.raises(KernelwrightError, match=r"candidates.*continue with --resume .*toy-1"):
        Directory(folder).restore(look(folder))


def test_a_cuda_candidate_has_two_files(tmp_path: Path) -> None:
    source = "__global__ void k() {}\n\n/* plan.py\nimport kw\n*/\n"
    proposal = Proposal(toy.Candidate("cuda", source, "../../up.cu"), "start", prompt="# what was asked\n")
    folder = create(tmp_path, toy.started(contract="cuda"), [proposal])
    Directory(folder).restore(look(folder))
    (place,) = (folder / "candidates").iterdir()
    assert place.name == "0001-up" and (place / "plan.py").read_text().strip() == "import kw"
    assert (place / "kernel.cu").read_text().strip() == "__global__ void k() {}"
    assert (place / "prompt.md").read_text() == "# what was asked\n"


@pytest.mark.parametrize(("given", "kept"), [("fast.cpp", "fast"), ("fast.c++", "fast"), ("fast.cu", "fast.cu")])
def test_a_folder_is_named_without_a_suffix_of_the_contract(tmp_path: Path, given: str, kept: str) -> None:
    start = Proposal(toy.Candidate("cpp", toy.source_of((1,) * 8), given), "start")
    folder = create(tmp_path, toy.started(), [start])
    Directory(folder).restore(look(folder))
    assert [place.name for place in (folder / "candidates").iterdir()] == [f"0001-{kept}"]


def test_the_summary_says_why_answers_were_refused(tmp_path: Path) -> None:
    folder = create(tmp_path, toy.started(), [])
    run = take_up(folder, "50evals", time.time())
    run.watch(Directory(folder))
    for number in range(1, 8):
        run.append(Refused(at=time.time(), request=number, name="", why=f"reason {number}\n# no heading"))
        run.append(Refused(at=time.time(), request=number, name="", why="silent", duplicate_of=1))
    run.append(Stopped(at=time.time(), reason=StopReason.interrupted))
    text = (folder / "summary.md").read_text()
    run.close()
    assert text.count("- request 000") == 5 and "- request 0007: reason 7 # no heading\n" in text
    assert "reason 2" not in text and "silent" not in text
    (folder / "summary.md").unlink()
    Directory(folder).restore(look(folder))
    assert "- request 0003: reason 3" in (folder / "summary.md").read_text()
