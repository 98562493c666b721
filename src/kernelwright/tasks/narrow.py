"""A task at one choice of sizes: `rmsnorm@rows=16384,cols=4096`, for somebody who has just these."""

from __future__ import annotations

import re
from dataclasses import replace

from kernelwright.tasks.dims import TaskError
from kernelwright.tasks.model import Task

SPREAD = 2  # hidden sizes lie between half and twice the ones that were named
_SIZE = re.compile(r"([A-Za-z_]\w*)=([0-9]+)")


def parted(ref: str) -> tuple[str, dict[str, int]]:
    """A reference without its sizes, and the sizes; none of them where it names none."""
    name, at, sizes = ref.rpartition("@")
    if not at or "/" in sizes:  # a folder may be called anything
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


def narrowed(task: Task, sizes: dict[str, int]) -> Task:
    """With one public workload, and hidden ones around it. A size that is not named is the first workload's."""
    unknown = sorted(set(sizes) - set(task.hidden))
    if unknown:
        raise TaskError(f"{task.name}: has no size {unknown[0]!r}: there is {', '.join(task.hidden)}")
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
