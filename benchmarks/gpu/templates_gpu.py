"""What the CUDA templates reach on this GPU, roughly: many genes timed, the sources of the best kept.

    python benchmarks/gpu/templates_gpu.py --keep DIR [--tasks TASK ...] [--count 30] [--best 2] [--out DIR]
    python benchmarks/gpu/claims_gpu.py --sources DIR                                     judges what was kept

For each task, `--count` candidates are written and compiled, and called in a process of their own on one draw of
inputs, with the L2 cleared before each call: a rough time, which only says which of them to judge. Writes
templates_gpu.json as it goes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.gpu.gpu_run import CUDA  # noqa: E402
from benchmarks.shared.record import RESULTS, load, provenance, save  # noqa: E402

from kernelwright.contracts import Candidate  # noqa: E402
from kernelwright.contracts.cuda.toolchain.build import build_cuda  # noqa: E402
from kernelwright.contracts.cuda.toolchain.builder import BuilderPool  # noqa: E402
from kernelwright.contracts.model import BuildFailure, GpuBuilt  # noqa: E402
from kernelwright.contracts.target import target_of  # noqa: E402
from kernelwright.devices import nvidia  # noqa: E402
from kernelwright.devices.names import require  # noqa: E402
from kernelwright.errors import KernelwrightError  # noqa: E402
from kernelwright.proposers.templates import make  # noqa: E402
from kernelwright.proposers.templates.genes import Genes  # noqa: E402
from kernelwright.tasks.drawing import signature  # noqa: E402
from kernelwright.tasks.model import Task  # noqa: E402
from kernelwright.tasks.resolve import resolve  # noqa: E402

ROWS = (
    "layernorm3d@batch=1,channels=64,height=256,width=256",
    "layernorm3d:backward@batch=32,channels=64,height=256,width=256",
    "rmsnorm@rows=16384,cols=4096",
    "rmsnorm:backward@rows=16384,cols=4096",
    "cross_entropy@rows=64,classes=10",
    "cross_entropy:backward@rows=64,classes=10",
    "linear@rows=64,features=128,units=10",
    "linear:backward@rows=64,features=128,units=10",
    "linear_relu@rows=64,features=1600,units=128",
    "linear_relu:backward@rows=64,features=128,units=10",
    "maxpool2d@batch=64,channels=64,height=28,width=28",
    "maxpool2d:backward@batch=64,channels=64,height=28,width=28",
    "conv_relu_pool@batch=64,channels=1,height=28,width=28,filters=32",
    "unet_linear@batch=64,tokens=256,features=128,units=128",
    "unet_conv2d@batch=8,channels=64,height=32,width=32,filters=64",
    "llama_ffw@batch=2,tokens=128,features=4096,inner=14336",
    "conv_relu_pool:backward@batch=64,channels=1,height=28,width=28,filters=32",
    "unet_linear:backward@batch=64,tokens=256,features=128,units=128",
    "unet_conv2d:backward@batch=8,channels=64,height=32,width=32,filters=64",
    "resnet_block@batch=32,channels=64,height=224,width=224",
    "llama_ffw:backward@batch=2,tokens=128,features=4096,inner=14336",
    "resnet_block:backward@batch=32,channels=64,height=224,width=224",
)
"""Every operation of robust-kbench in both directions, at one workload each."""
PATIENCE = 40.0  # seconds for all rough times of a task


@dataclass(frozen=True)
class Made:
    """A candidate, and what became of its compilation: a program, or why there is none."""

    genes: Genes
    source: str
    built: GpuBuilt | str


def main() -> None:
    options = _options()
    try:
        require(CUDA)
    except KernelwrightError as error:
        raise SystemExit(f"templates_gpu.py: {error}") from None
    path: Path = options.out / "templates_gpu.json"
    report = load(path)
    gpu = nvidia.probe(CUDA.index)
    report["gpu"], came = gpu.name, provenance(gpu)
    rows = report.setdefault("rows", {})
    for ref, made in _all_made(options.tasks, options.count).items():
        swept = _roughly(ref, made)
        rows[ref] = {"rough_us": _told(made, swept), **came}
        save(path, report)
        _keep(options.keep / ref.replace(":", "_"), swept[: options.best])
        print(f"{ref}: {_line(swept)}", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="*", default=list(ROWS))
    parser.add_argument("--count", type=int, default=30, help="candidates whose rough time is taken, for each task")
    parser.add_argument("--keep", type=Path, required=True, help="where the sources of the best go")
    parser.add_argument("--best", type=int, default=2, help="how many of them are kept")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


def _all_made(refs: list[str], count: int) -> dict[str, list[Made]]:
    gpu = nvidia.probe(CUDA.index)
    target = target_of(gpu)
    pool = BuilderPool(target.architecture, 0)
    tasks = {ref: resolve(ref, "cuda") for ref in refs}
    given = {ref: (signature(task, task.public_workloads()[0]),) for ref, task in tasks.items()}
    sources = {ref: _written(task, count) for ref, task in tasks.items()}

    def compiled(ref: str, genes: Genes, source: str) -> Made:
        made = build_cuda(Candidate("cuda", source, "template"), given[ref], target, pool)
        return Made(genes, source, str(made.lines) if isinstance(made, BuildFailure) else made.built[0])

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        waiting = {ref: [threads.submit(compiled, ref, *one) for one in sources[ref]] for ref in refs}
        found = {ref: [job.result() for job in jobs] for ref, jobs in waiting.items()}
    pool.close()
    return found


def _written(task: Task, count: int) -> list[tuple[Genes, str]]:
    """The promising genes first, then others by chance; each source once."""
    proposer = make(task, "cuda")
    pool = proposer.renderer.gene_pool(proposer.plan)
    promising, chance = pool.promising(), random.Random(1)
    found: dict[str, Genes] = {}
    for number in range(8 * count):
        genes = promising[number] if number < len(promising) else pool.drawn(chance)
        found.setdefault(proposer.renderer.render(proposer.plan, genes, proposer.signatures), genes)
        if len(found) == count:
            break
    return [(genes, source) for source, genes in found.items()]


def _roughly(ref: str, made: list[Made]) -> list[tuple[float, Made]]:
    """Rough times in microseconds, the quickest first; what is wrong or fails has none. A broken context ends there."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", "benchmarks.gpu.rough_times"])  # torch takes seconds to import
    ours, theirs = context.Pipe(duplex=False)
    runnable = [one for one in made if isinstance(one.built, GpuBuilt)]
    process = context.Process(target=_call_all, args=(ref, [one.built for one in runnable], theirs), daemon=True)
    process.start()
    theirs.close()
    times: dict[int, float] = {}
    until = time.monotonic() + PATIENCE
    while ours.poll(max(0.0, until - time.monotonic())):
        try:
            number, microseconds = ours.recv()
        except EOFError:
            break
        times[number] = microseconds
    process.kill()
    process.join()
    return sorted(((us, runnable[number]) for number, us in times.items()), key=lambda pair: pair[0])


def _call_all(ref: str, built: list[GpuBuilt], channel: Connection) -> None:
    from benchmarks.gpu.rough_times import Bench

    bench = Bench(ref)
    for number, one in enumerate(built):
        microseconds = bench.time(one)
        if microseconds is not None:
            channel.send((number, microseconds))
    channel.close()


def _told(made: list[Made], times: list[tuple[float, Made]]) -> dict[str, Any]:
    failed = [{"genes": one.genes, "why": one.built} for one in made if isinstance(one.built, str)]
    return {
        "times": [{"us": us, "genes": one.genes} for us, one in times],
        "not_built": failed,
        "wrong_or_failed": len(made) - len(failed) - len(times),
    }


def _keep(folder: Path, best: list[tuple[float, Made]]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for number, (_, one) in enumerate(best):
        (folder / f"{number}.cu").write_text(one.source)


def _line(times: list[tuple[float, Made]]) -> str:
    if not times:
        return "none could be timed"
    return f"{len(times)} timed, best {times[0][0]:.2f} us {times[0][1].genes}"


if __name__ == "__main__":
    main()
