"""Two stacks of products around a softmax, whose rows a fast pattern takes."""

from kernelwright.tasks import Task, tensor


def attention(q, k, v):
    return (q @ k.transpose(1, 2) * 0.25).softmax(-1) @ v


task = Task(
    attention,
    inputs={"q": tensor("heads", "seq", "dim"), "k": tensor("heads", "keys", "dim"), "v": tensor("heads", "keys", 8)},
    public=[{"heads": 3, "seq": 9, "keys": 14, "dim": 6}],
    hidden={"heads": (1, 5), "seq": (3, 17), "keys": (3, 40), "dim": (2, 12)},
)
