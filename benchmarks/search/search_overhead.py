"""What journal, policy, driver and run directory cost per evaluation, with a judge that takes no time.

    python benchmarks/search/search_overhead.py [--events 10000]

Writes benchmarks/results/search_overhead.json: milliseconds per evaluation in laps of the same number of events, so
that growth with the length of a run would show, and how long a replay of the whole journal takes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.shared.record import RESULTS, provenance, save  # noqa: E402
from tests.search import toy  # noqa: E402

from kernelwright.search.core.events import Event, Stopped  # noqa: E402
from kernelwright.search.core.policies import POLICIES  # noqa: E402
from kernelwright.search.core.state import State  # noqa: E402
from kernelwright.search.directory import Directory  # noqa: E402
from kernelwright.search.driver import Driver  # noqa: E402
from kernelwright.search.pool import JudgePool  # noqa: E402
from kernelwright.search.run import create, look, take_up  # noqa: E402

LAPS = 10


class Watch:
    """Notes, after every event, when it was and how many judgings there had been."""

    def __init__(self, wanted: int) -> None:
        self.wanted, self.notes = wanted, [(time.perf_counter(), time.process_time(), 0)]

    def __call__(self, event: Event, state: State) -> None:
        self.notes.append((time.perf_counter(), time.process_time(), state.spent.evaluations))
        if len(self.notes) > self.wanted and not isinstance(event, Stopped):
            raise KeyboardInterrupt  # a driver stops cleanly on it

    def laps(self, clock: int = 0) -> list[float]:
        """Milliseconds per evaluation, lap by lap, by wall (0) or processor (1) time."""
        marks = self.notes[:: max(1, len(self.notes) // LAPS)][: LAPS + 1]
        return [
            1e3 * (later[clock] - earlier[clock]) / max(1, later[2] - earlier[2])
            for earlier, later in itertools.pairwise(marks)
        ]


def measure(policy: str, events: int, folder: Path) -> dict[str, Any]:
    made = create(folder, toy.started(policy))
    run = take_up(made, f"{10 * events}evals", time.time())
    watch = Watch(events)
    run.watch(Directory(made))
    run.watch(watch)
    state = Driver(run, toy.ToyProposer(), JudgePool([toy.ToyJudge()]), POLICIES[policy]).go()
    run.close()
    begin = time.perf_counter()
    replayed = look(made)
    replay = time.perf_counter() - begin
    assert replayed == state
    laps = watch.laps()
    return {
        "events": len(watch.notes) - 1,
        "evaluations": state.spent.evaluations,
        "candidates": len(state.entries),
        "ms_per_evaluation_by_lap": laps,
        "ms_per_evaluation": median(laps),
        "processor_ms_per_evaluation": median(watch.laps(1)),
        "last_over_first": laps[-1] / laps[0],
        "replay_seconds": replay,
        "journal_bytes": (made / "journal.db").stat().st_size,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=10_000)
    options = parser.parse_args()
    report: dict[str, Any] = {**provenance(), "policies": {}}
    with tempfile.TemporaryDirectory(prefix="kernelwright-bench-") as folder:
        for policy in POLICIES:
            report["policies"][policy] = measure(policy, options.events, Path(folder))
            print(policy, json.dumps(report["policies"][policy]), flush=True)
    save(RESULTS / "search_overhead.json", report)


if __name__ == "__main__":
    main()
