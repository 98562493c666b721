"""What the check points of built-in tasks cover, what they cost, and how long choosing them takes. For decision 30.

    python benchmarks/cpu/domain_points.py [--keys 5]

Times are those of the processor, for one key, once what follows from the task alone is known; `first` includes that.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.shared.record import RESULTS, provenance, save

from kernelwright.tasks.dims import TaskError
from kernelwright.tasks.domain import CheckPoints, PointLimits, check_points
from kernelwright.tasks.resolve import builtin_names, resolve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=5)
    keys = [key.to_bytes(32, "big") for key in range(parser.parse_args().keys)]
    where = provenance()
    rows = []
    for name in (name + suffix for name in builtin_names() for suffix in ("", ":backward")):
        for device in ("cpu", "cuda"):
            row = measured(name, device, keys)
            if row is not None:
                rows.append(row)
                print(shown(row))
    limits = PointLimits()
    stated = {"points": limits.points, "single": limits.single, "total": limits.total, "bytes": limits.bytes}
    save(RESULTS / "domain_points.json", {**where, "limits": stated, "keys": len(keys), "tasks": rows})


def measured(name: str, device: str, keys: list[bytes]) -> dict[str, Any] | None:
    """The worst of several keys for what is covered, the median for the rest; None for a task without a gradient."""
    try:
        task = resolve(name, device)
    except TaskError:
        return None
    runs: list[tuple[CheckPoints, float]] = []
    for key in keys[:1] + keys:
        begin = time.process_time()
        found = check_points(task, key)
        runs.append((found, time.process_time() - begin))
    coverages = [found.coverage for found, _ in runs]
    return {
        "task": name,
        "device": device,
        "sizes": len(task.hidden),
        "points": max(len(found.points) for found, _ in runs),
        "work": round(median(found.work for found, _ in runs[1:]), 1),
        "classes": min(coverage.classes for coverage in coverages),
        "coarse_pairs": min(coverage.coarse_pairs for coverage in coverages),
        "fine_pairs": min(coverage.fine_pairs for coverage in coverages),
        "missing": max(len(coverage.missing) for coverage in coverages),
        "first_ms": round(1e3 * runs[0][1], 1),
        "ms": round(1e3 * median(seconds for _, seconds in runs[1:]), 1),
    }


def shown(row: dict[str, Any]) -> str:
    counts = "  ".join(f"{row[what][0]} of {row[what][1]}" for what in ("classes", "coarse_pairs", "fine_pairs"))
    task = f"{row['task']:24} {row['device']:5}"
    return f"{task} {row['points']:3} points  work {row['work']:5}  {counts}  {row['ms']} ms"


if __name__ == "__main__":
    main()
