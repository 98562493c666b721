"""Running sums and maxima, ranks, and reductions over a dimension in the middle."""

from kernelwright.tasks import Task, tensor


def scans(x):
    values, places = x.cummax(1)
    top, at = x.topk(3, 2)
    return x.cumsum(2), values, places, top, at, x.var(1), x.argmax(1)


task = Task(
    scans,
    inputs={"x": tensor("a", "b", "c")},
    outputs=("sums", "values", "places", "top", "at", "variance", "largest"),
    public=[{"a": 3, "b": 7, "c": 18}],
    hidden={"a": (1, 5), "b": (4, 9), "c": (8, 23)},
)
