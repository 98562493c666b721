"""The one way to name a task: from what a person types to a checked Task.

Each form is a resolver in `RESOLVERS`; a further form is a further entry. torch is imported only once a task
has been found, so that a misspelt name is answered at once.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path

from kernelwright.tasks.dims import TaskError
from kernelwright.tasks.loading import load_task
from kernelwright.tasks.model import Task
from kernelwright.tasks.naming import TaskName, parse
from kernelwright.tasks.narrow import narrowed

BUILTIN = Path(__file__).parent / "builtin"

Resolver = Callable[[TaskName], Task | None]


def resolve(ref: str, device: str = "cpu") -> Task:
    """The task that `ref` names: `rmsnorm`, `rmsnorm:backward`, `./my_task.py` or `./my_task.py:backward`, and any of
    these at sizes of one's own, `rmsnorm@rows=64,cols=128`.

    It has the workloads for `device`: "cpu", "cuda" or "cuda:1". It is tried out on those of a CPU in any case: where
    others are declared they are too large for that, and only their shapes are followed.
    """
    named = parse(ref)
    task = _find(named)

    from kernelwright.tasks.validate import validate, validate_sizes

    validate(task)
    if named.backward:
        task = _gradient(task)
        validate(task)
    placed = narrowed(task.on(device), named.sizes)
    if placed is not task:
        validate_sizes(placed)
    return placed


def declared(ref: str) -> Task:
    """As `resolve`, but without trying the task out: for showing what is known to be right."""
    named = parse(ref)
    task = _find(named)
    return narrowed(_gradient(task) if named.backward else task, named.sizes)


def _gradient(task: Task) -> Task:
    from kernelwright.tasks.backward import derive_backward

    return derive_backward(task)


def builtin_names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in BUILTIN.glob("*.py") if not path.stem.startswith("_")))


def _find(named: TaskName) -> Task:
    for resolver in RESOLVERS:
        task = resolver(named)
        if task is not None:
            return task
    name = named.name
    close = difflib.get_close_matches(name, builtin_names(), n=3)
    meant = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(builtin_names())}"
    raise TaskError(f"{name!r} is no built-in task: {meant} (a file of yours is written ./{name or 'task'}.py)")


def _builtin(named: TaskName) -> Task | None:
    return load_task(BUILTIN / f"{named.name}.py") if named.name in builtin_names() else None


def _file(named: TaskName) -> Task | None:
    return load_task(Path(named.name)) if named.is_file else None


RESOLVERS: tuple[Resolver, ...] = (_builtin, _file)
