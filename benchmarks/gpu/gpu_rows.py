"""Baselines and bounds of every public workload of some tasks: what a kernel for them is up against on this GPU."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from benchmarks.gpu.gpu_run import CUDA, Run, baselines_of
from benchmarks.shared.record import command, revision

from kernelwright.errors import KernelwrightError
from kernelwright.judge.gpu.workshop import GpuWorkshop
from kernelwright.judge.keys import judge_key
from kernelwright.judge.oracle_client import OpenTask, WorkloadSpec, close_descriptors
from kernelwright.judge.timing import statistics
from kernelwright.judge.timing.statistics import median
from kernelwright.tasks.catalogue import suite


def rows(run: Run) -> dict[str, Any]:
    """Baselines and bounds of every public workload.

    It takes minutes for a product or a convolution: name a few `--tasks` at a time, and rows of earlier runs stay.
    """
    came = revision() | {"command": command(sys.argv)}  # rows of several runs lie side by side
    with _shop() as shop:
        found: dict[str, Any] = {"rows": run.before.get("rows", []), "left_out": []}
        for reference in run.arguments.tasks or suite("robust"):
            try:
                task = shop.oracle.open(reference)
            except KernelwrightError as error:  # an operation without a gradient, or a name that is not there
                found["left_out"].append({"task": reference, "why": str(error)})
                continue
            for posed in task.public:
                label = f"{reference} {posed.workload.label}"
                if run.over:
                    found["left_out"].append({"task": label, "why": "out of time"})
                    continue
                begin = time.perf_counter()
                try:
                    entry = _row(shop, task, posed, baselines_of(reference, run.arguments.baselines))
                except KernelwrightError as error:
                    entry = {"failed": str(error)}
                entry = {"task": label, **entry, "took_s": time.perf_counter() - begin, **came}
                print(f"  {entry}", flush=True)
                found["rows"] = [*(kept for kept in found["rows"] if kept["task"] != label), entry]
                run.keep(found)
        return found


@contextmanager
def _shop() -> Iterator[GpuWorkshop]:
    shop = GpuWorkshop(CUDA.index, judge_key(), 0)
    try:
        yield shop
    finally:
        shop.close()


def _row(shop: GpuWorkshop, task: OpenTask, posed: WorkloadSpec, names: tuple[str, ...]) -> dict[str, Any]:
    limits = shop.limits(task, posed)
    _, descriptors = shop.oracle.arena(task, posed.workload)
    try:
        with shop.working():
            shop.baselines.open(
                names, shop.oracle, task, posed, descriptors, lambda text: print(f"  {text}", flush=True)
            )
    finally:
        close_descriptors(descriptors)
    times: dict[str, list[float]] = {name: [] for name in names}
    processes = shop.baselines.processes(names)
    with shop.measuring():
        for _ in range(50):
            for name, process in processes.items():
                shop.oracle.restore()
                times[name].append(process.time())
    return {
        "us": {name: median(values) * 1e6 for name, values in times.items()},
        "against_itself": {name: asdict(statistics.against_itself(values)) for name, values in times.items()},
        "bound_us": limits.bound * 1e6,
        "impossible_below_us": limits.impossible_below * 1e6,
        "cost": asdict(limits.cost),
    }
