"""What a trial costs when nothing is computed: measured with runners of our own, never with a candidate's.

It is measured in several processes, again and again: before the first workload, and between the trials of every
workload. How far the processes differ becomes a part of every interval (docs/decisions/0034).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from kernelwright.contracts import Candidate
from kernelwright.contracts.host_build import Built, build
from kernelwright.devices import lock
from kernelwright.errors import CannotDecide
from kernelwright.isolation.warden import Ending, Reply, WardedProcess
from kernelwright.judge.cpu.runner import start_runner
from kernelwright.judge.timing.statistics import median
from kernelwright.tasks.model import Signature

FIRST_PROCESSES, FIRST_TRIALS = 3, 12
PROCESSES = 2  # between the trials of a workload
REMEMBERED = 6  # processes of workloads
MANY = 5  # processes, of which one may be an outlier
WARM_UP = 3  # trials of a fresh process
DEADLINE = 5.0
# Before a trial of a candidate, values are written: so the caches are emptied of the warden before an empty one too.
WRITTEN_BYTES = 32 << 20
EMPTY_KERNEL = Candidate("cpp", "void kernel() {}\n", "nothing.cpp")
NO_TENSORS = Signature(())


@dataclass(frozen=True)
class Overhead:
    """Seconds of an empty trial: the least, the usual and the most over processes, of each its median (`overhead_of`).

    What is claimed rests on the least. It includes what was measured before any candidate ran, so that no candidate
    can raise it; and a candidate cannot have less, since both ends of its trials are on one core too
    (native_sources/rehearsal.hpp). That a candidate may go on working from its word done until the stop reaches it is
    within what is measured here, and gains it a part of the least at most.
    """

    least: float
    usual: float
    most: float


NO_OVERHEAD = Overhead(0.0, 0.0, 0.0)


class NullRunner:
    """An empty kernel in a process of its own, which comes up while its maker goes on."""

    def __init__(self, process: WardedProcess) -> None:
        self._process, self._ready = process, False
        self._taken: list[float] = []

    @property
    def alive(self) -> bool:
        return self._process.alive

    def begin(self) -> None:
        """Forgets what it has taken, and waits until it is up."""
        self._taken = []
        if not self._ready:
            _seconds(self._process.ready())
            self._ready = True
            for _ in range(WARM_UP):
                self._call()

    def take(self) -> None:
        self._taken.append(self._call())

    def medians(self) -> list[float]:
        return [median(self._taken)] if self._taken else []

    def _call(self) -> float:
        return _seconds(self._process.trial("r", DEADLINE))

    def close(self) -> None:
        self._process.close()
        self._process.log.close()


class NullRunners:
    """Those that are called between the trials of one workload."""

    def __init__(self, runners: Sequence[NullRunner]) -> None:
        self._runners = runners
        for runner in runners:
            runner.begin()

    def take(self) -> None:
        """One empty trial in each process."""
        for runner in self._runners:
            runner.take()

    def medians(self) -> list[float]:
        return [value for runner in self._runners for value in runner.medians()]


class Overheads:
    """What empty trials have cost in this judge: before the first workload, and in the latest workloads.

    After each workload the oldest null runner ends and another is started, which is up when it is needed.
    """

    def __init__(self, threads: int, cpus: tuple[int, ...]) -> None:
        self._threads, self._cpus = threads, cpus
        built = build(EMPTY_KERNEL, NO_TENSORS)  # before the lock: nothing is built while something is measured
        if not isinstance(built, Built):
            raise CannotDecide(f"an empty kernel does not build: {built.lines[0]}")
        self._library = built.library
        self._latest: deque[float] = deque(maxlen=REMEMBERED)
        self._runners = [self._started() for _ in range(FIRST_PROCESSES)]
        with lock.measuring():
            first = NullRunners(self._runners)
            for _ in range(FIRST_TRIALS):
                bytearray(WRITTEN_BYTES)
                first.take()
        self._first = first.medians()

    @contextmanager
    def running(self) -> Iterator[NullRunners]:
        """Null runners for the trials of one workload."""
        self._renew()
        runners = NullRunners(self._runners)
        yield runners
        self._latest.extend(runners.medians())
        self._runners.pop(0).close()
        self._renew()

    def _renew(self) -> None:
        for runner in [one for one in self._runners if not one.alive]:
            self._runners.remove(runner)
            runner.close()
        for runner in self._runners[:-PROCESSES]:
            self._runners.remove(runner)
            runner.close()
        while len(self._runners) < PROCESSES:
            self._runners.append(self._started())

    def _started(self) -> NullRunner:
        return NullRunner(start_runner(self._library, NO_TENSORS, [], self._threads, self._cpus))

    def medians(self) -> tuple[float, ...]:
        """Of every process that is remembered, the first ones for ever."""
        return (*self._first, *self._latest)

    def close(self) -> None:
        for runner in self._runners:
            runner.close()
        self._runners.clear()


def overhead_of(medians: Sequence[float]) -> Overhead:
    """Of many processes the slowest is left out: one that shared its core with another process says nothing of the
    others, and no claim rests on the most."""
    if not medians:
        return NO_OVERHEAD
    ordered = sorted(medians)
    return Overhead(ordered[0], median(ordered), ordered[-2] if len(ordered) >= MANY else ordered[-1])


def _seconds(reply: Reply) -> float:
    if reply.ending is not Ending.ok:
        raise CannotDecide(f"an empty kernel does not run: {reply.describe()}")
    return reply.seconds
