"""Opens every problem of a checkout of KernelBench at its own sizes, each traced afresh: how many, how fast.

    python benchmarks/kernelbench/open_problems.py CHECKOUT [--levels 1 2 3] [--only TEXT] [--again]

CHECKOUT holds level1, level2, … `seconds` are wall-clock from the file to a checked task, tracing included, in a
process that has imported torch; `cpu_seconds` are those of the opener and, as it says itself, of the tracer: a busy
machine stretches them less. `tracer_mib` is the tracer's largest resident set, `opener_peak_mib` the opener's over all
problems. Rows are saved as they come, and levels that are not named keep theirs, with the run that they are from. With
--again only problems that did not open are tried again.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.shared.common import temporary_home
from benchmarks.shared.record import RESULTS, load, provenance, save

from kernelwright.errors import KernelwrightError
from kernelwright.isolation.levels import capabilities
from kernelwright.tasks.imported.forms import bundle_of, tasks_in
from kernelwright.tasks.imported.tracer import traced
from kernelwright.tasks.resolve import resolve

RESULT = RESULTS / "kernelbench_opened.json"
RUN = ("command", "commit", "dirty", "date", "machine")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--levels", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--only", default="")
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    where, before = provenance(), load(RESULT)
    kept = {row["problem"]: row for row in before.get("problems", ()) if row["opened"] and options.again}
    rows = [row for row in before.get("problems", ()) if row["level"] not in options.levels]
    runs = {summary["level"]: _run(before, summary) for summary in before.get("levels", ())}
    runs |= dict.fromkeys(options.levels, where)
    with temporary_home():
        capabilities()  # builds the warden, which is not part of opening a task
        import torch  # noqa: F401 - nor is this

        for level in options.levels:
            for path in tasks_in(options.checkout / f"level{level}"):
                if options.only in path.name:
                    name = f"level{level}/{path.name}"
                    row = kept.get(name) or {"problem": name, "level": level, **opened(path)}
                    rows.append(row)
                    print(name, row["seconds"], row["cpu_seconds"], row.get("fault", ""), flush=True)
                    save(RESULT, report(rows, runs))


def _run(before: dict[str, Any], summary: dict[str, Any]) -> dict[str, Any]:
    """Where a level that is kept comes from; files of before had one run for all levels."""
    found: dict[str, Any] = summary.get("run") or {key: before[key] for key in RUN if key in before}
    return found


def report(rows: list[dict[str, Any]], runs: dict[int, dict[str, Any]]) -> dict[str, Any]:
    rows = sorted(rows, key=lambda row: int(row["level"]))
    levels = sorted({int(row["level"]) for row in rows})
    return {"levels": [{**summed(rows, n), "run": runs[n]} for n in levels], **memory(rows), "problems": rows}


def opened(path: Path) -> dict[str, Any]:
    began, cpu = time.perf_counter(), _cpu()
    try:
        task = resolve(str(path))
        bundle = bundle_of(path)
        spent = traced(bundle).spent if bundle is not None else None  # from the cache
        found: dict[str, Any] = {"opened": True, "arguments": len(task.inputs), "hidden": dict(task.hidden)}
        found["tracer_mib"], traced_in = (spent.peak_mib, spent.cpu_seconds) if spent else (0, 0.0)
    except KernelwrightError as error:
        traced_in = 0.0
        found = {"opened": False, "fault": str(error).replace(str(path), path.name)}
    times = {"seconds": round(time.perf_counter() - began, 2), "cpu_seconds": round(_cpu() - cpu + traced_in, 2)}
    return {**found, **times}


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def summed(rows: list[dict[str, Any]], level: int) -> dict[str, Any]:
    ours = [row for row in rows if row["level"] == level]
    good = [row for row in ours if row["opened"]]
    return {
        "level": level,
        "problems": len(ours),
        "opened": len(good),
        **{f"median_{key}": round(median(row[key] for row in good), 2) for key in ("seconds", "cpu_seconds") if good},
        **{f"most_{key}": max(row[key] for row in good) for key in ("seconds", "cpu_seconds") if good},
    }


def memory(rows: list[dict[str, Any]]) -> dict[str, Any]:
    tracer = max((row.get("tracer_mib", 0) for row in rows), default=0)
    return {"tracer_peak_mib": tracer, "opener_peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10}


if __name__ == "__main__":
    main()
