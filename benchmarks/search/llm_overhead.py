"""What the pipeline itself takes: five generations of eight proposals on a scripted endpoint that answers after 0.5 s.

Overhead per proposal is the wall time of a generation beyond what its calls had to wait for the model, divided by the
proposals. Calls must be concurrent up to the member's limit. Builds and judging are left out: they are not overhead
of asking. Run it on a quiet machine; it writes benchmarks/results/llm_overhead.json (or --out).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.shared.record import RESULTS, provenance, save  # noqa: E402
from tests.llm.scripted import Behaviour, Good, Seen, serving  # noqa: E402
from tests.proposers.llm import acting, samples  # noqa: E402

from kernelwright.llm.config import EnsembleConfig, Member, Price  # noqa: E402
from kernelwright.llm.ensemble import Ensemble, open_ensemble  # noqa: E402
from kernelwright.llm.model import CallRecord  # noqa: E402
from kernelwright.proposers.model import Operator, Request  # noqa: E402

GENERATIONS, PROPOSALS, MEASURED = 5, 8, 4


@dataclass
class Watched:
    """An ensemble that notes how long each round of calls took, and how long the longest call of it was."""

    inner: Ensemble
    rounds: list[dict[str, float]] = field(default_factory=list)

    def ask_all(self, asks: list[Any]) -> list[Any]:
        began = time.perf_counter()
        replies = self.inner.ask_all(asks)
        self.rounds.append({"calls": len(asks), "seconds": time.perf_counter() - began})
        return replies

    def estimate(self, asks: list[Any]) -> Any:
        return self.inner.estimate(asks)


def generation(number: int, models: Watched, latency: float, limit: int) -> dict[str, float]:
    """One request for eight proposals with five right kernels in the prompt: wall time, and what the model took."""
    parents = tuple(samples.parent((n % 8, *(5,) * 7), 1.0 + n / 8) for n in range(6))
    request = Request(Operator.mutate, MEASURED, number, parents[5:], parents[:5], number=number)
    models.rounds.clear()
    began = time.perf_counter()
    proposals = acting.proposer(models, PROPOSALS, ("scripted",)).propose(replace(request))
    wall = time.perf_counter() - began
    # A round of n calls through `limit` at a time cannot be quicker than this.
    waited = sum(-(-int(one["calls"]) // limit) * latency for one in models.rounds)
    calls = sum(one["calls"] for one in models.rounds)
    return {"wall": wall, "waited": waited, "calls": calls, "proposals": len(proposals)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, default=0.5, help="seconds until the scripted model answers")
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--out", type=Path, default=RESULTS / "llm_overhead.json")
    given = parser.parse_args()
    came = provenance()

    def script(seen: Seen) -> Behaviour:
        return Good(lambda seen: acting.act(seen.prompt, seen.body["seed"]), delay=given.latency)

    calls: list[CallRecord] = []
    with serving(script) as server, tempfile.TemporaryDirectory() as tape:
        member = Member(
            name="scripted",
            provider="compatible",
            model="m",
            base_url=server.url,
            concurrency=given.concurrency,
            price=Price(input=1.0, output=10.0),
        )
        with open_ensemble(EnsembleConfig(members=(member,)), record=Path(tape), on_called=calls.append) as inner:
            models = Watched(inner)
            generation(0, models, given.latency, given.concurrency)  # imports, connections
            calls.clear()
            rows = [generation(n, models, given.latency, given.concurrency) for n in range(1, GENERATIONS + 1)]
        most = server.most_at_once
    overheads = [(row["wall"] - row["waited"]) / PROPOSALS for row in rows]
    report = {
        **came,
        "latency_seconds": given.latency,
        "concurrency_limit": given.concurrency,
        "concurrency_reached": most,
        "generations": rows,
        "calls": len(calls),
        "overhead_ms_per_proposal": [round(1000 * value, 2) for value in overheads],
        "mean_overhead_ms_per_proposal": round(1000 * sum(overheads) / len(overheads), 2),
    }
    save(given.out, report)
    print(json.dumps({key: value for key, value in report.items() if key != "generations"}, indent=1))


if __name__ == "__main__":
    main()
