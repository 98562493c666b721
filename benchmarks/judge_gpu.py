"""Measures the judge on an NVIDIA GPU and writes benchmarks/results/judge_gpu.json, section by section as it goes.

    python benchmarks/judge_gpu.py [--out DIR] [--only SECTION ...] [--seconds N] [--tasks TASK ...]
        [--robust-kbench CHECKOUT [--kernels TASK_FOLDER:SOURCE ...]]

Every section ends by itself when its share of `--seconds` is spent and says what it left out. A section that fails
is recorded as such, and the others go on.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
KERNELS, EXPLOITS = ROOT / "tests" / "kernels_cuda", ROOT / "tests" / "gpu" / "exploits"
EXAMPLE = KERNELS / "rmsnorm_vector"

_home = tempfile.TemporaryDirectory(prefix="kernelwright-bench-")
Path(_home.name).chmod(0o755)
os.environ["KERNELWRIGHT_HOME"] = _home.name

from benchmarks.kbench_harness import harness  # noqa: E402

from kernelwright.contracts import Candidate, read_source  # noqa: E402
from kernelwright.devices import nvidia  # noqa: E402
from kernelwright.devices.names import Device, require  # noqa: E402
from kernelwright.errors import KernelwrightError  # noqa: E402
from kernelwright.judge import statistics  # noqa: E402
from kernelwright.judge.controller import Judge  # noqa: E402
from kernelwright.judge.gpu.workshop import GpuWorkshop  # noqa: E402
from kernelwright.judge.keys import judge_key  # noqa: E402
from kernelwright.judge.measure import Effort  # noqa: E402
from kernelwright.judge.service.client import stop_all  # noqa: E402
from kernelwright.judge.settings import Settings  # noqa: E402
from kernelwright.judge.statistics import median  # noqa: E402
from kernelwright.judge.verdict import Outcome, Verdict, WorkloadResult  # noqa: E402

CUDA = Device("cuda", 0)
RANK = Effort(least=12, most=12)
SIZES = ((1024, 4096), (64, 128))
BY_DURATION = ((64, 128), (256, 1024), (1024, 2048), (1024, 4096), (4096, 4096), (16384, 4096), (32768, 8192))
HOSTILE = (
    *("illegal_null", "write_input", "past_end_far", "illegal_trap", "partial_half", "zeros", "hog_device_heap"),
    *("illegal_stack", "cache_workspace", "read_past_end", "launch_too_much_shared", "not_a_number"),
)
HARMLESS = ("hog_device_heap",)  # its results are right, and what it takes is given back with its process
ENDLESS = ("endless", "endless_deadlock")
OPERATIONS = (
    *("layernorm3d", "rmsnorm", "cross_entropy", "linear", "linear_relu", "maxpool2d", "conv_relu_pool"),
    *("unet_linear", "unet_conv2d", "llama_ffw", "resnet_block"),
)
ROWS = tuple(f"{name}{direction}" for direction in ("", ":backward") for name in OPERATIONS)

TASK = '''"""RMS normalisation on chosen workloads."""
import torch
from kernelwright.tasks import Task, normal, tensor

def reference(x, weight, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight

task = Task(
    reference,
    inputs={{"x": tensor("rows", "cols"), "weight": tensor("cols", draw=normal(1.0, 0.2)), "eps": 1e-6}},
    public=[{public}],
    hidden={{"rows": (30, 1200), "cols": (100, 5000)}},
)
'''


@dataclass(frozen=True)
class Run:
    """What a section is given: a folder of its own, until when it may go on, the command line, what it found the last
    time, and a way to write down what it has so far."""

    folder: Path
    until: float
    arguments: argparse.Namespace
    before: dict[str, Any]
    keep: Callable[[Any], None]

    @property
    def over(self) -> bool:
        return time.monotonic() > self.until

    def task(self, sizes: tuple[tuple[int, int], ...], name: str = "rows_task.py") -> str:
        public = ", ".join(f'{{"rows": {rows}, "cols": {cols}}}' for rows, cols in sizes)
        path = self.folder / name
        path.write_text(TASK.format(public=public))
        return str(path)


def settings(*baselines: str, effort: Effort = RANK, safety: bool = False, public_only: bool = False) -> Settings:
    return Settings(baselines=baselines, effort=effort, safety=safety, public_only=public_only, device=CUDA)


_numbers = itertools.count()


def variant(path: Path = EXAMPLE) -> Candidate:
    """The source with a comment of its own, so that it is another candidate with another build."""
    source = read_source(path)
    return Candidate("cuda", f"// variant {next(_numbers)} {time.time_ns()}\n{source.source}", path.name)


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    value = function()
    return time.perf_counter() - begin, value


def told(verdict: Verdict) -> dict[str, Any]:
    return {
        "name": verdict.name,
        "verdict": verdict.verdict,
        "reason": verdict.reason,
        "evidence": None if verdict.evidence is None else verdict.evidence.model_dump(),
        "seconds": verdict.seconds,
        "stages": verdict.stage_seconds,
        "workloads": [row(result) for result in verdict.workloads],
        "conditions": verdict.conditions.model_dump(),
    }


def row(result: WorkloadResult) -> dict[str, Any]:
    return {
        "workload": result.label,
        "hidden": result.hidden,
        "speed": result.speed,
        "trials": result.trials,
        "us": _us(result.seconds),
        "outside_us": _us(result.outside_seconds),
        "baselines_us": {entry.baseline: _us(entry.seconds) for entry in result.baselines},
        "speedup": {entry.baseline: entry.speedup.model_dump() for entry in result.baselines},
        "aa": None if result.aa is None else result.aa.model_dump(),
        "bound": None if result.bound is None else result.bound.model_dump(),
        "kernels": [use.model_dump() for use in result.kernels],
    }


def _us(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e6


def commands(run: Run) -> dict[str, Any]:
    """Single `judge` calls with a warm oracle, a new process and a new source each, hidden workloads included.

    Where the command line's own packages are missing, a process that calls the same client takes its place.
    """
    called = "kernelwright judge" if find_spec("typer") else "the client of kernelwright judge"
    found: dict[str, Any] = {"called": called}
    for name, safety, count in (("eager", False, 14), ("eager, sanitizers", True, 4)):
        calls: list[dict[str, Any]] = []
        for number in range(count + 1):
            if run.over:
                break
            path = run.folder / f"candidate{next(_numbers)}.cu"
            path.write_text(variant().source)
            seconds, verdict = timed(partial(_call, run.task(SIZES), path, safety=safety))
            entry = {"warm": number > 0, "seconds": seconds, "judging": verdict["seconds"]}
            calls.append({**entry, "verdict": verdict["verdict"], "stages": verdict["stage_seconds"]})
        warm = [entry for entry in calls if entry["warm"]]
        found[name] = {"calls": calls}
        if warm:
            found[name]["median_seconds"] = median([entry["seconds"] for entry in warm])
            found[name]["quickest_seconds"] = min(entry["seconds"] for entry in warm)
            found[name]["median_judging_seconds"] = median([entry["judging"] for entry in warm])
        run.keep(found)
    stop_all()
    return found


CLIENT = """
import sys
from pathlib import Path
from kernelwright.contracts import read_source
from kernelwright.devices.names import Device
from kernelwright.judge.measure import Effort
from kernelwright.judge.service.client import WarmJudge
from kernelwright.judge.settings import Settings
from kernelwright.judge.verdict import Report

safety, effort = sys.argv[3] == "True", Effort(12, 12)
settings = Settings(("eager",), effort=effort, safety=safety, device=Device("cuda"), certify=True)
with WarmJudge(settings) as judge:
    verdict = judge.judge(sys.argv[1], read_source(Path(sys.argv[2])))
print(Report(task=sys.argv[1], results=(verdict,)).model_dump_json())
"""


def _call(task: str, path: Path, *, safety: bool) -> dict[str, Any]:
    command = ["-c", CLIENT, task, str(path), str(safety)]
    if find_spec("typer"):
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
    """Candidates per minute in one session, each with a new source, and where their time goes."""
    found: dict[str, Any] = {}
    task = run.task(SIZES)
    for name, chosen, unseen, count in (
        ("eager", settings("eager"), 10, 40),
        ("no baseline, public workloads", settings(public_only=True), 1, 20),
        ("eager, sanitizers", settings("eager", safety=True), 1, 5),
    ):
        with Judge(chosen) as judge:
            start = timed(partial(judge.judge, task, variant()))[0]
            for _ in range(unseen):  # until most of the hidden workloads that candidates draw have been seen
                if not run.over:
                    judge.judge(task, variant())
            verdicts: list[Verdict] = []
            begin = time.perf_counter()
            while len(verdicts) < count and not run.over:
                verdicts.append(judge.judge(task, variant()))
            seconds = time.perf_counter() - begin
        if verdicts:
            found[name] = {
                "start_seconds": start,
                "candidates": len(verdicts),
                "per_minute": 60 * len(verdicts) / seconds,
                "seconds": [verdict.seconds for verdict in verdicts],
                "accepted": sum(verdict.verdict is Outcome.accepted for verdict in verdicts),
                "mean_stage_seconds": _mean_stages(verdicts),
                "example": told(verdicts[-1]),
            }
    return found


def _mean_stages(verdicts: list[Verdict]) -> dict[str, float]:
    names = {name for verdict in verdicts for name in verdict.stage_seconds}
    return {n: sum(v.stage_seconds.get(n, 0.0) for v in verdicts) / len(verdicts) for n in sorted(names)}


def noise(run: Run) -> dict[str, Any]:
    """The A/A interval of the fastest baseline by duration, and whether the judge calls the speed measured."""
    found: dict[str, Any] = {}
    task = run.task(BY_DURATION, "noise.py")
    for name, effort in (("36 blocks", Effort(36, 36, seconds=1e9)), ("as the noise demands", Effort())):
        if run.over:
            break
        with Judge(settings("eager", "compile-default", effort=effort, public_only=True)) as judge:
            verdict = judge.judge(task, variant())
        rows = []
        for result in verdict.workloads:
            fastest = result.best_baseline
            if fastest is None or result.aa is None:
                continue
            band = statistics.band("gpu", fastest.seconds)
            rows.append({**row(result), "band": [band.low, band.high],
                         "inside": band.low <= result.aa.low and result.aa.high <= band.high,
                         "raw": {who: list(values) for who, values in result.raw_seconds.items()}})  # fmt: skip
        found[name] = {"verdict": verdict.verdict, "rows": rows}
    return found


def repeats(run: Run) -> dict[str, Any]:
    """One kernel judged ten times: its process is new each time, and three times everything else is too."""
    task = run.task(((1024, 4096), (16384, 4096), (64, 128)), "repeats.py")
    chosen = settings("eager", effort=Effort(36, 36), public_only=True)
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
    chosen = settings("eager", effort=Effort(36, 36))
    honest = read_source(EXAMPLE)
    names = [*ENDLESS, *itertools.islice(itertools.cycle(HOSTILE), 48)]
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
        "accepted": [
            entry["name"]
            for entry in outcomes
            if entry["verdict"] is Outcome.accepted and entry["name"] not in HARMLESS
        ],
        "oracle_restarts": restarts,
        "before": told(before),
        "after": told(after),
        "inside_band": _inside(before, after),
    }


def _inside(before: Verdict, after: Verdict) -> dict[str, bool]:
    """Whether the honest kernel's median moved by no more than a baseline may against itself."""
    found = {}
    for one, other in zip(before.workloads, after.workloads, strict=True):
        assert one.seconds is not None and other.seconds is not None
        band = statistics.band("gpu", one.seconds)
        found[one.label] = band.low <= other.seconds / one.seconds <= band.high
    return found


def rows(run: Run) -> dict[str, Any]:
    """Baselines and bounds of every public workload. `compile` is max-autotune, the fastest of several fresh ones.

    It takes minutes for a product or a convolution: name a few `--tasks` at a time, and rows of earlier runs stay.
    """
    compiles = run.arguments.compiles
    with _shop(compiles) as shop:
        found: dict[str, Any] = {"compiles": compiles, "rows": run.before.get("rows", []), "left_out": []}
        for reference in run.arguments.tasks or ROWS:
            try:
                task = shop.oracle.open(reference)
            except KernelwrightError as error:  # an operation without a gradient, or a name that is not there
                found["left_out"].append({"task": reference, "why": str(error)})
                continue
            for posed in task.public:
                label = f"{reference} {posed.workload.label}"
                if run.over:
                    found["left_out"].append({"task": label, "why": "out of time"})
                    continue
                begin = time.perf_counter()
                try:
                    entry = _row(shop, task, posed, tuple(run.arguments.baselines))
                except KernelwrightError as error:
                    entry = {"failed": str(error)}
                entry = {"task": label, **entry, "compiles": compiles, "took_s": time.perf_counter() - begin}
                print(f"  {entry}", flush=True)
                found["rows"] = [*(kept for kept in found["rows"] if kept["task"] != label), entry]
                run.keep(found)
        return found


@contextmanager
def _shop(compiles: int) -> Iterator[GpuWorkshop]:
    shop = GpuWorkshop(CUDA.index, judge_key(), 0, None, compiles)
    try:
        yield shop
    finally:
        shop.close()


def _row(shop: GpuWorkshop, task: Any, posed: Any, names: tuple[str, ...]) -> dict[str, Any]:
    from kernelwright.judge.oracle.client import close_all

    limits = shop.limits(task, posed)
    _, descriptors = shop.oracle.arena(task, posed.workload)
    try:
        with shop.working():
            shop.baselines.open(names, shop.oracle, task, posed, descriptors, lambda text: None)
    finally:
        close_all(descriptors)
    times: dict[str, list[float]] = {name: [] for name in names}
    processes = shop.baselines.processes(names)
    with shop.measuring():
        for _ in range(50):
            for name, process in processes.items():
                shop.oracle.restore()
                times[name].append(process.time())
    return {
        "us": {name: median(values) * 1e6 for name, values in times.items()},
        "against_itself": {name: asdict(statistics.against_itself(values)) for name, values in times.items()},
        "bound_us": limits.bound * 1e6,
        "impossible_below_us": limits.impossible_below * 1e6,
        "cost": asdict(limits.cost),
    }


def kbench(run: Run) -> dict[str, Any]:
    """The other harness's correctness and timing steps, and ours, in the same run. No compiled baseline on either side:
    ours times eager PyTorch besides, theirs nothing."""
    checkout = run.arguments.robust_kbench
    if checkout is None:
        return {"skipped": "no --robust-kbench CHECKOUT"}
    theirs = harness(checkout, run.arguments.kernels, run.until)
    run.keep({"theirs": theirs})
    task = run.task(((16384, 4096),), "kbench.py")
    with Judge(settings("eager")) as judge:
        for _ in range(4):
            judge.judge(task, variant())
        ours = [
            timed(partial(judge.judge, task, variant(KERNELS / name)))[0]
            for name in ("rmsnorm_vector", "rmsnorm_split")
        ]
    done = [entry["correct_s"] + entry["time_s"] for entry in theirs if "time_s" in entry]
    ratio = median(done) / median(ours) if done else None
    return {"theirs": theirs, "ours_s": ours, "ratio": ratio}


SECTIONS: dict[str, tuple[Callable[[Run], Any], float]] = {
    "commands": (commands, 90.0),
    "batch": (batch, 120.0),
    "noise": (noise, 120.0),
    "repeats": (repeats, 90.0),
    "hostile": (hostile, 120.0),
    "rows": (rows, 540.0),
    "kbench": (kbench, 560.0),
}


def machine() -> dict[str, Any]:
    gpu = nvidia.probe(CUDA.index)
    return {"gpu": asdict(gpu), "state": asdict(nvidia.state(gpu)), "python": platform.python_version()}


def commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--only", nargs="*", choices=list(SECTIONS), default=[])
    parser.add_argument("--seconds", type=float, default=520.0, help="for all sections together")
    parser.add_argument("--tasks", nargs="*", default=[], help="for the section rows")
    parser.add_argument("--baselines", nargs="*", default=["eager", "compile"], help="for the section rows")
    parser.add_argument("--compiles", type=int, default=3, help="fresh compiles of each row, of which the best counts")
    parser.add_argument("--robust-kbench", type=Path, default=None)
    parser.add_argument("--kernels", nargs="*", default=[], help="TASK_FOLDER:SOURCE in that checkout; two by default")
    return parser.parse_args()


def main() -> None:
    arguments = parsed()
    try:
        require(CUDA)
    except KernelwrightError as error:
        raise SystemExit(f"judge_gpu.py: {error}") from None
    target: Path = arguments.out / "judge_gpu.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    report: dict[str, Any] = json.loads(target.read_text()) if target.exists() else {}
    report |= {"machine": machine(), "command": "python benchmarks/judge_gpu.py"}
    end = time.monotonic() + arguments.seconds
    failed = []

    def keep(name: str, value: Any) -> None:
        report[name] = value
        target.write_text(json.dumps(report, indent=1) + "\n")

    for name, (section, share) in SECTIONS.items():
        if arguments.only and name not in arguments.only:
            continue
        print(f"{name} ...", flush=True)
        with tempfile.TemporaryDirectory(prefix="kernelwright-bench-task-") as folder:
            until = min(end, time.monotonic() + share)
            run = Run(Path(folder), until, arguments, report.get(name, {}), partial(keep, name))
            begin = time.perf_counter()
            try:
                report[name] = section(run)
            except Exception as error:  # what was measured before must not be lost
                traceback.print_exc()
                report[name] = {"failed": f"{type(error).__name__}: {error}"}
                failed.append(name)
        report.setdefault("taken", {})[name] = {"commit": commit(), "seconds": time.perf_counter() - begin}
        keep(name, report[name])
        print(f"{name}: {report['taken'][name]['seconds']:.0f} s", flush=True)
    print(f"written: {target}")
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
