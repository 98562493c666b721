"""What is made ready beside the judging of other candidates: builds, which are most of a quick judging on a GPU, and
launchers.

What is expected is built by a few threads, each in sandboxes of its own, as the candidate's own job would build it. The
job takes what is there, waits for what is under way, and builds what was not begun itself. A build that hangs so costs
others a thread until its own deadline, and no time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from kernelwright.contracts import Candidate
from kernelwright.contracts.model import BuildFailure, GpuBuild, GpuToolchain
from kernelwright.devices import lock
from kernelwright.isolation.levels import Level
from kernelwright.judge.gpu.client import LauncherProcess
from kernelwright.tasks.model import Signature

CORES_PER_BUILD = 4  # a build compiles several modules at a time, and the judge's own processes need cores as well
MOST_KEPT = 64  # builds that no job has taken; the oldest go

Made = GpuBuild | BuildFailure
_Key = tuple[str, tuple[Signature, ...]]  # of a candidate, its id


class AheadBuilds:
    """`width` builds at a time; with none, every job builds for itself."""

    def __init__(self, toolchain: Callable[[str], GpuToolchain], width: int) -> None:
        self.width = width
        self._toolchain = toolchain
        self._threads = ThreadPoolExecutor(width, thread_name_prefix="build ahead") if width else None
        self._begun: dict[_Key, Future[Made]] = {}
        self._lock = threading.Lock()
        self._closed = False

    def knows(self, candidate: Candidate) -> bool:
        """Whether builds of it were begun and have not been taken."""
        with self._lock:
            return any(one == candidate.id for one, _ in self._begun)

    def begin(self, candidate: Candidate, groups: Sequence[tuple[Signature, ...]]) -> None:
        """Each group as one build. What is known already is not begun again."""
        if self._threads is None:
            return
        with self._lock:
            for signatures in groups:
                key = (candidate.id, signatures)
                if signatures and key not in self._begun:
                    self._begun[key] = begun = self._threads.submit(self._build, candidate, signatures)
                    begun.add_done_callback(partial(self._refill, candidate.contract))
            while len(self._begun) > MOST_KEPT:
                self._begun.pop(next(iter(self._begun))).cancel()

    def take(self, candidate: Candidate, signatures: tuple[Signature, ...]) -> Made | None:
        """None where nothing was begun. Raises what a build raises."""
        with self._lock:
            begun = self._begun.pop((candidate.id, signatures), None)
        return None if begun is None or begun.cancel() else begun.result()

    def close(self) -> None:
        """Without waiting: a build under way ends by itself, at its deadline at the latest."""
        self._closed = True
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _build(self, candidate: Candidate, signatures: tuple[Signature, ...]) -> Made:
        """A CPU that is being timed is left alone, as by every build."""
        with lock.working():
            return self._toolchain(candidate.contract).build(candidate, signatures)

    def _refill(self, contract: str, built: Future[Made]) -> None:
        """Once the result is there for a job that waits for it."""
        if not (built.cancelled() or self._closed):
            with lock.working():
                self._toolchain(contract).refill()


class SpareLaunchers:
    """Keeps at most `spare` launchers waiting, each for one candidate: started up to where they would touch the GPU.

    What they then still have to do, a context and our own kernels, needs the device; starting Python and importing the
    bindings does not, and so may go on beside the trials of another candidate.
    """

    def __init__(self, start: Callable[[Level], LauncherProcess], level: Callable[[], Level], spare: int) -> None:
        """`start` starts one that is held; `level` says how far one is confined that is started now."""
        self._start, self._level, self._spare = start, level, spare
        self._waiting: list[tuple[Level, LauncherProcess]] = []
        self._lock = threading.Lock()

    def take(self) -> LauncherProcess:
        """One that sets up its device while the caller goes on."""
        launcher = self._waited() or self._start(self._level())
        launcher.begin()
        return launcher

    def refill(self) -> None:
        with self._lock:
            while len(self._waiting) < self._spare:
                level = self._level()
                self._waiting.append((level, self._start(level)))

    def _waited(self) -> LauncherProcess | None:
        """What is known of confinement may have changed since one was started, and one may be gone."""
        with self._lock:
            while self._waiting:
                level, launcher = self._waiting.pop(0)
                if launcher.alive and level is self._level():
                    return launcher
                _end(launcher)
        return None

    def close(self) -> None:
        with self._lock:
            for _, launcher in self._waiting:
                _end(launcher)
            self._waiting.clear()


def _end(launcher: LauncherProcess) -> None:
    launcher.close()
    launcher.log.close()
