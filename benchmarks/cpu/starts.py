"""Whether a short kernel's speed depends on the start of the server. Writes benchmarks/results/starts_cpu.json.

    python benchmarks/cpu/starts.py [--starts 8] [--rows 224] [--cols 1024] [--threads 1] [--trials N] [--write FILE]

Every start is a server of its own, with one key and one cache for all: it judges one honest kernel
(examples/rmsnorm.cpp, about 100 µs at these sizes) against eager PyTorch on public workloads alone, ends, and another
one is started. Then each certificate is replayed. Intervals of all starts must overlap, or all speeds must be undecided
for the same reason; and every replay must be the same. Run it on a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "rmsnorm.cpp"
sys.path.insert(0, str(ROOT))

from benchmarks.shared import common  # noqa: E402
from benchmarks.shared.record import RESULTS, provenance, save  # noqa: E402


def command(*arguments: str, allowed: tuple[int, ...] = (0,)) -> dict[str, Any]:
    words = [sys.executable, "-m", "kernelwright.cli.main", *arguments]
    done = subprocess.run(words, env=os.environ, capture_output=True, text=True, check=False)
    if done.returncode not in allowed:
        raise SystemExit(f"{' '.join(arguments)} ended with {done.returncode}: {done.stdout[-2000:]} {done.stderr}")
    return json.loads(done.stdout) if done.stdout.startswith("{") else {}


def one_start(task: str, options: list[str]) -> dict[str, Any]:
    shown = ["--baseline", "eager", "--public-only", "--view", "auditor", "--json"]
    (verdict,) = command("judge", task, str(EXAMPLE), *shown, *options)["results"]
    command("server", "stop")
    (result,) = verdict["workloads"]
    speedup, raw = result["baselines"][0]["speedup"], result["raw_seconds"]
    return {
        "certificate": verdict["certificate"],
        "speed": result["speed"],
        "seconds": result["seconds"],
        "eager_seconds": result["baselines"][0]["seconds"],
        "speedup": [speedup["low"], speedup["mid"], speedup["high"]],
        "overhead": raw["overhead"],
        "eager_overhead": median(raw.get("eager, empty", [0.0])),
        "trials": result["trials"],
        "other_cores": (result["interference"] or {}).get("other_cores"),
    }


def replayed(task: str, start: dict[str, Any]) -> dict[str, Any]:
    report = command("replay", start["certificate"], "--task", task, "--json", allowed=(0, 1, 3))
    replay = report["replay"]
    return {"same": replay["same"], "speeds": replay["speeds"], "not_compared": replay["not_compared"]}


def summary(starts: list[dict[str, Any]], replays: list[dict[str, Any]]) -> dict[str, Any]:
    measured = [start for start in starts if start["speed"] == "measured"]
    lows, highs = [one["speedup"][0] for one in measured], [one["speedup"][2] for one in measured]
    overheads = [value for start in starts for value in start["overhead"]]
    return {
        "statuses": sorted({start["speed"] for start in starts}),
        "claims": [min(lows), max(lows)] if measured else None,
        "intervals_overlap": max(lows) <= min(highs) if measured else None,
        "overhead_us": [round(1e6 * value, 1) for value in (min(overheads), median(overheads), max(overheads))],
        "kernel_us": [round(1e6 * pick(one["seconds"] for one in starts), 1) for pick in (min, max)],
        "replays_the_same": sum(one["same"] is True for one in replays),
        "replays": len(replays),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=8)
    parser.add_argument("--rows", type=int, default=224)
    parser.add_argument("--cols", type=int, default=1024)
    parser.add_argument("--threads", type=int, default=1, help="of kernel and baseline; 0: all cores")
    parser.add_argument("--trials", type=int, default=0, help="trials per workload; by default as the noise demands")
    parser.add_argument("--write", type=Path, default=RESULTS / "starts_cpu.json")
    arguments = parser.parse_args()
    options = ["--trials", str(arguments.trials)] if arguments.trials else []
    options += ["--threads", str(arguments.threads)]
    report: dict[str, Any] = {"taken": provenance(), "sizes": [arguments.rows, arguments.cols]}
    with common.temporary_home(), tempfile.TemporaryDirectory() as folder:
        near = [(max(1, size // 2), 2 * size) for size in (arguments.rows, arguments.cols)]
        task = common.write_task(Path(folder) / "short.py", [(arguments.rows, arguments.cols)], *near)
        starts = []
        for _ in range(arguments.starts):
            starts.append(one := one_start(task, options))
            low, mid, high = one["speedup"]
            print(f"{one['speed']} {low:.2f} to {high:.2f} (mid {mid:.2f}), {1e6 * one['seconds']:.0f} µs", flush=True)
        replays = [replayed(task, one) for one in starts]
    report |= {"starts": starts, "replays": replays, "summary": summary(starts, replays)}
    save(arguments.write, report)
    print(json.dumps(report["summary"], indent=1))
    print(f"written: {arguments.write}")


if __name__ == "__main__":
    main()
