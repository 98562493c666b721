"""Optimizes every task of a suite and keeps what came of it: reports, best sources, certificates.

    python benchmarks/optimize_suite.py --device cpu --budget 30evals,4m
    python benchmarks/optimize_suite.py --device cuda --baselines eager compile-best --only rmsnorm rmsnorm:backward

Writes benchmarks/results/optimize_DEVICE.json as it goes, and for each best kernel its source and certificates under
benchmarks/results/optimized/DEVICE. A task that is in the file already is done again and replaced. The judge's key is
made for this and thrown away, since certificates tell which hidden workloads it drew. `benchmarks/results_page.py`
makes docs/results.md of it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from kernelwright.proposers.templates import make
from kernelwright.proposers.templates.graph import CannotExpressError
from kernelwright.tasks.resolve import resolve
from kernelwright.tasks.suites import suite

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
CONTRACTS = {"cpu": "cpp", "cuda": "cuda"}
SUFFIX = {"cpp": "kernel.cpp", "cuda": "kernel.cu"}


def main() -> None:
    options = _options()
    path = options.out / f"optimize_{options.device}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + options.seconds
    report: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    report["command"] = "python benchmarks/optimize_suite.py " + " ".join(sys.argv[1:])
    rows = report.setdefault("tasks", {})
    with tempfile.TemporaryDirectory(prefix="kernelwright-suite-") as home:
        for ref in options.only or suite(options.suite):
            begin = time.monotonic()
            if begin > until:
                print(ref, "left out: no time")
                continue
            rows[ref] = {**_optimized(ref, Path(home), options), "commit": _commit(), "budget": options.budget}
            rows[ref]["seconds"] = round(time.monotonic() - begin, 1)
            path.write_text(json.dumps(report, indent=1, sort_keys=True) + "\n")
            print(ref, _line(rows[ref]), flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default="robust")
    parser.add_argument("--device", choices=CONTRACTS, default="cpu")
    parser.add_argument("--budget", default="30evals,4m")
    parser.add_argument("--policy", default="islands")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--baselines", nargs="*", default=[], help="Instead of the usual ones.")
    parser.add_argument("--only", nargs="*", help="These tasks instead of the whole suite.")
    parser.add_argument("--starts", type=Path, help="Begin from the kernels in DIR/TASK.")
    parser.add_argument("--seconds", type=float, default=math.inf, help="After which no other task is begun.")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


def _optimized(ref: str, home: Path, options: argparse.Namespace) -> dict[str, Any]:
    contract = CONTRACTS[options.device]
    try:
        make(resolve(ref, options.device), contract)
    except CannotExpressError as error:
        return {"covered": False, "why": str(error)}
    command = [sys.executable, "-m", "kernelwright.cli.main", "optimize", ref, "--device", options.device]
    command += ["--budget", options.budget, "--policy", options.policy, "--seed", str(options.seed)]
    command += ["--runs", str(home / "runs"), "--json"]
    command += [word for name in options.baselines for word in ("--baseline", name)]
    starts = sorted((options.starts / ref.replace(":", "_")).glob("*")) if options.starts else []
    command += [word for path in starts for word in ("--start", str(path))]
    environment = {**os.environ, "KERNELWRIGHT_HOME": str(home / "home")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        return {"covered": True, "failed": done.stderr.strip().splitlines()[-3:]}
    found = json.loads(done.stdout)
    folder = options.out / "optimized" / options.device / ref.replace(":", "_")
    return {"covered": True, "report": _lean(found), **_kept(found, folder, home)}


def _kept(found: dict[str, Any], folder: Path, home: Path) -> dict[str, Any]:
    """The source of the best and its certificates, copied to where they stay."""
    shutil.rmtree(folder, ignore_errors=True)
    best = found["best"]
    if best is None:
        return {}
    folder.mkdir(parents=True)
    for path in (Path(found["run"]) / "best").iterdir():
        if path.name in (*SUFFIX.values(), "plan.py"):
            shutil.copy(path, folder / path.name)
    for name in best["certificates"]:
        for path in (home / "home").rglob(f"{name}*"):
            shutil.copy(path, folder / path.name)
    return {"kept": sorted(path.name for path in folder.iterdir())}


def _lean(found: dict[str, Any]) -> dict[str, Any]:
    """Without what the certificates hold anyway, and without this machine's paths."""
    best = found["best"]
    if best is not None:
        for result in best["verdict"]["workloads"]:
            result.pop("raw_seconds", None)
    return {**found, "run": Path(found["run"]).name}


def _line(row: dict[str, Any]) -> str:
    if not row["covered"]:
        return f"not covered: {row['why']}"
    if "failed" in row:
        return f"failed: {row['failed']}"
    best = row["report"]["best"]
    return f"{best['score']:.2f} over the best baseline" if best else f"no best ({row['report']['detail']})"


def _commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


if __name__ == "__main__":
    main()
