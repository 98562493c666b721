"""Opens every task of a checkout in any form, each traced afresh: which share opens, how fast, and why others do not.

    python benchmarks/imported/open_tasks.py CHECKOUT RESULT [--only TEXT] [--again] [--backward]

RESULT is a name below benchmarks/results. `seconds` are wall-clock from the files to a checked task, tracing included,
in a process that has imported torch; `cpu_seconds` those of the opener and, as it says itself, of the tracer. With
--again tasks that opened before are kept, with the run that they are from, and the rest is tried again; with --backward
the gradient is derived as well.
"""

from __future__ import annotations

import argparse
import re
import resource
import sys
import time
from collections import Counter
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("result")
    parser.add_argument("--only", default="")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--backward", action="store_true")
    options = parser.parse_args()
    result = RESULTS / options.result
    where = provenance()
    before = load(result) if options.again else {}
    run = {key: before[key] for key in ("commit", "dirty", "date") if key in before}
    kept = {row["task"]: {"run": run, **row} for row in before.get("tasks", ()) if row["opened"]}
    rows: list[dict[str, Any]] = []
    with temporary_home():
        capabilities()  # builds the warden, which is not part of opening a task
        import torch  # noqa: F401 - nor is this

        for path in tasks_in(options.checkout):
            name = str(path.relative_to(options.checkout))
            if options.only not in name:
                continue
            row = kept.get(name) or {"task": name, **opened(path, backward=options.backward)}
            rows.append(row)
            print(name, row["seconds"], row.get("fault", ""), row.get("backward", ""), flush=True)
            save(result, {**where, **summed(rows), "tasks": rows})


def opened(path: Path, *, backward: bool) -> dict[str, Any]:
    began, cpu = time.perf_counter(), _cpu()
    found: dict[str, Any]
    traced_in = 0.0
    try:
        bundle = bundle_of(path)
        task = resolve(_ref(path))
        problem = traced(bundle) if bundle is not None else None  # from the cache
        found = {"opened": True, "form": bundle.form if bundle else "", "arguments": list(task.inputs)}
        found |= {"public": len(task.public), "hidden": dict(task.hidden)}
        if problem is not None:
            found |= {"settings": len(problem.settings), "apart": len(problem.apart), "notes": list(problem.notes)}
            traced_in = problem.spent.cpu_seconds if problem.spent else 0.0
    except KernelwrightError as error:
        found = {"opened": False, "fault": _shown(error, path)}
    times = {"seconds": round(time.perf_counter() - began, 2), "cpu_seconds": round(_cpu() - cpu + traced_in, 2)}
    if backward and found["opened"]:
        try:
            found["backward"] = len(resolve(f"{_ref(path)}:backward").outputs)
        except KernelwrightError as error:
            found["backward"] = _shown(error, path)
    return {**found, **times}


def _ref(path: Path) -> str:
    return str(path) if "/" in str(path) else f"./{path}"


def _shown(error: Exception, path: Path) -> str:
    return str(error).replace(f"{path.absolute()}", path.name)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def summed(rows: list[dict[str, Any]]) -> dict[str, Any]:
    good = [row for row in rows if row["opened"]]
    reasons = Counter(_reason(row["fault"]) for row in rows if not row["opened"])
    return {
        "count": len(rows),
        "opened": len(good),
        **{f"median_{key}": round(median(row[key] for row in good), 2) for key in ("seconds", "cpu_seconds") if good},
        "reasons": dict(reasons.most_common()),
    }


def _reason(fault: str) -> str:
    """The fault without the file and what is particular to it."""
    text = re.sub(r"^\S+: (this problem cannot be traced in the sandbox: )?", "", fault)
    return re.sub(r" \([^()]*:\d+\)|; --trust-task.*| \(line \d+\)", "", text)[:160]


if __name__ == "__main__":
    main()
