"""One candidate on one workload: blocks of interleaved trials, each of them checked."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol

from kernelwright.devices.names import Kind
from kernelwright.isolation.channel import Message
from kernelwright.isolation.log import DrainedLog, Log
from kernelwright.isolation.warden import Ending, Reply
from kernelwright.judge.baseline_names import claimable
from kernelwright.judge.baselines import Baseline
from kernelwright.judge.cpu.overhead import NO_OVERHEAD, NullRunners, Overhead, Overheads, overhead_of
from kernelwright.judge.oracle_client import OracleClient, WorkloadSpec
from kernelwright.judge.settings import Sampling as Sampling
from kernelwright.judge.timing import noise, statistics
from kernelwright.judge.verdict import (
    BaselineTime,
    BuildEvidence,
    Evidence,
    IntervalValue,
    MismatchEvidence,
    OutsideWriteEvidence,
    ProcessEvidence,
    Reason,
    SpeedStatus,
    Stage,
    WorkloadResult,
)

OUTPUT_LINES = 12
LEAST_BLOCKS = 6  # a trial of every input family
HOPELESS = 10.0
DEADLINE = 50  # times as long as the slowest baseline a call may take
REPEATS = 5  # calls of the fastest baseline for each of its times, once the first blocks have shown that it is noisy
MOST_REPEATS = 15  # as many where new values take far longer than the calls
RIVAL = 2.0  # times as slow as the fastest so far, and a baseline may still turn out to be the fastest
_REASONS = {
    Ending.timeout: Reason.timed_out,
    Ending.exited: Reason.ended_itself,
    Ending.killed: Reason.crashed,
    Ending.ran_while_stopped: Reason.ran_while_stopped,
}
SHORTEST_OVERHEADS = 5  # a workload is too short to rank below this many times the cost of an empty trial


@dataclass(frozen=True)
class Rejection:
    """Why a candidate is rejected."""

    stage: Stage
    reason: Reason
    evidence: Evidence


class Rejected(Exception):  # noqa: N818 - it names an outcome
    def __init__(self, rejection: Rejection) -> None:
        super().__init__(rejection.reason)
        self.rejection = rejection


def build_rejection(lines: tuple[str, ...], *, timed_out: bool) -> Rejection:
    reason = Reason.build_took_too_long if timed_out else Reason.does_not_build
    return Rejection(Stage.build, reason, BuildEvidence(lines=lines))


class Runner(Protocol):
    """A process that holds a candidate: `warden.WardedProcess` on a CPU, `gpu.runner.GpuRunner` on a GPU."""

    @property
    def log(self) -> Log | DrainedLog: ...

    def ready(self) -> Reply:
        """The answer to its start: `ok`, or how it failed. To be asked once."""

    def trial(self, op: str, deadline: float) -> Reply: ...

    def __enter__(self) -> Runner: ...

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None: ...


@dataclass(frozen=True)
class Clock:
    """How times on a device are read: what empty trials cost there, where that is taken off, and by its kind what noise
    is allowed."""

    kind: Kind
    overheads: Overheads | None = None


@dataclass
class Times:
    """Seconds by who was timed, one per block."""

    candidate: list[float] = field(default_factory=list)
    baselines: dict[str, list[float]] = field(default_factory=dict)
    twice: dict[str, list[tuple[float, float]]] = field(default_factory=dict)  # both times of one block
    empty: dict[str, list[float]] = field(default_factory=dict)  # trials of baselines in which nothing was computed

    def add(self, candidate: float, baselines: dict[str, float], again: dict[str, float]) -> None:
        self.candidate.append(candidate)
        for name, seconds in baselines.items():
            self.baselines[name].append(seconds)
            if name in again:
                self.twice[name].append((seconds, again[name]))


class Measurement:
    def __init__(
        self,
        oracle: OracleClient,
        spec: WorkloadSpec,
        runner: Runner,
        baselines: dict[str, Baseline],
        expected: dict[str, float],
        clock: Clock,
        order: random.Random,
    ) -> None:
        self._oracle, self._spec, self._runner = oracle, spec, runner
        self._baselines, self._expected, self._overheads = baselines, expected, clock.overheads
        self._kind, self._order = clock.kind, order
        self._empty: tuple[float, ...] = clock.overheads.medians() if clock.overheads is not None else ()
        self._deadline = max(5.0, DEADLINE * max(expected.values(), default=0.1))
        self._trial = 0
        self._loading: list[float] = []  # seconds in which the oracle put new values into place
        self._restoring: list[float] = []  # and the same ones again
        self._before: noise.MachineUsage | None = None

    def run(self, effort: Sampling, tick: Callable[[], None]) -> Times:
        if self._overheads is None:
            return self._run(effort, tick, None)
        with self._overheads.running() as null_runners:
            times = self._run(effort, tick, null_runners)
        self._empty = self._overheads.medians()
        return times

    def _run(self, effort: Sampling, tick: Callable[[], None], null_runners: NullRunners | None) -> Times:
        times = Times(baselines={name: [] for name in self._baselines}, twice={name: [] for name in self._baselines})
        self._before = noise.usage()
        until = time.monotonic() + effort.seconds
        least, doubled, repeats = effort.least, False, 1
        for block in range(1, effort.most + 1):
            self._block(times, repeats, null_runners)
            tick()
            if repeats == 1 and block >= LEAST_BLOCKS and not self.quiet(times):
                repeats = self._repeats(times)
            if self._hopeless(times):
                break
            if block < least or (block - effort.least) % effort.step:
                continue
            if time.monotonic() > until:
                break
            if self.quiet(times):
                if doubled or not self._wide(times):
                    break
                least, doubled = 2 * block, True
        return times

    def _repeats(self, times: Times) -> int:
        """How often the fastest baseline is called for each of its times: as often as fits into the time that new
        values take, within limits. The candidate has no part in either."""
        fastest = self.fastest(times)
        if fastest is None:
            return 1
        call = self._usual(times, fastest) + statistics.median(self._restoring)
        return max(REPEATS, min(MOST_REPEATS, int(statistics.median(self._loading) / (2 * call))))

    def _wide(self, times: Times) -> bool:
        """Whether the interval of what would be claimed, over the baseline that leaves least, is too wide."""
        claimed = self._claimed(times)
        return claimed is not None and statistics.too_wide(self._speedup(times, claimed))

    def _claimed(self, times: Times) -> str | None:
        """The baseline over which least may be claimed."""
        return min(filter(claimable, times.baselines), key=lambda name: self._speedup(times, name).low, default=None)

    def _hopeless(self, times: Times) -> bool:
        """Far slower than the fastest baseline in every block of a whole round: no sample would make it fast."""
        fastest = self.fastest(times)
        if fastest is None or len(times.candidate) < LEAST_BLOCKS:
            return False
        return min(times.candidate) > HOPELESS * max(times.baselines[fastest])

    def fastest(self, times: Times) -> str | None:
        """The baseline that claims are held against, by its times so far; before there are any, by the first ones."""
        return min(filter(claimable, self._baselines), key=lambda name: self._usual(times, name), default=None)

    def _usual(self, times: Times, name: str) -> float:
        taken = times.baselines[name]
        return statistics.median(taken) if taken else self._expected[name]

    def _block(self, times: Times, repeats: int, null_runners: NullRunners | None) -> None:
        """Candidate and baselines once each on the same values, in random order, and baselines that may be the fastest
        twice; before them, where overheads are taken off, empty trials.

        Values are expensive and a baseline's calls are cheap, so on a noisy machine the fastest is called `repeats`
        times for each of its two times, which are the medians. A candidate is called once, since it may see no value
        twice.
        """
        started = time.monotonic()
        family = self._oracle.load()
        self._loading.append(time.monotonic() - started)
        if null_runners is not None:
            null_runners.take()
            for name, baseline in self._baselines.items():
                times.empty.setdefault(name, []).append(baseline.empty())
        fastest = self.fastest(times)
        limit = RIVAL * self._usual(times, fastest) if fastest is not None else 0.0
        rivals = [name for name in self._baselines if self._usual(times, name) <= limit]
        turns = [("", False), *((name, False) for name in self._baselines), *((name, True) for name in rivals)]
        turns += [(fastest, again) for again in (False, True) for _ in range(repeats - 1) if fastest is not None]
        self._order.shuffle(turns)
        taken: dict[tuple[str, bool], list[float]] = {turn: [] for turn in turns}
        for position, turn in enumerate(turns):
            if position:
                started = time.monotonic()
                self._oracle.restore()
                self._restoring.append(time.monotonic() - started)
            name, _ = turn
            taken[turn].append(self._baselines[name].time() if name else self.call(family))
        kept = {turn: statistics.median(values) for turn, values in taken.items()}
        once = {name: kept[name, False] for name in self._baselines}
        times.add(kept["", False], once, {name: kept[name, True] for name in rivals})

    def call(
        self, family: str, *, op: str = "r", remember: bool = False, special: str = "", checked: bool = True
    ) -> float:
        """One call of the candidate, checked unless nothing is expected of it."""
        reply = self._runner.trial(op, self._deadline)
        if reply.ending is not Ending.ok:
            raise Rejected(self._ended(reply))
        if op == "r" and checked:
            answer = self._oracle.check(remember=remember)
            if answer:
                raise Rejected(result_rejection(answer, self._spec, family, self._trial, special))
            self._trial += 1
        return reply.seconds

    def deterministic(self) -> bool:
        """One trial and the same values again, neither of them timed."""
        family = self._oracle.load()
        self.call(family, remember=True)
        self._oracle.repeat()
        self.call(family)
        return self._oracle.repeated()

    def quiet(self, times: Times) -> bool:
        """Whether the fastest baseline, measured against itself, stays inside its band."""
        fastest = self.fastest(times)
        if fastest is None:
            return True
        found = self._aa(times, fastest)
        if found is None or len(times.twice[fastest]) < LEAST_BLOCKS:
            return False
        return statistics.inside(found, statistics.band(self._kind, self._usual(times, fastest)))

    def _aa(self, times: Times, name: str) -> statistics.Interval | None:
        once, again = ([pair[side] for pair in times.twice[name]] for side in (0, 1))
        own = self._own_overhead(times, name).usual
        return statistics.speedup(self._net(once, own), self._net(again, own)) if once else None

    def result(self, times: Times) -> WorkloadResult:
        workload = self._spec.workload
        fastest = self.fastest(times)
        found = self._aa(times, fastest) if fastest is not None else None
        return WorkloadResult(
            label=workload.label,
            sizes=workload.size_map,
            dtype=workload.dtype,
            hidden=workload.hidden,
            trials=self._trial,
            speed=self._status(times),
            seconds=statistics.median(self._net(times.candidate, self._overhead.usual)),
            baselines=tuple(
                BaselineTime(
                    baseline=name,
                    seconds=statistics.median(self._net(values, self._own_overhead(times, name).usual)),
                    speedup=_interval(self._speedup(times, name)),
                )
                for name, values in times.baselines.items()
            ),
            aa=_interval(found) if found is not None else None,
            aa_baseline=fastest if found is not None else None,
            interference=noise.interference(self._before, noise.usage()),
            raw_seconds={
                "candidate": tuple(times.candidate),
                **{name: tuple(values) for name, values in times.baselines.items()},
                **_twice(times),
                **{f"{name}, empty": tuple(values) for name, values in times.empty.items()},
                "overhead": self._empty,
            },
        )

    def _status(self, times: Times) -> SpeedStatus:
        if not self._baselines:
            return SpeedStatus.not_measured
        if min(self._expected.values()) < SHORTEST_OVERHEADS * self._overhead.usual:
            return SpeedStatus.short
        if not self.quiet(times):
            return SpeedStatus.noisy
        if not self._depends_little(times):
            return SpeedStatus.near_overhead
        return SpeedStatus.wide if self._wide(times) else SpeedStatus.measured

    @property
    def _overhead(self) -> Overhead:
        """Of a runner, as our own null runners showed; a candidate cannot raise the least of it."""
        return overhead_of(self._empty)

    def _own_overhead(self, times: Times, name: str) -> Overhead:
        """Of a baseline, which is trusted, by empty trials of its own process."""
        if not times.empty.get(name):
            return NO_OVERHEAD
        found = statistics.median_interval(times.empty[name])
        return Overhead(found.low, found.mid, found.high)

    def _net(self, values: list[float], overhead: float) -> list[float]:
        """Less what an empty trial costs."""
        return [max(value - overhead, self._overhead.least, 1e-9) for value in values]

    def _at(self, times: Times, name: str, own: float, overhead: float) -> statistics.Interval:
        """The speedup over a baseline, if its empty trials cost `own` and those of a runner `overhead`."""
        return statistics.speedup(self._net(times.baselines[name], own), self._net(times.candidate, overhead))

    def _ends(self, times: Times, name: str) -> tuple[statistics.Interval, statistics.Interval, statistics.Interval]:
        """The speedup over a baseline with both overheads where they make it least, usual, and most."""
        own, runner = self._own_overhead(times, name), self._overhead
        return (
            self._at(times, name, own.most, runner.least),
            self._at(times, name, own.usual, runner.usual),
            self._at(times, name, own.least, runner.most),
        )

    def _speedup(self, times: Times, name: str) -> statistics.Interval:
        least, usual, most = self._ends(times, name)
        return statistics.Interval(least.low, usual.mid, most.high)

    def _depends_little(self, times: Times) -> bool:
        """Whether what would be claimed stays within the band, whatever the empty trials cost."""
        claimed = self._claimed(times)
        if claimed is None:
            return True
        least, usual, most = self._ends(times, claimed)
        allowed = statistics.band(self._kind, self._usual(times, claimed))
        return statistics.depends_little(allowed, usual.mid, (least.mid, most.mid))

    def not_ready(self, reply: Reply) -> Rejection:
        """The process did not get as far as a first call."""
        reason = Reason.timed_out if reply.ending is Ending.timeout else Reason.does_not_load
        return self._process_rejection(Stage.load, Reason(reply.reason) if reply.reason else reason, reply)

    def _ended(self, reply: Reply) -> Rejection:
        reason = Reason(reply.reason) if reply.reason else _REASONS[reply.ending]
        return self._process_rejection(Stage.run, reason, reply)

    def _process_rejection(self, stage: Stage, reason: Reason, reply: Reply) -> Rejection:
        evidence = ProcessEvidence(
            workload=self._spec.workload.label,
            trial=self._trial,
            ending=reply.describe(),
            output=tuple(self._runner.log.text().strip().splitlines()[-OUTPUT_LINES:]),
        )
        return Rejection(stage, reason, evidence)


def result_rejection(answer: Message, spec: WorkloadSpec, family: str, trial: int, special: str = "") -> Rejection:
    """What the oracle's answer to a comparison holds against a candidate."""
    label = spec.workload.label
    if "trespass" in answer:
        outside_write = OutsideWriteEvidence(workload=label, trial=trial, **answer["trespass"])
        return Rejection(Stage.compare, Reason.wrote_outside, outside_write)
    mismatch = dict(answer["mismatch"])
    reason = Reason(mismatch.pop("kind"))
    evidence = MismatchEvidence(
        workload=label, family=family, special=special, trial=trial, result=answer["result"], **mismatch
    )
    return Rejection(Stage.compare, reason, evidence)


def _twice(times: Times) -> dict[str, tuple[float, ...]]:
    """The second times of baselines; and the first of the same blocks where not all blocks have two."""
    found = {}
    for name, pairs in times.twice.items():
        if pairs and len(pairs) < len(times.candidate):
            found[f"{name}, first"] = tuple(pair[0] for pair in pairs)
        if pairs:
            found[f"{name}, again"] = tuple(pair[1] for pair in pairs)
    return found


def _interval(value: statistics.Interval) -> IntervalValue:
    return IntervalValue(low=value.low, mid=value.mid, high=value.high)
