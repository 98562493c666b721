"""Prints how much of the tolerance each kernel of the corpus uses: honest ones less than half, downcasts
more than all.

    python benchmarks/tolerance_corpus.py [--seeds N] [--jobs N] [--only OPERATION]

Writes benchmarks/results/tolerance_corpus.json. About two minutes per seed and job.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path

import torch

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from corpus.measure import Row, measure  # noqa: E402
from corpus.operations import OPERATIONS, Kind, Operation  # noqa: E402
from kernelwright.judge.oracle import rounding, tolerance  # noqa: E402

CONSTANTS = {
    **{name: getattr(tolerance, name) for name in ("C_STEP", "C_EAGER", "C_ROUND", "REACH", "PROBES")},
    "MIXING": rounding.MIXING,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the corpus that fixes the judge's tolerance.")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1, help="operations measured at the same time")
    parser.add_argument("--only", help="the name of one operation; nothing is written then")
    options = parser.parse_args()
    chosen = [operation for operation in OPERATIONS if options.only in (None, operation.name)]
    rows: list[Row] = []
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        names = [operation.name for operation in chosen]
        for operation, (found, seconds) in zip(chosen, pool.map(run, names, repeat(options.seeds)), strict=True):
            show(operation, found, seconds)
            rows += found
    summary = summarise(rows)
    print("\n" + "\n".join(f"{key}: {value}" for key, value in summary.items()))
    if options.only is None:
        write(rows, summary, options.seeds)


def run(name: str, seeds: int) -> tuple[list[Row], float]:
    """On one thread: most tensors are too small for two."""
    torch.set_num_threads(1)
    operation = next(operation for operation in OPERATIONS if operation.name == name)
    start = time.perf_counter()
    return measure(operation, range(seeds), operation.task.public_workloads()), time.perf_counter() - start


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


def summarise(rows: list[Row]) -> dict[str, float | int | None]:
    honest = [row for row in rows if row.kind is Kind.HONEST]
    downcasts = [row for row in rows if row.kind is Kind.DOWNCAST]
    waits = [row.patience for row in downcasts]
    return {
        "honest trials": sum(len(row.ratios) for row in honest),
        "honest trials rejected": sum(sum(row.rejected) for row in honest),
        "largest honest ratio": max((max(row.ratios) for row in honest), default=None),
        "downcast trials": sum(len(row.ratios) for row in downcasts),
        "downcast trials rejected": sum(sum(row.rejected) for row in downcasts),
        "rotations that missed a downcast": sum(wait is None for row in downcasts for wait in row.waits),
        "most trials before a downcast was rejected": None if None in waits else max(waits, default=None),
    }


def write(rows: list[Row], summary: dict[str, float | int | None], seeds: int) -> None:
    result = {
        "torch": torch.__version__,
        "seeds": seeds,
        "constants": CONSTANTS,
        "summary": summary,
        "rows": [
            {
                "operation": row.operation,
                "variant": row.variant,
                "kind": row.kind,
                "trials": len(row.ratios),
                "rejected": sum(row.rejected),
                "least": _number(min(row.ratios)),
                "median": _number(statistics.median(row.ratios)),
                "most": _number(max(row.ratios)),
                "patience": row.patience,
            }
            for row in rows
        ],
    }
    path = HERE / "results" / "tolerance_corpus.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(f"\nwritten to {path}")


def _number(value: float) -> float | str:
    return "inf" if value == float("inf") else float(f"{value:.4g}")


if __name__ == "__main__":
    main()
