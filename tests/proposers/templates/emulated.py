"""Runs a CUDA candidate on the emulator without the judge around it, in three orders of threads, on given values.

Seconds instead of tens of them; in a child process, so that a fault is a failed test. No sanitizers: test_cuda.py has
them.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import torch

from kernelwright.contracts.cuda.emulate.emulation import CudaEmulation
from kernelwright.contracts.cuda.source import split
from kernelwright.contracts.model import BuildFailure
from kernelwright.contracts.target import HOPPER, Target
from kernelwright.proposers.templates import TemplateProposer
from kernelwright.tasks.declarations import Family
from kernelwright.tasks.drawing import draw_inputs, run_reference, signature
from kernelwright.tasks.model import Signature, Task, Workload
from tests.proposers.templates.checking import call, disagreements

ORDERS = 3  # of threads: upwards, downwards, at random


def source_of(templates: TemplateProposer, genes: dict[str, Any]) -> str:
    """Genes of a name without a number hold for every step."""
    pool = templates.renderer.gene_pool(templates.plan)
    names = {gene.name: gene.name.rstrip("0123456789") for gene in pool.genes}
    chosen = {name: genes[stem] for name, stem in names.items() if stem in genes} | {
        name: value for name, value in genes.items() if name in names
    }
    assert set(genes) <= set(names) | set(names.values()), genes
    return templates.renderer.render(templates.plan, pool.legal(pool.default() | chosen), templates.signatures)


def emulated_errors(
    task: Task, source: str, sizes: dict[str, int], planted: dict[str, float] | None = None, target: Target = HOPPER
) -> list[str]:
    """What is wrong, in words. `planted` puts a number into the middle of an input."""
    workload = Workload(tuple(sizes.items()), task.dtypes[0])
    inputs = draw_inputs(task, workload, Family.NORMAL, torch.Generator().manual_seed(1))
    for name, value in (planted or {}).items():
        inputs[name].view(-1)[inputs[name].numel() // 2] = value
    form = signature(task, workload)
    library = _built(source, form, target)
    exact, eager = run_reference(task, inputs, torch.float64), run_reference(task, inputs)
    tensors = {name: _shared(value) for name, value in inputs.items() if isinstance(value, torch.Tensor)}
    found = []
    made = [
        {
            spec.name: _shared(torch.full(spec.shape, float("nan")).to(getattr(torch, spec.dtype)))
            for spec in form.outputs
        }
        for _ in range(ORDERS)
    ]
    status = _in_child(library, form, tensors, made)
    if status:
        return [f"the kernel ended with status {status}"]
    for number, results in enumerate(made):
        given = [(name, results[name], exact[name], eager[name]) for name in task.result_names]
        found += [f"order {number}: {one}" for one in disagreements(given)]
    return found


def _in_child(
    library: Path, form: Signature, tensors: dict[str, torch.Tensor], made: list[dict[str, torch.Tensor]]
) -> int:
    child = os.fork()
    if child == 0:
        loaded = ctypes.CDLL(str(library))
        for results in made:
            call(loaded, form, tensors | results)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _shared(value: torch.Tensor) -> torch.Tensor:
    """A copy that child processes share, aligned to a page."""
    size = max(1, value.numel() * value.element_size())
    room = torch.frombuffer(mmap.mmap(-1, size), dtype=torch.uint8)
    return room[: value.numel() * value.element_size()].view(value.dtype).view(value.shape).copy_(value)


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="kernelwright-emulated-"))


def _built(source: str, form: Signature, target: Target) -> Path:
    (plan,) = CudaEmulation(split(source)).builds((form,), target, sanitized=False)
    assert not isinstance(plan, BuildFailure), plan
    name = hashlib.sha256("".join(text for pair in plan.files for text in pair).encode()).hexdigest()[:16]
    library = _folder() / f"{name}.so"
    if not library.exists():
        folder = _folder() / name
        folder.mkdir()
        for file, text in plan.files:
            (folder / file).write_text(text)
        places = {"source": str(folder), "output": str(library)}
        done = subprocess.run(
            ["g++", *(argument.format(**places) for argument in plan.arguments)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[:4000]
        shutil.rmtree(folder)
    return library
