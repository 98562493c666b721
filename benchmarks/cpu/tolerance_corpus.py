"""Prints how much of the tolerance each kernel of the corpus uses: honest ones less than half, downcasts
more than all.

    python benchmarks/cpu/tolerance_corpus.py [--seeds N] [--jobs N] [--only OPERATION]

Writes benchmarks/results/tolerance_corpus.json. About two minutes per seed and job.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.shared.record import RESULTS, load, provenance, save  # noqa: E402

from corpus.measure import Row, measure  # noqa: E402
from corpus.operations import OPERATIONS, Kind, Operation, small  # noqa: E402
from kernelwright.judge.oracle.right.constants import CONSTANTS  # noqa: E402

PATH = RESULTS / "tolerance_corpus.json"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the corpus that fixes the judge's tolerance.")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1, help="operations measured at the same time")
    parser.add_argument("--small", action="store_true", help="one small workload of each operation: a minute in all")
    parser.add_argument("--only", help="the name of one operation; the others' results are kept")
    options = parser.parse_args()
    came = provenance()
    chosen = [operation for operation in OPERATIONS if options.only in (None, operation.name)]
    rows: list[dict[str, Any]] = others(options.seeds, [options.only]) if options.only else []
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        names = [operation.name for operation in chosen]
        for operation, (found, seconds) in zip(
            chosen, pool.map(run, names, repeat(options.seeds), repeat(options.small)), strict=True
        ):
            show(operation, found, seconds)
            rows += map(as_json, found)
    kept = load(PATH).get("taken", {}) if options.only else {}
    taken = {**kept, **{operation.name: came for operation in chosen}}
    write(rows, options.seeds, options.small, taken)


def run(name: str, seeds: int, few: bool) -> tuple[list[Row], float]:
    """On one thread: most tensors are too small for two."""
    torch.set_num_threads(1)
    operation = next(operation for operation in OPERATIONS if operation.name == name)
    start = time.perf_counter()
    workloads = (small(operation),) if few else operation.task.public_workloads()
    return measure(operation, range(seeds), workloads), time.perf_counter() - start


def show(operation: Operation, rows: list[Row], seconds: float) -> None:
    print(f"\n{operation.name}  ({seconds:.0f} s)")
    print(f"  {'':32}{'kind':>10}{'trials':>8}{'rejected':>10}{'ratio: least':>14}{'median':>9}{'most':>9}{'wait':>6}")
    for row in rows:
        figures = f"{min(row.ratios):14.2g}{statistics.median(row.ratios):9.2g}{max(row.ratios):9.2g}"
        wait = "never" if row.patience is None else str(row.patience)
        reason = operation.silent.get(row.variant, "") if row.kind is Kind.SILENT else ""
        print(
            f"  {row.variant:32}{row.kind:>10}{len(row.ratios):8}{sum(row.rejected):10}{figures}"
            f"{wait if row.kind is Kind.DOWNCAST else '':>6}{'  ' + reason if reason else ''}"
        )


def as_json(row: Row) -> dict[str, Any]:
    return {
        "operation": row.operation,
        "variant": row.variant,
        "kind": str(row.kind),
        "trials": len(row.ratios),
        "rejected": sum(row.rejected),
        "least": _number(min(row.ratios)),
        "median": _number(statistics.median(row.ratios)),
        "most": _number(max(row.ratios)),
        "patience": row.patience,
        "rotations_missed": sum(wait is None for wait in row.waits),
    }


def summarise(rows: list[dict[str, Any]]) -> dict[str, float | int | None]:
    honest = [row for row in rows if row["kind"] == Kind.HONEST]
    downcasts = [row for row in rows if row["kind"] == Kind.DOWNCAST]
    waits = [row["patience"] for row in downcasts]
    return {
        "honest trials": sum(row["trials"] for row in honest),
        "honest trials rejected": sum(row["rejected"] for row in honest),
        "largest honest ratio": max((float(row["most"]) for row in honest), default=None),
        "downcast trials": sum(row["trials"] for row in downcasts),
        "downcast trials rejected": sum(row["rejected"] for row in downcasts),
        "rotations that missed a downcast": sum(row["rotations_missed"] for row in downcasts),
        "most trials before a downcast was rejected": None if None in waits else max(waits, default=None),
    }


def others(seeds: int, measured: list[str]) -> list[dict[str, Any]]:
    """What is known of the operations that were not measured now, if it is of the same constants and seeds."""
    known = load(PATH)
    if (known.get("constants"), known.get("seeds"), known.get("torch")) != (
        asdict(CONSTANTS),
        seeds,
        torch.__version__,
    ):
        raise SystemExit("the results that are there are of other constants, seeds or torch: measure all operations")
    return [row for row in known["rows"] if row["operation"] not in measured]


def write(rows: list[dict[str, Any]], seeds: int, few: bool, taken: dict[str, Any]) -> None:
    result = {
        "torch": torch.__version__,
        "seeds": seeds,
        "workloads": "small" if few else "public",
        "constants": asdict(CONSTANTS),
        "summary": summarise(rows),
        "taken": taken,  # of each operation
        "rows": rows,
    }
    save(PATH, result)
    print("\n" + "\n".join(f"{key}: {value}" for key, value in summarise(rows).items()))


def _number(value: float) -> float | str:
    return "inf" if value == float("inf") else float(f"{value:.4g}")


if __name__ == "__main__":
    main()
