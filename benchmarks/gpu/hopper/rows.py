"""Rows of 1024 times a weight."""

from kernelwright.tasks import Task, tensor


def reference(x, weight):
    return x * weight


task = Task(
    reference,
    inputs={"x": tensor("rows", 1024), "weight": tensor(1024)},
    public=[{"rows": 2048}],
    hidden={"rows": (100, 5000)},
)
