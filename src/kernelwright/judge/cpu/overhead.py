"""What a trial costs when nothing is computed: measured with a runner of our own, never with a candidate's."""

from __future__ import annotations

from dataclasses import dataclass

from kernelwright.contracts import Candidate
from kernelwright.contracts.host_build import Built, build
from kernelwright.devices import lock
from kernelwright.errors import CannotDecide
from kernelwright.isolation.warden import Ending
from kernelwright.judge.cpu.runner import start_runner
from kernelwright.judge.timing.statistics import median
from kernelwright.tasks.model import Signature

TRIALS = 40
WARM_UP = 5
EMPTY_KERNEL = Candidate("cpp", "void kernel() {}\n", "nothing.cpp")


@dataclass(frozen=True)
class Overhead:
    """Seconds of an empty trial: as a rule, and at the least.

    Only the least may be subtracted from a time. What a trial costs beyond it depends on which cores the warden and
    the process happen to run on (several times as much where they differ), and there a candidate that says done early
    goes on working until the stop reaches it: a candidate can choose the one and use the other.
    """

    usual: float
    least: float


def measure_overhead(threads: int, cpus: tuple[int, ...]) -> Overhead:
    signature = Signature(())
    built = build(EMPTY_KERNEL, signature)  # before the lock: nothing is built while something is measured
    if not isinstance(built, Built):
        raise CannotDecide(f"an empty kernel does not build: {built.lines[0]}")
    with start_runner(built.library, signature, [], threads, cpus) as runner, lock.measuring():
        replies = [runner.ready(), *(runner.trial("r", 5.0) for _ in range(TRIALS))]
    if any(reply.ending is not Ending.ok for reply in replies):
        raise CannotDecide(f"an empty kernel does not run: {replies[-1].describe()}")
    seconds = [reply.seconds for reply in replies[WARM_UP:]]
    return Overhead(median(seconds), min(seconds))
