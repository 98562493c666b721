"""Calls a C++ candidate in this process on chosen values: for kernels of our own, where a judging would take too long.

There is no sandbox here, so nothing but what stands in this repository is called.
"""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import torch

from kernelwright.contracts.candidate import Candidate
from kernelwright.contracts.cpp import CPP
from kernelwright.devices.compiler import compiler
from kernelwright.tasks.drawing import signature
from kernelwright.tasks.model import ScalarSpec, Signature, Task, Workload
from kernelwright.tasks.reference import Argument, torch_dtype

RANK = 8


class _Argument(ctypes.Structure):
    """One entry of contracts/host_abi.h."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("sizes", ctypes.c_int64 * RANK),
        ("strides", ctypes.c_int64 * RANK),
        ("integer", ctypes.c_int64),
        ("real", ctypes.c_double),
    )


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="kernelwright-direct-")


def library(candidate: Candidate, form: Signature) -> ctypes.CDLL:
    """The candidate as the judge builds it, compiled once for each choice of types."""
    plan = CPP.build_plan(candidate, form, sanitized=False)
    name = hashlib.sha256(repr(plan).encode()).hexdigest()[:16]
    folder = Path(_folder().name) / name
    made = folder / "kernel.so"
    if not made.exists():
        folder.mkdir(exist_ok=True)
        for file, text in plan.files:
            (folder / file).write_text(text)
        places = {"{source}": str(folder), "{output}": str(made)}
        words = [_filled(word, places) for word in plan.arguments]
        subprocess.run([compiler(), *words], check=True, capture_output=True, text=True)
    return ctypes.CDLL(str(made))


def _filled(word: str, places: Mapping[str, str]) -> str:
    for mark, place in places.items():
        word = word.replace(mark, place)
    return word


def call(task: Task, candidate: Candidate, workload: Workload, inputs: Mapping[str, Argument]) -> dict[str, Argument]:
    """What the candidate writes, by the names of the task's results; the inputs stay as they are."""
    form = signature(task, workload)
    held: dict[str, torch.Tensor] = {}
    entries = (_Argument * len(form.arguments))()
    for entry, argument in zip(entries, form.arguments, strict=True):
        if isinstance(argument, ScalarSpec):
            entry.integer, entry.real = int(argument.value), float(argument.value)
            continue
        if argument.role == "output":
            value = torch.zeros(argument.shape, dtype=torch_dtype(argument.dtype))
        else:
            given = inputs[argument.name]
            assert isinstance(given, torch.Tensor)
            value = given.clone().contiguous()
        held[argument.name] = value
        entry.data = value.data_ptr()
        for dim, (size, stride) in enumerate(zip(argument.shape, argument.strides, strict=True)):
            entry.sizes[dim], entry.strides[dim] = size, stride
    library(candidate, form).kw_run(entries)
    return {name: held[name] for name in task.result_names}
