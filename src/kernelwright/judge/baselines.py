"""The baselines: clean trusted processes, timed by the same warden and under the same protocol as a runner."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict

from kernelwright.errors import CannotDecide
from kernelwright.judge.channel import ChannelClosed, pair
from kernelwright.judge.oracle.client import OpenTask, Posed
from kernelwright.judge.sandbox import trusted_environment
from kernelwright.judge.warden import Ending, Reply, Subject

BASELINES = ("eager", "compile")
START_SECONDS = 120.0
OPEN_SECONDS = 600.0
RUN_SECONDS = 120.0

# Large results must come from memory that is mapped already, as a candidate's outputs do; by default glibc would
# give every large tensor back to the system and fault it in again, and flatter the candidate.
_MALLOC = "glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=68719476736:glibc.malloc.top_pad=67108864"


class BaselineProcess:
    def __init__(self, name: str, threads: int, cpus: tuple[int, ...]) -> None:
        self.name = name
        self._channel, theirs = pair()
        with theirs:
            os.set_inheritable(theirs.fileno(), True)
            self._subject = Subject(
                [
                    *(sys.executable, "-m", "kernelwright.judge.baseline"),
                    *("{go}", "{done}", str(theirs.fileno()), name, str(threads)),
                ],
                ["--cpus", ",".join(map(str, cpus))],
                [theirs.fileno()],
                trusted_environment(
                    OMP_NUM_THREADS=str(threads), GLIBC_TUNABLES=_MALLOC, TORCHINDUCTOR_COMPILE_THREADS="1"
                ),
                START_SECONDS,
            )
        self._ready = False

    @property
    def alive(self) -> bool:
        return self._subject.alive

    def open(self, task: OpenTask, posed: Posed, descriptors: list[int]) -> None:
        """Maps the workload's arena, which holds values already, and compiles where that is the baseline."""
        if not self._ready:
            self._expect_ok(self._subject.ready(), "start")
            self._ready = True
        signature = [asdict(argument) for argument in posed.signature.arguments]
        try:
            self._channel.send({"task": task.reference, "signature": signature}, descriptors)
        except ChannelClosed:
            raise CannotDecide(f"the {self.name} baseline is gone: {self._last_words() or 'it left no word'}") from None
        self._expect_ok(self._subject.trial("o", OPEN_SECONDS), f"open {posed.workload.label}")

    def write(self) -> None:
        """Runs once and leaves the results in the arena."""
        self._expect_ok(self._subject.trial("w", RUN_SECONDS), "write its results")

    def time(self) -> float:
        reply = self._subject.trial("r", RUN_SECONDS)
        self._expect_ok(reply, "run")
        return reply.seconds

    def _expect_ok(self, reply: Reply, what: str) -> None:
        if reply.ending is not Ending.ok:
            raise CannotDecide(f"the {self.name} baseline could not {what} ({reply.describe()}) {self._last_words()}")

    def _last_words(self) -> str:
        lines = self._subject.log.text().strip().splitlines()
        return lines[-1] if lines else ""

    def close(self) -> None:
        self._channel.close()
        self._subject.close()
        self._subject.log.close()
