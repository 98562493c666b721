"""What a quick judging costs beside its trials, where no GPU is needed to know: the `judge` command with a server that
answers at once, builds of a CUDA kernel, and headers of CUDA read or loaded precompiled. Writes
benchmarks/results/quicker_cpu.json.

    python benchmarks/cpu/quicker.py [--before CHECKOUT] [--calls 20] [--builds 10] [--write FILE]

`--before` names a checkout of another commit, or a copy of one (BEFORE_COMMIT says then which): both are measured in
turn, so that whatever else the machine does meets both. Processor time is the command's own; the wall time of a build
is that of the build call, with the builders and evaluators waiting that a judge of 16 cores keeps, and the public
workloads built before the hidden ones; `beside` builds them side by side, as a judge with cores to spare does.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

SPARE = 3  # builders that a judge of 12 cores or more keeps waiting
SETTLE = 3.0  # seconds for what was started to be ready
SOURCE = ROOT / "examples" / "rmsnorm.cpp"
KERNEL = ROOT / "tests" / "kernels_cuda" / "rmsnorm_vector"
HEADERS = ("cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h", "mma.h", "cooperative_groups.h")
PUBLIC, HIDDEN = ((1024, 4096), (64, 128)), ((511, 2901), (1039, 2049), (655, 2819))


def canned() -> dict[str, Any]:
    """An accepted verdict of five workloads."""
    from kernelwright.judge.verdict import (
        BaselineTime,
        Conditions,
        IntervalValue,
        Outcome,
        Reason,
        SpeedStatus,
        Stage,
        Verdict,
        WorkloadResult,
    )

    speedup = IntervalValue(low=1.9, mid=2.0, high=2.1)
    workloads = tuple(
        WorkloadResult(
            label=f"rows={rows} cols={cols}",
            sizes={"rows": rows, "cols": cols},
            dtype="float32",
            hidden=(rows, cols) in HIDDEN,
            speed=SpeedStatus.measured,
            trials=12,
            seconds=1e-4,
            baselines=(BaselineTime(baseline="eager", seconds=2e-4, speedup=speedup),),
            raw_seconds={"candidate": (1e-4,) * 12, "eager": (2e-4,) * 12},
        )
        for rows, cols in (*PUBLIC, *HIDDEN)
    )
    verdict = Verdict(
        candidate="c", name="rmsnorm.cpp", task="rmsnorm", contract="cpp", verdict=Outcome.accepted,
        stage=Stage.complete, reason=Reason.right, workloads=workloads, seconds=0.5,
        conditions=Conditions(sandbox="full", arena="sealed", safety="none", device="cpu", threads=2,
                              judge_version="0", compiler="g"),
    )  # fmt: skip
    return verdict.model_dump(mode="json")


def serve() -> None:
    """A server that has every verdict ready."""
    from kernelwright.isolation.channel import Channel, ChannelClosed
    from kernelwright.judge.server import address, server

    verdict = canned()
    listener = address.listen(address.address().socket)
    print("ready", flush=True)
    while True:
        channel = Channel(listener.accept()[0])
        channel.send(server.Greeting(code=greeted(), version=server.__version__).model_dump())
        try:
            while True:
                request, _ = channel.receive()
                judging = request["request"] == "judge"
                channel.send({"ahead": 0})
                channel.send({"done": True, "verdict": verdict} if judging else {"done": True})
        except ChannelClosed:
            channel.close()


def greeted() -> str:
    """What a caller expects to be greeted with."""
    from kernelwright.judge import keys

    return str(getattr(keys, "code_stamp", keys.code_hash)())


def builds(count: int) -> None:
    """Prints one line of JSON for each candidate."""
    from concurrent.futures import ThreadPoolExecutor

    from benchmarks.shared.common import variant

    from kernelwright.contracts.cuda.toolchain.build import CudaToolchain
    from kernelwright.contracts.model import GpuBuild
    from kernelwright.contracts.target import HOPPER
    from kernelwright.tasks.model import ScalarSpec, Signature, TensorSpec

    def signature(rows: int, cols: int) -> Signature:
        x = TensorSpec("x", "float32", (rows, cols), (cols, 1), "input")
        weight = TensorSpec("weight", "float32", (cols,), (1,), "input")
        out = TensorSpec("out", "float32", (rows, cols), (cols, 1), "output")
        return Signature((x, weight, ScalarSpec("eps", 1e-6), out))

    groups = [tuple(signature(*size) for size in sizes) for sizes in (PUBLIC, HIDDEN)]
    toolchain = CudaToolchain(HOPPER, SPARE)
    with ThreadPoolExecutor(2) as threads:
        for _ in range(count):
            seconds = {}
            for name, side_by_side in (("in turn", False), ("beside", True)):
                time.sleep(SETTLE)
                candidate, begin = variant(KERNEL), time.perf_counter()
                build = lambda group, one=candidate: toolchain.build(one, group)  # noqa: E731
                made = list(threads.map(build, groups)) if side_by_side else [build(group) for group in groups]
                seconds[name] = time.perf_counter() - begin
                assert all(isinstance(one, GpuBuild) for one in made), made
                toolchain.refill()
            print(json.dumps(seconds), flush=True)
    toolchain.close()


def headers() -> None:
    """Prints one line of JSON: processor seconds of a compile with one header, by how a builder has it."""
    from kernelwright.contracts.cuda.confined.compiler import Compiler
    from kernelwright.contracts.cuda.toolchain.builder import fixed_options

    kernel = 'extern "C" __global__ void f(float* x) { x[0] = 1; }'
    with tempfile.TemporaryDirectory() as scratch:
        for name, known in (("read", ()), ("precompiled", HEADERS)):
            begin = time.process_time()
            start = {"headers": list(known), "options": fixed_options("sm_90a"), "scratch": scratch}
            compiler = Compiler(start)
            found = {"ready": time.process_time() - begin}
            for header in HEADERS:
                request = {"source": f"#include <{header}>\n{kernel}", "kernels": ["f"], "definitions": []}
                begin, product = time.process_time(), os.memfd_create("cubin")
                assert "names" in compiler.answer({**request, "options": ["--std=c++17"]}, product)
                found[header] = time.process_time() - begin
                os.close(product)
            print(json.dumps({"name": name, "seconds": found}), flush=True)


def environment(tree: Path, home: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{tree / 'src'}:{ROOT}", "KERNELWRIGHT_HOME": str(home)}


def called(tree: Path, home: Path) -> dict[str, float]:
    """One command: what it took by the clock and of the processors."""
    command = [sys.executable, "-m", "kernelwright.cli.main", "judge", "rmsnorm", str(SOURCE), "--json"]
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, env=environment(tree, home), capture_output=True, text=True, check=False)
    seconds, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return {"seconds": seconds, "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}


def commands(trees: dict[str, Path], count: int, folder: Path) -> dict[str, list[dict[str, float]]]:
    found: dict[str, list[dict[str, float]]] = {name: [] for name in trees}
    servers = []
    try:
        for name, tree in trees.items():
            script = [sys.executable, __file__, "--serve"]
            environ = environment(tree, folder / name)
            process = subprocess.Popen(script, env=environ, stdout=subprocess.PIPE, text=True)
            servers.append(process)
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
        for _ in range(count + 1):
            for name, tree in trees.items():
                found[name].append(called(tree, folder / name))
    finally:
        for process in servers:
            process.kill()
            process.wait()
    return {name: calls[1:] for name, calls in found.items()}  # without the first, which compiles Python's modules


def built(trees: dict[str, Path], count: int, folder: Path) -> dict[str, list[dict[str, float]]]:
    """A candidate in each tree in turn, by a process that stays up."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in trees}
    for at in range(0, count, 2):
        for name, tree in trees.items():
            script = [sys.executable, __file__, "--build", str(min(2, count - at))]
            done = subprocess.run(
                script, env=environment(tree, folder / name), capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                raise SystemExit(done.stderr)
            found[name] += [json.loads(line) for line in done.stdout.splitlines()]
    return found


def summary(rows: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    from statistics import median

    return {
        key: {"median": median(row[key] for row in rows), "least": min(row[key] for row in rows)} for key in rows[0]
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--builds", type=int, default=10)
    parser.add_argument("--write", type=Path, default=ROOT / "benchmarks" / "results" / "quicker_cpu.json")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--build", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--headers", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve()
    if arguments.headers:
        headers()
        return
    if arguments.build:
        builds(arguments.build)
        return

    from benchmarks.shared.record import provenance, revision, save

    report: dict[str, Any] = {"taken": provenance()}
    trees = {"now": ROOT}
    if arguments.before is not None:
        trees = {"before": arguments.before.resolve(), **trees}
        report["before"] = os.environ.get("BEFORE_COMMIT") or revision(trees["before"])["commit"]
    with tempfile.TemporaryDirectory() as name:
        for what, measure, count in (("commands", commands, arguments.calls), ("builds", built, arguments.builds)):
            if count:
                rows = measure(trees, count, Path(name))
                short = {tree: summary(found) for tree, found in rows.items()}
                report[what] = {"rows": rows, "summary": short}
                print(what, json.dumps(short, indent=1), flush=True)
        read = subprocess.run(
            [sys.executable, __file__, "--headers"], env=environment(ROOT, Path(name)), capture_output=True, check=True
        )
        report["headers"] = {row["name"]: row["seconds"] for row in map(json.loads, read.stdout.splitlines())}
    save(arguments.write, report)


if __name__ == "__main__":
    main()
