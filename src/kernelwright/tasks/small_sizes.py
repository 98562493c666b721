"""Small workloads of a task, on which its reference is tried out with values while the task is opened.

Inside the declared ranges where these reach down far enough. Where even the smallest workload is large, sizes below
the ranges serve: they show what a reference does with values, and that it refuses one of them says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kernelwright.tasks.cost import cost
from kernelwright.tasks.dims import TaskError
from kernelwright.tasks.drawing import signature
from kernelwright.tasks.footprint import call_memory
from kernelwright.tasks.model import Task, Workload
from kernelwright.tasks.without_values import VALUE_BYTES, has_values

SIDES = (64, 16, 8)  # sizes that are tried, all alike, where no fraction of the declared ones is accepted
HALVINGS = 24
MOST_OPERATIONS = 1 << 30  # in 16 bits a CPU may do no more than these in a second


def smallest_workload(task: Task) -> Workload:
    """The low corner of the hidden ranges: a workload that must hold too."""
    return Workload(tuple((name, low) for name, (low, _) in task.hidden.items()), task.dtypes[0])


def trial_workload(task: Task, dtype: str | None = None) -> Workload | None:
    """The smallest workload of the ranges, or one below them if that is large; None where the reference accepts none.

    Nothing is computed for it: shapes alone decide.
    """
    lowest = replace(smallest_workload(task), dtype=dtype or task.dtypes[0])
    if is_light(task, lowest):
        return lowest
    return next((one for one in _below(task, lowest) if is_light(task, one) and _accepted(task, one)), None)


def is_inside(task: Task, workload: Workload) -> bool:
    """Whether the declared ranges have it, so that a fault there is the task's."""
    return all(low <= workload.size_map[name] <= high for name, (low, high) in task.hidden.items())


def is_light(task: Task, workload: Workload) -> bool:
    """Little memory, which what it makes between its steps counts towards, and little arithmetic."""
    try:
        small = has_values(task, workload) and call_memory(task, workload).peak <= VALUE_BYTES
    except TaskError:
        return False
    return small and _operations(task, workload) <= MOST_OPERATIONS


def _operations(task: Task, workload: Workload) -> int:
    """Of products, convolutions and attention; none are known of a reference that cannot be followed without values."""
    try:
        return cost(task, workload).operations
    except TaskError:
        return 0


def _accepted(task: Task, workload: Workload) -> bool:
    try:
        signature(task, workload)
    except TaskError:
        return False
    return True


def _below(task: Task, lowest: Workload) -> Iterator[Workload]:
    """Halves keep the powers of two that sizes are divided by; fixed sizes stay, at first."""
    for corner in (dict(task.public[0]), lowest.size_map):
        for fixed in (True, False):
            sizes = corner
            for _ in range(HALVINGS):
                sizes = {name: _half(task, name, value, fixed) for name, value in sizes.items()}
                yield Workload(tuple(sizes.items()), lowest.dtype)
    for side in SIDES:
        yield Workload(tuple((name, side) for name in task.hidden), lowest.dtype)


def _half(task: Task, name: str, value: int, fixed: bool) -> int:
    low, high = task.hidden[name]
    return value if fixed and low == high else max(1, value // 2)
