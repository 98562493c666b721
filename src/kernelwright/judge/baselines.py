"""The baselines: clean trusted processes, timed by the same warden and under the same protocol as a runner."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Protocol

from kernelwright.errors import CannotDecide
from kernelwright.isolation import start
from kernelwright.isolation.channel import ChannelClosed, Message, pair
from kernelwright.isolation.roles import Role
from kernelwright.isolation.warden import Ending, Reply
from kernelwright.judge.baseline_names import claimable, may_be_left_out
from kernelwright.judge.oracle_client import OpenTask, OracleClient, WorkloadSpec
from kernelwright.judge.timing import statistics
from kernelwright.judge.verdict import Reason

START_SECONDS = 120.0
OPEN_SECONDS = 600.0
RUN_SECONDS = 120.0

# Large results must come from memory that is mapped already, as a candidate's outputs do; by default glibc would
# give every large tensor back to the system and fault it in again, and flatter the candidate.
_MALLOC = "glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=68719476736:glibc.malloc.top_pad=67108864"


class BaselineUnfit(CannotDecide):
    """A baseline that cannot do a task. The task can be judged without it, if there is another."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"the {name} baseline cannot do this task: {why}; leave it out")
        self.why = why


class Baseline(Protocol):
    """A process with one baseline in it, whatever the device."""

    @property
    def name(self) -> str: ...

    @property
    def alive(self) -> bool: ...

    def open(self, task: OpenTask, spec: WorkloadSpec, descriptors: list[int]) -> None:
        """Maps the workload's arena, which holds values already, and compiles where that is the baseline.
        Raises BaselineUnfit where it cannot do the task."""

    def write(self) -> None:
        """Runs once and leaves the results in the arena."""

    def time(self) -> float:
        """The seconds of one call on what the arena holds."""

    def empty(self) -> float:
        """The seconds of a call that does nothing, where that is taken off the others; else zero."""

    def release(self) -> None:
        """Gives back what it holds of a workload."""

    def close(self) -> None: ...


class CpuBaselineProcess:
    """A baseline on a CPU."""

    def __init__(self, name: str, threads: int, cpus: tuple[int, ...]) -> None:
        self.name = name
        self._channel, theirs = pair()
        with theirs:
            os.set_inheritable(theirs.fileno(), True)
            variables = {
                "OMP_NUM_THREADS": str(threads),
                "GLIBC_TUNABLES": _MALLOC,
                "TORCHINDUCTOR_COMPILE_THREADS": "1",
            }
            self._process = start.timed(
                Role.baseline,
                [
                    *(sys.executable, "-m", "kernelwright.judge.baseline_processes.cpu"),
                    *("{go}", "{done}", str(theirs.fileno()), name, str(threads)),
                ],
                start.Grant(cpus=cpus, variables=variables),
                [theirs.fileno()],
                START_SECONDS,
            )
        self._ready = False

    @property
    def alive(self) -> bool:
        return self._process.alive

    def open(self, task: OpenTask, spec: WorkloadSpec, descriptors: list[int]) -> None:
        """Maps the workload's arena, which holds values already, and compiles where that is the baseline."""
        if not self._ready:
            self._expect_ok(self._process.ready(), "start")
            self._ready = True
        signature = [asdict(argument) for argument in spec.signature.arguments]
        try:
            self._channel.send({"task": task.reference, "signature": signature}, descriptors)
        except ChannelClosed:
            raise CannotDecide(
                f"the {self.name} baseline is gone: {self._last_words() or 'its log is empty'}"
            ) from None
        self._expect_ok(self._process.trial("o", OPEN_SECONDS), f"open {spec.workload.label}")
        answer, _ = self._channel.receive()
        if answer["unfit"]:
            raise BaselineUnfit(self.name, answer["unfit"])

    def write(self) -> None:
        """Runs once and leaves the results in the arena."""
        self._expect_ok(self._process.trial("w", RUN_SECONDS), "write its results")

    def time(self) -> float:
        reply = self._process.trial("r", RUN_SECONDS)
        self._expect_ok(reply, "run")
        return reply.seconds

    def empty(self) -> float:
        reply = self._process.trial("n", RUN_SECONDS)
        self._expect_ok(reply, "do nothing")
        return reply.seconds

    def release(self) -> None:
        if self._ready:
            self._expect_ok(self._process.trial("f", RUN_SECONDS), "give memory back")

    def _expect_ok(self, reply: Reply, what: str) -> None:
        if reply.ending is not Ending.ok:
            raise CannotDecide(f"the {self.name} baseline could not {what} ({reply.describe()}) {self._last_words()}")

    def _last_words(self) -> str:
        lines = self._process.log.text().strip().splitlines()
        return lines[-1] if lines else ""

    def close(self) -> None:
        self._channel.close()
        self._process.close()
        self._process.log.close()


class Baselines:
    """The baseline processes of a judge: started when first asked for, restarted when one has died."""

    def __init__(self, make: Callable[[str], Baseline]) -> None:
        """`make` starts the process of the baseline with a name."""
        self._make = make
        self._processes: dict[str, Baseline] = {}
        self._seconds: dict[tuple[str, str, bool], dict[str, float]] = {}
        self._unfit: dict[tuple[str, str, bool], dict[str, BaselineUnfit]] = {}
        self._task = ""

    def enter(self, task: OpenTask) -> None:
        """A judging of a task begins: what the processes hold of another one is given back."""
        if self._task not in ("", task.reference):
            for name, process in list(self._processes.items()):
                if process.alive:
                    try:
                        process.release()
                    except CannotDecide:  # it died of something, and another is started when it is needed
                        self._processes.pop(name).close()
        self._task = task.reference

    def prepare(self, names: tuple[str, ...]) -> None:
        """Starts what is not running yet; importing torch takes seconds, which pass while other things are done."""
        for name in names:
            self._living(name)

    def processes(self, names: tuple[str, ...]) -> dict[str, Baseline]:
        return {name: self._processes[name] for name in names}

    def open(
        self,
        names: tuple[str, ...],
        oracle: OracleClient,
        task: OpenTask,
        spec: WorkloadSpec,
        descriptors: list[int],
        progress: Callable[[str], None],
    ) -> dict[str, float]:
        """Lets every baseline map the arena, checks that it is right, and learns about how long it takes. Those that
        cannot do the task are left out of the answer (`left_out` says why), unless none remains."""
        place = (task.reference, spec.workload.label, spec.workload.hidden)
        known, unfit = self._seconds.setdefault(place, {}), self._unfit.setdefault(place, {})
        if names:
            oracle.begin(task, spec.workload, f"baselines {time.monotonic_ns()}")
            oracle.load()
        for name in names:
            if name in unfit:
                continue
            baseline = self._living(name)
            if name not in known:
                progress(f"preparing the {name} baseline")
            try:
                baseline.open(task, spec, descriptors)
                if name not in known:
                    known[name] = _first_times(oracle, baseline)
            except BaselineUnfit as error:
                if not may_be_left_out(name):
                    raise
                unfit[name] = error
        found = {name: known[name] for name in names if name not in unfit}
        if names and not any(map(claimable, found)):
            faults = [unfit[name] for name in names if name in unfit]
            raise faults[0] if faults else CannotDecide(f"nothing is claimed over {', '.join(names)}: name another")
        return found

    def left_out(self, names: tuple[str, ...], task: OpenTask, spec: WorkloadSpec) -> dict[str, str]:
        """Of these baselines those that cannot do a workload, each with why."""
        unfit = self._unfit.get((task.reference, spec.workload.label, spec.workload.hidden), {})
        return {name: unfit[name].why for name in names if name in unfit}

    def _living(self, name: str) -> Baseline:
        """A baseline that died (of memory, of a bug in a compiler) costs one candidate its speed, not all of them."""
        process = self._processes.get(name)
        if process is None or not process.alive:
            if process is not None:
                process.close()
            process = self._processes[name] = self._make(name)
        return process

    def close(self) -> None:
        for process in self._processes.values():
            process.close()
        self._processes.clear()
        self._seconds.clear()
        self._unfit.clear()


def _rounds_between_steps(name: str, answer: Message) -> bool:
    """Eager stores every step in a 16-bit type, which a kernel is not allowed; people run it all the same, and what it
    takes is what they compare with."""
    return name == "eager" and answer.get("mismatch", {}).get("kind") == Reason.imprecise


def _first_times(oracle: OracleClient, baseline: Baseline) -> float:
    oracle.restore()
    baseline.write()
    answer = oracle.check() if claimable(baseline.name) else {}
    if _rounds_between_steps(baseline.name, answer):
        answer = {}
    if answer and may_be_left_out(baseline.name):
        raise BaselineUnfit(baseline.name, "it gives a result that is not right")
    if answer:
        raise CannotDecide(
            f"the {baseline.name} baseline gives a wrong result, so nothing can be compared with it: {answer}"
        )
    seconds = []
    for _ in range(3):
        oracle.restore()
        seconds.append(baseline.time())
    return statistics.median(seconds)
