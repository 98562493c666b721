"""A leaderboard: results files side by side, as tables of words that a terminal, Markdown and a page all show.

Cells that hold a text of others (names of entrants, tasks and candidates, and why one was rejected) are marked, so that
each of the three can show them without obeying them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernelwright.benchmark.metrics import (
    EAGER,
    SPEEDS,
    MetricEstimate,
    Metrics,
    Summary,
    claim,
    error_ratio,
    is_tie,
    metrics,
    opened_tasks,
)
from kernelwright.benchmark.results import (
    BenchmarkEnvironment,
    RejectionClass,
    Results,
    RowOutcome,
    SampleRow,
    environment_of,
    require_comparable,
)
from kernelwright.judge.wording import counted, duration, library_words
from kernelwright.version import __version__

NONE = "—"
BUSY = 0.5  # cores that others kept busy, on the median sample: said beside the figures


@dataclass(frozen=True)
class BoardEntrant:
    """One results file on a leaderboard."""

    label: str
    results: Results
    metrics: Metrics

    @property
    def complete(self) -> bool:
        return self.results.judged >= self.results.planned


@dataclass(frozen=True)
class Foreign:
    """A text of others."""

    text: str


Cell = str | Foreign


@dataclass(frozen=True)
class BoardTable:
    title: str
    note: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class Leaderboard:
    ranked: tuple[BoardEntrant, ...]
    environment: BenchmarkEnvironment
    suite: str
    baselines: tuple[str, ...]
    version: str = __version__

    @property
    def tables(self) -> tuple[BoardTable, ...]:
        found = [part(self.ranked) for part in (_overall, _over_eager, _outcomes, _rejected, _costs)]
        if any(len(one.metrics.categories) > 1 for one in self.ranked):
            found.append(_categories(self.ranked))
        return (*found, _tasks(self.ranked), *_unopened(self.ranked))

    @property
    def conditions(self) -> str:
        here = self.environment
        threads = f", {counted(here.threads, 'thread')}" if here.threads else ""
        driver = f", driver {here.driver}" if here.driver else ""
        return (
            f"{here.device}{threads}{driver}; PyTorch {here.torch}; judge {here.judge_version} "
            f"({here.judge_code[:12]}); baselines {', '.join(self.baselines)}"
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        found = []
        for one in self.ranked:
            if not one.complete:
                found.append(
                    f"{one.label}: {one.results.judged} of {counted(one.results.planned, 'sample')} judged so far; the "
                    "others count as not right"
                )
            busy = sorted(row.other_cores for row in one.results.rows if row.other_cores is not None)
            usual = busy[len(busy) // 2] if busy else 0.0
            if usual >= BUSY:
                found.append(
                    f"{one.label}: measured on a busy machine (others kept {usual:.1f} cores busy during the trials of "
                    "the median sample), so that many speeds are undecided"
                )
        return tuple(found)


READING = (
    "Every task weighs the same. Rates count every planned sample: rejected, undecided, failed and unjudged ones are "
    "not right, and an undecided speed is not fast. A speedup is the geometric mean of the lower ends of 95% intervals "
    "over all workloads, hidden ones included, against the best baseline, over the tasks that have one (their number "
    "is in brackets). A time at 95% of the bound's speed or better is a tie: it counts as 1, so in fast_1 and in no "
    "other. SOL is 0.5 at the fastest baseline and 1 at the bound. Square brackets are 95% intervals over tasks."
)


def leaderboard(several: Sequence[Results]) -> Leaderboard:
    """Refuses, in one line, what was not measured alike."""
    require_comparable(several)
    labels = _labels(several)
    ranked = [BoardEntrant(label, one, metrics(one)) for label, one in zip(labels, several, strict=True)]
    ranked.sort(key=_standing, reverse=True)
    first = several[0]
    suites = dict.fromkeys(one.plan.suite for one in several)
    return Leaderboard(tuple(ranked), environment_of(first), ", ".join(suites), first.plan.baselines)


def _labels(several: Sequence[Results]) -> list[str]:
    names = [one.plan.entrant for one in several]
    return [
        name if names.count(name) == 1 else f"{name} ({one.origin})" for name, one in zip(names, several, strict=True)
    ]


def _standing(one: BoardEntrant) -> tuple[float, float, float]:
    """By fast_1, then by what a user gets who falls back to the baseline, then by how much is right."""
    overall = one.metrics.overall
    return tuple(found.value or 0.0 for found in (overall.fast[1.0], overall.with_fallback, overall.correct))  # type: ignore[return-value]


def percent(found: MetricEstimate) -> str:
    if found.value is None:
        return NONE
    interval = "" if found.low is None or found.high is None else f" [{100 * found.low:.0f}, {100 * found.high:.0f}]"
    return f"{found.value:.0%}{interval}"


def times(found: MetricEstimate, *, of: bool = True) -> str:
    if found.value is None:
        return NONE
    interval = "" if found.low is None or found.high is None else f" [{found.low:.2f}, {found.high:.2f}]"
    return f"{found.value:.2f}×{interval}{f' ({found.tasks})' if of else ''}"


def plain_number(found: MetricEstimate) -> str:
    if found.value is None:
        return NONE
    interval = "" if found.low is None or found.high is None else f" [{found.low:.2f}, {found.high:.2f}]"
    return f"{found.value:.2f}{interval} ({found.tasks})"


Column = tuple[str, Callable[[Summary], str]]
RATES: tuple[Column, ...] = (
    ("right", lambda one: percent(one.correct)),
    ("fast_1", lambda one: percent(one.fast[1.0])),
    ("fast_1.5", lambda one: percent(one.fast[1.5])),
    ("fast_2", lambda one: percent(one.fast[2.0])),
    ("speedup", lambda one: times(one.speedup)),
    ("with fallback", lambda one: times(one.with_fallback, of=False)),
    ("SOL", lambda one: plain_number(one.sol)),
)


def _overall(ranked: Sequence[BoardEntrant]) -> BoardTable:
    passes = sorted({k for one in ranked for k in one.metrics.overall.pass_at if k > 1})
    head = ("entrant", "tasks", *(title for title, _ in RATES), *(f"pass@{k}" for k in passes))
    rows: list[tuple[Cell, ...]] = [
        (
            Foreign(one.label),
            str(one.metrics.overall.tasks),
            *(show(one.metrics.overall) for _, show in RATES),
            *(_pass(one.metrics.overall, k) for k in passes),
        )
        for one in ranked
    ]
    return BoardTable("Over the best baseline", READING, head, tuple(rows))


def _pass(found: Summary, k: int) -> str:
    return percent(found.pass_at[k]) if k in found.pass_at else NONE


def _over_eager(ranked: Sequence[BoardEntrant]) -> BoardTable:
    note = "The same over eager PyTorch, for comparison with benchmarks that use it. No claim is made over it."
    rows: list[tuple[Cell, ...]] = [
        (
            Foreign(one.label),
            *(percent(one.metrics.overall.fast_eager[p]) for p in SPEEDS),
            times(one.metrics.overall.speedup_eager),
        )
        for one in ranked
    ]
    return BoardTable("Over eager alone", note, ("entrant", *(f"fast_{p:g}" for p in SPEEDS), "speedup"), tuple(rows))


def _outcomes(ranked: Sequence[BoardEntrant]) -> BoardTable:
    note = (
        "Right on hidden: of samples that are right on public workloads, those that are on hidden ones and over the "
        "whole domain too. Fast on hidden: of those that are at least as fast on public workloads, those that are on "
        "hidden ones. Error: rms beside eager's. Library: right samples for which torch carries out some operators. "
        "Impossibly fast: below what the device can do, to be looked into."
    )
    head = (
        "entrant", "judged", "undecided", "right on hidden", "fast on hidden", "error", "ties", "library: torch",
        "impossibly fast",
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = []
    for one in ranked:
        found = one.metrics.overall
        rows.append(
            (
                Foreign(one.label),
                f"{found.judged} of {found.samples}",
                str(found.undecided),
                percent(found.hidden_right),
                percent(found.hidden_fast),
                times(found.error_ratio),
                str(found.ties),
                str(found.library),
                str(found.suspects),
            )
        )
    return BoardTable("What came of the samples", note, head, tuple(rows))


def _costs(ranked: Sequence[BoardEntrant]) -> BoardTable:
    head = ("entrant", "evaluations", "wall", "device", "tokens", "cost")
    rows: list[tuple[Cell, ...]] = []
    for one in ranked:
        cost = one.metrics.overall.cost
        unpriced = f" + {counted(cost.unpriced_calls, 'call')} of unknown price" if cost.unpriced_calls else ""
        rows.append(
            (
                Foreign(one.label),
                str(cost.evaluations),
                duration(cost.wall_seconds),
                duration(cost.device_seconds),
                f"{cost.tokens:,}" if cost.tokens else NONE,
                f"${cost.usd:.2f}{unpriced}" if cost.usd or unpriced else NONE,
            )
        )
    return BoardTable("What it cost", "", head, tuple(rows))


def _rejected(ranked: Sequence[BoardEntrant]) -> BoardTable:
    note = (
        "Every candidate that was rejected on the way. The judge does not guess at intent: a cheat is rejected for "
        "what it did, most often by protocol, memory or hidden workloads."
    )
    rows: list[tuple[Cell, ...]] = [
        (Foreign(one.label), *(str(one.metrics.overall.rejections.get(kind, 0)) for kind in RejectionClass))
        for one in ranked
    ]
    head = ("entrant", *(kind.value.replace("wrong_hidden", "wrong on hidden") for kind in RejectionClass))
    return BoardTable("Rejected, by class", note, head, tuple(rows))


def _categories(ranked: Sequence[BoardEntrant]) -> BoardTable:
    rows: list[tuple[Cell, ...]] = [
        (Foreign(found.name), Foreign(one.label), str(found.tasks), *(show(found) for _, show in RATES))
        for found_at in range(len(ranked[0].metrics.categories))
        for one in ranked
        if found_at < len(one.metrics.categories)
        for found in (one.metrics.categories[found_at],)
    ]
    head = ("category", "entrant", "tasks", *(title for title, _ in RATES))
    return BoardTable("By category", "", head, tuple(rows))


def _tasks(ranked: Sequence[BoardEntrant]) -> BoardTable:
    note = (
        "Of several samples the one with the highest claim, else the first. Claim: lower ends over the best baseline; "
        "hidden: on hidden workloads alone."
    )
    rows: list[tuple[Cell, ...]] = []
    for one in ranked:
        for task in opened_tasks(one.results):
            shown = max(task.rows, key=lambda row: (claim(row) or 0.0, -row.sample), default=None)
            rows.append((Foreign(task.name), Foreign(one.label), f"{task.right} of {task.samples}", *_task(shown)))
    head = ("task", "entrant", "right", "outcome", "claim", "over eager", "hidden", "error", "why")
    return BoardTable("By task", note, head, tuple(rows))


def _task(row: SampleRow | None) -> tuple[Cell, ...]:
    if row is None:
        return ("not judged", NONE, NONE, NONE, NONE, "")
    found, ratio = claim(row), error_ratio(row)
    tie = " (tie)" if any(map(is_tie, row.workloads)) and found is not None else ""
    why: Cell = Foreign(row.why)
    if row.outcome is RowOutcome.accepted and found is None:
        why = "partial domain" if row.partial_domain else f"speed undecided: {_undecided(row)}"
    outcome = row.outcome.value
    return (
        Foreign(f"{outcome}; {library_words(row.library)}") if row.library else outcome,
        NONE if found is None else f"{found:.2f}×{tie}",
        _claimed(claim(row, EAGER)),
        _claimed(claim(row, hidden=True)),
        NONE if ratio is None else f"{ratio:.2f}×",
        why,
    )


def _undecided(row: SampleRow) -> str:
    found = dict.fromkeys(one.speed.value for one in row.workloads if one.speed.value != "measured")
    return ", ".join(name.replace("_", " ") for name in found) or "no baseline"


def _claimed(value: float | None) -> str:
    return NONE if value is None else f"{value:.2f}×"


def _unopened(ranked: Sequence[BoardEntrant]) -> tuple[BoardTable, ...]:
    found = {name: why for one in ranked for name, why in one.results.unopened.items()}
    if not found:
        return ()
    note = "They could not be opened before any candidate was looked at, and count for no entrant."
    rows = tuple((Foreign(name), Foreign(why)) for name, why in found.items())
    return (BoardTable("Tasks that are left out", note, ("task", "why"), rows),)
