"""Products and convolutions that `templates` writes for the CPU against eager PyTorch: the first proposal, ratios.

Both are called alternately in one process, in processor time where one thread works (which a busy machine disturbs
least) and in wall time where several do; a ratio is the median of the ratios of neighbouring calls.

    python benchmarks/cpu/products_cpu.py [--threads 1 2] [--only WORD ...] [--repeats N]

Rows that are not measured now stay in the result as they were; each says where it comes from.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from kernelwright.contracts import Candidate
from kernelwright.contracts.cpp import CPP
from kernelwright.proposers.model import Operator, Request
from kernelwright.proposers.templates.proposer import make
from kernelwright.tasks import Task, tensor
from kernelwright.tasks.backward import derive_backward
from kernelwright.tasks.declarations import Family
from kernelwright.tasks.drawing import draw_inputs, run_reference, signature
from kernelwright.tasks.model import Workload

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.shared.record import RESULTS, load, provenance, save
from tests.proposers.templates.checking import aligned, call

SPACE = ("d", "h", "w")


@dataclass(frozen=True)
class Row:
    name: str
    task: Task
    sizes: dict[str, int]
    forward: Callable[..., torch.Tensor] | None = None  # of a gradient


def _task(function: Callable[..., Any], inputs: dict[str, tuple[Any, ...]], sizes: dict[str, int], **how: Any) -> Task:
    declared = {name: tensor(*shape) for name, shape in inputs.items()}
    ranges = {name: (1, 2 * size) for name, size in sizes.items()}
    return Task(function, declared, [sizes], ranges, "products", **how)


def _product(m: int, k: int, n: int, *, turned: bool = False, dtype: str = "float32") -> Row:
    sizes = {"m": m, "k": k, "n": n}
    right = ("n", "k") if turned else ("k", "n")
    task = _task(lambda x, w: x @ (w.T if turned else w), {"x": ("m", "k"), "w": right}, sizes, dtypes=(dtype,))
    kind = "x @ w.T" if turned else "x @ w"
    return Row(f"{kind} {m}×{k}×{n}" + ("" if dtype == "float32" else f" {dtype}"), task, sizes)


def _fused(m: int, k: int, n: int) -> Row:
    sizes = {"m": m, "k": k, "n": n}
    shapes = {"x": ("m", "k"), "w": ("n", "k"), "b": ("n",)}
    return Row(f"gelu(linear) {m}×{k}×{n}", _task(lambda x, w, b: F.gelu(F.linear(x, w, b)), shapes, sizes), sizes)


def _stack(s: int, m: int, k: int, n: int) -> Row:
    sizes = {"s": s, "m": m, "k": k, "n": n}
    task = _task(lambda x, y: x @ y.transpose(1, 2), {"x": ("s", "m", "k"), "y": ("s", "n", "k")}, sizes)
    return Row(f"stack of {s}: {m}×{k}×{n}", task, sizes)


def _attention(b: int, h: int, s: int, d: int) -> Row:
    sizes = {"b": b, "h": h, "s": s, "d": d}

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.softmax(q @ k.transpose(-1, -2) * 0.125, -1) @ v

    return Row(f"softmax(q k) v {b}×{h}×{s}×{d}", _task(attention, dict.fromkeys("qkv", tuple("bhsd")), sizes), sizes)


def _convolution(
    name: str, kernel: tuple[int, ...], channels: int, filters: int, batch: int, *size: int, **how: Any
) -> Row:
    """`groups` fixes the channels; `turned`, `fused` and `backward` say what else."""
    turned, fused, backward = (how.pop(key, False) for key in ("turned", "fused", "backward"))
    dtype = how.pop("dtype", "float32")
    groups, space = how.get("groups", 1), SPACE[3 - len(size) :]
    function = getattr(F, f"conv{'_transpose' if turned else ''}{len(size)}d")
    shape = (channels, filters // groups) if turned else (filters, channels // groups)
    sizes = {"b": batch, **dict(zip(space, size, strict=True))}
    shapes: dict[str, tuple[Any, ...]] = {"x": ("b", channels, *space), "w": (*shape, *kernel)}

    def reference(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        made = function(x, w, **how)
        return F.silu(made) * 0.5 if fused else made

    task = _task(reference, shapes, sizes, dtypes=(dtype,))
    return Row(name, derive_backward(task), sizes, reference) if backward else Row(name, task, sizes)


def rows() -> list[Row]:
    return [
        *(_product(n, n, n) for n in (512, 1024, 2048, 4096)),
        _product(1000, 1000, 1000),
        _product(64, 1600, 128, turned=True),
        _product(256, 4096, 14336, turned=True),
        _product(1, 4096, 4096, turned=True),
        _fused(512, 1024, 1024),
        _stack(64, 128, 64, 128),
        _attention(2, 8, 512, 64),
        _product(512, 512, 512, dtype="bfloat16"),
        _product(512, 512, 512, dtype="float16"),
        _convolution("3×3, 64 → 64, 56²", (3, 3), 64, 64, 4, 56, 56, padding=1),
        _convolution("3×3, 256 → 256, 14²", (3, 3), 256, 256, 4, 14, 14, padding=1),
        _convolution("3×3, 512 → 512, 7²", (3, 3), 512, 512, 4, 7, 7, padding=1),
        _convolution("3×3, stride 2, 128 → 128, 56²", (3, 3), 128, 128, 4, 56, 56, padding=1, stride=2),
        _convolution("3×3, dilated, 64 → 64, 56²", (3, 3), 64, 64, 4, 56, 56, padding=2, dilation=2),
        _convolution("1×1, 256 → 256, 28²", (1, 1), 256, 256, 4, 28, 28),
        _convolution("7×7, stride 2, 3 → 64, 224²", (7, 7), 3, 64, 2, 224, 224, padding=3, stride=2),
        _convolution("3×3 and silu, 64 → 64, 56²", (3, 3), 64, 64, 4, 56, 56, padding=1, fused=True),
        _convolution("1-d, 3, 64 → 64, 4096", (3,), 64, 64, 4, 4096, padding=1),
        _convolution("3-d, 3³, 16 → 32, 32³", (3, 3, 3), 16, 32, 1, 32, 32, 32, padding=1),
        _convolution("transposed 4×4, stride 2, 64 → 32, 32²", (4, 4), 64, 32, 4, 32, 32, stride=2, turned=True),
        _convolution("transposed 3-d, stride 2, 32 → 32", (3, 3, 3), 32, 32, 2, 8, 16, 16, stride=2, turned=True),
        _convolution("4 groups, 3×3, 64 → 64, 56²", (3, 3), 64, 64, 4, 56, 56, padding=1, groups=4),
        _convolution("32 groups, 3×3, 128 → 128, 56²", (3, 3), 128, 128, 4, 56, 56, padding=1, groups=32),
        _convolution("depthwise 3×3, 64, 112²", (3, 3), 64, 64, 4, 112, 112, padding=1, groups=64),
        _convolution("depthwise 3×3, stride 2, 64, 112²", (3, 3), 64, 64, 4, 112, 112, padding=1, stride=2, groups=64),
        _convolution("bfloat16 3×3, 64 → 64, 56²", (3, 3), 64, 64, 4, 56, 56, padding=1, dtype="bfloat16"),
        _convolution("gradients of 3×3, 64 → 64, 56²", (3, 3), 64, 64, 4, 56, 56, padding=1, backward=True),
        _convolution("gradients of 1-d, 3, 64 → 64, 512", (3,), 64, 64, 4, 512, padding=1, backward=True),
    ]


def library_of(task: Task, workload: Workload, folder: Path) -> ctypes.CDLL:
    source = make(task, "cpp").propose(Request(Operator.fresh, 1, 0))[0].candidate.source
    plan = CPP.build_plan(Candidate("cpp", source), signature(task, workload), sanitized=False)
    folder.mkdir()
    for file, text in plan.files:
        (folder / file).write_text(text)
    places = {"source": str(folder), "output": str(folder / "kernel.so")}
    subprocess.run(["g++", *(argument.format(**places) for argument in plan.arguments)], check=True)
    return ctypes.CDLL(str(folder / "kernel.so"))


def measured(row: Row, library: ctypes.CDLL, threads: int, repeats: int) -> dict[str, Any]:
    task, workload = row.task, Workload(tuple(row.sizes.items()), row.task.dtypes[0])
    form = signature(task, workload)
    inputs = draw_inputs(task, workload, Family.NORMAL, torch.Generator().manual_seed(0))
    tensors = {name: aligned(value) for name, value in inputs.items() if isinstance(value, torch.Tensor)}
    for spec in form.outputs:
        tensors[spec.name] = aligned(torch.zeros(spec.shape, dtype=getattr(torch, spec.dtype)))
    torch.set_num_threads(threads)
    ctypes.CDLL("libgomp.so.1").omp_set_num_threads(threads)
    eager = _eager(row, inputs)
    clock = time.process_time if threads == 1 else time.perf_counter
    own, theirs = [], []
    for number in range(repeats + 1):
        start = clock()
        eager()
        middle = clock()
        call(library, form, tensors)
        if number:  # the first warms up
            theirs.append(middle - start)
            own.append(clock() - middle)
    ratios = sorted(b / a for a, b in zip(own, theirs, strict=True))
    return {
        "name": row.name,
        "threads": threads,
        "ratio": round(statistics.median(ratios), 3),
        "quartiles": [round(ratios[len(ratios) // 4], 3), round(ratios[3 * len(ratios) // 4], 3)],
        "ms": round(1000 * statistics.median(own), 4),
        "eager_ms": round(1000 * statistics.median(theirs), 4),
    }


def _eager(row: Row, inputs: dict[str, Any]) -> Callable[[], Any]:
    """A gradient without the forward pass before it, as a training step has it."""
    if row.forward is None:
        return torch.no_grad()(lambda: run_reference(row.task, inputs))
    x, w = (inputs[name].detach().requires_grad_() for name in ("x", "w"))
    made = row.forward(x, w)
    given = torch.randn_like(made)
    return lambda: torch.autograd.grad(made, (x, w), given, retain_graph=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    origin, path = provenance(), RESULTS / "products_cpu.json"
    with tempfile.TemporaryDirectory() as folder:
        for number, row in enumerate(rows()):
            if options.only and not any(word in row.name for word in options.only):
                continue
            workload = Workload(tuple(row.sizes.items()), row.task.dtypes[0])
            library = library_of(row.task, workload, Path(folder) / str(number))
            for threads in options.threads:
                found = measured(row, library, threads, options.repeats)
                print(f"{row.name:45} {threads} thread(s): {found['ratio']:.2f} × eager, {found['ms']} ms", flush=True)
                _keep(path, found | {"from": origin})


def _keep(path: Path, found: dict[str, Any]) -> None:
    """In the order of `rows`, instead of an earlier row of that name and as many threads."""
    order = [row.name for row in rows()]
    others = [
        one for one in load(path).get("rows", []) if (one["name"], one["threads"]) != (found["name"], found["threads"])
    ]
    kept = [one for one in (*others, found) if one["name"] in order]
    save(path, {"rows": sorted(kept, key=lambda one: (order.index(one["name"]), one["threads"]))})


if __name__ == "__main__":
    main()
