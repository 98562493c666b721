"""Small problems in KernelBench's form, written for the tests, and how they are traced without a sandbox."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

from kernelwright.tasks.imported.confined import tracing
from kernelwright.tasks.imported.problem import task_of
from kernelwright.tasks.imported.traced import TracedProblem
from kernelwright.tasks.model import Task

HEAD = """
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
"""
SCALED = """
batch, features = 64, 48

class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, 32)
        self.scale = nn.Parameter(torch.ones(32))
        self.register_buffer("offset", torch.zeros(32))

    def forward(self, x):
        return torch.relu(self.linear(x)) * self.scale + self.offset

def get_inputs():
    return [torch.rand(batch, features)]

def get_init_inputs():
    return [features]
"""
# A body of forward, what get_inputs returns, and what __init__ does beside calling its base.
FORM = """
{top}

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {init}

    def forward(self, {given}):
        {body}

def get_inputs():
    {before}
    return [{inputs}]

def get_init_inputs():
    return []
"""


def written(folder: Path, text: str, name: str = "problem.py") -> Path:
    path = folder / name
    path.write_text(HEAD + textwrap.dedent(text), encoding="utf-8")
    return path


def formed(
    folder: Path, body: str, inputs: str, *, given: str = "x", init: str = "pass", top: str = "", before: str = "pass"
) -> Path:
    return written(folder, FORM.format(body=body, inputs=inputs, given=given, init=init, top=top, before=before))


def traced_here(path: Path) -> TracedProblem:
    """Our own problems may be run in this process, which is quicker than a sandbox."""
    return TracedProblem.model_validate_json(json.dumps(tracing.trace(path), allow_nan=False))


def opened_here(path: Path) -> Task:
    return task_of(traced_here(path), path)
