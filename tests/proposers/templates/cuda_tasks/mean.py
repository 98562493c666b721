"""Means and largest elements of rows, two results at once."""

from kernelwright.tasks import Task, tensor


def mean(x):
    return x.mean(-1), x.amax(-1)


task = Task(
    mean,
    inputs={"x": tensor("rows", "cols")},
    outputs=("average", "largest"),
    public=[{"rows": 40, "cols": 100}, {"rows": 3, "cols": 20000}],
    hidden={"rows": (3, 40), "cols": (7, 3000)},
)
