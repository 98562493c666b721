"""The journal: one writer, many readers, append only, and one line for what cannot be read."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import random
import signal
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelwright.cli.views.search_report import report
from kernelwright.proposers.model import Proposal
from kernelwright.search import journal as journal_module
from kernelwright.search.core.events import Continued
from kernelwright.search.journal import _SCHEMA, LOCK_NAME, NAME, Journal, JournalError, being_written, read
from kernelwright.search.run import look, take_up
from kernelwright.search.summary import summary
from tests.search import toy


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    journal = Journal(tmp_path)
    journal.append([toy.started(), Continued(at=1.0, budget="5evals")])
    journal.close()
    return tmp_path


def test_a_second_writer_is_refused_and_a_reader_is_not(folder: Path) -> None:
    writer = Journal(folder)
    assert being_written(folder)
    with pytest.raises(JournalError, match="another process is at work on this run"):
        Journal(folder)
    writer.append([Continued(at=2.0, budget="6evals")])
    assert len(list(read(folder))) == 3
    writer.close()
    assert not being_written(folder)


def test_a_writer_begins_while_others_look(folder: Path) -> None:
    over = threading.Event()

    def look_on(look: Callable[[Path], object]) -> None:
        while not over.is_set():
            look(folder)

    lookers = [threading.Thread(target=look_on, args=[look]) for look in (being_written, lambda run: list(read(run)))]
    for looker in lookers:
        looker.start()
    try:
        for _ in range(50):
            Journal(folder).close()
    finally:
        over.set()
        for looker in lookers:
            looker.join()


def test_a_lock_that_cannot_be_opened_is_nobodys(folder: Path) -> None:
    (folder / LOCK_NAME).unlink()
    assert not being_written(folder) and not (folder / LOCK_NAME).exists()
    (folder / LOCK_NAME).symlink_to(LOCK_NAME)
    assert not being_written(folder)


def test_a_closed_journal_is_one_file(folder: Path) -> None:
    list(read(folder))
    assert {path.name for path in folder.iterdir()} == {NAME, LOCK_NAME}


def test_who_reads_does_not_keep_a_writer_from_closing(folder: Path) -> None:
    writer = Journal(folder)
    reading = read(folder)
    next(reading)
    begin = time.monotonic()
    writer.close()
    assert time.monotonic() - begin < 5 and len(list(reading)) == 1
    assert len(list(read(folder))) == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("left", ["closed", "by an older version", "killed"])
def test_another_user_reads_where_nothing_can_be_written(left: str) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as place:  # pytest's own are closed to others
        folder = Path(place)
        folder.chmod(0o755)
        writer = multiprocessing.get_context("fork").Process(target=_write, args=[folder, left])
        writer.start()
        writer.join()
        reader = multiprocessing.get_context("fork").Process(target=_read_as_nobody, args=[folder])
        reader.start()
        reader.join()
        assert reader.exitcode == 0


def _write(folder: Path, left: str) -> None:
    journal = Journal(folder)
    journal.append([toy.started(), Continued(at=1.0, budget="5evals")])
    if left == "closed":
        journal.close()
    elif left == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    else:
        journal._database.close()  # which leaves no log, and a file that says that it has one


def _read_as_nobody(folder: Path) -> None:
    os.setgid(65534)
    os.setuid(65534)
    assert len(list(read(folder))) == 2 and not being_written(folder)


def test_a_kill_while_it_is_opened_and_closed_loses_nothing(folder: Path) -> None:
    draw = random.Random(1)
    for _ in range(20):
        known = len(list(read(folder)))
        begun = multiprocessing.get_context("fork").Event()
        writer = multiprocessing.get_context("fork").Process(target=_open_and_close, args=[folder, begun])
        writer.start()
        assert begun.wait(60), "the writer ended before it had appended anything"
        time.sleep(draw.uniform(0, 0.02))
        writer.kill()
        writer.join()
        assert len(list(read(folder))) > known
    Journal(folder).close()


def _open_and_close(folder: Path, begun: Any) -> None:
    while True:
        journal = Journal(folder)
        journal.append([Continued(at=2.0, budget="6evals")])
        begun.set()
        journal.close()


def test_a_reader_in_the_middle_sees_whole_appends(folder: Path) -> None:
    writer = Journal(folder)
    reading = read(folder)
    next(reading)
    writer.append([Continued(at=2.0, budget="6evals"), Continued(at=3.0, budget="7evals")])
    assert len(list(reading)) in (1, 3)
    writer.close()


def test_all_of_an_append_or_nothing(folder: Path) -> None:
    writer = Journal(folder)
    with pytest.raises(AttributeError):
        writer.append([Continued(at=2.0, budget="6evals"), "no event"])  # type: ignore[list-item]
    assert len(list(writer.events())) == 2
    writer.close()


def test_an_interrupt_in_an_append_leaves_a_journal_that_can_be_written(folder: Path) -> None:
    class Interrupted:
        def __init__(self, inner: sqlite3.Connection) -> None:
            self.inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def executemany(self, statement: str, rows: list[Any]) -> None:
            self.inner.executemany(statement, rows)
            raise KeyboardInterrupt

    writer = Journal(folder)
    database, writer._database = writer._database, Interrupted(writer._database)  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        writer.append([Continued(at=2.0, budget="6evals")])
    writer._database = database
    writer.append([Continued(at=3.0, budget="7evals")])
    assert [event.at for event in writer.events()] == [1000.0, 1.0, 3.0]
    writer.close()


def test_nothing_can_be_changed_or_taken_away(folder: Path) -> None:
    database = sqlite3.connect(folder / NAME)
    for statement in ("UPDATE events SET kind = 'x'", "DELETE FROM events"):
        with pytest.raises(sqlite3.DatabaseError, match="append only"):
            database.execute(statement)
    database.close()


def test_one_line_for_what_is_no_journal(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(JournalError, match=r"is not a run, since it has no journal\.db"):
        look(tmp_path / "nowhere")
    other = tmp_path / "other"
    other.mkdir()
    (other / NAME).write_text("this is not a database, however long it is\n" * 100)
    with pytest.raises(JournalError, match=r"journal\.db: cannot be read"):
        look(other)
    with pytest.raises(JournalError, match="is not a journal"):
        take_up(other, "5evals", 1.0)
    assert not being_written(other)


def test_one_line_for_events_of_another_version(folder: Path) -> None:
    database = sqlite3.connect(folder / NAME)
    database.execute("INSERT INTO events (version, kind, body) VALUES (99, 'dream', '{}')")
    database.commit()
    with pytest.raises(JournalError, match="was written by another version"):
        look(folder)
    database.execute("INSERT INTO events (version, kind, body) VALUES (1, 'dream', '{\"kind\": \"dream\"}')")
    database.close()


def test_one_line_for_an_event_that_is_not_one(folder: Path) -> None:
    database = sqlite3.connect(folder / NAME)
    database.execute("INSERT INTO events (version, kind, body) VALUES (1, 'dream', '{\"kind\": \"dream\"}')")
    database.commit()
    database.close()
    with pytest.raises(JournalError, match="event 3 cannot be understood"):
        look(folder)


ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
NO_JOURNALS = {
    "a view without an end": f"CREATE VIEW events AS {ENDLESS} SELECT x AS number, 1 AS version, 'k' AS kind, "
    "'{}' AS body FROM n WHERE x < 0",
    "a trigger": f"{_SCHEMA} CREATE TRIGGER t AFTER INSERT ON events BEGIN DELETE FROM events; END",
    "another table": "CREATE TABLE events (number, version, kind, body)",
    "no table": "CREATE TABLE other (number)",
}


@pytest.mark.parametrize("what", NO_JOURNALS)
def test_a_strangers_file_that_declares_something_else_is_refused(tmp_path: Path, what: str) -> None:
    """A view could be a query without an end, in which no signal is answered."""
    with contextlib.closing(sqlite3.connect(tmp_path / NAME)) as database:
        database.executescript(NO_JOURNALS[what])
    with pytest.raises(JournalError, match=r"journal\.db: is not a journal"):
        look(tmp_path)
    with pytest.raises(JournalError, match=r"journal\.db: is not a journal"):
        Journal(tmp_path)
    assert not being_written(tmp_path)


def test_reading_ends_after_so_many_steps(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else a file may hold that takes SQLite for ever."""
    monkeypatch.setattr(journal_module, "MAX_STEPS", 2)
    monkeypatch.setattr(journal_module, "STEPS_AT_ONCE", 1)
    with pytest.raises(JournalError, match=r"cannot be read \(interrupted\)"):
        look(folder)


def damaged(folder: Path, statement: str) -> None:
    database = sqlite3.connect(folder / NAME)
    for trigger in ("no_update", "no_delete"):
        database.execute(f"DROP TRIGGER {trigger}")
    database.execute(statement)
    database.commit()
    database.close()


def test_one_line_for_a_journal_that_lacks_an_event(tmp_path: Path) -> None:
    toy.search(tmp_path, budget="20evals")
    folder = tmp_path / "toy-1"
    said = r"journal\.db: is damaged: event \d+ \(\w+\) does not follow from those before it"
    damaged(folder, "DELETE FROM events WHERE number = (SELECT min(number) FROM events WHERE kind = 'proposed')")
    with pytest.raises(JournalError, match=said):
        look(folder)
    with pytest.raises(JournalError, match=said):
        take_up(folder, "30evals", 1.0)
    assert not being_written(folder)


def test_whatever_event_is_lost_there_is_a_report_or_one_line(tmp_path: Path) -> None:
    toy.search(tmp_path, budget="12evals", starts=[Proposal(toy.candidate_of((1,) * 8), "start")])
    whole = tmp_path / "toy-1"
    told = 0
    for number in range(1, len(list(read(whole))) + 1):
        folder = tmp_path / f"lost-{number}"
        folder.mkdir()
        (folder / NAME).write_bytes((whole / NAME).read_bytes())
        damaged(folder, f"DELETE FROM events WHERE number = {number}")
        try:
            report(look(folder), folder, "runs show")
            summary(look(folder))
        except JournalError as error:
            told += 1
            assert "\n" not in str(error)
    assert told > 5


def test_one_line_for_a_budget_in_a_journal_that_is_none(folder: Path) -> None:
    damaged(folder, "UPDATE events SET body = replace(body, '5evals', '-3evals')")
    with pytest.raises(JournalError, match=r"event 2 \(continued\) does not follow .*cannot read '-3evals'"):
        look(folder)


def test_a_journal_from_before_models_were_asked_is_still_read(tmp_path: Path) -> None:
    """Rows as the first version wrote them: events have gained fields and kinds since, and lost none."""
    rows = [
        '{"at":1.0,"kind":"started","task":"toy","task_name":"toy","contract":"cpp","device":"cpu","proposer":"files",'
        '"policy":"greedy","seed":1,"plateau":80,"threads":0,"baselines":["eager"],"wait":60.0,"lockstep":false,'
        '"bounds":{}}',
        '{"at":1.0,"kind":"continued","budget":"5evals"}',
        '{"at":2.0,"kind":"planned","actions":[{"kind":"ask","request":1,"operator":"fresh","count":4,"seed":7,'
        '"parents":[],"inspirations":[],"island":0}]}',
        '{"at":3.0,"kind":"proposed","number":1,"request":1,"contract":"cpp","source":"void kernel() {}\\n","name":"a",'
        '"origin":"files 0001","genes":{},"note":"","parents":[],"prompt":"","island":0,"fingerprint":"f"}',
        '{"at":3.0,"kind":"refused","request":1,"name":"","why":"w","duplicate_of":null}',
        '{"at":3.0,"kind":"answered","request":1,"taken":1,"seconds":1.0}',
    ]
    Journal(tmp_path).close()
    database = sqlite3.connect(tmp_path / NAME)
    kinds = [json.loads(row)["kind"] for row in rows]
    database.executemany("INSERT INTO events (version, kind, body) VALUES (1, ?, ?)", zip(kinds, rows, strict=True))
    database.commit()
    database.close()
    state = look(tmp_path)
    assert list(state.entries) == [1] and state.refused == 1 and state.spent.usd == 0
    assert state.run.open_requests == 1 and state.run.answer_timeout == 60
    run = take_up(tmp_path, "5evals,1usd", 4.0)
    assert run.state.budget.usd == 1.0
    run.close()
