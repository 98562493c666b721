"""What judging on a CPU costs, and how far its figures can be trusted. Writes benchmarks/results/judge_cpu.json.

    python benchmarks/cpu/judge_cpu.py [--quick] [--only SECTION ...]

Run it on a quiet machine. All times are seconds of wall time; ratios are taken within one run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "rmsnorm.cpp"
sys.path.insert(0, str(ROOT))

from benchmarks.shared import common  # noqa: E402
from benchmarks.shared.common import RANK, temporary_home, timed  # noqa: E402
from benchmarks.shared.record import RESULTS, load, provenance, save  # noqa: E402

from kernelwright.contracts import Candidate  # noqa: E402
from kernelwright.contracts.candidate import read_candidate  # noqa: E402
from kernelwright.judge.controller import Judge  # noqa: E402
from kernelwright.judge.settings import Settings  # noqa: E402
from kernelwright.judge.timing.measure import Sampling  # noqa: E402


def variant() -> Candidate:
    return common.variant(EXAMPLE)


def write_task(path: Path, workloads: list[tuple[int, int]]) -> str:
    return common.write_task(path, workloads, rows=(200, 9000), cols=(300, 9000))


def commands(arguments: argparse.Namespace) -> dict[str, Any]:
    """Whole commands, one new process each: with nothing cached, with a build cache only, and with a server."""
    found: dict[str, Any] = {}
    for baselines in (("eager",),) if arguments.quick else (("eager",), ("eager", "compile")):
        options = [part for name in baselines for part in ("--baseline", name)]
        with tempfile.TemporaryDirectory(prefix="kernelwright-bench-") as home:
            Path(home).chmod(0o755)
            environment = {**os.environ, "KERNELWRIGHT_HOME": home, "TORCHINDUCTOR_CACHE_DIR": f"{home}/inductor"}
            seconds: dict[str, list[float]] = {}
            for state in ("cold", "no server, built before", "starts the server", *["warm server"] * 10):
                own = ["--no-server"] if state in ("cold", "no server, built before") else []
                command = ["judge", "rmsnorm", str(EXAMPLE), "--json", "--trials", "12", *options, *own]
                seconds.setdefault(state, []).append(run_command(command, environment))
            run_command(["server", "stop"], environment)
            found["+".join(baselines)] = seconds
    return found


def run_command(arguments: list[str], environment: dict[str, str]) -> float:
    command = [sys.executable, "-m", "kernelwright.cli.main", *arguments]
    seconds, done = timed(lambda: subprocess.run(command, env=environment, capture_output=True, text=True))
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(arguments)} ended with {done.returncode}: {done.stdout[-2000:]} {done.stderr}")
    return seconds


def warm(_: argparse.Namespace) -> dict[str, Any]:
    """Candidates on 3 public and 3 hidden workloads once the oracle and the baselines are up."""
    rows = {}
    for baselines in (("eager",), ("eager", "compile")):
        with Judge(Settings(baselines=baselines, effort=RANK)) as judge:
            first = timed(partial(judge.judge, "rmsnorm", variant()))[0]
            fresh = [timed(partial(judge.judge, "rmsnorm", variant()))[0] for _ in range(20)]
            same = read_candidate(EXAMPLE, "cpp")
            judge.judge("rmsnorm", same)
            cached = [timed(partial(judge.judge, "rmsnorm", same))[0] for _ in range(5)]
        rows["+".join(baselines)] = {"first": first, "fresh build": fresh, "cached build": cached}
    return rows


def candidates(arguments: argparse.Namespace) -> dict[str, float]:
    """Growth from 1 to 30 candidates in one session, hidden workloads included."""
    counts = (1, 3, 10) if arguments.quick else (1, 3, 10, 30)
    with Judge(Settings(baselines=("eager",), effort=RANK)) as judge:
        for _ in range(6):  # until the hidden workloads that candidates draw have been seen
            judge.judge("rmsnorm", variant())
        return {
            str(count): sum(timed(partial(judge.judge, "rmsnorm", variant()))[0] for _ in range(count))
            for count in counts
        }


def workloads(arguments: argparse.Namespace) -> dict[str, Any]:
    """Growth from 1 to 12 public workloads of about the same size, with a cold pool and with a warm one."""
    shapes = [(1024 + 8 * n, 2048) for n in range(12)]
    grown: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for count in (1, 3, 6, 12):
            task = write_task(Path(folder) / f"task{count}.py", shapes[:count])
            settings = Settings(baselines=("eager",), effort=RANK, public_only=True)
            with Judge(settings) as judge:
                judge.open(task)
                first = timed(partial(judge.judge, task, variant()))[0]
                again = timed(partial(judge.judge, task, variant()))[0]
            grown[str(count)] = {"cold pool": first, "warm pool": again}
    return grown


def noise(arguments: argparse.Namespace) -> dict[str, Any]:
    """The A/A interval of eager PyTorch by how long it takes, for two sizes of sample, and as the judge itself goes on:
    with more blocks, and the baseline called several times in each, until it agrees with itself (decision 9)."""
    shapes = [(64, 1024), (256, 1024), (1024, 1024), (1024, 2048), (4096, 2048), (8192, 2048)]
    efforts = {f"{blocks} blocks": Sampling(least=blocks, most=blocks, seconds=1e9) for blocks in (12, 36)}
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, effort) in enumerate({**efforts, "as the noise demands": Sampling()}.items()):
            task = write_task(Path(folder) / f"noise{number}.py", shapes)
            with Judge(Settings(baselines=("eager",), effort=effort, public_only=True, safety=False)) as judge:
                verdict = judge.judge(task, read_candidate(EXAMPLE, "cpp"))
            for result in verdict.workloads:
                assert result.aa is not None
                found.setdefault(result.label, {})[name] = {
                    "eager_seconds": result.baselines[0].seconds,
                    "aa": [result.aa.low, result.aa.mid, result.aa.high],
                    "status": result.speed,
                    "trials": result.trials,
                    "raw": {name: list(values) for name, values in result.raw_seconds.items()},
                }
    return found


SECTIONS: dict[str, Callable[[argparse.Namespace], Any]] = {
    "warm": warm,
    "noise": noise,
    "candidates": candidates,
    "workloads": workloads,
    "commands": commands,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="*", choices=sorted(SECTIONS), default=[])
    parser.add_argument("--write", type=Path, default=RESULTS / "judge_cpu.json", help="with --only the rest is kept")
    arguments = parser.parse_args()
    with temporary_home():
        measure(arguments)


def measure(arguments: argparse.Namespace) -> None:
    target: Path = arguments.write
    report, came = load(target) if arguments.only else {}, provenance()
    for name, section in SECTIONS.items():
        if not arguments.only or name in arguments.only:
            print(f"{name} ...", flush=True)
            seconds, report[name] = timed(partial(section, arguments))
            report.setdefault("taken", {})[name] = {**came, "seconds": seconds}
            save(target, report)
            print(f"{name}: {seconds:.0f} s", flush=True)
    print(f"written: {target}")


if __name__ == "__main__":
    main()
