"""Results for tests: plans, environments and rows with known speeds, without a judge."""

from __future__ import annotations

from collections.abc import Sequence

from kernelwright.benchmark.results import (
    BenchmarkEnvironment,
    BenchmarkPlan,
    PlannedTask,
    Results,
    RowOutcome,
    SampleCost,
    SampleRow,
    SpeedOver,
    WorkloadRow,
    fold,
)
from kernelwright.judge.verdict import IntervalValue, SpeedStatus

ENVIRONMENT = BenchmarkEnvironment(
    judge_version="0.1.0", judge_code="c" * 64, device="cpu: toy", threads=2, torch="2.13.0", python="3.11.0",
    kernel="6.1", cpu="toy", cores=2, load=0.1, at=1.0,
)  # fmt: skip


def plan(tasks: Sequence[str | tuple[str, str]] = ("a", "b"), samples: int = 1, **others: object) -> BenchmarkPlan:
    """Tasks are names, or pairs of a name and a category."""
    pairs = [(one, "all") if isinstance(one, str) else one for one in tasks]
    values: dict[str, object] = {
        "entrant": "toy", "suite": "toys", "source": "candidates", "device": "cpu", "baselines": ("eager", "compile"),
        "threads": 2, "tasks": [PlannedTask(name=name, category=kind, samples=samples) for name, kind in pairs],
    }  # fmt: skip
    return BenchmarkPlan.model_validate(values | others)


def workload(
    low: float,
    *,
    eager: float | None = None,
    hidden: bool = False,
    speed: SpeedStatus = SpeedStatus.measured,
    of_bound: float | None = None,
    sol: float | None = None,
) -> WorkloadRow:
    """`low` is what may be claimed over the best baseline, `compile`; over eager it is more."""
    pairs = (("eager", low * 2 if eager is None else eager), ("compile", low))
    return WorkloadRow(
        name="hidden 1" if hidden else "n=64",
        dtype="float32",
        hidden=hidden,
        speed=speed,
        seconds=None if hidden else 1e-3,
        baselines=tuple(
            SpeedOver(baseline=name, speedup=IntervalValue(low=value, mid=value * 1.1, high=value * 1.2))
            for name, value in pairs
        ),
        of_bound=of_bound,
        sol=sol,
    )


def row(
    task: str = "a",
    sample: int = 0,
    low: float | None = 1.2,
    outcome: RowOutcome = RowOutcome.accepted,
    workloads: Sequence[WorkloadRow] | None = None,
    **others: object,
) -> SampleRow:
    """Accepted with a claim of `low` on a public and a hidden workload; None: of undecided speed."""
    if workloads is None:
        status = SpeedStatus.measured if low is not None else SpeedStatus.noisy
        workloads = [workload(low or 1.0, hidden=hidden, speed=status) for hidden in (False, True)]
    values: dict[str, object] = {
        "task": task, "sample": sample, "outcome": outcome, "candidate": "0" * 16, "name": f"{task}.cpp",
        "contract": "cpp", "right_on_public": outcome is RowOutcome.accepted, "cost": SampleCost(wall_seconds=1.0),
        "workloads": tuple(workloads) if outcome is RowOutcome.accepted else (), "at": 2.0,
    }  # fmt: skip
    return SampleRow.model_validate(values | others)


def results(
    rows: Sequence[SampleRow],
    tasks: Sequence[str | tuple[str, str]] | None = None,
    samples: int = 1,
    environment: BenchmarkEnvironment = ENVIRONMENT,
    origin: str = "toy.jsonl",
    **others: object,
) -> Results:
    names = tasks if tasks is not None else list(dict.fromkeys(one.task for one in rows))
    return fold([plan(names, samples, **others), environment, *rows], origin)
