"""Judges eager PyTorch against itself on problems of KernelBench at their own sizes: accepted, and inside the band?

    python benchmarks/kernelbench/eager_itself.py CHECKOUT [--device cuda] [--draw 40] [--seed 1] [--seconds 500]

A second process of the eager baseline takes the place of a candidate's runner; everything else is the judge as it is.
A problem must be accepted, since its tolerance has to let eager pass, and the interval of the speedup must lie inside
the band that is allowed to a baseline against itself. Rows are saved as they come; problems that have a row of this
commit are not judged again, so that a run may be continued. Problems whose reference changes an argument are left out.

Writes benchmarks/results/eager_itself_DEVICE.json.
"""

from __future__ import annotations

import argparse
import random
import secrets
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.shared.common import temporary_home  # noqa: E402
from benchmarks.shared.record import RESULTS, load, provenance, save  # noqa: E402

from kernelwright.contracts import Candidate  # noqa: E402
from kernelwright.devices.names import Device, device_named  # noqa: E402
from kernelwright.errors import KernelwrightError  # noqa: E402
from kernelwright.isolation.log import Log  # noqa: E402
from kernelwright.isolation.warden import Ending, Reply  # noqa: E402
from kernelwright.judge.baselines import Baseline, Baselines  # noqa: E402
from kernelwright.judge.controller import workshop  # noqa: E402
from kernelwright.judge.evaluation import Evaluation  # noqa: E402
from kernelwright.judge.keys import KEY_BYTES  # noqa: E402
from kernelwright.judge.oracle_client import OpenTask, WorkloadSpec  # noqa: E402
from kernelwright.judge.settings import Settings  # noqa: E402
from kernelwright.judge.timing import statistics  # noqa: E402
from kernelwright.judge.timing.measure import Sampling  # noqa: E402
from kernelwright.judge.verdict import Verdict, WorkloadResult  # noqa: E402
from kernelwright.judge.workshop import Workshop  # noqa: E402
from kernelwright.tasks.imported.forms import tasks_in  # noqa: E402

CONTRACTS = {"cpu": "cpp", "cuda": "cuda"}


class EagerRunner:
    """A process of the eager baseline, asked for trials as a candidate's runner is."""

    def __init__(self, process: Baseline, *, timed: bool) -> None:
        self._process, self._timed = process, timed
        self.log = Log()

    def ready(self) -> Reply:
        return Reply(Ending.ok)

    def trial(self, op: str, _: float) -> Reply:
        seconds = self._process.time() if self._timed and op == "r" else 0.0
        self._process.write()
        return Reply(Ending.ok, round(seconds * 1e9))

    def __enter__(self) -> EagerRunner:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.release()
        self.log.close()


class EagerJob:
    """What a candidate's job is, with nothing to build and nothing to inspect."""

    build_seconds = None
    artefact = None

    def __init__(self, others: Baselines, task: OpenTask) -> None:
        self._others, self._task = others, task

    def build(self, *_: object, **__: object) -> None:
        return None

    def start(self, spec: WorkloadSpec, descriptors: list[int], *, timed: bool = True) -> EagerRunner:
        process = self._others.processes(("eager",))["eager"]
        process.open(self._task, spec, descriptors)
        return EagerRunner(process, timed=timed)

    def check(self, spec: WorkloadSpec, descriptors: list[int]) -> EagerRunner:
        return self.start(spec, descriptors, timed=False)

    def finish(self, result: WorkloadResult) -> WorkloadResult:
        return result

    def close(self) -> None:
        """The process serves the next problem."""


class EagerShop:
    """A workshop whose every candidate is eager PyTorch."""

    def __init__(self, shop: Workshop) -> None:
        self._shop = shop
        self.others = Baselines(shop.baselines._make)
        self.others.prepare(("eager",))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shop, name)

    def job(self, _: Candidate, task: OpenTask) -> EagerJob:
        return EagerJob(self.others, task)


def main() -> int:
    options, came = _options(), provenance()
    device = device_named(options.device)
    path = RESULTS / f"eager_itself_{device.kind}.json"
    rows: dict[str, Any] = load(path).get("problems", {})
    drawn = _drawn(options)
    until = time.monotonic() + options.seconds
    with temporary_home("triton", "peaks", "native"):
        shop = EagerShop(workshop(device, secrets.token_bytes(KEY_BYTES), options.threads))
        try:
            for problem in drawn:
                name = f"{problem.parent.name}/{problem.name}"
                if rows.get(name, {}).get("commit") == came["commit"] or time.monotonic() > until:
                    continue
                rows[name] = {**_judged(shop, problem, device, options), "commit": came["commit"]}
                print(name, _line(rows[name]), flush=True)
                ours = {key: rows[key] for key in sorted(rows)}
                save(path, {**came, "drawn": len(drawn), "seed": options.seed, **_summed(ours), "problems": ours})
        finally:
            shop.others.close()
            shop.close()
    missing = [problem.name for problem in drawn if f"{problem.parent.name}/{problem.name}" not in rows]
    print(f"{len(drawn) - len(missing)} of {len(drawn)} judged")
    return 1 if missing else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--levels", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--draw", type=int, default=40, help="0: every problem")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=500.0, help="no further problem is begun after these")
    parser.add_argument("--trials", type=float, default=3.0, help="seconds of trials for each workload")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--hidden", action="store_true", help="hidden workloads and the domain check as well")
    return parser.parse_args()


def _drawn(options: argparse.Namespace) -> list[Path]:
    found = [path for level in options.levels for path in tasks_in(options.checkout / f"level{level}")]
    return sorted(random.Random(options.seed).sample(found, options.draw)) if options.draw else found


def _judged(shop: EagerShop, problem: Path, device: Device, options: argparse.Namespace) -> dict[str, Any]:
    began = time.perf_counter()
    settings = Settings(
        baselines=("eager",),
        effort=Sampling(seconds=options.trials),
        public_only=not options.hidden,
        safety=False,
        device=device,
    )
    candidate = Candidate(CONTRACTS[device.kind], f"// eager {time.time_ns()}\n", "eager")
    try:
        task = shop.oracle.open(str(problem))
        opened = time.perf_counter() - began
        evaluation = Evaluation(shop, settings, task, candidate, secrets.token_bytes(KEY_BYTES))  # type: ignore[arg-type]
        verdict = evaluation.run(lambda _: None)
    except KernelwrightError as error:
        return {"verdict": "not judged", "why": str(error).replace(str(problem), problem.name)}
    found = {"verdict": verdict.verdict, "opened_s": round(opened, 2), "judged_s": round(verdict.seconds, 2)}
    return {**found, **_held(verdict, device), "oracle_bytes": shop.oracle.memory()["used"]}


def _held(verdict: Verdict, device: Device) -> dict[str, Any]:
    """Each workload's speedup over itself against the band; and what a rejection says."""
    workloads = []
    for result in verdict.workloads:
        fastest = result.fastest_baseline
        if fastest is None:
            continue
        band = statistics.band(device.kind, fastest.seconds)
        workloads.append(
            {
                "workload": result.label,
                "us": round(fastest.seconds * 1e6, 2),
                "speed": result.speed,
                "itself": [fastest.speedup.low, fastest.speedup.mid, fastest.speedup.high],
                "band": [band.low, band.high],
                "inside": band.low <= fastest.speedup.low and fastest.speedup.high <= band.high,
            }
        )
    why = {"reason": verdict.reason, "evidence": verdict.evidence.model_dump()} if verdict.evidence else {}
    return {"workloads": workloads, **why}


def _summed(rows: dict[str, Any]) -> dict[str, Any]:
    timed = [one for row in rows.values() for one in row.get("workloads", ())]
    return {
        "judged": len(rows),
        "accepted": sum(row["verdict"] == "accepted" for row in rows.values()),
        "workloads": len(timed),
        "inside": sum(one["inside"] for one in timed),
    }


def _line(row: dict[str, Any]) -> str:
    shown = ", ".join(
        f"{one['us']:.0f} µs {one['itself'][1]:.3f} {'inside' if one['inside'] else 'OUTSIDE'} ({one['speed']})"
        for one in row.get("workloads", ())
    )
    return f"{row['verdict']} {row.get('why', row.get('reason', ''))} {shown}"


if __name__ == "__main__":
    sys.exit(main())
