"""Small tasks for the checker."""

from __future__ import annotations

from pathlib import Path

import pytest

RMSNORM = '''
"""Root-mean-square normalisation at sizes that an emulator does quickly."""
import torch
from kernelwright.tasks import Task, normal, tensor

def rmsnorm(x, weight, eps):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight

task = Task(rmsnorm, inputs={"x": tensor("rows", "cols"), "weight": tensor("cols", draw=normal(1.0, 0.2)), "eps": 1e-6},
            public=[{"rows": 6, "cols": 1024}], hidden={"rows": (3, 9), "cols": (33, 3000)})
'''
DOUBLE = '''
"""Twice the input."""
from kernelwright.tasks import Task, tensor

def reference(x):
    return x * 2

task = Task(reference, inputs={"x": tensor("n")}, public=[{"n": 300}], hidden={"n": (100, 900)})
'''


@pytest.fixture(scope="session")
def rmsnorm(tmp_path_factory: pytest.TempPathFactory) -> str:
    return _written(tmp_path_factory, "small_rmsnorm", RMSNORM)


@pytest.fixture(scope="session")
def double(tmp_path_factory: pytest.TempPathFactory) -> str:
    return _written(tmp_path_factory, "double", DOUBLE)


def _written(factory: pytest.TempPathFactory, name: str, text: str) -> str:
    path: Path = factory.mktemp("tasks") / f"{name}.py"
    path.write_text(text)
    return str(path)
