"""Opens a stranger's task: traced in the sandbox, or, where that is impossible, as the user's own if it is trusted.

Trust is given to the content of a file and kept with the judge's key, so that every process of this user knows of it
and an edit ends it. Only a problem that is one file, in KernelBench's form, can be trusted.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from kernelwright.isolation.levels import Level
from kernelwright.paths import state_dir
from kernelwright.tasks.dims import TaskError
from kernelwright.tasks.imported.forms import KERNELBENCH, Bundle, bundle_of
from kernelwright.tasks.imported.tracer import CannotTrace, traced
from kernelwright.tasks.loading import located, refuse_unprintable
from kernelwright.tasks.model import Task

HINT = "; --trust-task runs the file as your own code"


def open_problem(path: Path, *, backward: bool = False, setting: int | None = None) -> Task | None:
    """The task of a stranger's file or folder; None where it is not one. Where a form has files of their own for the
    backward, `backward` chooses those; what comes back is the forward in any case."""
    refuse_unprintable(str(path.absolute()))
    bundle = bundle_of(path, backward=backward, setting=setting)
    if bundle is None:
        return None
    origin = str(bundle.main.absolute())
    try:
        found = traced(bundle)

        from kernelwright.tasks.imported.problem import task_of  # imports torch, which takes seconds

        return task_of(found, bundle)
    except CannotTrace as error:
        if not is_trusted(bundle):
            raise _untraced(bundle, error) from error
    except TaskError as error:
        raise located(origin, None, str(error)) from error
    from kernelwright.tasks.imported.own import own_task

    return own_task(bundle.main, bundle.source)


def prepare(path: Path, level: Level, *, trust: bool, backward: bool = False, setting: int | None = None) -> None:
    """For an entrance: traces a problem under the isolation level that it accepts, and takes note of trust. All other
    processes then find the graph in the cache, or the content of the file among what is trusted."""
    bundle = bundle_of(path, backward=backward, setting=setting)
    if bundle is None:
        return
    try:
        traced(bundle, level)
    except CannotTrace as error:
        if bundle.form != KERNELBENCH or not (trust or is_trusted(bundle)):
            raise _untraced(bundle, error) from error
        _trusted(bundle).touch(mode=0o600)


def is_trusted(bundle: Bundle) -> bool:
    return bundle.form == KERNELBENCH and _trusted(bundle).exists()


def _trusted(bundle: Bundle) -> Path:
    return state_dir("trusted_tasks") / hashlib.sha256(bundle.source).hexdigest()


def _untraced(bundle: Bundle, error: CannotTrace) -> TaskError:
    hint = HINT if bundle.form == KERNELBENCH else ""
    return located(str(bundle.main.absolute()), None, f"this problem cannot be traced in the sandbox: {error}{hint}")
