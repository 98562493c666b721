"""Launchers under compute-sanitizer: started ahead of need, since starting takes far longer than the call inspected."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager

from kernelwright.contracts.program import Program
from kernelwright.errors import CannotDecide
from kernelwright.isolation.levels import Level
from kernelwright.isolation.roles import Role
from kernelwright.isolation.start import level_of
from kernelwright.judge.gpu.client import END_SECONDS, Faulted, LauncherProcess
from kernelwright.judge.gpu.sanitize import Inspection, Tool, complete, parse, sanitizer, sanitizing

LEAST_PATIENCE, MOST_SLOWER = 20.0, 10.0
"""The seconds that initcheck is waited for after all, and how much longer than memcheck and racecheck it may take: with
some instructions of Hopper it never ends, and another means takes its place."""
SIDE_BY_SIDE = 8 << 30  # bytes of copies; a tool keeps about as much again of what it knows of them


class Pace:
    """How long the tools take for one call, so that the one that can be replaced is not waited for without reason."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._seconds: dict[Tool, float] = {}
        self._others = [tool for tool in tools if tool is not Tool.initcheck]

    @contextmanager
    def running(self, tool: Tool) -> Iterator[Callable[[], bool]]:
        """Whether `tool` has become late."""
        begin = time.monotonic()

        def late() -> bool:
            known = dict(self._seconds)
            if tool is not Tool.initcheck or not self._others or not all(other in known for other in self._others):
                return False
            allowed = max(LEAST_PATIENCE, MOST_SLOWER * max(known.values()))
            return time.monotonic() - begin > allowed

        try:
            yield late
        finally:
            self._seconds[tool] = time.monotonic() - begin


class Inspector:
    """One launcher under one tool, for one call of one candidate."""

    def __init__(self, path: str, tool: Tool, helpers: bytes, index: int, level: Level) -> None:
        self.tool = tool
        self._launcher = LauncherProcess(helpers, index, level=level, tooling=sanitizing(path, tool))

    def ready(self) -> None:
        """Returns when it is up."""
        self._launcher.ready()

    @property
    def alive(self) -> bool:
        return self._launcher.alive

    def inspect(
        self,
        program: Program,
        modules: Sequence[bytes],
        descriptors: Sequence[int],
        word: int,
        deadline: float,
        source: str,
        pace: Pace,
    ) -> Inspection:
        """Runs the call and ends. The arena holds the values; outputs are left there for a comparison."""
        fault = None
        try:
            self._launcher.open(program, modules, descriptors, exact=True)
            with pace.running(self.tool) as late:
                self._launcher.run(word, deadline, late=late)
        except Faulted as faulted:
            fault = faulted
        self._launcher.end(END_SECONDS)
        text = self._launcher.reported()
        findings = parse(self.tool, text, source)
        if not findings and fault is None and not complete(text):
            return Inspection(self.tool, failed=f"{self.tool} did not finish its report")
        if not findings and fault is None and self._launcher.report_was_cut:
            return Inspection(self.tool, failed=f"the report of {self.tool} is too long to be a clean one")
        return Inspection(self.tool, findings, None if findings else fault)

    def close(self) -> None:
        self._launcher.close()
        self._launcher.log.close()


class Inspectors:
    """Keeps `spare` launchers under each tool up. They have met no candidate, and each meets one.

    They come up under `working`, so that no measurement goes on meanwhile.
    """

    def __init__(
        self,
        helpers: bytes,
        index: int,
        spare: int,
        working: Callable[[], AbstractContextManager[None]],
        level: Callable[[], Level] = lambda: level_of(Role.tool_launcher),
    ) -> None:
        """`level` says how far they are confined, and is asked when the first one is started."""
        self._helpers, self._index, self._spare, self._working = helpers, index, spare, working
        self._level = level
        self._waiting: dict[Tool, list[Inspector]] = {tool: [] for tool in Tool}
        self._lock = threading.Lock()
        self._filling: threading.Thread | None = None
        self._closed = False

    def inspect(
        self,
        tools: Sequence[Tool],
        program: Program,
        modules: Sequence[bytes],
        descriptors: Sequence[int],
        word: int,
        deadline: float,
        source: str,
    ) -> tuple[Inspection, ...]:
        """The tools side by side, or one after the other where that would take much memory: each has a process and
        copies of its own. `source` names the file that has the candidate's kernels."""
        path = sanitizer()
        if path is None:
            return (Inspection(Tool.memcheck, failed="compute-sanitizer is not installed; it is part of CUDA"),)

        pace = Pace(tools)

        def inspected(tool: Tool) -> Inspection:
            inspector = self._taken(path, tool)
            try:
                return inspector.inspect(program, modules, descriptors, word, deadline, source, pace)
            finally:
                inspector.close()

        copied = sum(block.extent for block in program.blocks)
        with ThreadPoolExecutor(len(tools) if len(tools) * copied <= SIDE_BY_SIDE else 1) as threads:
            return tuple(threads.map(inspected, tools))

    def _taken(self, path: str, tool: Tool) -> Inspector:
        while True:
            with self._lock:
                if not self._waiting[tool]:
                    break
                inspector = self._waiting[tool].pop()
            if inspector.alive:
                return inspector
            inspector.close()
        return Inspector(path, tool, self._helpers, self._index, self._level())

    def refill(self) -> None:
        """Behind the caller's back."""
        with self._lock:
            busy = self._filling is not None and self._filling.is_alive()
            if self._closed or busy or not self._spare or sanitizer() is None:
                return
            self._filling = threading.Thread(target=self._fill, name="inspectors", daemon=True)
            self._filling.start()

    def _fill(self) -> None:
        path = sanitizer()
        assert path is not None
        with self._working():
            with self._lock:
                missing = [tool for tool in Tool for _ in range(self._spare - len(self._waiting[tool]))]
            started = [Inspector(path, tool, self._helpers, self._index, self._level()) for tool in missing]
            for inspector in started:
                self._keep(inspector)

    def _keep(self, inspector: Inspector) -> None:
        try:
            inspector.ready()
        except CannotDecide:  # the one that is started when it is needed will say so
            inspector.close()
            return
        with self._lock:
            if not self._closed:
                self._waiting[inspector.tool].append(inspector)
                return
        inspector.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            filling = self._filling
        if filling is not None:
            filling.join()
        for waiting in self._waiting.values():
            for inspector in waiting:
                inspector.close()
            waiting.clear()
