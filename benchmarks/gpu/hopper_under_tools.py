"""Ten honest kernels that use what only Hopper has, judged in full, and one that is slow under a tool beside a caller.

    python benchmarks/gpu/hopper_under_tools.py [--only tools judged waiting] [--kernels bulk_store]
    python benchmarks/gpu/hopper_under_tools.py --build     # without a GPU: compiles them and checks their launches

`tools`: each sanitizer on each kernel, alone and side by side, with copies apart from the arena and beside it
(`KERNELWRIGHT_TOOL_COPIES`): seconds, findings, and what did not end. `judged`: verdicts with all checks on. `waiting`:
while a kernel that a tool does not get to the end of is judged, another caller asks the same server to judge an honest
one; how long each of them takes.

Writes benchmarks/results/hopper_under_tools.json, kernel by kernel; those of the same commit are not taken again, so
that a run that was ended may be continued. No result of it is in the repository yet.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.gpu.gpu_run import CUDA, in_short  # noqa: E402
from benchmarks.shared.record import RESULTS, load, provenance, save  # noqa: E402

from kernelwright.contracts import Candidate  # noqa: E402
from kernelwright.contracts.cuda.toolchain.build import GpuBuild, build_cuda  # noqa: E402
from kernelwright.contracts.cuda.toolchain.builder import BuilderPool  # noqa: E402
from kernelwright.contracts.cuda.toolchain.cubin import parameter_sizes  # noqa: E402
from kernelwright.contracts.registry import read_source  # noqa: E402
from kernelwright.contracts.target import HOPPER, Target, target_of  # noqa: E402
from kernelwright.devices import nvidia  # noqa: E402
from kernelwright.judge.controller import Judge  # noqa: E402
from kernelwright.judge.gpu.client import COPIES  # noqa: E402
from kernelwright.judge.gpu.health import helper_kernels  # noqa: E402
from kernelwright.judge.gpu.inspectors import Inspectors  # noqa: E402
from kernelwright.judge.gpu.sanitize import Inspection, Tool  # noqa: E402
from kernelwright.judge.keys import judge_key  # noqa: E402
from kernelwright.judge.launcher.copies import APART, BESIDE  # noqa: E402
from kernelwright.judge.oracle_client import OracleClient, close_descriptors  # noqa: E402
from kernelwright.judge.settings import Settings  # noqa: E402
from kernelwright.tasks.model import Signature, TensorSpec  # noqa: E402

HERE = Path(__file__).parent / "hopper"
OUTPUT = RESULTS / "hopper_under_tools.json"
SLOW, HONEST = "slow_under_tools", "bulk_load"
TASKS = {"wgmma": "product", "bulk_reduce": "totals"}  # all others multiply rows
KERNELS = tuple(sorted(path.stem for path in HERE.glob("*.cu") if path.stem != SLOW))
DEADLINE = 60.0
WORD = 0x7FF17FF3
KERNELWRIGHT = (sys.executable, "-c", "from kernelwright.cli.main import main; main()")


def source(name: str) -> str:
    """The kernel with what all of them share, as one file."""
    return (HERE / "prelude.cuh").read_text() + (HERE / f"{name}.cu").read_text()


def task(name: str) -> str:
    return str(HERE / f"{TASKS.get(name, 'rows')}.py")


def candidate(name: str, folder: Path) -> Candidate:
    path = folder / f"{name}.cu"
    path.write_text(source(name))
    return read_source(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", action="store_true", help="no GPU: compile the kernels and check their launches")
    parser.add_argument("--only", nargs="+", choices=tuple(SECTIONS), default=tuple(SECTIONS))
    parser.add_argument("--kernels", nargs="+", choices=KERNELS, default=KERNELS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.build:
            for row in compiled((*options.kernels, SLOW), folder):
                print(row, flush=True)
            return 0
        report: dict[str, Any] = load(OUTPUT)
        came = provenance(nvidia.probe(0))
        for section in options.only:
            if report.get(section, {}).get("commit") != came["commit"]:
                report[section] = {**came, "rows": []}
            rows = report[section]["rows"]
            taken = {row["kernel"] for row in rows}
            for names in [(one,) for one in options.kernels] if section != "waiting" else [(SLOW,)]:
                if taken.isdisjoint(names):
                    rows += SECTIONS[section](names, folder)
                    save(OUTPUT, report)
    return 0


# --- without a GPU ---------------------------------------------------------------------------------------------------


def signature(name: str, rows: int) -> Signature:
    """Of the task at a number of rows, as the oracle would give it."""
    if name == "wgmma":
        shapes, dtype = {"a": (rows, 256), "b": (128, 256), "out": (rows, 128)}, "bfloat16"
    elif name == "bulk_reduce":
        shapes, dtype = {"x": (rows, 1024), "out": (1024,)}, "float32"
    else:
        shapes, dtype = {"x": (rows, 1024), "weight": (1024,), "out": (rows, 1024)}, "float32"
    return Signature(
        tuple(
            TensorSpec(
                key, dtype, shape, (shape[1], 1) if len(shape) == 2 else (1,), "output" if key == "out" else "input"
            )
            for key, shape in shapes.items()
        )
    )


def compiled(names: tuple[str, ...], folder: Path, target: Target = HOPPER) -> list[dict[str, Any]]:
    """What builder and driver would be given at three sizes: kernels, registers, spills; and that arguments fit."""
    pool, rows = BuilderPool(target.architecture), []
    try:
        for name in names:
            made = build_cuda(
                candidate(name, folder), tuple(signature(name, m) for m in (2048, 101, 4999)), target, pool
            )
            if not isinstance(made, GpuBuild):
                raise SystemExit(f"{name} does not build: {' | '.join(made.lines)}")
            for built in made.built:
                sizes = parameter_sizes(built.modules[0])
                for step in built.program.launches:
                    given = tuple(argument.size for argument in step.arguments)
                    assert sizes[step.function] == given, (name, sizes[step.function], given)
            rows.append({"kernel": name, "spills": [one.spill_stores for one in made.built[0].kernels]})
    finally:
        pool.close()
    return rows


# --- on a GPU --------------------------------------------------------------------------------------------------------


def tools(names: tuple[str, ...], folder: Path) -> list[dict[str, Any]]:
    gpu = nvidia.probe(0)
    target, rows = target_of(gpu), []
    helpers, pool = helper_kernels(target.architecture), BuilderPool(target.architecture)
    oracle = OracleClient(judge_key(), 4, CUDA)
    inspectors = Inspectors(helpers, 0, 0, nullcontext)
    try:
        for name in names:
            opened = oracle.open(task(name))
            spec = opened.public[0]
            made = build_cuda(candidate(name, folder), (spec.signature,), target, pool)
            assert isinstance(made, GpuBuild), made.lines
            built = made.built[0]
            oracle.judging(errors=False)
            _, descriptors = oracle.arena(opened, spec.workload)
            for copies in (APART, BESIDE):
                os.environ[COPIES] = copies
                for chosen in (*((tool,) for tool in Tool), tuple(Tool)):
                    oracle.begin(opened, spec.workload, f"{name} {copies} {chosen}")
                    oracle.load()
                    begin = time.monotonic()
                    found = inspectors.inspect(
                        chosen, built.program, built.modules, descriptors, WORD, DEADLINE, "kernel.cu"
                    )
                    row = {
                        "kernel": name,
                        "copies": copies,
                        "tools": "+".join(chosen),
                        "seconds": time.monotonic() - begin,
                        "said": [_said(one) for one in found],
                        "wrong": bool(oracle.check()),
                    }
                    print(row, flush=True)
                    rows.append(row)
            del os.environ[COPIES]
            close_descriptors(descriptors)
    finally:
        inspectors.close()
        oracle.close()
        pool.close()
    return rows


def _said(one: Inspection) -> str:
    if one.findings:
        return one.findings[0].describe("kernel.cu")
    return one.failed or (f"{one.fault.kind}: {one.fault.message}" if one.fault else "nothing found")


def judged(names: tuple[str, ...], folder: Path) -> list[dict[str, Any]]:
    rows = []
    with Judge(Settings(baselines=("eager",), device=CUDA)) as judge:
        for name in names:
            row = in_short(judge.judge(task(name), candidate(name, folder)))
            print(
                name, row["verdict"], row["reason"], row["conditions"]["safety"], f"{row['seconds']:.0f} s", flush=True
            )
            rows.append({"kernel": name, **row})
    return rows


def waiting(_: tuple[str, ...], folder: Path) -> list[dict[str, Any]]:
    """Two callers of one server, in a home of its own."""
    environment = {**os.environ, "KERNELWRIGHT_HOME": str(folder / "home")}

    def call(name: str, after: float) -> dict[str, Any]:
        time.sleep(after)
        (folder / f"{name}.cu").write_text(source(name))
        command = [*KERNELWRIGHT, "judge", task(name), str(folder / f"{name}.cu")]
        begin = time.monotonic()
        done = subprocess.run(
            [*command, "--device", "cuda", "--baseline", "eager", "--json"],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return {
            "kernel": name,
            "seconds": time.monotonic() - begin,
            "code": done.returncode,
            "said": _last(done.stdout),
        }

    warm = call(HONEST, 0.0)
    with ThreadPoolExecutor(2) as pool:
        rows = [warm, *pool.map(call, (SLOW, HONEST), (0.0, 2.0))]
    subprocess.run([*KERNELWRIGHT, "server", "stop"], env=environment, check=False)
    for row in rows:
        print(row, flush=True)
    return rows


def _last(text: str) -> Any:
    try:
        return json.loads(text.strip().splitlines()[-1])
    except (IndexError, ValueError):
        return text[-500:]


SECTIONS = {"tools": tools, "judged": judged, "waiting": waiting}

if __name__ == "__main__":
    raise SystemExit(main())
