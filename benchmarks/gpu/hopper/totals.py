"""Sums of columns."""

from kernelwright.tasks import Task, tensor


def reference(x):
    return x.sum(0)


task = Task(reference, inputs={"x": tensor("rows", 1024)}, public=[{"rows": 2048}], hidden={"rows": (100, 5000)})
