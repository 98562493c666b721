"""A run directory from elsewhere (threats 75 and 76): it can be read, and nothing that it names is run or believed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import struct
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kernelwright.cli.main import assembled
from kernelwright.errors import KernelwrightError
from kernelwright.llm.config import EnsembleConfig, Member
from kernelwright.proposers.model import Proposal
from kernelwright.search import origin
from kernelwright.search.core.events import Adopted, Started
from kernelwright.search.journal import LOCK_NAME, Journal, JournalError, being_written, read
from kernelwright.search.journal import NAME as JOURNAL
from kernelwright.search.origin import ForeignRunError, adopt, begun_here, mark
from kernelwright.search.run import create, look, take_up
from kernelwright.search.session import resumed
from kernelwright.search.task import TaskChangedError
from kernelwright.tasks.loading import digest, hash_of
from tests.search import toy

TASK = """
from pathlib import Path
Path(__file__).with_name("imported").write_text("the file was run")
from kernelwright.tasks import Task, tensor

def reference(x):
    return x * 2

task = Task(reference, inputs={"x": tensor("rows")}, public=[{"rows": 40}], hidden={"rows": (3, 70)})
"""


@pytest.fixture
def task(tmp_path: Path) -> Path:
    path = tmp_path / "double.py"
    path.write_text(TASK)
    return path


def started(file: Path, **others: object) -> Started:
    found = {"task": str(file), "task_name": "double", "task_digest": digest((("", hash_of(file)),))}
    return toy.started(**{**found, "proposer": "templates", **others})


@pytest.fixture
def run(task: Path, tmp_path: Path) -> Path:
    """As another installation made it: without a mark of ours."""
    return create(tmp_path / "runs", started(task), [Proposal(toy.candidate_of((1,) * 8), "start")])


def was_run(task: Path) -> bool:
    return task.with_name("imported").exists()


def test_a_run_of_another_installation_is_read_and_not_resumed(task: Path, run: Path) -> None:
    assert look(run).run.task_name == "double" and not begun_here(run)
    with pytest.raises(ForeignRunError, match=r"another installation started this run.*optimize TASK --resume"):
        resumed(run, 0.0)
    done = CliRunner().invoke(assembled(["optimize"]), ["optimize", "--resume", str(run)])
    assert isinstance(done.exception, ForeignRunError) and done.exception.exit_code == 2
    for command in (["show", str(run)], ["show", str(run), "--json"], ["list", "--runs", str(run.parent)]):
        assert CliRunner().invoke(assembled(["runs"]), ["runs", *command]).exit_code == 0
    assert not was_run(task)


def test_verifiers_are_not_measured_on_it(task: Path, run: Path) -> None:
    """That would import its task, to write prompts about it."""
    given = ["calibrate", "verifiers", "--models", "ollama:toy", "--run", str(run)]
    done = CliRunner().invoke(assembled(["calibrate"]), given)
    assert "another installation started this run" in str(done.exception) and not was_run(task)


def test_what_is_shown_of_it_is_a_claim(run: Path) -> None:
    shown = CliRunner().invoke(assembled(["runs"]), ["runs", "show", str(run)]).stdout
    assert "another installation started this run" in shown and "optimize TASK --resume" in shown
    told = json.loads(CliRunner().invoke(assembled(["runs"]), ["runs", "show", str(run), "--json"]).stdout)
    assert told["begun_here"] is False


def test_a_claimed_best_is_said_to_be_one(tmp_path: Path) -> None:
    """It names certificates that are not here."""
    toy.search(tmp_path, budget="30evals")
    shown = CliRunner().invoke(assembled(["runs"]), ["runs", "show", str(tmp_path / "toy-1")]).stdout
    assert "claimed best" in shown and "not proved here" in shown
    listed = CliRunner().invoke(assembled(["runs"]), ["runs", "list", "--runs", str(tmp_path)]).stdout
    assert "(claimed elsewhere)" in listed


def test_a_mark_holds_for_what_it_was_made_for(task: Path, run: Path, tmp_path: Path) -> None:
    """Not for another run, nor for one whose task was exchanged."""
    mark(run)
    assert begun_here(run)
    other = create(tmp_path / "runs", started(task, task="/home/stranger/evil.py"))
    shutil.copy(run / origin.NAME, other)
    assert not begun_here(other)
    (run / origin.NAME).write_bytes(b"0" * origin.MARK_BYTES)
    assert not begun_here(run)
    moved = tmp_path / "moved"
    mark(run)
    shutil.copytree(run, moved)
    assert begun_here(moved)


def test_an_adopted_run_takes_the_users_task_and_none_of_its_finals(task: Path, tmp_path: Path) -> None:
    toy.search(tmp_path / "runs", budget="30evals", task_digest="")
    folder = tmp_path / "runs" / "toy-1"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    journal, claims = Journal(elsewhere), look(folder)
    events = list(read(folder))
    first = started(task, task="/home/stranger/double.py", lockstep=True)
    journal.append([first, *events[1:]])
    journal.close()
    assert claims.best is not None and look(elsewhere).best is not None
    adopt(elsewhere, str(task))
    state = look(elsewhere)
    assert begun_here(elsewhere) and state.run.task == str(task) and state.best is None
    assert len(state.entries) == len(claims.entries)
    assert not any(entry.final.won or entry.certificates for entry in state.entries.values())
    assert resumed(elsewhere, 0.0).about.task.name == "double"


def test_an_edited_adoption_is_not_believed(task: Path, run: Path) -> None:
    adopt(run, str(task))
    journal = Journal(run)
    journal.append([Adopted(at=3.0, task="/home/stranger/evil.py")])
    journal.close()
    assert not begun_here(run)


def test_an_event_under_another_kind_is_not_believed(run: Path) -> None:
    """The mark is of what is filed as `started` or `adopted`; what is applied is what an event says of itself."""
    mark(run)
    evil = json.dumps({"kind": "adopted", "at": 1.0, "task": "/home/stranger/evil.py"})
    with contextlib.closing(sqlite3.connect(run / JOURNAL)) as database, database:
        database.execute("INSERT INTO events (version, kind, body) VALUES (1, 'prepared', ?)", (evil,))
    with pytest.raises(JournalError, match="not of the kind that it is filed under"):
        look(run)
    with pytest.raises(JournalError):
        resumed(run, 0.0).about  # noqa: B018 - the task would be imported


def _rolling_back_to(other: Path, run: Path, removing: Path) -> None:
    """A rollback journal that puts the pages of another database in place, and has SQLite remove a file."""
    raw, magic = (other / JOURNAL).read_bytes(), bytes.fromhex("d9d505f920a163d7")
    size = struct.unpack(">H", raw[16:18])[0]
    pages = [raw[place : place + size] for place in range(0, len(raw), size)]
    whole = (magic + struct.pack(">5I", len(pages), 0, len(pages), 512, size)).ljust(512, b"\0")
    for number, page in enumerate(pages, 1):
        whole += (
            struct.pack(">I", number)
            + page
            + struct.pack(">I", sum(page[place] for place in range(size - 200, 0, -200)))
        )
    name = str(removing).encode()
    whole += struct.pack(">I", (1 << 30) // size + 1) + name + struct.pack(">2I", len(name), sum(name)) + magic
    (run / f"{JOURNAL}-journal").write_bytes(whole)


@pytest.mark.parametrize("ours", [True, False])
def test_what_sqlite_would_roll_back_is_not_opened_for_writing(
    ours: bool, task: Path, run: Path, tmp_path: Path
) -> None:
    """A reader sees a harmless run; a writer would get another one, and remove a file of the user's."""
    precious = tmp_path / "precious.txt"
    precious.write_text("the user's")
    evil = create(tmp_path / "runs", started(task, task="/home/stranger/evil.py", proposer="llm"))
    _rolling_back_to(evil, run, precious)
    if ours:
        mark(run)
    with pytest.raises(JournalError, match="would change the run's journal"):
        adopt(run, str(task)) if not ours else take_up(run, "1evals", 0.0)
    assert precious.exists() and look(run).run.proposer == "templates"


def test_a_lock_that_nothing_writes_to_keeps_no_reader_waiting(run: Path) -> None:
    (run / LOCK_NAME).unlink()
    os.mkfifo(run / LOCK_NAME)
    assert not being_written(run)


def test_another_task_is_refused(task: Path, run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "double.py"
    other.parent.mkdir()
    other.write_text(TASK.replace("x * 2", "x * 3"))
    with pytest.raises(TaskChangedError):
        adopt(run, str(other))
    with pytest.raises(KernelwrightError, match=r"the run is about double|has changed"):
        adopt(run, f"{task}@rows=20")
    assert not begun_here(run)


def test_models_that_a_stranger_names_are_not_sent_keys(task: Path, tmp_path: Path) -> None:
    models = EnsembleConfig(members=(Member(provider="compatible", model="x", base_url="http://stranger.example/v1"),))
    run = create(tmp_path / "runs", started(task, proposer="llm", ensemble=models))
    with pytest.raises(ForeignRunError, match="models that it names"):
        adopt(run, str(task))
    assert not was_run(task)


def test_a_run_with_links_is_not_written_to(task: Path, run: Path, tmp_path: Path) -> None:
    target = tmp_path / "home"
    target.mkdir()
    (run / "candidates").symlink_to(target)
    with pytest.raises(ForeignRunError, match="holds a link"):
        adopt(run, str(task))
    (run / "candidates").unlink()
    (run / "summary.md").hardlink_to(run / JOURNAL)
    with pytest.raises(ForeignRunError, match="holds a link"):
        adopt(run, str(task))


def test_numbers_of_a_strangers_journal_are_bounded(task: Path) -> None:
    for name in ("threads", "judges", "open_requests", "repairs"):
        with pytest.raises(ValueError, match="less than or equal"):
            started(task, **{name: 10**9})
