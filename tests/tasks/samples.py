"""A small task that every test may vary, and the source of a good task file."""

from __future__ import annotations

from typing import Any

import torch

from kernelwright.tasks import Task, normal, tensor


def scaled(x: torch.Tensor, weight: torch.Tensor, factor: float) -> torch.Tensor:
    return x * weight * factor


def small_task(**changes: Any) -> Task:
    """A valid task, named "scaled", with whatever a test wants different."""
    fields: dict[str, Any] = {
        "reference": scaled,
        "inputs": {"x": tensor("rows", "cols"), "weight": tensor("cols", draw=normal(1, 0.2)), "factor": 2.0},
        "public": [{"rows": 8, "cols": 16}, {"rows": 16, "cols": 8}],
        "hidden": {"rows": (4, 40), "cols": (4, 40)},
        "name": "scaled",
    }
    return Task(**{**fields, **changes})


GOOD_FILE = '''"""Twice x."""

import torch

from kernelwright.tasks import Task, tensor


def double(x):
    return 2 * x


task = Task(
    reference=double,
    inputs={"x": tensor("n")},
    public=[{"n": 64}],
    hidden={"n": (32, 128)},
)
'''
