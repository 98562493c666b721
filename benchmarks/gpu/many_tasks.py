"""Opens and judges eager-like tasks from kilobytes to gigabytes in a row through one judge, and records its memory.

    python benchmarks/gpu/many_tasks.py [--device cuda] [--tasks 50] [--share 0.25] [--seed 1]

Each task is a softmax, a GELU or a row-wise mean of a size that is drawn log-uniformly between 64 KiB and `share` of
the device's limit in inputs and outputs. Values are loaded as in trials; no candidate is needed. Exit code 1 means that
the judge held more than its limit at some time, or more after a last small task than after the first one.

Writes benchmarks/results/many_tasks.json.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.shared.record import RESULTS, provenance, save  # noqa: E402

from kernelwright.devices.names import device_named  # noqa: E402
from kernelwright.errors import KernelwrightError  # noqa: E402
from kernelwright.judge.keys import judge_key  # noqa: E402
from kernelwright.judge.oracle.ledger import shown  # noqa: E402
from kernelwright.judge.oracle_client import OracleClient, close_descriptors  # noqa: E402

BODIES = ("torch.softmax(x, -1)", "torch.nn.functional.gelu(x)", "x - x.mean(-1, keepdim=True)")
SOURCE = """import torch
from kernelwright.tasks import Task, tensor
def reference(x):
    return {body}
task = Task(reference, inputs={{'x': tensor('rows', 'cols')}}, public=[{{'rows': {rows}, 'cols': 1024}}],
            hidden={{'rows': (8, {most}), 'cols': (8, 1024)}})
"""
LEAST_BYTES = 64 << 10
TRIALS = 3
SPARE = 256 << 20


def main() -> int:
    options, came = _options(), provenance()
    rows: list[dict[str, float]] = []
    chance = random.Random(options.seed)
    oracle = OracleClient(judge_key(), 1, device_named(options.device))
    with tempfile.TemporaryDirectory() as folder:
        try:
            first = _judged(oracle, Path(folder), -1, LEAST_BYTES, BODIES[0], rows)
            most = options.share * oracle.memory()["limit"]
            for number in range(options.tasks):
                size = LEAST_BYTES * (most / LEAST_BYTES) ** chance.random()
                _judged(oracle, Path(folder), number, int(size), chance.choice(BODIES), rows)
            last = _judged(oracle, Path(folder), options.tasks, LEAST_BYTES, BODIES[0], rows)
        except KernelwrightError as error:
            print(f"ended: {error}")
            return 1
        finally:
            oracle.close()
            save(RESULTS / "many_tasks.json", {**came, "tasks": rows})
    print(f"held after the first small task {shown(first)}, after the last {shown(last)}")
    return int(last > first + SPARE)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tasks", type=int, default=50)
    parser.add_argument("--share", type=float, default=0.25)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def _judged(oracle: OracleClient, folder: Path, number: int, size: int, body: str, rows: list[dict[str, float]]) -> int:
    """Bytes that the oracle holds after a few trials of a task with `size` bytes of tensors."""
    length = max(8, math.ceil(size / (2 * 4 * 1024)))
    path = folder / f"task{number + 1}.py"
    path.write_text(SOURCE.format(body=body, rows=length, most=max(64, length)))
    begin = time.perf_counter()
    task = oracle.open(str(path))
    opened = time.perf_counter() - begin
    oracle.judging(errors=False)
    needed = oracle.reserve(task, task.public, 1)
    _, descriptors = oracle.arena(task, task.public[0].workload)
    close_descriptors(descriptors)
    oracle.begin(task, task.public[0].workload, f"runner {number}")
    for _ in range(TRIALS):
        oracle.load()
    held = oracle.memory()
    print(
        f"{number:3d}  {shown(size):>10}  needs {shown(needed):>10}  holds {shown(held['used']):>10} of "
        f"{shown(held['limit'])}  opened in {opened:.1f} s",
        flush=True,
    )
    rows.append({"bytes": size, "needs": needed, "holds": held["used"], "limit": held["limit"], "opened": opened})
    if held["used"] > held["limit"]:
        raise KernelwrightError("the judge holds more than its limit")
    return int(held["used"])


if __name__ == "__main__":
    raise SystemExit(main())
