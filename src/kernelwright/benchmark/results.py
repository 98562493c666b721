"""A results file: what a benchmark over a suite found, as raw rows. Every metric is a function of these.

It is a text file with a JSON object in each line (docs/bench.md), and it is also the benchmark's journal: lines are
only ever appended, and what a line says is never changed. `fold` makes `Results` of the lines. Nothing in it tells the
sizes or times of a hidden workload, so that a file can be passed on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter

from kernelwright.errors import KernelwrightError
from kernelwright.judge.verdict import IntervalValue, SpeedStatus

VERSION = 1
MOST_ATTEMPTS = 3  # commands that may end without a word while they are at a sample, before it counts as failed


MOST_TASKS, MOST_CATEGORIES, MOST_SAMPLES = 10_000, 200, 1_000_000
LARGEST = 1e12  # of a time in seconds, a cost, a ratio, and one over a ratio: their logarithms and sums are numbers

# A stranger's file is read as well: with these no metric overflows.
Amount = Annotated[float, Field(ge=0.0, le=LARGEST)]
Score = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
Count = Annotated[int, Field(ge=0)]


def _ratios(speedup: IntervalValue) -> IntervalValue:
    if not all(1 / LARGEST <= value <= LARGEST for value in (speedup.low, speedup.mid, speedup.high)):
        raise ValueError("a speedup is not a ratio of two times")
    return speedup


class ResultsError(KernelwrightError):
    """A results file that is not one, or results that do not go together."""


class ResultPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RowOutcome(StrEnum):
    """What came of a sample. `nothing`: a search ended without a candidate that is right. `failed`: no verdict was
    possible; the row says why."""

    accepted = "accepted"
    rejected = "rejected"
    undecided = "undecided"
    nothing = "nothing"
    failed = "failed"


class RejectionClass(StrEnum):
    """In what general way a candidate was rejected. The judge does not guess at intent: `protocol` and `memory` are
    where most cheats end that are not simply wrong, and `wrong_hidden` is where those end that fit public workloads."""

    build = "build"
    crash = "crash"
    deadline = "deadline"
    memory = "memory"
    protocol = "protocol"
    precision = "precision"
    wrong = "wrong"
    wrong_hidden = "wrong_hidden"


class PlannedTask(ResultPart):
    """A task of the suite. `samples`: how many candidates, or searches, are judged for it."""

    name: str
    category: str
    samples: int = Field(ge=0, le=MOST_SAMPLES)


class BenchmarkPlan(ResultPart):
    """The first line: what is measured. A command goes on with a file only if its own plan is the same."""

    line: Literal["plan"] = "plan"
    version: Literal[1] = 1
    entrant: str
    suite: str
    source: Literal["candidates", "proposer"]
    proposer: str = ""
    models: tuple[str, ...] = ()
    contract: str | None = None
    device: str
    baselines: tuple[str, ...]
    threads: int
    budget: str = ""
    seed: int = 0
    tasks: tuple[PlannedTask, ...] = Field(min_length=1, max_length=MOST_TASKS)


class BenchmarkEnvironment(ResultPart):
    """Where rows after this line were measured. `judge_code` is a hash of all that decides a verdict. `load` is the
    machine's load average when the command began: more than a little of it makes speeds undecided."""

    line: Literal["environment"] = "environment"
    judge_version: str
    judge_code: str
    device: str
    threads: int
    driver: str | None = None
    torch: str
    python: str
    kernel: str
    cpu: str
    cores: int
    load: float
    at: float

    @property
    def identity(self) -> dict[str, object]:
        """What must be the same for two rows to be averaged."""
        return {
            "the device": self.device,
            "threads": self.threads,
            "the driver": self.driver,
            "PyTorch": self.torch,
            "the judge's version": self.judge_version,
            "the judge's code": self.judge_code,
        }


class Begun(ResultPart):
    """A sample is begun; `run` is the folder of its search, once there is one."""

    line: Literal["begun"] = "begun"
    task: str
    sample: int
    run: str = ""
    at: float


class PutDown(ResultPart):
    """The command was interrupted at this sample, which another command begins again, or goes on with."""

    line: Literal["put_down"] = "put_down"
    task: str
    sample: int
    at: float


class Unopened(ResultPart):
    """The task could not be opened at all, before any candidate was looked at. It counts for no entrant."""

    line: Literal["unopened"] = "unopened"
    task: str
    why: str
    at: float


class SpeedOver(ResultPart):
    """`speedup.low` is what may be claimed. `seconds` of hidden workloads are not kept."""

    baseline: str
    claimable: bool = True
    seconds: Amount | None = None
    speedup: Annotated[IntervalValue, AfterValidator(_ratios)]


class WorkloadRow(ResultPart):
    """A timed workload. A hidden one is `hidden 1`, and has no times. `of_bound`: the bound's time over the
    candidate's; `sol`: 0.5 at the fastest baseline, 1 at the bound; null where no bound is known."""

    name: str
    dtype: str
    hidden: bool
    speed: SpeedStatus
    seconds: Amount | None = None
    baselines: tuple[SpeedOver, ...] = ()
    of_bound: Amount | None = None
    sol: Score | None = None


class ErrorRow(ResultPart):
    """The error of one result beside eager's, in units of what one rounding of every step moves an element by."""

    result: str
    rms: Amount
    eager_rms: Amount
    ulp: float
    eager_ulp: float
    share: float
    finding: str


class SampleCost(ResultPart):
    """What a sample took, where it is known: a candidate from a folder has no tokens."""

    evaluations: Count = 0
    wall_seconds: float = Field(0.0, ge=0.0)
    device_seconds: float = Field(0.0, ge=0.0)
    tokens: Count = 0
    usd: float = Field(0.0, ge=0.0)
    unpriced_calls: Count = 0


def _one_sample(cost: SampleCost) -> SampleCost:
    if max(cost.wall_seconds, cost.device_seconds, cost.usd) > LARGEST:
        raise ValueError("a cost is larger than that of any sample")
    return cost


class SampleRow(ResultPart):
    """A sample of a task, judged. `rejections` counts every candidate that was rejected on the way, in a search; of a
    single candidate it is its own class. `other_cores` is how many cores others kept busy during the trials."""

    line: Literal["row"] = "row"
    task: str
    sample: int
    outcome: RowOutcome
    candidate: str = ""
    name: str = ""
    contract: str = ""
    stage: str = ""
    reason: str = ""
    why: str = ""
    right_on_public: bool | None = None
    partial_domain: bool = False
    workloads: tuple[WorkloadRow, ...] = ()
    errors: tuple[ErrorRow, ...] = ()
    library: tuple[str, ...] = ()  # operators that torch carries out for it, on public workloads
    left_out: tuple[str, ...] = ()  # baselines that could not do this task, each with why
    rejections: dict[RejectionClass, int] = Field(default_factory=dict)
    suspect: bool = False  # faster than the device can be
    cost: Annotated[SampleCost, AfterValidator(_one_sample)] = SampleCost()
    certificates: tuple[str, ...] = ()
    other_cores: float | None = None
    environment: Count = 0  # which of the file's environments
    at: float


ResultLine = Annotated[
    BenchmarkPlan | BenchmarkEnvironment | Begun | PutDown | Unopened | SampleRow, Field(discriminator="line")
]
line_of: TypeAdapter[ResultLine] = TypeAdapter(ResultLine)
SampleKey = tuple[str, int]


class Results(ResultPart):
    """A results file, folded: of each sample the last row. `origin` names the file."""

    origin: str
    plan: BenchmarkPlan
    environments: tuple[BenchmarkEnvironment, ...] = ()
    rows: tuple[SampleRow, ...] = ()
    unopened: dict[str, str] = Field(default_factory=dict)
    attempts: dict[str, int] = Field(default_factory=dict)  # commands that ended without a word, by `task sample`
    runs: dict[str, str] = Field(default_factory=dict)  # the search of a sample that was begun

    @property
    def by_sample(self) -> Mapping[SampleKey, SampleRow]:
        return {(row.task, row.sample): row for row in self.rows}

    @property
    def judged(self) -> int:
        return len(self.rows)

    @property
    def planned(self) -> int:
        return sum(task.samples for task in self.plan.tasks if task.name not in self.unopened)


def sample_name(task: str, sample: int) -> str:
    return f"{task} {sample}"


def fold(lines: Iterable[ResultLine], origin: str) -> Results:
    """The results that lines come to. The first one is the plan, and there is no other."""
    plan: BenchmarkPlan | None = None
    environments: list[BenchmarkEnvironment] = []
    rows: dict[SampleKey, SampleRow] = {}
    unopened: dict[str, str] = {}
    attempts: dict[str, int] = {}
    runs: dict[str, str] = {}
    for line in lines:
        if (plan is None) != isinstance(line, BenchmarkPlan):
            raise ResultsError(f"{origin}: its first line, and no other, says what is measured")
        match line:
            case BenchmarkPlan():
                plan = line
            case BenchmarkEnvironment():
                environments.append(line)
            case Begun(run=""):
                name = sample_name(line.task, line.sample)
                attempts[name] = attempts.get(name, 0) + 1
            case Begun():
                runs[sample_name(line.task, line.sample)] = line.run
            case PutDown():
                attempts.pop(sample_name(line.task, line.sample), None)
            case Unopened():
                unopened[line.task] = line.why
            case SampleRow():
                if not line.environment < len(environments):
                    raise ResultsError(f"{origin}: a row of {line.task} names an environment that is not there")
                rows[line.task, line.sample] = line
                unopened.pop(line.task, None)  # it could be opened later
    if plan is None:
        raise ResultsError(f"{origin}: is empty")
    _require_planned(plan, rows, unopened, origin)
    return Results(
        origin=origin,
        plan=plan,
        environments=tuple(environments),
        rows=tuple(rows.values()),
        unopened=unopened,
        attempts=attempts,
        runs=runs,
    )


def _require_planned(
    plan: BenchmarkPlan, rows: Mapping[SampleKey, SampleRow], unopened: Mapping[str, str], origin: str
) -> None:
    samples = {task.name: task.samples for task in plan.tasks}
    if len({task.category for task in plan.tasks}) > MOST_CATEGORIES:
        raise ResultsError(f"{origin}: its plan has more than {MOST_CATEGORIES} categories")
    if len(samples) < len(plan.tasks):
        raise ResultsError(f"{origin}: its plan has a task twice")
    for name, sample in (*rows, *((name, -1) for name in unopened)):
        if sample >= samples.get(name, -1):
            raise ResultsError(f"{origin}: has a row of {name}, sample {sample}, which its plan does not have")


def environment_of(results: Results) -> BenchmarkEnvironment:
    """The one environment of all rows, or an error in one line: rows of two are never averaged."""
    used = [results.environments[row.environment] for row in results.rows] or list(results.environments[:1])
    if not used:
        raise ResultsError(f"{results.origin}: has no rows yet; go on with the same `kernelwright bench` command")
    for other in used[1:]:
        if difference := differs(used[0], other):
            raise ResultsError(f"{results.origin}: its rows cannot be averaged: {difference}")
    return used[0]


def differs(one: BenchmarkEnvironment, other: BenchmarkEnvironment) -> str:
    """What keeps two environments apart, in words; empty where nothing does."""
    for what, value in one.identity.items():
        if (there := other.identity[what]) != value:
            return f"{what} differs ({_short(value)} and {_short(there)})"
    return ""


def require_comparable(several: Iterable[Results]) -> None:
    """Refuses results that one table would compare and that were not measured alike."""
    first: Results | None = None
    for one in several:
        here = environment_of(one)
        if first is None:
            first = one
            continue
        difference = differs(environment_of(first), here) or _plan_differs(first.plan, one.plan)
        if difference:
            raise ResultsError(
                f"{first.origin} and {one.origin} cannot stand on one leaderboard: {difference}; give each a command "
                "of its own"
            )


def _plan_differs(one: BenchmarkPlan, other: BenchmarkPlan) -> str:
    if {task.name for task in one.tasks} != {task.name for task in other.tasks}:
        return "they are of different tasks"
    if set(one.baselines) != set(other.baselines):
        return f"the baselines differ ({', '.join(one.baselines)} and {', '.join(other.baselines)})"
    return ""


def _short(value: object) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:12]}…"
