"""A run: one search, with its journal and the state folded from it. Starting and resuming are the same replay."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from kernelwright.errors import NO_SPACE, DiskFull, KernelwrightError
from kernelwright.proposers.model import Proposal
from kernelwright.search import journal as journals
from kernelwright.search.core.events import Continued, Event, Started
from kernelwright.search.core.state import State, fold
from kernelwright.search.journal import Journal, JournalError
from kernelwright.search.take import as_event

Watcher = Callable[[Event, State], None]
IMPOSSIBLE = (LookupError, AssertionError, ValueError, KernelwrightError)  # what an event that is out of place raises


class Run:
    """The writer's side of a run. What is appended is journalled, folded and told to the watchers, in this order.

    Each event is given the seconds since the command began (`began`, by `time.monotonic`): the system's clock may be
    set meanwhile, and what was prepared before the journal was opened counts.
    """

    def __init__(self, folder: Path, began: float | None = None) -> None:
        self.folder = folder
        self._journal = Journal(folder)
        self.lock = threading.RLock()
        self._watchers: list[Watcher] = []
        self._closed = False
        self._began = time.monotonic() if began is None else began
        try:
            self.state = _folded(self._journal.numbered(), folder)
            if self.state.started is None:
                raise JournalError(f"{folder}: this run never started; remove it and start another")
        except BaseException:
            self._journal.close()
            raise

    def watch(self, watcher: Watcher) -> None:
        self._watchers.append(watcher)

    @property
    def seconds(self) -> float:
        """Since the command began."""
        return time.monotonic() - self._began

    def append(self, *events: Event) -> None:
        with self.lock:
            events = tuple(event.model_copy(update={"after": self.seconds}) for event in events)
            self._journal.append(events)
            for event in events:
                self.state.apply(event)
            for event in events:
                for watcher in self._watchers:
                    watcher(event, self.state)

    def append_while_open(self, event: Event) -> None:
        """What a call brings that ends after the run did is too late to be kept."""
        with self.lock:
            if not self._closed:
                self.append(event)

    def close(self) -> None:
        with self.lock:
            self._closed = True
            self._journal.close()


def create(root: Path, started: Started, starts: Sequence[Proposal] = ()) -> Path:
    """A new numbered directory with a journal that says what the run is about."""
    state = fold([started])
    events: list[Event] = [started]
    for proposal in starts:
        event = as_event(state, proposal, len(state.entries) + 1, None, 0, started.at)
        if event.fingerprint in state.by_fingerprint:
            raise KernelwrightError(f"{proposal.candidate.name}: is the same program as another start")
        state.apply(event)
        events.append(event)
    folder = _numbered(root, started.task_name)
    journal = Journal(folder)
    try:
        journal.append(events)
    finally:
        journal.close()
    return folder


def take_up(folder: Path, budget: str, at: float, began: float | None = None) -> Run:
    """Begins, or goes on with, a run; no other process can until it is closed."""
    if not (folder / journals.NAME).is_file():
        raise JournalError(f"{folder}: is not a run, since it has no {journals.NAME}")
    run = Run(folder, began)
    try:
        run.append(Continued(at=at, budget=budget))
    except BaseException:
        run.close()
        raise
    return run


def look(folder: Path, watcher: Watcher | None = None) -> State:
    """The state of a run, also while a process is at work on it. `watcher` is told of every event on the way there."""
    state = _folded(journals.read_numbered(folder), folder, watcher)
    if state.started is None:
        raise JournalError(f"{folder}: this run never started")
    return state


def _folded(numbered: Iterable[tuple[int, Event]], folder: Path, watcher: Watcher | None = None) -> State:
    """Damage to a journal shows where an event does not follow from those before it."""
    state = State()
    for number, event in numbered:
        try:
            state.apply(event)
        except IMPOSSIBLE as error:
            where = f"{folder / journals.NAME}: is damaged: event {number} ({event.kind})"
            why = f"{type(error).__name__} {error}".strip()
            raise JournalError(f"{where} does not follow from those before it ({why})") from error
        if watcher is not None:
            watcher(event, state)
    return state


def _numbered(root: Path, task_name: str) -> Path:
    stem = re.sub(r"[^A-Za-z0-9_.]+", "-", task_name).strip("-.") or "task"
    try:
        root.mkdir(parents=True, exist_ok=True)
        taken = [int(m[1]) for path in root.iterdir() if (m := re.fullmatch(rf"{re.escape(stem)}-(\d+)", path.name))]
        for number in range(max(taken, default=0) + 1, 1 << 30):
            try:
                (root / f"{stem}-{number}").mkdir()
            except FileExistsError:
                continue
            return root / f"{stem}-{number}"
    except OSError as error:
        kind = DiskFull if error.errno in NO_SPACE else KernelwrightError
        raise kind(f"{root}: {error.strerror}; choose another place with --runs") from None
    raise AssertionError("unreachable")
