"""What a benchmark is over: a suite by name, a folder of problem files, a file that lists tasks, or one task.

`--only` and `--sample` take a part of it. Which part a seed draws depends on the names of the tasks alone, so that
another machine with the same checkout draws the same.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelwright.errors import KernelwrightError
from kernelwright.tasks.catalogue import SUITES, folder_suite
from kernelwright.tasks.resolve import BACKWARD, builtin_names, parse

BUILT_IN = "builtin"
LIST_SUFFIX = ".txt"


@dataclass(frozen=True)
class SuiteTask:
    """`name` is what results call it, without a path of this machine; `reference` is what the resolver takes."""

    name: str
    reference: str
    category: str


def suite_tasks(given: str) -> tuple[SuiteTask, ...]:
    """The tasks of a suite, in its order, each once."""
    if given in SUITES:
        found = [_task(reference) for reference in SUITES[given]]
    elif given == BUILT_IN:
        found = [_task(name) for name in builtin_names()]
    elif Path(given).is_dir():
        found = [_task(reference) for reference in folder_suite(Path(given))]
    elif given.endswith(LIST_SUFFIX):
        found = list(_listed(Path(given)))
    else:
        if not _exists(given):
            suites = ", ".join((*SUITES, BUILT_IN))
            raise KernelwrightError(
                f"{given!r} is not a suite: give {suites}, a folder of problem files, a list of tasks ({LIST_SUFFIX}), "
                "or a task"
            )
        found = [_task(given)]
    return _once(found, given)


def chosen(
    tasks: Sequence[SuiteTask], only: Sequence[str] = (), sample: int | None = None, seed: int = 0
) -> tuple[SuiteTask, ...]:
    """Those whose names hold one of the texts, and of these so many as the seed draws, in the suite's order."""
    kept = [task for task in tasks if not only or any(text in task.name for text in only)]
    if not kept:
        raise KernelwrightError(f"--only {' --only '.join(only)}: no task of the suite has that in its name")
    if sample is None or sample >= len(kept):
        return tuple(kept)
    drawn = set(random.Random(f"suite {seed}").sample(sorted(task.name for task in kept), sample))
    return tuple(task for task in kept if task.name in drawn)


def _exists(reference: str) -> bool:
    named = parse(reference)
    return Path(named.name).exists() if named.is_file else named.name in builtin_names()


def _once(found: Iterable[SuiteTask], given: str) -> tuple[SuiteTask, ...]:
    by_name: dict[str, SuiteTask] = {}
    for task in found:
        if by_name.setdefault(task.name, task).reference != task.reference:
            raise KernelwrightError(
                f"{given}: {by_name[task.name].reference} and {task.reference} have one name in results; put them into "
                "folders of different names"
            )
    return tuple(by_name.values())


def _task(reference: str, category: str = "") -> SuiteTask:
    named = parse(reference)
    rest = str(named).removeprefix(named.name)
    if not named.is_file:
        return SuiteTask(str(named), reference, category or (BACKWARD if named.backward else "forward"))
    path = Path(named.name)
    folder = path.absolute().parent.name
    return SuiteTask(f"{folder}/{path.stem}{rest}", reference, category or folder)


def _listed(path: Path) -> Iterable[SuiteTask]:
    """One name in a line; `[products]` begins a category; what follows a # is a remark. Files are found from where the
    list lies."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise KernelwrightError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise KernelwrightError(f"{path}: is not UTF-8 text; a list has a task in each line") from None
    category, found = "", False
    for line in (line.partition("#")[0].strip() for line in lines):
        if line.startswith("[") and line.endswith("]"):
            category = line[1:-1].strip()
        elif line:
            found = True
            named = parse(line)
            relative = named.is_file and not Path(named.name).is_absolute()
            reference = f"{path.parent.absolute()}/{line}" if relative else line
            if not _exists(reference):
                what = "there is no such file" if named.is_file else "is not a built-in task"
                raise KernelwrightError(f"{path}: {line}: {what}")
            yield _task(reference, category)
    if not found:
        raise KernelwrightError(f"{path}: lists no task; write one in each line")
