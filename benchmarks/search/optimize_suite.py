"""Optimizes every task of a suite and keeps what came of it: reports, best sources, certificates.

    python benchmarks/search/optimize_suite.py --device cpu --budget 30evals,4m
    python benchmarks/search/optimize_suite.py --device cuda --baselines eager compile-best --only rmsnorm
    python benchmarks/search/optimize_suite.py --device cpu --machine epyc --only linear linear:backward

Writes benchmarks/results/optimize_DEVICE.json as it goes, and for each best kernel its source and certificates into
benchmarks/results/optimized_DEVICE.tar.xz. With --machine, DEVICE is followed by that name: results of two machines
stay apart. A task that is in the file already is done again and replaced. The judge's
key is made for this and thrown away, since certificates tell which hidden workloads it drew.
`benchmarks/pages/results_page.py` makes docs/results.md of it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.shared.kept import changing, folder_of, optimized  # noqa: E402
from benchmarks.shared.record import RESULTS, load, provenance, save  # noqa: E402

from kernelwright.proposers.templates import make  # noqa: E402
from kernelwright.proposers.templates.graph import CannotExpressError  # noqa: E402
from kernelwright.tasks.catalogue import suite  # noqa: E402
from kernelwright.tasks.resolve import resolve  # noqa: E402

CONTRACTS = {"cpu": "cpp", "cuda": "cuda"}
SUFFIX = {"cpp": "kernel.cpp", "cuda": "kernel.cu"}


def main() -> None:
    options = _options()
    path = RESULTS / f"optimize_{options.kept}.json"
    report, came = load(path), provenance()
    rows = report.setdefault("tasks", {})
    with tempfile.TemporaryDirectory(prefix="kernelwright-suite-") as home:
        for ref in options.only or suite(options.suite):
            begin = time.monotonic()
            rows[ref] = {**_optimized(ref, Path(home), options), **came, "budget": options.budget}
            rows[ref]["seconds"] = round(time.monotonic() - begin, 1)
            save(path, report, sort_keys=True)
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
    parser.add_argument("--machine", default="", help="A name for this machine, if another's results are there.")
    options = parser.parse_args()
    options.kept = f"{options.device}_{options.machine}" if options.machine else options.device
    return options


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
    environment = {**os.environ, "KERNELWRIGHT_HOME": str(home / "home")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        return {"covered": True, "failed": done.stderr.strip().splitlines()[-3:]}
    found = json.loads(done.stdout)
    return {"covered": True, "report": _lean(found), **_kept(found, ref, home, options)}


def _kept(found: dict[str, Any], ref: str, home: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The source of the best and its certificates, put into the archive in place of those of before."""
    with changing(optimized(options.kept)) as root:
        folder = root / folder_of(ref)
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
        best = {key: value for key, value in best.items() if key != "verdict"}
    return {**found, "best": best, "run": Path(found["run"]).name}


def _line(row: dict[str, Any]) -> str:
    if not row["covered"]:
        return f"not covered: {row['why']}"
    if "failed" in row:
        return f"failed: {row['failed']}"
    best = row["report"]["best"]
    return f"{best['score']:.2f} over the best baseline" if best else f"no best ({row['report']['detail']})"


if __name__ == "__main__":
    main()
