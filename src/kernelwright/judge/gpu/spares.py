"""A launcher that is started before its candidate is there, up to where it would touch the GPU.

What it then still has to do, a context and our own kernels, needs the device; starting Python and importing the
bindings does not, and so may go on beside the trials of another candidate.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from kernelwright.isolation.levels import Level
from kernelwright.judge.gpu.client import LauncherProcess


class SpareLaunchers:
    """Keeps at most `spare` waiting. Each meets one candidate."""

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
