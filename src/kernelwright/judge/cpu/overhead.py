"""What a trial costs when nothing is computed: measured with runners of our own, never with a candidate's.

It is measured in several processes, again and again: before the first workload, and with fresh processes between the
trials of every workload. How far the processes differ becomes a part of every interval (docs/decisions/0034).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
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
PROCESSES = 2  # for each workload
REMEMBERED = 6  # processes of workloads
WARM_UP = 3  # trials of a fresh process
DEADLINE = 5.0
# Before a trial of a candidate, values are written: so the caches are emptied of the warden before an empty one too.
WRITTEN_BYTES = 32 << 20
EMPTY_KERNEL = Candidate("cpp", "void kernel() {}\n", "nothing.cpp")
NO_TENSORS = Signature(())


@dataclass(frozen=True)
class Overhead:
    """Seconds of an empty trial: the least, the usual and the most over processes, of each its median.

    What is claimed rests on the least. It includes what was measured before any candidate ran, so that no candidate
    can raise it; and a candidate cannot have less, since both ends of its trials are on one core too
    (native_sources/rehearsal.hpp). That a candidate may go on working from its word done until the stop reaches it is
    within what is measured here, and gains it a part of the least at most.
    """

    least: float
    usual: float
    most: float


NO_OVERHEAD = Overhead(0.0, 0.0, 0.0)


class NullRunners:
    """Empty kernels in processes of their own, called in turn."""

    def __init__(self, processes: Sequence[WardedProcess]) -> None:
        self._processes = processes
        self._seconds: list[list[float]] = [[] for _ in processes]
        for process in processes:
            _seconds(process.ready())
            for _ in range(WARM_UP):
                self._call(process)

    def take(self) -> None:
        """One empty trial in each process."""
        for process, seconds in zip(self._processes, self._seconds, strict=True):
            seconds.append(self._call(process))

    def medians(self) -> list[float]:
        return [median(seconds) for seconds in self._seconds if seconds]

    @staticmethod
    def _call(process: WardedProcess) -> float:
        return _seconds(process.trial("r", DEADLINE))


class Overheads:
    """What empty trials have cost in this judge: before the first workload, and in the latest workloads."""

    def __init__(self, threads: int, cpus: tuple[int, ...]) -> None:
        self._threads, self._cpus = threads, cpus
        built = build(EMPTY_KERNEL, NO_TENSORS)  # before the lock: nothing is built while something is measured
        if not isinstance(built, Built):
            raise CannotDecide(f"an empty kernel does not build: {built.lines[0]}")
        self._library = built.library
        self._latest: deque[float] = deque(maxlen=REMEMBERED)
        with self._started(FIRST_PROCESSES) as runners, lock.measuring():
            for _ in range(FIRST_TRIALS):
                bytearray(WRITTEN_BYTES)
                runners.take()
            self._first = runners.medians()

    @contextmanager
    def running(self) -> Iterator[NullRunners]:
        """Fresh null runners for the trials of one workload."""
        with self._started(PROCESSES) as runners:
            yield runners
            self._latest.extend(runners.medians())

    @contextmanager
    def _started(self, count: int) -> Iterator[NullRunners]:
        with ExitStack() as stack:
            processes = [
                stack.enter_context(start_runner(self._library, NO_TENSORS, [], self._threads, self._cpus))
                for _ in range(count)
            ]
            yield NullRunners(processes)

    def medians(self) -> tuple[float, ...]:
        """Of every process that is remembered, the first ones for ever."""
        return (*self._first, *self._latest)


def overhead_of(medians: Sequence[float]) -> Overhead:
    return Overhead(min(medians), median(medians), max(medians)) if medians else NO_OVERHEAD


def _seconds(reply: Reply) -> float:
    if reply.ending is not Ending.ok:
        raise CannotDecide(f"an empty kernel does not run: {reply.describe()}")
    return reply.seconds
