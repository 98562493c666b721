"""A run's journal: an SQLite file that is only ever appended to, by one process at a time.

Who writes holds a lock on a file beside it, which ends with the process however it ends. Every append is one
transaction that a killed process does not lose. A thread brings it to the disk at once, without keeping the search
waiting: a machine that loses power loses the last few milliseconds at most, and never the order. Others may read at
any time. A journal that was closed is one file, which can be read where nothing can be written.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from pydantic import ValidationError

from kernelwright.errors import KernelwrightError
from kernelwright.search.core.events import VERSION, Event, event_of

NAME, LOCK_NAME = "journal.db", "journal.lock"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS events (
  number INTEGER PRIMARY KEY AUTOINCREMENT, version INTEGER NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL
);
CREATE TRIGGER IF NOT EXISTS no_update BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'append only'); END;
CREATE TRIGGER IF NOT EXISTS no_delete BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'append only'); END;
"""
_DECLARED = "SELECT type, name, tbl_name, sql FROM sqlite_master"
READ_WAIT_SECONDS = 30.0
MAX_STEPS, STEPS_AT_ONCE = 1_000_000_000, 1_000_000  # of SQLite's machine; an event takes about ten
MAX_EVENT_BYTES = 64 << 20
LOCK_SECONDS, LOCK_STEP = 1.0, 0.01  # longer than a look at the lock takes, which keeps it from a writer
_WANTS_TO_WRITE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)


class JournalError(KernelwrightError):
    """A journal that is not there, is written by another process, or cannot be understood."""


class JournalFullError(JournalError):
    """There is no space for another event. Those before it can be read, and the run can be gone on with."""

    exit_code = 3


def _not_written(folder: Path, error: sqlite3.Error) -> JournalError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest of it says where
    kind = JournalFullError if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR) else JournalError
    fix = f"; free some space, and continue with --resume {folder}" if kind is JournalFullError else ""
    return kind(f"{folder / NAME}: cannot be written ({error}){fix}")


class Journal:
    """The one writer of a run. Its lock is held until `close`, or until the process ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = _locked(folder)
        try:
            _refuse_rollback(folder)
            self._database = sqlite3.connect(
                folder / NAME, timeout=READ_WAIT_SECONDS, isolation_level=None, check_same_thread=False
            )
            _distrust(self._database)
            _check_schema(self._database, folder, fresh=True)
            _write_ahead(self._database)
            self._database.execute("PRAGMA synchronous=NORMAL")
            self._database.executescript(_SCHEMA)
        except sqlite3.Error as error:
            os.close(self._lock)
            if isinstance(error, sqlite3.OperationalError):
                raise _not_written(folder, error) from None
            raise JournalError(f"{folder / NAME}: is not a journal ({error})") from None
        except JournalError:
            os.close(self._lock)
            raise
        self._syncing = _Syncing(folder / f"{NAME}-wal")

    def append(self, events: Sequence[Event]) -> None:
        """All of them or none."""
        rows = [(VERSION, event.kind, event.model_dump_json()) for event in events]
        try:
            self._database.execute("BEGIN IMMEDIATE")
            self._database.executemany("INSERT INTO events (version, kind, body) VALUES (?, ?, ?)", rows)
            self._database.execute("COMMIT")
        except sqlite3.Error as error:
            raise _not_written(self.folder, error) from error
        finally:  # an interrupt, too, must leave a journal that can be written to
            if self._database.in_transaction:
                with contextlib.suppress(sqlite3.Error):  # where the disk is full, SQLite has rolled back by itself
                    self._database.execute("ROLLBACK")
        self._syncing.wanted.set()

    def events(self) -> Iterator[Event]:
        return (event for _, event in self.numbered())

    def numbered(self) -> Iterator[tuple[int, Event]]:
        return _events(self._database, self.folder)

    def close(self) -> None:
        self._syncing.close()
        # Into one file: to read a log, SQLite must be able to write beside it. While another process reads, it stays.
        with contextlib.suppress(sqlite3.Error):
            self._database.execute("PRAGMA journal_mode=MEMORY")
        self._database.close()
        os.close(self._lock)


class _Syncing:
    """Brings what was appended to the disk. The log keeps no locks of SQLite's that closing it here could end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.wanted = threading.Event()
        self._over = False
        self._thread = threading.Thread(target=self._work, name="journal", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while not self._over:
            self.wanted.wait()
            self.wanted.clear()
            try:
                handle = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:  # nothing was written yet, or all of it is in the database by now
                continue
            try:
                os.fdatasync(handle)
            finally:
                os.close(handle)

    def close(self) -> None:
        self._over = True
        self.wanted.set()
        self._thread.join()


def read(folder: Path) -> Iterator[Event]:
    """The events of a run that may be under way, without being in its way."""
    return (event for _, event in read_numbered(folder))


def bodies(folder: Path, kinds: Sequence[str]) -> list[str]:
    """The events of some kinds as they were written, in order."""
    with _reading(folder) as database:
        marks = ", ".join("?" * len(kinds))
        found = database.execute(f"SELECT body FROM events WHERE kind IN ({marks}) ORDER BY number", tuple(kinds))
        return [str(body) for (body,) in found]


def read_numbered(folder: Path) -> Iterator[tuple[int, Event]]:
    with _reading(folder) as database:
        yield from _events(database, folder)


@contextlib.contextmanager
def _reading(folder: Path) -> Iterator[sqlite3.Connection]:
    if not (folder / NAME).is_file():
        raise JournalError(f"{folder}: is not a run, since it has no {NAME}")
    try:
        database = _opened(folder)
    except sqlite3.Error as error:
        raise JournalError(f"{folder / NAME}: cannot be read ({error})") from None
    try:
        _distrust(database)
        left = itertools.repeat(False, MAX_STEPS // STEPS_AT_ONCE)
        database.set_progress_handler(lambda: next(left, True), STEPS_AT_ONCE)
        _check_schema(database, folder)
        yield database
    except sqlite3.Error as error:
        raise JournalError(f"{folder / NAME}: cannot be read ({error})") from None
    finally:
        database.close()


def _opened(folder: Path) -> sqlite3.Connection:
    address = f"{(folder / NAME).absolute().as_uri()}?mode=ro"
    database = sqlite3.connect(address, uri=True, timeout=READ_WAIT_SECONDS)
    try:
        database.execute("SELECT 1 FROM sqlite_master")
    except sqlite3.OperationalError as error:
        database.close()
        # SQLite wants to write beside it, and cannot. Where there is no log, all that was appended is in the file.
        if error.sqlite_errorcode & 0xFF not in _WANTS_TO_WRITE or (folder / f"{NAME}-wal").exists():
            raise
        return sqlite3.connect(f"{address}&immutable=1", uri=True)
    return database


def _distrust(database: sqlite3.Connection) -> None:
    """The file may be a stranger's, from an archive."""
    database.execute("PRAGMA trusted_schema=OFF")
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_EVENT_BYTES)


@cache
def _schema() -> frozenset[tuple[str, ...]]:
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.executescript(_SCHEMA)
        return frozenset(database.execute(_DECLARED))


def _check_schema(database: sqlite3.Connection, folder: Path, *, fresh: bool = False) -> None:
    """Nothing but what a journal has: a view in the place of its table could be a query without an end, and a trigger
    could do anything when the run is gone on with. A fresh one has nothing yet."""
    declared = set(database.execute(f"{_DECLARED} LIMIT {len(_schema()) + 1}"))
    if not declared <= _schema() or not (fresh or any(one[:2] == ("table", "events") for one in declared)):
        raise JournalError(f"{folder / NAME}: is not a journal, since it declares something else than one does")


def _write_ahead(database: sqlite3.Connection) -> None:
    """Turns the log on. By way of MEMORY, since a change of modes leaves a rollback journal beside the database where a
    process ends in the middle of it; it changes two bytes of the first page alone."""
    (mode,) = database.execute("PRAGMA journal_mode").fetchone()
    if mode != "wal":
        database.execute("PRAGMA journal_mode=MEMORY")
        database.execute("PRAGMA journal_mode=WAL")


def _refuse_rollback(folder: Path) -> None:
    """SQLite obeys a rollback journal that lies beside a database which it opens for writing: pages change after they
    were looked at, and a file that it names is removed. Our own processes never write one."""
    path = folder / f"{NAME}-journal"
    if os.path.lexists(path):
        raise JournalError(
            f"{path}: would change the run's journal once it is opened for writing; remove this file, and look at "
            "the run before you resume it"
        )


def being_written(folder: Path) -> bool:
    """Whether some process is at work on this run now. Looking takes a lock that others who look can have as well."""
    try:
        handle = os.open(folder / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:  # no process was ever at work on it, or we may not know
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _locked(folder: Path) -> int:
    """The lock of the one writer. A reader has it for a moment; a writer keeps it."""
    try:
        handle = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise JournalError(f"{folder}: {error.strerror}") from error
    until = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < until:
                time.sleep(LOCK_STEP)
                continue
            os.close(handle)
            raise JournalError(f"{folder}: another process is at work on this run; wait for it, or stop it") from None
        return handle


def _events(database: sqlite3.Connection, folder: Path) -> Iterator[tuple[int, Event]]:
    last = 0
    try:
        rows = database.execute("SELECT number, version, kind, body FROM events ORDER BY number")
        for number, version, kind, body in rows:
            if number <= last:  # pages of the file refer to each other in a circle
                raise JournalError(f"{folder / NAME}: is damaged: event {number} comes after event {last}")
            last = number
            event = _event(folder, number, version, body)
            if event.kind != kind:  # a run's mark is of events that were chosen by their kind
                raise JournalError(f"{folder / NAME}: event {number} is not of the kind that it is filed under")
            yield number, event
    except sqlite3.Error as error:
        raise JournalError(f"{folder / NAME}: cannot be read ({error})") from None


def _event(folder: Path, number: int, version: int, body: str) -> Event:
    if version != VERSION:
        raise JournalError(f"{folder / NAME}: was written by another version (events of kind {version}, not {VERSION})")
    try:
        return event_of.validate_json(body)
    except ValidationError as error:
        raise JournalError(
            f"{folder / NAME}: event {number} cannot be understood: {error.errors()[0]['msg']}"
        ) from None
