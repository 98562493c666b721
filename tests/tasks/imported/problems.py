"""Small problems in KernelBench's form, written for the tests, and how they are traced without a sandbox."""

from __future__ import annotations

import json
import sys
import tempfile
import textwrap
from pathlib import Path

from kernelwright.tasks.imported.confined import tracing
from kernelwright.tasks.imported.forms import KERNELBENCH, Bundle, bundle_of
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


def named(path: Path) -> Bundle:
    """A bundle whose content does not matter."""
    return Bundle(KERNELBENCH, path, (("problem.py", b""),), (path,))


def written(folder: Path, text: str, name: str = "problem.py") -> Path:
    path = folder / name
    path.write_text(HEAD + textwrap.dedent(text), encoding="utf-8")
    return path


def formed(
    folder: Path, body: str, inputs: str, *, given: str = "x", init: str = "pass", top: str = "", before: str = "pass"
) -> Path:
    return written(folder, FORM.format(body=body, inputs=inputs, given=given, init=init, top=top, before=before))


def traced_here(path: Path, *, backward: bool = False, setting: int | None = None) -> TracedProblem:
    """Our own problems may be run in this process, which is quicker than a sandbox."""
    bundle = bundle_of(path, backward=backward, setting=setting)
    assert bundle is not None
    said = {"form": bundle.form, "main": bundle.main_name, "setting": setting}
    before, known = list(sys.path), set(sys.modules)
    with tempfile.TemporaryDirectory() as name:
        for file, content in (*bundle.content, ("bundle.json", json.dumps(said).encode())):
            (Path(name) / file).write_bytes(content)
        try:
            found = tracing.trace_folder(Path(name))
        finally:
            sys.path[:] = before
            for module in {"task", "utils", "reference", "problem"} & (set(sys.modules) - known):
                del sys.modules[module]
    return TracedProblem.model_validate_json(json.dumps(found, allow_nan=False))


def opened_here(path: Path, *, backward: bool = False, setting: int | None = None) -> Task:
    bundle = bundle_of(path, backward=backward, setting=setting)
    assert bundle is not None
    return task_of(traced_here(path, backward=backward, setting=setting), bundle)
