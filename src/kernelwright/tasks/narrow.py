"""A task at one choice of sizes: `rmsnorm@rows=16384,cols=4096`, for somebody who has just these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kernelwright.tasks.dims import TaskError
from kernelwright.tasks.model import Task

SPREAD = 2  # hidden sizes lie between half and twice the ones that were named


def narrowed(task: Task, sizes: Mapping[str, int]) -> Task:
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
