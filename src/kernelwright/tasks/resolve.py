"""The one resolver for task names: from what a person types, such as `rmsnorm:backward@rows=64`, to a checked Task.

Each form is a resolver in `RESOLVERS`; a further form is a further entry. torch is imported only once a task
has been found, so that a misspelt name is answered at once.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kernelwright.isolation.levels import Level, accepted
from kernelwright.tasks.dims import TaskError
from kernelwright.tasks.loading import load_task, refuse_unprintable

if TYPE_CHECKING:
    from kernelwright.tasks.model import Task

BACKWARD = "backward"
TRUST_TASK = "Run a problem file that cannot be traced as your own code, without the sandbox."
_SIZE = re.compile(r"([A-Za-z_]\w*)=([0-9]{1,18})")  # Python refuses to read very long numbers, in words of its own


@dataclass(frozen=True)
class TaskName:
    """`name` is a built-in's or a file's; no sizes: those that the task declares."""

    name: str
    backward: bool = False
    sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_file(self) -> bool:
        return "/" in self.name or self.name.endswith((".py", ".json", ".yml"))

    def __str__(self) -> str:
        direction = f":{BACKWARD}" if self.backward else ""
        sizes = ",".join(f"{name}={value}" for name, value in self.sizes.items())
        return f"{self.name}{direction}{f'@{sizes}' if sizes else ''}"


def parse(ref: str) -> TaskName:
    refuse_unprintable(ref)
    whole, sizes = _parted(ref)
    name, _, direction = whole.rpartition(":")
    if not name or not direction.isidentifier():  # a folder or a file may be called anything
        return TaskName(whole, sizes=sizes)
    if direction != BACKWARD:
        raise TaskError(f"{whole}: a task has no {direction!r}: leave it out, or write {name}:{BACKWARD}")
    return TaskName(name, backward=True, sizes=sizes)


def absolute_reference(ref: str) -> str:
    """The task's name with an absolute path where it is a file: it means the same task in every working directory."""
    named = parse(ref)
    if not named.is_file:
        return str(named)
    path = str(Path(named.name).absolute())
    refuse_unprintable(path)
    return str(replace(named, name=path))


def _parted(ref: str) -> tuple[str, dict[str, int]]:
    name, at, sizes = ref.rpartition("@")
    if not at or "/" in sizes:
        return ref, {}
    found: dict[str, int] = {}
    for part in sizes.split(","):
        match = _SIZE.fullmatch(part.strip())
        if match is None:
            raise TaskError(
                f"{ref}: {part!r} is not a size: write {name}@rows=64,cols=128 (or {name}:backward@rows=64)"
            )
        if match[1] in found:
            raise TaskError(f"{ref}: the size {match[1]} is given twice")
        found[match[1]] = int(match[2])
    return name, found


SETTING = "setting"  # chooses one of several settings of an imported task, by its number
SPREAD = 2  # hidden sizes lie between half and twice the ones that were named


def narrowed(task: Task, sizes: Mapping[str, int]) -> Task:
    """With one public workload, and hidden ones around it. A size that is not named is the first workload's."""
    if task.files and SETTING in sizes:  # it was opened with it
        number = sizes[SETTING]
        sizes = {name: value for name, value in sizes.items() if name != SETTING}
        task = replace(task, name=f"{task.name}@{SETTING}={number}")
    unknown = sorted(set(sizes) - set(task.hidden))
    if unknown:
        raise TaskError(f"{task.name}: has no size {unknown[0]!r}: choose from {', '.join(task.hidden)}")
    if not sizes:
        return task
    public = {**task.public[0], **sizes}
    written = ",".join(f"{name}={value}" for name, value in sizes.items())
    hidden = {name: _around(public[name], bounds) for name, bounds in task.hidden.items()}
    return replace(task, name=f"{task.name}@{written}", public=[public], hidden=hidden, cuda=None)


def _around(value: int, bounds: tuple[int, int]) -> tuple[int, int]:
    """The task's own range limits it where the value lies inside; outside of it, that range says nothing of use."""
    low, high = max(1, value // SPREAD), value * SPREAD
    if not bounds[0] <= value <= bounds[1]:
        return low, high
    return max(bounds[0], low), min(bounds[1], high)


BUILTIN = Path(__file__).parent / "builtin"

Resolver = Callable[[TaskName], "Task | None"]


def prepare(ref: str, level: Level, *, trust_task: bool = False) -> None:
    """For an entrance, before other processes open the task: traces a stranger's file under the isolation level that
    the entrance accepts. With `trust_task` a file that cannot be traced is run as the user's own, from now on and by
    every process, until it is edited."""
    named = parse(ref)
    if named.is_file:
        from kernelwright.tasks.imported.opening import prepare as prepare_problem

        chosen = named.sizes.get(SETTING)
        prepare_problem(Path(named.name), level, trust=trust_task, backward=named.backward, setting=chosen)


def resolve(ref: str, device: str = "cpu", *, trust_task: bool = False) -> Task:
    """The task that `ref` names: `rmsnorm`, `rmsnorm:backward`, `./my_task.py` or `./my_task.py:backward`, and any of
    these at chosen sizes, `rmsnorm@rows=64,cols=128`. A stranger's task may be a folder (`./tasks/layernorm`).

    It has the workloads for `device`: "cpu", "cuda" or "cuda:1". It is tried out on those of a CPU in any case: where
    others are declared they are too large for that, and only their shapes are followed. `trust_task`: as in `prepare`.
    """
    named = parse(ref)
    if trust_task:
        prepare(ref, accepted(), trust_task=True)
    task = _find(named)

    from kernelwright.tasks.validate import validate, validate_sizes

    check = validate_sizes if task.traced else validate
    check(task)
    if named.backward:
        task = _gradient(task)
        check(task)
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
    raise TaskError(f"{name!r} is not a built-in task: {meant} (a file of yours is written ./{name or 'task'}.py)")


def _builtin(named: TaskName) -> Task | None:
    return load_task(BUILTIN / f"{named.name}.py") if named.name in builtin_names() else None


def _problem(named: TaskName) -> Task | None:
    """A stranger's file or folder, in one of the forms of `imported.forms`, which no process of ours imports."""
    if not named.is_file:
        return None
    from kernelwright.tasks.imported.opening import open_problem

    return open_problem(Path(named.name), backward=named.backward, setting=named.sizes.get(SETTING))


def _file(named: TaskName) -> Task | None:
    return load_task(Path(named.name)) if named.is_file else None


RESOLVERS: tuple[Resolver, ...] = (_builtin, _problem, _file)
