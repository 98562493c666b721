"""Rough times of the ways in which the CUDA templates multiply, beside eager PyTorch, and how far off they are.

    python benchmarks/gpu/products_gpu.py [--tasks TASK ...] [--methods METHOD ...] [--blocks BLOCK ...] [--out DIR]

For each way its time in microseconds, and for every output its largest error as a multiple of eager PyTorch's. Times
are rough (rough_times.py) and claim nothing. Writes products_gpu.json as it goes; what was printed while these ways
were made is in results/products_h200.txt.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.gpu.gpu_run import CUDA  # noqa: E402
from benchmarks.shared.record import RESULTS, load, provenance, save  # noqa: E402

from kernelwright.contracts import Candidate  # noqa: E402
from kernelwright.contracts.cuda.toolchain.build import build_cuda  # noqa: E402
from kernelwright.contracts.cuda.toolchain.builder import BuilderPool  # noqa: E402
from kernelwright.contracts.model import BuildFailure, GpuBuild  # noqa: E402
from kernelwright.contracts.target import target_of  # noqa: E402
from kernelwright.devices import nvidia  # noqa: E402
from kernelwright.devices.names import require  # noqa: E402
from kernelwright.errors import KernelwrightError  # noqa: E402
from kernelwright.proposers.templates import make  # noqa: E402
from kernelwright.proposers.templates.genes import Genes  # noqa: E402
from kernelwright.tasks.drawing import signature  # noqa: E402
from kernelwright.tasks.model import Signature  # noqa: E402
from kernelwright.tasks.resolve import resolve  # noqa: E402

TASKS = (
    "unet_linear@batch=64,tokens=256,features=128,units=128",
    "unet_linear@batch=127,tokens=129,features=139,units=67",
    "unet_linear@batch=113,tokens=255,features=68,units=103",
    "unet_linear@batch=65,tokens=201,features=127,units=129",
    "unet_linear:backward@batch=64,tokens=256,features=128,units=128",
    "linear@rows=4096,features=4096,units=4096",
    "linear:backward@rows=4096,features=4096,units=4096",
    "linear@rows=1024,features=1024,units=1024",
    "linear@rows=1023,features=1023,units=1023",
    "linear_relu@rows=512,features=512,units=512",
    "llama_ffw@batch=2,tokens=128,features=4096,inner=14336",
    "llama_ffw:backward@batch=2,tokens=128,features=4096,inner=14336",
)
Way = tuple[str, str]
"""A method, and the tile of a block."""
Built = Future[GpuBuild | BuildFailure]


def main() -> None:
    options = _options()
    try:
        require(CUDA)
    except KernelwrightError as error:
        raise SystemExit(f"products_gpu.py: {error}") from None
    path: Path = options.out / "products_gpu.json"
    report = load(path)
    gpu = nvidia.probe(CUDA.index)
    report["gpu"], came = gpu.name, provenance(gpu)
    target = target_of(gpu)
    ways = [(method, block) for method in options.methods for block in options.blocks]
    pool = BuilderPool(target.architecture, 0)
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        jobs = {
            ref: {way: threads.submit(build_cuda, *_to_build(ref, way), target, pool) for way in ways}
            for ref in options.tasks
        }
        for ref, built in jobs.items():
            report.setdefault("rows", {})[ref] = {**_timed(ref, built), **came}
            save(path, report)
    pool.close()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="*", default=list(TASKS))
    parser.add_argument("--methods", nargs="*", default=["tf32x3", "wgmma"])
    parser.add_argument("--blocks", nargs="*", default=["0"], help="tiles of a block, such as 128x64; 0: by size")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


def _to_build(ref: str, way: Way) -> tuple[Candidate, tuple[Signature, ...]]:
    task = resolve(ref, "cuda")
    templates = make(task, "cuda")
    pool = templates.renderer.gene_pool(templates.plan)
    chosen = pool.legal(pool.default() | _genes(pool.default(), *way))
    source = templates.renderer.render(templates.plan, chosen, templates.signatures)
    return Candidate("cuda", source, "templates"), (signature(task, task.public_workloads()[0]),)


def _genes(default: Genes, method: str, block: str) -> Genes:
    """For every product of a plan: genes of the second and later steps have numbers."""
    return {name: {"method": method, "block": block}.get(name.rstrip("0123456789"), default[name]) for name in default}


def _timed(ref: str, built: dict[Way, Built]) -> dict[str, Any]:
    from benchmarks.gpu.rough_times import Bench

    bench = Bench(ref)
    found: dict[str, Any] = {"eager_us": bench.time_eager(), "ways": []}
    print(f"{ref}: eager {found['eager_us']:.2f} us", flush=True)
    for (method, block), job in built.items():
        made = job.result()
        if isinstance(made, BuildFailure):
            entry: dict[str, Any] = {"not_built": str(made.lines)}
        else:
            entry = {"us": bench.time(made.built[0]), "errors_of_eager": bench.errors}
        found["ways"].append({"method": method, "block": block, **entry})
        print(f"  {found['ways'][-1]}", flush=True)
    return found


if __name__ == "__main__":
    main()
