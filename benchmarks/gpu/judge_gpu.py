"""Measures the judge on an NVIDIA GPU and writes benchmarks/results/judge_gpu.json, section by section as it goes.

    python benchmarks/gpu/judge_gpu.py [--out DIR] [--only SECTION ...] [--seconds N] [--tasks TASK ...]
        [--robust-kbench CHECKOUT [--kernels TASK_FOLDER:SOURCE ...]]

Every section ends by itself when its share of `--seconds` is spent and says what it left out. A section that fails
is recorded as such, and the others go on.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.gpu.gpu_rows import rows  # noqa: E402
from benchmarks.gpu.gpu_run import CUDA, EXAMPLE, EXPLOITS, KERNELS, Run, in_short, row, settings  # noqa: E402
from benchmarks.gpu.kbench_harness import harness  # noqa: E402
from benchmarks.shared.common import temporary_home, timed, variant  # noqa: E402
from benchmarks.shared.record import RESULTS, gpu_facts, load, provenance, save  # noqa: E402

from kernelwright.contracts.registry import read_source  # noqa: E402
from kernelwright.devices import nvidia  # noqa: E402
from kernelwright.devices.names import require  # noqa: E402
from kernelwright.errors import KernelwrightError  # noqa: E402
from kernelwright.judge.controller import Judge  # noqa: E402
from kernelwright.judge.server.client import stop_all  # noqa: E402
from kernelwright.judge.settings import MOST_UPCOMING  # noqa: E402
from kernelwright.judge.timing import statistics  # noqa: E402
from kernelwright.judge.timing.measure import Sampling  # noqa: E402
from kernelwright.judge.timing.statistics import median  # noqa: E402
from kernelwright.judge.verdict import Outcome, Verdict  # noqa: E402

SIZES = ((1024, 4096), (64, 128))
BY_DURATION = ((64, 128), (256, 1024), (1024, 2048), (1024, 4096), (4096, 4096), (16384, 4096), (32768, 8192))
HOSTILE = (
    *("illegal_null", "write_input", "past_end_far", "illegal_trap", "partial_half", "zeros"),
    *("illegal_stack", "cache_workspace", "read_past_end", "launch_too_much_shared", "not_a_number"),
)
HARMLESS = {"hog_device_heap": "its results are right, and the memory that it takes goes with its process"}
TIRING = ("endless", "endless_deadlock", *HARMLESS)  # each takes seconds


def commands(run: Run) -> dict[str, Any]:
    """Single `judge` calls with a server, a new process and a new source each, hidden workloads included."""
    found: dict[str, Any] = {"called": "kernelwright judge"}
    for name, safety, count in (("eager", False, 14), ("eager, sanitizers", True, 8)):
        calls: list[dict[str, Any]] = []
        for number in range(count + 1):
            if run.over:
                break
            path = run.folder / f"candidate{time.time_ns()}.cu"
            path.write_text(variant(EXAMPLE).source)
            seconds, verdict = timed(partial(_call, run.task(SIZES), path, safety=safety))
            entry = {"warm": number > 0, "seconds": seconds, "judging": verdict["seconds"]}
            calls.append({**entry, "verdict": verdict["verdict"], "stages": verdict["stage_seconds"]})
            print(f"  {name}: {seconds:.2f} s, of which judging {verdict['seconds']:.2f} s", flush=True)
        warm = [entry for entry in calls if entry["warm"]]
        found[name] = {"calls": calls}
        if warm:
            found[name]["median_seconds"] = median([entry["seconds"] for entry in warm])
            found[name]["quickest_seconds"] = min(entry["seconds"] for entry in warm)
            found[name]["median_judging_seconds"] = median([entry["judging"] for entry in warm])
        run.keep(found)
    stop_all()
    return found


def _call(task: str, path: Path, *, safety: bool) -> dict[str, Any]:
    options = ["--view", "auditor", "--json", "--baseline", "eager", "--trials", "12"]
    options.append("--safety" if safety else "--no-safety")
    command = ["-m", "kernelwright.cli.main", "judge", task, str(path), *options]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    done = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"judging {path.name} ended with {done.returncode}: {done.stderr[-2000:]}")
    verdict: dict[str, Any] = json.loads(done.stdout)["results"][0]
    return verdict


def batch(run: Run) -> dict[str, Any]:
    """Candidates per minute in one session, each with a new source, and where their time goes; with those that follow
    built meanwhile, and without."""
    found: dict[str, Any] = {}
    task = run.task(SIZES)
    for name, chosen, unseen, count, ahead in (
        ("eager", settings("eager"), 10, 40, 0),
        ("eager, built ahead", settings("eager"), 10, 60, MOST_UPCOMING),
        ("no baseline, public workloads", settings(public_only=True), 1, 20, 0),
        ("eager, sanitizers", settings("eager", safety=True), 1, 5, 0),
    ):
        with Judge(chosen) as judge:
            start = timed(partial(judge.judge, task, variant(EXAMPLE)))[0]
            for _ in range(unseen):  # until most of the hidden workloads that candidates draw have been seen
                if not run.over:
                    judge.judge(task, variant(EXAMPLE))
            candidates = [variant(EXAMPLE) for _ in range(count)]
            verdicts: list[Verdict] = []
            begin = time.perf_counter()
            while len(verdicts) < count and not run.over:
                at = len(verdicts)
                judge.expect(task, candidates[at + 1 : at + 1 + ahead])
                verdicts.append(judge.judge(task, candidates[at]))
            seconds = time.perf_counter() - begin
        if verdicts:
            found[name] = {
                "start_seconds": start,
                "candidates": len(verdicts),
                "per_minute": 60 * len(verdicts) / seconds,
                "seconds": [verdict.seconds for verdict in verdicts],
                "accepted": sum(verdict.verdict is Outcome.accepted for verdict in verdicts),
                "mean_stage_seconds": _mean_stages(verdicts),
                "example": in_short(verdicts[-1]),
            }
            run.keep(found)
            print(f"  {name}: {found[name]['per_minute']:.0f} a minute", flush=True)
    return found


def _mean_stages(verdicts: list[Verdict]) -> dict[str, float]:
    names = {name for verdict in verdicts for name in verdict.stage_seconds}
    return {n: sum(v.stage_seconds.get(n, 0.0) for v in verdicts) / len(verdicts) for n in sorted(names)}


def noise(run: Run) -> dict[str, Any]:
    """The A/A interval of the fastest baseline by duration, and whether the judge calls the speed measured."""
    found: dict[str, Any] = {}
    task = run.task(BY_DURATION, "noise.py")
    for name, effort in (("36 blocks", Sampling(36, 36, seconds=1e9)), ("as the noise demands", Sampling())):
        if run.over:
            break
        with Judge(settings("eager", "compile-default", effort=effort, public_only=True)) as judge:
            verdict = judge.judge(task, variant(EXAMPLE))
        rows = []
        for result in verdict.workloads:
            fastest = result.fastest_baseline
            if fastest is None or result.aa is None:
                continue
            band = statistics.band("cuda", fastest.seconds)
            rows.append({**row(result), "band": [band.low, band.high],
                         "inside": band.low <= result.aa.low and result.aa.high <= band.high,
                         "raw": {who: list(values) for who, values in result.raw_seconds.items()}})  # fmt: skip
        found[name] = {"verdict": verdict.verdict, "rows": rows}
    return found


def repeats(run: Run) -> dict[str, Any]:
    """One kernel judged ten times: its process is new each time, and three times everything else is too."""
    task = run.task(((1024, 4096), (16384, 4096), (64, 128)), "repeats.py")
    chosen = settings("eager", effort=Sampling(36, 36), public_only=True)
    candidate = read_source(EXAMPLE)
    verdicts: list[Verdict] = []
    with Judge(chosen) as judge:
        while len(verdicts) < 7 and not run.over:
            verdicts.append(judge.judge(task, candidate))
    while len(verdicts) < 10 and not run.over:
        with Judge(chosen) as judge:
            verdicts.append(judge.judge(task, candidate))
    medians: dict[str, list[float]] = {}
    for result in itertools.chain.from_iterable(verdict.workloads for verdict in verdicts):
        if result.seconds is not None:
            medians.setdefault(result.label, []).append(result.seconds)
    return {
        "judged": len(verdicts),
        "medians_us": {label: [value * 1e6 for value in values] for label, values in medians.items()},
        "spread": {label: max(values) / min(values) - 1 for label, values in medians.items()},
        "claims": [[row(result)["speedup"] for result in verdict.workloads] for verdict in verdicts],
    }


def hostile(run: Run) -> dict[str, Any]:
    """Fifty hostile candidates in a row, then the honest one again: the same verdict, and the same time?"""
    task = run.task(SIZES)
    chosen = settings("eager", effort=Sampling(36, 36))
    honest = read_source(EXAMPLE)
    names = [*TIRING, *itertools.islice(itertools.cycle(HOSTILE), 50 - len(TIRING))]
    outcomes: list[dict[str, Any]] = []
    with Judge(chosen) as judge:
        judge.judge(task, honest)
        before = judge.judge(task, honest)
        for name in names:
            if run.over:
                break
            verdict = judge.judge(task, variant(EXPLOITS / f"{name}.cu"), settings=settings("eager"))
            run.keep({"outcomes": outcomes})
            outcomes.append({"name": name, "verdict": verdict.verdict, "reason": verdict.reason, "s": verdict.seconds})
        after = judge.judge(task, honest)
        restarts = judge.restarts
    return {
        "judged": len(outcomes),
        "outcomes": outcomes,
        "harmless": HARMLESS,
        "accepted": [
            entry["name"]
            for entry in outcomes
            if entry["verdict"] is Outcome.accepted and entry["name"] not in HARMLESS
        ],
        "oracle_restarts": restarts,
        "before": in_short(before),
        "after": in_short(after),
        "inside_band": _inside(before, after),
    }


def _inside(before: Verdict, after: Verdict) -> dict[str, bool]:
    """Whether the honest kernel's median moved by no more than a baseline may against itself."""
    found = {}
    for one, other in zip(before.workloads, after.workloads, strict=True):
        assert one.seconds is not None and other.seconds is not None
        band = statistics.band("cuda", one.seconds)
        found[one.label] = band.low <= other.seconds / one.seconds <= band.high
    return found


def kbench(run: Run) -> dict[str, Any]:
    """The other harness's correctness and timing steps, and ours, in the same run. No compiled baseline on either side:
    ours times eager PyTorch besides, theirs nothing."""
    checkout = run.arguments.robust_kbench
    if checkout is None:
        return {"skipped": "no --robust-kbench CHECKOUT"}
    task = run.task(((16384, 4096),), "kbench.py")
    with Judge(settings("eager")) as judge:
        for _ in range(4):
            judge.judge(task, variant(EXAMPLE))
        ours = [
            timed(partial(judge.judge, task, variant(KERNELS / name)))[0]
            for name in ("rmsnorm_vector", "rmsnorm_split")
        ]
    run.keep({"ours_s": ours})
    theirs = harness(checkout, run.arguments.kernels, run.until)
    done = [entry["correct_s"] + entry["time_s"] for entry in theirs if "time_s" in entry]
    ratio = median(done) / median(ours) if done else None
    return {"theirs": theirs, "ours_s": ours, "ratio": ratio, "beside": run.arguments.beside}


SECTIONS: dict[str, tuple[Callable[[Run], Any], float]] = {
    "commands": (commands, 90.0),
    "batch": (batch, 120.0),
    "noise": (noise, 120.0),
    "repeats": (repeats, 90.0),
    "hostile": (hostile, 150.0),
    "rows": (rows, 540.0),
    "kbench": (kbench, 560.0),
}


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--only", nargs="*", choices=list(SECTIONS), default=[])
    parser.add_argument("--seconds", type=float, default=520.0, help="for all sections together")
    parser.add_argument("--tasks", nargs="*", default=[], help="for the section rows")
    parser.add_argument("--baselines", nargs="*", default=[], help="for the section rows; all by default")
    parser.add_argument("--robust-kbench", type=Path, default=None)
    parser.add_argument("--beside", default="nothing", help="what else the machine does meanwhile, for the record")
    parser.add_argument("--kernels", nargs="*", default=[], help="TASK_FOLDER:SOURCE in that checkout; two by default")
    return parser.parse_args()


def main() -> None:
    arguments = parsed()
    try:
        require(CUDA)
    except KernelwrightError as error:
        raise SystemExit(f"judge_gpu.py: {error}") from None
    with temporary_home("triton", "peaks"):  # how long it takes to find these is not what is measured
        failed = measured(arguments)
    raise SystemExit(1 if failed else 0)


def measured(arguments: argparse.Namespace) -> list[str]:
    """Writes as it goes; the names of the sections that failed."""
    target: Path = arguments.out / "judge_gpu.json"
    report = load(target)
    gpu = nvidia.probe(CUDA.index)
    came = provenance(gpu)
    report["machine"] = {**came["machine"], "gpu": gpu_facts(gpu), "state": asdict(nvidia.state(gpu))}
    end = time.monotonic() + arguments.seconds
    failed = []

    def keep(name: str, begin: float, value: Any) -> None:
        """With where it came from: a run that is cut off leaves results that nobody need guess about."""
        report[name] = value
        report.setdefault("taken", {})[name] = {**came, "seconds": time.perf_counter() - begin}
        save(target, report)

    for name, (section, share) in SECTIONS.items():
        if arguments.only and name not in arguments.only:
            continue
        print(f"{name} ...", flush=True)
        with tempfile.TemporaryDirectory(prefix="kernelwright-bench-task-") as folder:
            until = min(end, time.monotonic() + share)
            begin = time.perf_counter()
            run = Run(Path(folder), until, arguments, report.get(name, {}), partial(keep, name, begin))
            try:
                found = section(run)
            except Exception as error:  # what was measured before must not be lost
                traceback.print_exc()
                found = {"failed": f"{type(error).__name__}: {error}"}
                failed.append(name)
        keep(name, begin, found)
        print(f"{name}: {report['taken'][name]['seconds']:.0f} s", flush=True)
    print(f"written: {target}")
    return failed


if __name__ == "__main__":
    main()
