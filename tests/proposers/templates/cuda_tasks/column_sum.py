"""Sums over the rows, scaled."""

from kernelwright.tasks import Task, tensor


def column_sum(x, y):
    return (x * y).sum(0) * 0.5


task = Task(
    column_sum,
    inputs={"x": tensor("rows", "cols"), "y": tensor("rows", "cols")},
    public=[{"rows": 900, "cols": 12}, {"rows": 9, "cols": 3000}],
    hidden={"rows": (3, 300), "cols": (7, 600)},
)
