"""What a person types to name a task, taken apart: `rmsnorm`, `./mine.py:backward`, `softmax@rows=64,cols=128`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from kernelwright.paths import printable
from kernelwright.tasks.dims import TaskError

BACKWARD = "backward"
_SIZE = re.compile(r"([A-Za-z_]\w*)=([0-9]+)")


@dataclass(frozen=True)
class TaskName:
    """`name` is a built-in's or a file's; no sizes: those that the task declares."""

    name: str
    backward: bool = False
    sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_file(self) -> bool:
        return "/" in self.name or self.name.endswith(".py")

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


def portable(ref: str) -> str:
    """The same task as another process names it, which may be in another directory."""
    named = parse(ref)
    if not named.is_file:
        return str(named)
    path = str(Path(named.name).absolute())
    refuse_unprintable(path)
    return str(replace(named, name=path))


def refuse_unprintable(path: str) -> None:
    """A task is named in messages, journals and certificates, which are text, and read back from there."""
    if not path.isprintable():
        raise TaskError(f"{printable(path)}: has characters that cannot be printed: rename the file, or its folder")


def _parted(ref: str) -> tuple[str, dict[str, int]]:
    name, at, sizes = ref.rpartition("@")
    if not at or "/" in sizes:
        return ref, {}
    found: dict[str, int] = {}
    for part in sizes.split(","):
        match = _SIZE.fullmatch(part.strip())
        if match is None:
            raise TaskError(f"{ref}: {part!r} is no size: write {name}@rows=64,cols=128 (or {name}:backward@rows=64)")
        if match[1] in found:
            raise TaskError(f"{ref}: the size {match[1]} is given twice")
        found[match[1]] = int(match[2])
    return name, found
