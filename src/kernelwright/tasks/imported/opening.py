"""Opens a problem file: traced in the sandbox, or, where that is impossible and the user trusts it, as the user's own.

Trust is given to the content of a file and kept with the judge's key, so that every process of this user knows of it
and an edit ends it.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from kernelwright.isolation.levels import Level
from kernelwright.paths import state_dir
from kernelwright.tasks.dims import TaskError
from kernelwright.tasks.imported.form import MOST_SOURCE, is_both, is_problem
from kernelwright.tasks.imported.tracer import CannotTrace, traced
from kernelwright.tasks.loading import located, refuse_unprintable
from kernelwright.tasks.model import Task

BOTH = (
    "has Model, get_inputs and get_init_inputs, as problems of strangers do, and a task, which would run as your own "
    "code: rename one of them"
)
HINT = "--trust-task runs the file as your own code"


def open_problem(path: Path) -> Task | None:
    """The task of a problem file; None where the file is not one."""
    source = source_of(path)
    if source is None:
        return None
    origin = str(path.absolute())
    refuse_unprintable(origin)
    try:
        found = traced(source)

        from kernelwright.tasks.imported.problem import task_of  # imports torch, which takes seconds

        return task_of(found, path)
    except CannotTrace as error:
        if not is_trusted(source):
            raise _untraced(origin, error) from error
    except TaskError as error:
        raise located(origin, None, str(error)) from error
    from kernelwright.tasks.imported.own import own_task

    return own_task(path, source)


def prepare(path: Path, level: Level, *, trust: bool) -> None:
    """For an entrance: traces a problem under the isolation level that it accepts, and takes note of trust. All other
    processes then find the graph in the cache, or the content of the file among what is trusted."""
    source = source_of(path)
    if source is None:
        return
    try:
        traced(source, level)
    except CannotTrace as error:
        if not trust and not is_trusted(source):
            raise _untraced(str(path.absolute()), error) from error
        _trusted(source).touch(mode=0o600)


def source_of(path: Path) -> bytes | None:
    """The content of a problem file. What else may be wrong with a path is said by `load_task`."""
    try:
        with path.open("rb") as file:
            source = file.read(MOST_SOURCE + 1)
    except OSError:
        return None
    if is_both(source):
        raise located(str(path.absolute()), None, BOTH)
    return source if is_problem(source) else None


def is_trusted(source: bytes) -> bool:
    return _trusted(source).exists()


def _trusted(source: bytes) -> Path:
    return state_dir("trusted_tasks") / hashlib.sha256(source).hexdigest()


def _untraced(origin: str, error: CannotTrace) -> TaskError:
    return located(origin, None, f"this problem cannot be traced in the sandbox: {error}; {HINT}")
