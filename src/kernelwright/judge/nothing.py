"""What a trial costs when nothing is computed: measured with a runner of our own, never with a candidate's."""

from __future__ import annotations

from kernelwright.contracts import Candidate
from kernelwright.devices import lock
from kernelwright.errors import CannotDecide
from kernelwright.judge.build import Built, build
from kernelwright.judge.runner import start_runner
from kernelwright.judge.statistics import median
from kernelwright.judge.warden import Ending
from kernelwright.tasks.model import Signature

TRIALS = 40
NOTHING = Candidate("cpp", "void kernel() {}\n", "nothing.cpp")


def empty_trial_seconds(threads: int, cpus: tuple[int, ...]) -> float:
    """The median time of a call that does nothing."""
    signature = Signature(())
    built = build(NOTHING, signature)  # before the lock: nothing is built while something is measured
    if not isinstance(built, Built):
        raise CannotDecide(f"an empty kernel does not build: {built.lines[0]}")
    with start_runner(built.library, signature, [], threads, cpus) as runner, lock.measuring():
        replies = [runner.ready(), *(runner.trial("r", 5.0) for _ in range(TRIALS))]
    if any(reply.ending is not Ending.ok for reply in replies):
        raise CannotDecide(f"an empty kernel does not run: {replies[-1].describe()}")
    return median([reply.seconds for reply in replies[5:]])
