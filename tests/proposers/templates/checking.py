"""Compiles a candidate as the judge would and compares it, in this process, with the float64 reference."""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import torch

from kernelwright.contracts import Candidate
from kernelwright.contracts.cpp import CPP
from kernelwright.tasks.declarations import Family
from kernelwright.tasks.drawing import draw_inputs, run_reference, signature
from kernelwright.tasks.model import ScalarSpec, Signature, Task, Workload

MAX_RANK = 8


class _Argument(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("sizes", ctypes.c_int64 * MAX_RANK),
        ("strides", ctypes.c_int64 * MAX_RANK),
        ("integer", ctypes.c_int64),
        ("real", ctypes.c_double),
    )


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="kernelwright-templates-"))


def compiled(source: str, form: Signature) -> ctypes.CDLL:
    plan = CPP.build_plan(Candidate("cpp", source), form, sanitized=False)
    name = hashlib.sha256("".join(text for pair in plan.files for text in pair).encode()).hexdigest()[:16]
    folder = _folder() / name
    library = folder / "kernel.so"
    if not library.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in plan.files:
            (folder / file).write_text(text)
        places = {"source": str(folder), "output": str(library)}
        command = ["g++", *(argument.format(**places) for argument in plan.arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:4000] + "\n" + source
    return ctypes.CDLL(str(library))


def aligned(value: torch.Tensor) -> torch.Tensor:
    """A copy whose data begins on a 256-byte boundary, as in the arena."""
    room = torch.empty(value.numel() * value.element_size() + 512, dtype=torch.uint8)
    start = -room.data_ptr() % 256
    view = room[start : start + value.numel() * value.element_size()].view(value.dtype).view(value.shape)
    return view.copy_(value)


def call(library: ctypes.CDLL, form: Signature, tensors: dict[str, torch.Tensor]) -> None:
    arguments = (_Argument * len(form.arguments))()
    for place, argument in zip(arguments, form.arguments, strict=True):
        if isinstance(argument, ScalarSpec):
            place.integer, place.real = int(argument.value), float(argument.value)
            continue
        place.data = tensors[argument.name].data_ptr()
        place.sizes[: len(argument.shape)] = argument.shape
        place.strides[: len(argument.shape)] = argument.strides
    library.kw_run(arguments)


def outputs(
    task: Task, source: str, sizes: dict[str, int], family: Family = Family.NORMAL, seed: int = 0
) -> list[tuple[str, torch.Tensor, torch.Tensor, torch.Tensor]]:
    """For each result its name, what the candidate made, the float64 reference, and eager's float32."""
    workload = Workload(tuple(sizes.items()), task.dtypes[0])
    inputs = draw_inputs(task, workload, family, torch.Generator().manual_seed(seed))
    form = signature(task, workload)
    tensors = {name: aligned(value) for name, value in inputs.items() if isinstance(value, torch.Tensor)}
    for spec in form.outputs:
        made = torch.empty(spec.shape, dtype=getattr(torch, spec.dtype))
        tensors[spec.name] = aligned(made.fill_(float("nan")) if made.is_floating_point() else made.fill_(-7))
    call(compiled(source, form), form, tensors)
    exact = run_reference(task, inputs, torch.float64)
    eager = run_reference(task, inputs)
    return [(name, tensors[name], exact[name], eager[name]) for name in task.result_names]


Outputs = list[tuple[str, torch.Tensor, torch.Tensor, torch.Tensor]]


def errors(task: Task, source: str, sizes: dict[str, int], family: Family = Family.NORMAL) -> list[str]:
    """What is wrong, in words; nothing when the candidate agrees."""
    return disagreements(outputs(task, source, sizes, family))


def disagreements(made_outputs: Outputs) -> list[str]:
    found = []
    for name, made, exact, eager in made_outputs:
        if not made.is_floating_point():
            if not torch.equal(made, eager):
                found.append(f"{name}: {int((made != eager).sum())} of {made.numel()} differ")
            continue
        wide = made.double()
        if not torch.equal(torch.isnan(wide), torch.isnan(exact)):
            found.append(f"{name}: {int(torch.isnan(wide).sum())} NaN, {int(torch.isnan(exact).sum())} expected")
            continue
        gap = (wide - exact).abs().nan_to_num(0.0, 0.0, 0.0)
        scale = exact.abs().nan_to_num(0.0, 0.0, 0.0)
        allowed = 4 * (eager.double() - exact).abs().nan_to_num(0.0, 0.0, 0.0).max() + 2e-5 * scale + 1e-6 * scale.max()
        if bool((gap > allowed).any()):
            worst = int((gap - allowed).flatten().argmax())
            values = wide.flatten()[worst], exact.flatten()[worst]
            found.append(f"{name}: {float(values[0])!r} for {float(values[1])!r}, {int((gap > allowed).sum())} wrong")
    return found
