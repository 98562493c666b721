"""Rough times of the product with producer warps beside the one without and eager PyTorch, by tiles and stages.

    python benchmarks/gpu/product_variants.py [--list | --build] [--only TEXT ...] [--out DIR]

For each variant its time in microseconds (median of 11, L2 cleared; rough_times.py), and its largest error as a
multiple of eager's, both against float64. Times are rough and claim nothing. All are taken in one process. Where a
variant ends it, or does not answer, that is its row, and the next one gets a new process. Writes
product_variants.json as it goes.

`--list` prints how each variant would be launched on an H200, and `--build` compiles them for one; both need no GPU.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.gpu.gpu_run import CUDA  # noqa: E402
from benchmarks.shared.record import RESULTS, load, provenance, save  # noqa: E402

from kernelwright.contracts import Candidate  # noqa: E402
from kernelwright.contracts.cuda.source import split  # noqa: E402
from kernelwright.contracts.cuda.toolchain.build import build_cuda  # noqa: E402
from kernelwright.contracts.cuda.toolchain.builder import BuilderPool  # noqa: E402
from kernelwright.contracts.cuda.toolchain.evaluate import evaluate_plans  # noqa: E402
from kernelwright.contracts.model import BuildFailure, GpuBuild  # noqa: E402
from kernelwright.contracts.target import HOPPER, Target, target_of  # noqa: E402
from kernelwright.devices import nvidia  # noqa: E402
from kernelwright.devices.names import require  # noqa: E402
from kernelwright.errors import KernelwrightError  # noqa: E402
from kernelwright.proposers.templates import TemplateProposer, make  # noqa: E402
from kernelwright.proposers.templates.genes import Genes, Value  # noqa: E402
from kernelwright.tasks.drawing import signature  # noqa: E402
from kernelwright.tasks.model import Signature  # noqa: E402
from kernelwright.tasks.resolve import resolve  # noqa: E402

FIRST_SECONDS, SECONDS = 60.0, 15.0  # for the first answer about a task, and for others
NARROW = Path(__file__).with_name("narrow_product.py")
FLOAT_TASKS = {
    "4096^3": "linear@rows=4096,features=4096,units=4096",
    "256x14336x4096": "linear@rows=256,features=4096,units=14336",
    "1024^3": "linear@rows=1024,features=1024,units=1024",
    "16384x128x128": "linear@rows=16384,features=128,units=128",
}
ODD_TASKS = {
    "4095x4097x4095": "linear@rows=4095,features=4097,units=4095",
    "4095x4097x4095 backward": "linear:backward@rows=4095,features=4097,units=4095",
    "1023^3": "linear@rows=1023,features=1023,units=1023",
}
NARROW_TASKS = {
    "bfloat16 4096^3": f"{NARROW}@rows=4096,depth=4096,cols=4096",
    "bfloat16 1023^3": f"{NARROW}@rows=1023,depth=1023,cols=1023",
}
FEED_FORWARD = {"llama_ffw": "llama_ffw@batch=2,tokens=128,features=4096,inner=14336"}
TASKS = {**FLOAT_TASKS, **ODD_TASKS, **FEED_FORWARD, **NARROW_TASKS}
BEFORE: tuple[Genes, ...] = ({"method": "wgmma", "block": "0"},)
PRODUCED: tuple[Genes, ...] = tuple(
    {"method": "producers", "block": block, "stages": stages}
    for block, stages in (("0", 0), ("128x64", 4), ("128x128", 3), ("128x128", 4), ("256x128", 2), ("256x128", 3))
)
AS_THEY_ARE: Genes = {"method": "producers", "block": "0", "stages": 0, "pad": 0}  # odd rows are not copied first
DEFAULT: Genes = {"method": "size"}
NARROW_VARIANTS: tuple[Genes, ...] = (
    {"method": "wgmma", "block": "0", "stages": 4},
    {"method": "wgmma", "block": "128x128", "stages": 3},
    {"method": "wgmma", "block": "128x128", "stages": 4},
    {"method": "producers"},
    {"method": "producers", "split": 0},
    DEFAULT,
)
APART: Genes = {"method": "producers", "block": "0", "stages": 0, "join": False}
EVEN: Genes = {"method": "producers", "block": "256x128", "stages": 3, "split": 0}


@dataclass(frozen=True)
class Variant:
    task: str  # its name in TASKS
    genes: tuple[tuple[str, Value], ...]

    @property
    def label(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.genes)


def variants(only: list[str]) -> list[Variant]:
    """Eager is timed with the first variant of each task."""
    found = [Variant(task, tuple(genes.items())) for task in FLOAT_TASKS for genes in (*BEFORE, *PRODUCED, EVEN)]
    found += [Variant(task, tuple(genes.items())) for task in ODD_TASKS for genes in (*BEFORE, *PRODUCED, AS_THEY_ARE)]
    found += [Variant(task, tuple(DEFAULT.items())) for task in (*FLOAT_TASKS, *ODD_TASKS, *FEED_FORWARD)]
    found += [Variant(task, tuple(genes.items())) for task in FEED_FORWARD for genes in (*BEFORE, *PRODUCED, APART)]
    found += [Variant(task, tuple(genes.items())) for task in NARROW_TASKS for genes in NARROW_VARIANTS]
    return [one for one in found if not only or any(text in f"{one.task} {one.label}" for text in only)]


def main() -> None:
    options = _options()
    chosen = variants(options.only)
    if options.list:
        for variant in chosen:
            print(f"{variant.task}: {variant.label}: {planned(variant)}")
        return
    if options.build:
        with Builds(chosen, HOPPER) as built:
            for variant, made in built:
                print(f"{variant.task}: {variant.label}: {made if isinstance(made, BuildFailure) else _used(made)}")
        return
    try:
        require(CUDA)
    except KernelwrightError as error:
        raise SystemExit(f"product_variants.py: {error}") from None
    gpu = nvidia.probe(CUDA.index)
    path: Path = options.out / "product_variants.json"
    report = load(path)
    rows = report.setdefault("rows", {})
    came = provenance(gpu)
    seen: set[str] = set()
    with Builds(chosen, target_of(gpu)) as built, Bencher() as bencher:
        for variant, made in built:
            if variant.task not in seen:
                seen.add(variant.task)
                rows[variant.task] = {**came, "variants": {}}
            row = rows[variant.task]
            found = {"error": str(made.lines)} if isinstance(made, BuildFailure) else bencher.time(variant.task, made)
            if (eager := found.pop("eager_us", None)) is not None:
                row["eager_us"] = eager
                print(f"{variant.task}: eager {eager:.1f} us", flush=True)
            row["variants"][variant.label] = found
            print(f"  {_shown(variant.label, found, row.get('eager_us'))}", flush=True)
            save(path, report)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print launches and end")
    parser.add_argument("--build", action="store_true", help="compile, print what kernels use, and end")
    parser.add_argument("--only", nargs="*", default=[], help="variants whose task or genes have one of these texts")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


def _shown(label: str, found: dict[str, Any], eager: float | None) -> str:
    if "us" not in found:
        return f"{label:58} {found['error']}"
    errors = " ".join(f"{name} {value:.2f}" for name, value in found["errors_of_eager"].items())
    ratio = f"{eager / found['us']:.2f}x" if eager else ""
    return f"{label:58} {found['us']:9.1f} us {ratio:>7}  error/eager's {errors}"


@cache
def _templates(task: str) -> TemplateProposer:
    return make(resolve(TASKS[task], "cuda"), "cuda")


def _to_build(variant: Variant) -> tuple[Candidate, tuple[Signature, ...]]:
    task, templates = resolve(TASKS[variant.task], "cuda"), _templates(variant.task)
    pool = templates.renderer.gene_pool(templates.plan)
    default, wanted = pool.default(), dict(variant.genes)
    # Genes of the second and later steps have numbers; a task without a gene is not changed by it.
    chosen = {name: wanted.get(name.rstrip("0123456789"), value) for name, value in default.items()}
    source = templates.renderer.render(templates.plan, pool.legal(chosen), templates.signatures)
    return Candidate("cuda", source, "templates"), (signature(task, task.public_workloads()[0]),)


def planned(variant: Variant) -> str:
    """Its launches on an H200."""
    candidate, signatures = _to_build(variant)
    plans = evaluate_plans(split(candidate.source).plan, signatures, HOPPER)
    if isinstance(plans, BuildFailure):
        return str(plans.lines)
    return ", ".join(
        f"{launch.grid[0]} blocks of {launch.block[0]} threads with {launch.shared} bytes"
        for launch in plans[0].launches
    )


def _used(made: GpuBuild) -> str:
    return ", ".join(f"{kernel.name} spills {kernel.spill_stores} bytes" for kernel in made.built[0].kernels)


class Builds:
    """Builds all variants at once, and gives them in order."""

    def __init__(self, chosen: list[Variant], target: Target) -> None:
        self._pool = BuilderPool(target.architecture, 0)
        self._threads = ThreadPoolExecutor(os.cpu_count())
        self._jobs: list[tuple[Variant, Future[GpuBuild | BuildFailure]]] = [
            (variant, self._threads.submit(build_cuda, *_to_build(variant), target, self._pool)) for variant in chosen
        ]

    def __enter__(self) -> Iterator[tuple[Variant, GpuBuild | BuildFailure]]:
        return ((variant, job.result()) for variant, job in self._jobs)

    def __exit__(self, *given: object) -> None:
        self._threads.shutdown(cancel_futures=True)
        self._pool.close()


class Bencher:
    """A process that times one build after another, and another one where it does not come back."""

    def __init__(self) -> None:
        self._start()
        self._task = ""

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._here, there = context.Pipe()
        self._process = context.Process(target=serve, args=(there,), daemon=True)
        self._process.start()
        there.close()

    def __enter__(self) -> Bencher:
        return self

    def __exit__(self, *given: object) -> None:
        self._process.kill()

    def time(self, task: str, made: GpuBuild) -> dict[str, Any]:
        seconds = SECONDS if task == self._task else FIRST_SECONDS
        self._task = task
        try:
            self._here.send((TASKS[task], made))
            answer: dict[str, Any] = (
                self._here.recv() if self._here.poll(seconds) else {"error": f"no answer in {seconds:.0f} s"}
            )
        except (EOFError, OSError):
            answer = {"error": "the process that timed it ended"}
        if answer.get("error"):  # a context that has seen a fault is of no more use
            self._process.kill()
            self._process.join()
            self._start()
            self._task = ""
        return answer


def serve(channel: Connection) -> None:
    """In the process that times."""
    import torch
    from benchmarks.gpu.rough_times import Bench

    known = ""
    while True:
        ref, made = channel.recv()
        more: dict[str, Any] = {}
        try:
            if ref != known:
                bench = Bench(ref)
                more, known = {"eager_us": bench.time_eager()}, ref
            us = bench.time(made.built[0])
            torch.cuda.synchronize()
        except RuntimeError as error:
            channel.send({**more, "error": str(error).splitlines()[0]})
            continue
        if us is None:
            channel.send({**more, "error": f"a launch was refused, or results are off: {bench.errors}"})
        else:
            channel.send({**more, "us": us, "errors_of_eager": bench.errors})


if __name__ == "__main__":
    main()
