"""How many evaluations a policy takes to reach 95% of the best that any policy found, against random sampling.

    python benchmarks/search/search_policies.py [--seeds 5] [--budget 300evals]                       on a toy landscape
    python benchmarks/search/search_policies.py --task TASK --budget 40evals --name templates_cpu     on real templates

On real templates every candidate is judged twice, the less lucky verdict is remembered, and all policies and seeds meet
the same landscape; a final gets the same verdict again. Writes benchmarks/results/search_policies_NAME.json.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.shared.record import RESULTS, provenance, save  # noqa: E402
from tests.search import toy  # noqa: E402

from kernelwright.contracts import Candidate  # noqa: E402
from kernelwright.judge.server.client import ServerJudge  # noqa: E402
from kernelwright.judge.settings import ProgressCallback, Settings  # noqa: E402
from kernelwright.judge.verdict import Verdict  # noqa: E402
from kernelwright.search import proposing  # noqa: E402
from kernelwright.search.config import SearchConfig  # noqa: E402
from kernelwright.search.core.events import Evaluated, Started  # noqa: E402
from kernelwright.search.core.policies import POLICIES, policy_named  # noqa: E402
from kernelwright.search.core.score import estimate  # noqa: E402
from kernelwright.search.driver import Driver  # noqa: E402
from kernelwright.search.journal import read  # noqa: E402
from kernelwright.search.judging import JudgeClient, JudgeSettings, OnDevice  # noqa: E402
from kernelwright.search.pool import JudgePool  # noqa: E402
from kernelwright.search.run import take_up  # noqa: E402
from kernelwright.search.session import begin, runs_in  # noqa: E402
from kernelwright.tasks.resolve import resolve  # noqa: E402

NEAR = 0.95


@dataclass(frozen=True)
class Curve:
    """The fastest so far, after each quick evaluation of a run."""

    task: str
    policy: str
    seed: int
    fastest: tuple[float, ...]

    def reaches(self, value: float) -> int | None:
        return next((count for count, best in enumerate(self.fastest, 1) if best >= value), None)


def curve(folder: Path) -> Curve:
    """By estimates, which every evaluation has; finals are left out, as all policies have the same."""
    started: Started | None = None
    fastest: list[float] = []
    for event in read(folder):
        if isinstance(event, Started):
            started = event
        elif isinstance(event, Evaluated):
            fastest.append(max(event.estimate or 0.0, fastest[-1] if fastest else 0.0))
    assert started is not None
    return Curve(started.task_name, started.policy, started.seed, tuple(fastest))


def compared(curves: list[Curve]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for task in sorted({one.task for one in curves}):
        mine = [one for one in curves if one.task == task and one.fastest]
        best = max(one.fastest[-1] for one in mine)
        by_policy: dict[str, list[Curve]] = defaultdict(list)
        for one in sorted(mine, key=lambda one: one.seed):
            by_policy[one.policy].append(one)
        found[task] = {"best": best, "policies": {name: _row(runs, best) for name, runs in by_policy.items()}}
    return found


def _row(runs: list[Curve], best: float) -> dict[str, Any]:
    counts = [one.reaches(NEAR * best) for one in runs]
    middle = median(math.inf if count is None else count for count in counts)
    return {
        "seeds": [one.seed for one in runs],
        "evaluations": [len(one.fastest) for one in runs],
        "final": [one.fastest[-1] for one in runs],
        "reached_after": counts,  # null: not within the run
        "median_reached_after": None if math.isinf(middle) else middle,
    }


def toy_runs(seeds: int, budget: str, root: Path) -> list[Path]:
    for policy in POLICIES:
        for seed in range(seeds):
            toy.search(root / f"{policy}-{seed}", policy=policy, seed=seed, budget=budget)
    return [found for folder in sorted(root.iterdir()) for found in runs_in(folder)]


@dataclass
class Remembered:
    """A judge that judges each candidate twice, quickly, and keeps the less lucky verdict."""

    inner: JudgeClient
    settings: Settings
    known: dict[str, Verdict] = field(default_factory=dict)

    def expect(self, *_: object) -> None:
        """There is nothing to build."""

    def judge(
        self, task: str, candidate: Candidate, settings: Settings, progress: ProgressCallback, deadline: float
    ) -> Verdict:
        if candidate.id not in self.known:
            both = [self.inner.judge(task, candidate, self.settings, progress, deadline) for _ in range(2)]
            self.known[candidate.id] = min(both, key=lambda verdict: estimate(verdict) or 0.0)
        return self.known[candidate.id]


def real_runs(task: str, seeds: int, budget: str, root: Path) -> tuple[list[Path], int]:
    """The runs, and how many candidates were judged for all of them."""
    settings = JudgeSettings().using(0, ("eager",))
    folders = []
    with ServerJudge(settings.quick, own=True) as server:
        judge = Remembered(OnDevice(server), settings.quick)
        for policy in POLICIES:
            for seed in range(seeds):
                config = SearchConfig(
                    task=task, policy=policy, seed=seed, baseline=("eager",), runs=root, budget=budget
                )
                folder = begin(config).folder
                run = take_up(folder, budget, time.time())
                made = proposing.make(proposing.Given(run.state.run, resolve(task), folder))
                Driver(run, made.proposer, JudgePool([judge]), policy_named(policy), settings).go()
                run.close()
                folders.append(folder)
                print(policy, seed, len(judge.known), "judged so far", flush=True)
    return folders, len(judge.known)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--budget", default="300evals")
    parser.add_argument("--task", default=None, help="real templates instead of the toy")
    parser.add_argument("--name", default="toy")
    options = parser.parse_args()
    report: dict[str, Any] = {**provenance(), "near": NEAR}
    with tempfile.TemporaryDirectory(prefix="kernelwright-bench-") as folder:
        if options.task is None:
            folders = toy_runs(options.seeds, options.budget, Path(folder))
        else:
            folders, report["judged"] = real_runs(options.task, options.seeds, options.budget, Path(folder))
        report["tasks"] = compared([curve(one) for one in folders])
    save(RESULTS / f"search_policies_{options.name}.json", report)
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
