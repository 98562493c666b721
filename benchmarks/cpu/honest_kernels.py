"""Every honest kernel under several keys: how often is one rejected?

    python benchmarks/cpu/honest_kernels.py [--keys 10] [--kernels N] [--streams 1]

Each key draws other hidden workloads and other values; a judging has three public and three hidden workloads with five
calls each, the sanitized ones aside. The tasks are the built-in ones with an eighth of their rows (of whatever size
comes first), because values are drawn anew for every key and that is what takes the time.

Writes benchmarks/results/honest_kernels.json.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "tests" / "kernels"
sys.path.insert(0, str(ROOT))

from benchmarks.shared.common import temporary_home  # noqa: E402
from benchmarks.shared.record import RESULTS, provenance, save  # noqa: E402
from benchmarks.shared.streams import side_by_side  # noqa: E402

from kernelwright.contracts.candidate import read_candidate  # noqa: E402
from kernelwright.judge.controller import Judge  # noqa: E402
from kernelwright.judge.settings import Settings  # noqa: E402
from kernelwright.judge.timing.measure import Sampling  # noqa: E402
from kernelwright.judge.verdict import Outcome  # noqa: E402

THIN = """
from dataclasses import replace
from kernelwright.tasks.resolve import resolve

base = resolve("{name}")
first = next(iter(base.public[0]))
task = replace(
    base,
    public=[{{**sizes, first: max(2, sizes[first] // 8)}} for sizes in base.public],
    hidden={{name: (max(2, low // 8), max(3, high // 8)) if name == first else (low, high)
            for name, (low, high) in dict(base.hidden).items()}},
)
"""


def thin_task(folder: str, home: Path) -> str:
    """The task of a folder of kernels, with fewer rows."""
    name = folder.removesuffix("_backward")
    path = home / f"{name}.py"
    path.write_text(THIN.format(name=name))
    return f"{path}:backward" if folder.endswith("_backward") else str(path)


def judge_all(options: argparse.Namespace, home: Path) -> dict[str, Any]:
    keys, stream, limit = options.keys, options.stream, options.seconds
    every = sorted(KERNELS.glob("*/*.cpp"))
    wanted = min(options.kernels or len(every), len(every))
    kernels = [every[number * len(every) // wanted] for number in range(wanted)]
    accepted = {str(path.relative_to(KERNELS)): 0 for path in kernels}
    others, calls, begin = [], 0, time.perf_counter()
    done = 0
    for number in range(keys):
        if time.perf_counter() - begin > limit:
            break
        done += 1
        with Judge(Settings(baselines=(), effort=Sampling(least=3, most=3), key=os.urandom(32))) as judge:
            for path in kernels:
                name = str(path.relative_to(KERNELS))
                verdict = judge.judge(thin_task(path.parent.name, home), read_candidate(path, "cpp"))
                calls += sum(result.trials for result in verdict.workloads)
                if verdict.verdict is Outcome.accepted:
                    accepted[name] += 1
                else:
                    others.append({"kernel": name, "verdict": json.loads(verdict.model_dump_json())})
        print(f"stream {stream}, key {number + 1} of {keys}: {len(others)} not accepted", flush=True)
    seconds = time.perf_counter() - begin
    return {"keys": done, "accepted": accepted, "not_accepted": others, "checked_calls": calls, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=10)
    parser.add_argument("--kernels", type=int, help="so many of them, spread evenly; all by default")
    parser.add_argument("--streams", type=int, default=1, help="how many share the keys, on two cores each")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no other key after so long")
    parser.add_argument("--stream", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stream is not None:
        with temporary_home() as home:
            save(options.write, judge_all(options, home))
        return
    came = provenance()
    each = -(-options.keys // options.streams)
    chosen = ["--kernels", str(options.kernels)] if options.kernels else []
    shared = ["--keys", str(each), "--seconds", str(options.seconds), *chosen]
    parts = side_by_side(__file__, options.streams, shared)
    kernels = parts[0]["accepted"]
    report = {
        **came,
        "kernels": len(kernels),
        "keys": sum(part["keys"] for part in parts),
        "judgings": len(kernels) * sum(part["keys"] for part in parts),
        "checked_calls": sum(part["checked_calls"] for part in parts),
        "accepted": {name: sum(part["accepted"][name] for part in parts) for name in kernels},
        "not_accepted": [one for part in parts for one in part["not_accepted"]],
        "seconds": [part["seconds"] for part in parts],
    }
    save(RESULTS / "honest_kernels.json", report)
    print(f"{report['judgings']} judgings, {len(report['not_accepted'])} not accepted")


if __name__ == "__main__":
    main()
