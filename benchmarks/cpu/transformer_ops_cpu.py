"""Steps between the products of a transformer that `templates` writes for the CPU: ratios to eager and torch.compile.

All three are called alternately in one process, in wall time; a ratio is the median of the ratios of neighbouring
calls, which a busy machine disturbs least. Above 1 the candidate, the first proposal, is faster.

    python benchmarks/cpu/transformer_ops_cpu.py [--threads 1 2] [--only WORD ...] [--repeats N] [--label NAME]

`--label` names what was measured, such as a state of the source; rows of other labels stay in the result.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from kernelwright.tasks import Task
from kernelwright.tasks.declarations import Family
from kernelwright.tasks.drawing import draw_inputs, signature
from kernelwright.tasks.model import Workload

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.cpu.products_cpu import library_of
from benchmarks.shared.record import RESULTS, load, provenance, save
from tests.proposers.templates.checking import aligned, call
from tests.proposers.templates.transformer_tasks import tasks

SIZES = {
    "geglu": {"batch": 4, "tokens": 512, "half": 2048},
    "rotary": {"batch": 2, "heads": 16, "tokens": 1024, "half": 32},
    "masked_softmax": {"batch": 4, "heads": 8, "queries": 512, "keys": 512},
    "chosen_softmax": {"batch": 4, "heads": 8, "queries": 512, "keys": 512},
    "biased_softmax": {"batch": 4, "heads": 8, "queries": 512, "keys": 512},
    "causal_softmax": {"batch": 4, "heads": 8, "queries": 512, "keys": 512},
    "causal_attention": {"batch": 2, "heads": 8, "queries": 512, "dim": 64},
    "normed_half": {"batch": 4, "tokens": 512, "half": 2048},
}


def measured(task: Task, sizes: dict[str, int], library: ctypes.CDLL, threads: int, repeats: int) -> dict[str, Any]:
    workload = Workload(tuple(sizes.items()), task.dtypes[0])
    form = signature(task, workload)
    inputs = draw_inputs(task, workload, Family.NORMAL, torch.Generator().manual_seed(0))
    tensors = {name: aligned(value) for name, value in inputs.items() if isinstance(value, torch.Tensor)}
    for spec in form.outputs:
        tensors[spec.name] = aligned(torch.zeros(spec.shape, dtype=getattr(torch, spec.dtype)))
    torch.set_num_threads(threads)
    ctypes.CDLL("libgomp.so.1").omp_set_num_threads(threads)
    torch.compiler.reset()
    compiled = torch.compile(task.reference)
    calls: dict[str, Callable[[], Any]] = {
        "eager": lambda: task.reference(**inputs),
        "compile": lambda: compiled(**inputs),
        "own": lambda: call(library, form, tensors),
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    with torch.no_grad():
        for number in range(repeats + 2):
            for name, one in calls.items():
                start = time.perf_counter()
                one()
                if number > 1:  # the first warm up
                    times[name].append(time.perf_counter() - start)
    found: dict[str, Any] = {"name": task.name, "threads": threads, "sizes": sizes}
    for name in ("eager", "compile"):
        ratios = sorted(theirs / own for theirs, own in zip(times[name], times["own"], strict=True))
        quartiles = [ratios[len(ratios) // 4], ratios[3 * len(ratios) // 4]]
        found[name] = {
            "ratio": round(statistics.median(ratios), 3),
            "quartiles": [round(one, 3) for one in quartiles],
            "ms": round(1000 * statistics.median(times[name]), 4),
        }
    return found | {"ms": round(1000 * statistics.median(times["own"]), 4)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--label", default="now")
    options = parser.parse_args()
    origin, path = provenance(), RESULTS / "transformer_ops_cpu.json"
    known = tasks()
    with tempfile.TemporaryDirectory() as folder:
        for name, sizes in SIZES.items():
            if options.only and not any(word in name for word in options.only):
                continue
            task = known[name]
            library = library_of(task, Workload(tuple(sizes.items()), task.dtypes[0]), Path(folder) / name)
            for threads in options.threads:
                found = measured(task, sizes, library, threads, options.repeats)
                ratios = ", ".join(f"{found[one]['ratio']:.2f} × {one}" for one in ("eager", "compile"))
                print(f"{name:20} {threads} thread(s): {ratios}, {found['ms']} ms", flush=True)
                _keep(path, found | {"label": options.label, "from": origin})


def _keep(path: Path, found: dict[str, Any]) -> None:
    """Instead of an earlier row of that name, label and as many threads."""

    def key(row: dict[str, Any]) -> tuple[str, int, int]:
        return row["label"], list(SIZES).index(row["name"]), row["threads"]

    others = [row for row in load(path).get("rows", []) if key(row) != key(found)]
    save(path, {"rows": sorted((*others, found), key=key)})


if __name__ == "__main__":
    main()
