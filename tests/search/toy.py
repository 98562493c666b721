"""A toy problem for searches: a kernel is eight genes, and its speed is known. It takes no time and no compiler."""

from __future__ import annotations

import itertools
import math
import random
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kernelwright.contracts import Candidate
from kernelwright.contracts.registry import fingerprint
from kernelwright.judge.settings import ProgressCallback, Settings
from kernelwright.judge.verdict import (
    BaselineTime,
    Conditions,
    DomainCheck,
    IntervalValue,
    Outcome,
    Reason,
    SpeedStatus,
    Stage,
    Verdict,
    WorkloadResult,
)
from kernelwright.proposers.model import Operator, Proposal, Request
from kernelwright.search.core.events import (
    Answered,
    Continued,
    Evaluate,
    Evaluated,
    Event,
    FinalHeld,
    Planned,
    Proposed,
    Started,
)
from kernelwright.search.core.policies import policy_named, policy_of
from kernelwright.search.core.score import estimate
from kernelwright.search.core.state import State, fold
from kernelwright.search.driver import Driver, for_journal
from kernelwright.search.pool import JudgePool
from kernelwright.search.proposing import Made, ProposerKind
from kernelwright.search.run import create, take_up

GENES, LEVELS = 8, 8
CONDITIONS = Conditions(
    sandbox="toy", arena="toy", safety="toy", device="toy", threads=1, judge_version="toy", compiler="toy"
)
WHOLE_DOMAIN = DomainCheck(
    points=4, calls=8, classes=6, classes_possible=6, coarse_pairs=9, coarse_pairs_possible=9, fine_pairs=4,
    fine_pairs_possible=16, values=("nan",), seconds=0.1,
)  # fmt: skip
Genes = tuple[int, ...]


def source_of(genes: Genes) -> str:
    return f"void kernel() {{ use({', '.join(map(str, genes))}); }}\n"


def genes_of(candidate: Candidate) -> Genes:
    return tuple(int(gene) for gene in re.findall(r"\d+", candidate.source.split("use(")[1].split(")")[0]))


def candidate_of(genes: Genes) -> Candidate:
    return Candidate("cpp", source_of(genes), "-".join(map(str, genes)))


def speed(genes: Genes) -> float:
    """Up to 4 times, where every gene is at 5 and neighbours agree; neighbours' interplay makes it rugged."""
    close = sum(1 - abs(gene - 5) / 7 for gene in genes) / GENES
    agree = sum(a == b for a, b in itertools.pairwise(genes)) / (GENES - 1)
    return 0.25 * math.exp(2.0 * close + 0.8 * close * agree)


def is_wrong(genes: Genes) -> bool:
    return sum(genes) % 11 == 3


def verdict_of(
    candidate: Candidate,
    factors: Sequence[tuple[str, float, bool]],
    *,
    spread: float = 0.02,
    status: SpeedStatus = SpeedStatus.measured,
    outcome: Outcome = Outcome.accepted,
    certificate: str | None = None,
    domain: DomainCheck | None = WHOLE_DOMAIN,
) -> Verdict:
    """A verdict with these speedups over one baseline: (label, factor, hidden)."""
    results = tuple(
        WorkloadResult(
            label=label,
            sizes={"n": 1},
            dtype="float32",
            hidden=hidden,
            speed=status,
            seconds=1e-3 / factor,
            baselines=(
                BaselineTime(
                    baseline="eager",
                    seconds=1e-3,
                    speedup=IntervalValue(low=factor * (1 - spread), mid=factor, high=factor * (1 + spread)),
                ),
            ),
        )
        for label, factor, hidden in factors
    )
    accepted = outcome is Outcome.accepted
    return Verdict(
        candidate=candidate.id,
        name=candidate.name,
        task="toy",
        contract=candidate.contract,
        verdict=outcome,
        stage=Stage.complete if accepted else Stage.compare,
        reason=Reason.right if accepted else Reason.wrong,
        workloads=results,
        conditions=CONDITIONS,
        domain=domain if accepted else None,
        certificate=certificate,
    )


@dataclass
class ToyJudge:
    """Knows every kernel's speed, and tells it with the same noise every time that it is asked the same."""

    seconds: float = 0.0
    noise: float = 0.01
    calls: list[tuple[str, bool]] = field(default_factory=list)
    asked: Callable[[Candidate, Settings], None] = lambda candidate, settings: None

    def expect(self, *_: object) -> None:
        """There is nothing to build."""

    def judge(
        self, task: str, candidate: Candidate, settings: Settings, progress: ProgressCallback, deadline: float
    ) -> Verdict:
        self.calls.append((candidate.id, settings.public_only))
        self.asked(candidate, settings)
        if self.seconds:
            time.sleep(self.seconds)
        genes = genes_of(candidate)
        draw = random.Random(f"{candidate.id} {settings.public_only}{settings.hidden_of}")
        labels = [("a", False), ("b", False), *([] if settings.public_only else [("c", True)])]
        factors = [(label, speed(genes) * math.exp(draw.gauss(0, self.noise)), hidden) for label, hidden in labels]
        outcome = Outcome.rejected if is_wrong(genes) else Outcome.accepted
        certificate = f"toy-{candidate.id}" if settings.certify and not settings.hidden_of else None
        domain = WHOLE_DOMAIN if settings.checks_domain else None
        return verdict_of(candidate, factors, outcome=outcome, certificate=certificate, domain=domain)


@dataclass(frozen=True)
class ToyProposer:
    name: str = "toy"

    def propose(self, request: Request) -> Sequence[Proposal]:
        draw = random.Random(request.seed)
        parents = [genes_of(parent.proposal.candidate) for parent in request.parents]
        ids = tuple(parent.proposal.candidate.id for parent in request.parents)
        found = []
        for _ in range(request.count):
            match request.operator:
                case Operator.fresh | Operator.sample:
                    genes = tuple(draw.randrange(LEVELS) for _ in range(GENES))
                case Operator.mutate | Operator.repair:
                    genes = _mutated(parents[0], draw)
                case Operator.crossover:
                    genes = tuple(draw.choice(pair) for pair in zip(*parents, strict=True))
            named = {f"g{index}": gene for index, gene in enumerate(genes)}
            named["shape"] = str(genes[0] // 4)
            found.append(Proposal(candidate_of(genes), f"toy {request.operator}", named, "a toy", ids))
        return found


KIND = ProposerKind(make=lambda given: Made(ToyProposer()), lockstep=True, reusable=True)


def _mutated(genes: Genes, draw: random.Random) -> Genes:
    changed = list(genes)
    for place in draw.sample(range(GENES), draw.choice((1, 1, 2))):
        changed[place] = max(0, min(LEVELS - 1, changed[place] + draw.choice((-2, -1, 1, 2))))
    return tuple(changed)


def started(policy: str = "greedy", seed: int = 1, **others: object) -> Started:
    """`policy` may have parameters, as on the command line: `islands:islands=2`."""
    chosen = policy_named(policy)
    values = {
        "at": 1000.0, "task": "toy", "task_name": "toy", "contract": "cpp", "device": "cpu", "proposer": "toy",
        "policy": chosen.name, "policy_parameters": chosen.parameters, "seed": seed,
        "plateau": 10_000, "lockstep": True,
    }  # fmt: skip
    return Started.model_validate(values | others)


def search(
    root: Path,
    *,
    policy: str = "greedy",
    seed: int = 1,
    budget: str = "60evals",
    judge: ToyJudge | list[ToyJudge] | None = None,
    starts: Sequence[Proposal] = (),
    **others: object,
) -> State:
    """A whole toy run, from its start to its end."""
    return resume(create(root, started(policy, seed, **others), starts), budget, judge)


def resume(folder: Path, budget: str, judge: ToyJudge | list[ToyJudge] | None = None) -> State:
    run = take_up(folder, budget, time.time())
    try:
        clients = judge if isinstance(judge, list) else [judge or ToyJudge()]
        return Driver(run, ToyProposer(), JudgePool(clients), policy_of(run.state.run)).go()
    finally:
        run.close()


def proposed(number: int, genes: Genes, at: float = 1.0, request: int | None = 1) -> Proposed:
    candidate = candidate_of(genes)
    return Proposed(
        at=at, number=number, request=request, contract="cpp", source=candidate.source, name=candidate.name,
        origin="toy", fingerprint=fingerprint(candidate),
    )  # fmt: skip


def evaluated(number: int, genes: Genes, factor: float, *, outcome: Outcome = Outcome.accepted) -> Evaluated:
    verdict = verdict_of(candidate_of(genes), [("a", factor, False)], outcome=outcome)
    return Evaluated(at=2.0, number=number, verdict=for_journal(verdict), estimate=estimate(verdict), seconds=1)


def numbered_genes(number: int) -> Genes:
    """Others for every number."""
    return tuple((number >> (3 * place)) % 8 for place in range(8))


def state_with(
    *factors: float, budget: str = "1000evals", waiting: int = 0, events: tuple[Event, ...] = (), **others: object
) -> State:
    """So many candidates evaluated with these speeds, and some more in the queue."""
    history: list[Event] = [started(**others), Continued(at=1000.0, budget=budget)]
    for number, factor in enumerate(factors, 1):
        history.append(proposed(number, numbered_genes(number), 1000.0))
        history.append(Planned(at=1000.0, actions=(Evaluate(number=number),)))
        history.append(evaluated(number, numbered_genes(number), factor).model_copy(update={"at": 1000.0}))
    for number in range(len(factors) + 1, len(factors) + 1 + waiting):
        history.append(proposed(number, numbered_genes(number), 1000.0))
    return fold([*history, *events])


def final(number: int, score: float | None, *, won: bool, best: int | None = None) -> FinalHeld:
    verdict = verdict_of(candidate_of(numbered_genes(number)), [("a", score or 1.0, False)])
    return FinalHeld(
        at=1000.0, challenger=number, best=best, verdict=for_journal(verdict), estimate=score or 2.0,
        score=score, won=won, why="", judgings=1, seconds=1,
    )  # fmt: skip


def barren(request: int) -> Answered:
    """An answer that brought nothing new."""
    return Answered(at=1000.0, request=request, taken=0, seconds=0)


def essence(state: State) -> object:
    """What must not depend on how often a run was killed: everything but times."""
    entries = {
        number: (entry.proposal, entry.standing, entry.estimate, entry.score, entry.final, entry.chosen, entry.children)
        for number, entry in state.entries.items()
    }
    return (
        entries,
        state.best,
        state.fastest,
        state.archive,
        state.queue,
        state.requests,
        state.refused,
        state.evaluated,
        state.spent.evaluations,
        state.stopped and (state.stopped.reason, state.stopped.detail),
    )


if __name__ == "__main__":  # a driver that a test can kill
    import sys

    latencies = [float(seconds) for seconds in sys.argv[3].split(",")]
    resume(Path(sys.argv[1]), sys.argv[2], [ToyJudge(seconds=seconds) for seconds in latencies])
