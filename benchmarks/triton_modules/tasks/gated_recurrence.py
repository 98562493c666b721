"""A gated linear recurrence over time: h = exp(gate) * h + x."""

import torch

from kernelwright.tasks import Task, tensor


def gated_recurrence(x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    state, found = torch.zeros_like(x[:, 0]), []
    for step in range(x.shape[1]):
        state = torch.exp(-gate[:, step].abs()) * state + x[:, step]
        found.append(state)
    return torch.stack(found, 1)


task = Task(
    gated_recurrence,
    inputs={"x": tensor("batch", "length", "width"), "gate": tensor("batch", "length", "width")},
    public=[{"batch": 2, "length": 64, "width": 128}],
    hidden={"batch": (1, 4), "length": (10, 90), "width": (16, 200)},
)
