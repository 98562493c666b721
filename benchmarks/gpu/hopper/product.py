"""A product in bfloat16 whose right operand lies row by row along the depth."""

from kernelwright.tasks import Task, tensor


def reference(a, b):
    return a @ b.T


task = Task(
    reference,
    inputs={"a": tensor("rows", 256), "b": tensor(128, 256)},
    dtypes=("bfloat16",),
    public=[{"rows": 4096}],
    hidden={"rows": (100, 9000)},
)
