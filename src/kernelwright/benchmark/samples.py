"""Which files of a folder are candidates for which task.

For a task that results call `level1/19_ReLU` or `rmsnorm:backward`, LABEL is `level1/19_ReLU` or, without the folder,
`19_ReLU`; a colon is written `_` (`rmsnorm_backward`), and sizes (`@rows=64`) may be left out. Its candidates are

    DIR/LABEL.cpp, DIR/LABEL.anything.cpp    a file, or any form that a contract takes
    DIR/LABEL/*                              everything in a folder that a contract takes

or what DIR/candidates.toml says, which then stands for the whole folder:

    "rmsnorm:backward" = ["one.cpp", "two.cpp"]
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from kernelwright.benchmark.suites import SuiteTask
from kernelwright.contracts.registry import contract_named, contracts
from kernelwright.errors import KernelwrightError

MANIFEST = "candidates.toml"


def samples_of(folder: Path, tasks: Sequence[SuiteTask], contract: str | None = None) -> dict[str, tuple[Path, ...]]:
    """The candidates of each task by its name, in natural order; one line where the folder has none for any of them."""
    if not folder.is_dir():
        raise KernelwrightError(f"{folder}: there is no such folder; candidates are DIR/TASK.cpp or DIR/TASK/*.cpp")
    manifest = folder / MANIFEST
    if manifest.is_file():
        return _from_manifest(manifest, tasks)
    found = {task.name: tuple(_of_task(folder, task, contract)) for task in tasks}
    if not any(found.values()):
        first = _labels(tasks[0])[-1]
        raise KernelwrightError(
            f"{folder}: has no candidate for any task of the suite; one for {tasks[0].name} is called "
            f"{first}.cpp, or lies in {first}/ (docs/bench.md)"
        )
    return found


def _labels(task: SuiteTask) -> list[str]:
    """The longest first: what is meant for one choice of sizes comes before what is meant for any."""
    whole = task.name.replace(":", "_")
    sized = (whole, whole.rpartition("/")[2])
    return list(dict.fromkeys((*sized, *(label.partition("@")[0] for label in sized))))


def _of_task(folder: Path, task: SuiteTask, contract: str | None) -> Iterator[Path]:
    for label in _labels(task):
        place = (folder / label).parent
        if not place.is_dir():
            continue
        named = re.compile(rf"{re.escape(Path(label).name)}(\.[^/]+)?\.[A-Za-z0-9]+")
        beside = [path for path in place.iterdir() if named.fullmatch(path.name) and _taken(path, contract)]
        own = folder / label
        if own.is_dir() and _taken(own, contract):  # a directory that is a candidate as a whole
            beside.append(own)
        elif own.is_dir():
            beside += [path for path in own.iterdir() if _taken(path, contract)]
        if beside:
            yield from sorted(beside, key=_natural)
            return


def _taken(path: Path, contract: str | None) -> bool:
    if contract is not None:
        return contract_named(contract).takes(path)
    return any(one.takes(path) for one in contracts())


def _natural(path: Path) -> list[tuple[int, int, str]]:
    parts = re.split(r"(\d+)", str(path))
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts if part]


def _from_manifest(manifest: Path, tasks: Sequence[SuiteTask]) -> dict[str, tuple[Path, ...]]:
    try:
        content = tomllib.loads(manifest.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise KernelwrightError(f"{manifest}: cannot be read ({error})") from error
    known = {label: task.name for task in tasks for label in (task.name, *_labels(task))}
    found: dict[str, tuple[Path, ...]] = {task.name: () for task in tasks}
    for key, files in content.items():
        if not isinstance(files, list) or not all(isinstance(one, str) for one in files):
            raise KernelwrightError(f'{manifest}: {key}: write "TASK" = ["file", ...]')
        if key in known:  # others are of tasks that were not chosen
            found[known[key]] = tuple(manifest.parent / one for one in files)
    if not any(found.values()):
        raise KernelwrightError(f"{manifest}: names no candidate for any task of the suite, such as {tasks[0].name!r}")
    return found
