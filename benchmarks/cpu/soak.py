"""Hundreds of honest and hostile candidates through one server: does anything leak, and is the clock the same?

    python benchmarks/cpu/soak.py [--candidates 500]

Writes benchmarks/results/soak.json: what the server's processes hold as time goes by, what is left behind in the
system once it has been stopped, and an honest kernel's times before and after.
"""

from __future__ import annotations

import argparse
import getpass
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.shared.common import temporary_home  # noqa: E402
from benchmarks.shared.record import RESULTS, provenance, save  # noqa: E402
from tests.pairs import EXPLOITS, NEEDS_FULL_SIZE, Pair, pairs  # noqa: E402

from kernelwright.contracts.candidate import Candidate, read_candidate  # noqa: E402
from kernelwright.judge.server.client import ServerJudge, statuses, stop_all  # noqa: E402
from kernelwright.judge.server.server import memory_of_tree  # noqa: E402
from kernelwright.judge.settings import Settings  # noqa: E402
from kernelwright.judge.timing.measure import Sampling  # noqa: E402
from kernelwright.judge.verdict import Outcome  # noqa: E402

SAMPLES = 25
HONEST = ROOT / "examples" / "rmsnorm.cpp"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--candidates", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no other candidate after so long")
    options = parser.parse_args()
    with temporary_home():
        measure(options.candidates, options.seconds)


def measure(wanted: int, limit: float) -> None:
    before_all = system()
    report: dict[str, Any] = {**provenance(), "wanted": wanted}
    report["honest_before"] = honest_times()
    report.update(soak(wanted, limit))
    report["honest_after"] = honest_times()
    stop_all()
    time.sleep(1)
    report["left_behind"] = left_behind(before_all, system())
    report["same_speed"] = overlap(report["honest_before"], report["honest_after"])
    save(RESULTS / "soak.json", report)
    print(json.dumps({key: report[key] for key in ("outcomes", "wrong", "left_behind", "same_speed")}, indent=1))


def soak(wanted: int, limit: float) -> dict[str, Any]:
    """Half of them honest twins, in an order of chance; one in five is built anew, the others come from the cache."""
    chance = random.Random(1)
    chosen = [pair for pair in pairs() if pair.reasons and not pair.slow and small_task(pair).exists()]
    chosen = [pair for pair in chosen if not pair.name.startswith(NEEDS_FULL_SIZE)]
    outcomes: Counter[str] = Counter()
    wrong, samples, seconds = [], [], []
    begin = time.perf_counter()
    with ServerJudge(Settings(baselines=(), effort=Sampling(4, 4), certify=True)) as judge:
        for number in range(wanted):
            if time.perf_counter() - begin > limit:
                break
            pair, hostile = chance.choice(chosen), bool(number % 2)
            candidate = read_candidate(pair.exploit if hostile else pair.twin, "cpp")
            if number % 5 == 0:
                candidate = Candidate("cpp", f"{candidate.source}\n// {number}\n", candidate.name)
            one = time.perf_counter()
            verdict = judge.judge(str(small_task(pair)), candidate)
            seconds.append(time.perf_counter() - one)
            outcomes[f"{'hostile' if hostile else 'honest'} {verdict.verdict}"] += 1
            if verdict.verdict is not (Outcome.rejected if hostile else Outcome.accepted):
                wrong.append({"pair": pair.name, "hostile": hostile, "verdict": verdict.model_dump_json()})
            if number % SAMPLES == SAMPLES - 1:
                samples.append({"candidates": number + 1, "minutes": (time.perf_counter() - begin) / 60, **held()})
                print(samples[-1], flush=True)
    return {
        "outcomes": dict(outcomes),
        "wrong": wrong,
        "seconds_per_candidate": {"median": sorted(seconds)[len(seconds) // 2], "most": max(seconds)},
        "held": samples,
    }


def small_task(pair: Pair) -> Path:
    return EXPLOITS / "small" / f"{pair.task}.py"


def honest_times() -> list[dict[str, Any]]:
    settings = Settings(baselines=("eager",), effort=Sampling(36, 36, seconds=1e9), public_only=True, certify=True)
    with ServerJudge(settings) as judge:
        verdict = judge.judge("rmsnorm", read_candidate(HONEST, "cpp"))
    return [
        {
            "workload": result.label,
            "seconds": result.seconds,
            "speedup": [result.baselines[0].speedup.low, result.baselines[0].speedup.high],
            "aa": [result.aa.low, result.aa.high] if result.aa else None,
            "raw": {name: list(values) for name, values in result.raw_seconds.items()},
        }
        for result in verdict.workloads
    ]


def overlap(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> bool:
    return all(
        one["speedup"][0] <= two["speedup"][1] and two["speedup"][0] <= one["speedup"][1]
        for one, two in zip(before, after, strict=True)
    )


def held() -> dict[str, int]:
    """By the server and all that descends from it, between two candidates."""
    (status,) = statuses()
    family = descendants(status.pid)
    return {
        "processes": len(family),
        "descriptors": sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in family),
        "resident_mib": memory_of_tree(status.pid) >> 20,
        "shared_memory_kib": meminfo("Shmem"),
    }


def descendants(root: int) -> list[int]:
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        try:
            threads = list(Path(f"/proc/{pid}/task").iterdir())
            found.append(pid)
            for thread in threads:
                waiting += map(int, (thread / "children").read_text().split())
        except OSError:
            continue
    return found


def meminfo(name: str) -> int:
    line = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1])


def system() -> dict[str, set[str]]:
    """What a candidate could have left behind."""
    processes, home = set(), os.environ["KERNELWRIGHT_HOME"].encode()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command, environment = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
        except OSError:
            continue
        if int(entry.name) != os.getpid() and home in command + environment:
            processes.add(command.replace(b"\0", b" ").decode(errors="replace")[:120])
    return {
        "processes": processes,
        "temporary": {path.name for path in Path(tempfile.gettempdir()).iterdir()},
        "shm": {path.name for path in Path("/dev/shm").iterdir()},
    }


OURS = {"kernelwright-locks", f"torchinductor_{getpass.getuser()}"}  # the host's device locks, torch's cache


def left_behind(before: dict[str, set[str]], after: dict[str, set[str]]) -> dict[str, list[str]]:
    return {name: sorted(after[name] - before[name] - OURS) for name in before}


if __name__ == "__main__":
    main()
