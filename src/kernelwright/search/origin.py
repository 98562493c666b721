"""Whether this installation began a run, and how a run of another is taken over.

A run's journal names a task's file, which is imported when the run goes on, and models, which are sent keys. So a file
beside the journal has a keyed hash of the events that say what the run is about; only this installation can make it.
A run without it can be read, and what it says is shown as a claim. It goes on only with a task that the user names,
and its finals count for nothing then: its candidates are judged again before one of them is best.
"""

from __future__ import annotations

import hmac
import os
import time
from pathlib import Path

from kernelwright.errors import KernelwrightError
from kernelwright.judge.keys import derive, judge_key
from kernelwright.paths import write_whole
from kernelwright.search import journal as journals
from kernelwright.search.core.events import ADOPTED, STARTED, Adopted
from kernelwright.search.journal import Journal
from kernelwright.search.proposing import kind_named
from kernelwright.search.run import look
from kernelwright.search.task import resolve_task
from kernelwright.tasks.resolve import absolute_reference

NAME = "journal.origin"
MARK_BYTES = 64  # hexadecimal digits
MAX_ENTRIES = 100_000


class ForeignRunError(KernelwrightError):
    """A run that another installation began, and that cannot go on as it is asked to."""


def mark(folder: Path) -> None:
    """Says that this installation began, or took over, the run."""
    write_whole(folder / NAME, _mark(folder).encode())


def begun_here(folder: Path) -> bool:
    path = folder / NAME
    try:
        found = path.read_bytes() if path.is_file() and path.stat().st_size == MARK_BYTES else b""
    except OSError:
        return False
    return hmac.compare_digest(found, _mark(folder).encode())


def _mark(folder: Path) -> str:
    return derive(judge_key(), "run", *journals.bodies(folder, (STARTED, ADOPTED))).hex()


def require_begun_here(folder: Path) -> None:
    if not begun_here(folder):
        raise ForeignRunError(
            f"{folder}: another installation started this run, so its task is not imported; name the task yourself: "
            f"kernelwright optimize TASK --resume {folder}"
        )


def adopt(folder: Path, task: str) -> None:
    """Takes over a run of another installation, with a task that the user names and trusts."""
    _refuse_links(folder)
    run = look(folder).run
    if kind_named(run.proposer).asks_models or run.ensemble is not None:
        raise ForeignRunError(
            f"{folder}: another installation started this run, and the models that it names would get your API keys; "
            "start a new run, with --start for its kernels"
        )
    reference = absolute_reference(task)
    about = resolve_task(reference, run.devices[0])
    about.require_same(run)
    if about.task.name != run.task_name:
        raise ForeignRunError(f"{task}: is {about.task.name}, and the run is about {run.task_name}")
    journal = Journal(folder)
    try:
        journal.append([Adopted(at=time.time(), task=reference)])
    finally:
        journal.close()
    mark(folder)


def _refuse_links(folder: Path) -> None:
    """What the run writes must stay below its folder."""
    count = 0
    for root, folders, names in os.walk(folder):
        for name in (*folders, *names):
            count += 1
            path = Path(root, name)
            if path.is_symlink() or (path.is_file() and path.stat().st_nlink > 1):
                raise ForeignRunError(
                    f"{folder}: holds a link ({path.relative_to(folder)}); copy the run without links"
                )
            if count > MAX_ENTRIES:
                raise ForeignRunError(f"{folder}: holds more than {MAX_ENTRIES:,} files")
