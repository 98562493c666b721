"""A minimal judge for tests of the GPU foundation: builds a candidate, runs it on fresh values, says what became of it.

The oracle here is a few torch tensors and a reference in float64; the builder, arena, launcher and clocks are the
real ones.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import torch

from kernelwright.contracts.candidate import Candidate
from kernelwright.contracts.cuda import CUDA
from kernelwright.contracts.cuda.source import read_cuda_candidate
from kernelwright.contracts.cuda.toolchain.build import build_cuda
from kernelwright.contracts.cuda.toolchain.builder import BuilderPool
from kernelwright.contracts.layout import Access, lay_out
from kernelwright.contracts.model import BuildFailure, GpuBuilt
from kernelwright.contracts.target import target_of
from kernelwright.devices.nvidia import probe
from kernelwright.judge.gpu.client import Faulted, LauncherProcess, Timing
from kernelwright.judge.gpu.clocks import NullCall, NullLauncher, disagreement
from kernelwright.judge.gpu.health import helper_kernels, launcher_isolation
from kernelwright.judge.gpu.inspectors import Inspectors
from kernelwright.judge.gpu.profiler import Profiler
from kernelwright.judge.gpu.sanitize import Inspection, Tool
from kernelwright.judge.oracle.gpu_arena import DeviceArena
from kernelwright.judge.verdict import Profile
from kernelwright.tasks.model import ScalarSpec, Signature, TensorSpec

T = TypeVar("T")
HERE = Path(__file__).parent
KERNELS = HERE.parent / "kernels_cuda"
EPS = 1e-6
PUBLIC = ((1024, 4096), (64, 128))
HIDDEN = ((33, 1027), (200, 5000))
TRIALS = 6
DEADLINE = 2.0
TOLERANCE = 2e-6


def signature(rows: int, cols: int) -> Signature:
    return Signature(
        (
            TensorSpec("x", "float32", (rows, cols), (cols, 1), "input"),
            TensorSpec("weight", "float32", (cols,), (1,), "input"),
            ScalarSpec("eps", EPS),
            TensorSpec("out", "float32", (rows, cols), (cols, 1), "output"),
        )
    )


def reference(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    x, weight = x.double(), weight.double()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS) * weight


@dataclass
class Outcome:
    """`accepted`, or in what way it failed; and the times by workload."""

    reason: str
    detail: str = ""
    timings: dict[tuple[int, int], list[Timing]] = field(default_factory=dict)

    def seconds(self, size: tuple[int, int]) -> float:
        times = sorted(timing.device for timing in self.timings[size])
        return times[len(times) // 2]


class Oracle:
    """The arena of one workload, with the values in it."""

    def __init__(self, rows: int, cols: int) -> None:
        self.rows, self.cols = rows, cols
        self.layout = lay_out(signature(rows, cols))
        self.arena = DeviceArena(self.layout)
        self._words = {p.name: self._shared(self.arena.whole(p)).view(torch.int32) for p in self.layout.tensors}
        self._views = {p.name: self._shared(self.arena.contents(p)).view(torch.float32) for p in self.layout.tensors}
        self.word = 0

    @staticmethod
    def _shared(memory: object) -> torch.Tensor:
        return torch.as_tensor(memory, device="cuda")

    @property
    def x(self) -> torch.Tensor:
        return self._views["x"].view(self.rows, self.cols)

    def load(self) -> None:
        """New values, and a new pattern wherever there are none."""
        self.word = 0x7FF07FF0 | secrets.randbelow(15) + 1 | (secrets.randbelow(15) + 1) << 16
        for words in self._words.values():
            words.fill_(self.word)
        self._views["x"].normal_().mul_(2.0 ** (secrets.randbelow(9) - 4))
        self._views["weight"].normal_()
        self.expected = reference(self.x, self._views["weight"])
        torch.cuda.synchronize()

    def complaint(self) -> tuple[str, str] | None:
        for place in self.layout.tensors:
            if place.access is Access.write:
                words = self._words[place.name]
                tail = -(-place.tail // 4)
                if bool((words[: place.offset // 4] != self.word).any()) or bool((words[tail:] != self.word).any()):
                    return "wrote_outside", place.name
        got = self._views["out"].view(self.rows, self.cols)
        unwritten = int((got.view(torch.int32) == self.word).sum())
        if unwritten:
            return "unwritten", f"{unwritten} elements"
        scale = self.expected.abs().amax(-1, keepdim=True)
        error = float(((got.double() - self.expected).abs() / scale).amax())
        return None if error <= TOLERANCE else ("wrong", f"relative error {error:.3g}")


class Bench:
    def __init__(self) -> None:
        gpu = probe()
        self.target = target_of(gpu)
        self.helpers = helper_kernels(self.target.architecture)
        self.pool = BuilderPool(self.target.architecture)
        self._oracles: dict[tuple[int, int], Oracle] = {}
        self.isolation = launcher_isolation(self.helpers)
        self._null = NullLauncher(self.launcher(), 1)

    @property
    def empty(self) -> NullCall:
        """Of just now: what else the machine does counts for all launchers alike."""
        self._null.again()
        return self._null.call

    def launcher(self) -> LauncherProcess:
        return LauncherProcess(self.helpers, level=self.isolation.level)

    def oracle(self, size: tuple[int, int]) -> Oracle:
        if size not in self._oracles:
            self._oracles[size] = Oracle(*size)
        return self._oracles[size]

    def judge(
        self,
        candidate: Candidate | Path,
        sizes: Sequence[tuple[int, int]] = (*PUBLIC, *HIDDEN),
        trials: int = TRIALS,
    ) -> Outcome:
        if isinstance(candidate, Path):
            candidate = read_cuda_candidate(candidate)
        made = build_cuda(candidate, tuple(signature(*size) for size in sizes), self.target, self.pool)
        if isinstance(made, BuildFailure):
            return Outcome("does_not_build", " | ".join(made.lines))
        outcome = Outcome("accepted")
        with self.launcher() as launcher:
            for size, built in zip(sizes, made.built, strict=True):
                outcome.timings[size] = []
                try:
                    complaint = self._trials(launcher, built, self.oracle(size), trials, outcome.timings[size])
                except Faulted as fault:
                    complaint = (str(fault.kind), fault.message)
                if complaint:
                    outcome.reason, outcome.detail = complaint
                    return outcome
        return outcome

    def _trials(
        self, launcher: LauncherProcess, built: GpuBuilt, oracle: Oracle, trials: int, timings: list[Timing]
    ) -> tuple[str, str] | None:
        with_descriptors(oracle, lambda fds: launcher.open(built.program, built.modules, fds))
        for _ in range(trials):
            oracle.load()
            timings.append(launcher.trial(oracle.word, DEADLINE))
            if complaint := oracle.complaint():
                return complaint
        different = disagreement(timings, self.empty)
        return ("clocks_disagree", different.describe()) if different else None

    def sanitize(self, candidate: Path, size: tuple[int, int] = (33, 1027)) -> tuple[Inspection, ...]:
        made = build_cuda(read_cuda_candidate(candidate), (signature(*size),), self.target, self.pool)
        assert not isinstance(made, BuildFailure), made
        oracle = self.oracle(size)
        oracle.load()
        built = made.built[0]
        inspectors = Inspectors(self.helpers, 0, 0, nullcontext)
        return with_descriptors(
            oracle,
            lambda fds: inspectors.inspect(
                tuple(Tool), built.program, built.modules, fds, oracle.word, 120.0, CUDA.source_name
            ),
        )

    def profile(self, candidate: Path, size: tuple[int, int]) -> tuple[Profile, GpuBuilt]:
        made = build_cuda(read_cuda_candidate(candidate), (signature(*size),), self.target, self.pool)
        assert not isinstance(made, BuildFailure), made
        oracle, built = self.oracle(size), made.built[0]
        oracle.load()
        profiler = Profiler(self.helpers, 0)
        told = with_descriptors(oracle, lambda fds: profiler.profile(built, fds, oracle.word))
        assert oracle.complaint() is None
        return told, built

    def close(self) -> None:
        self._null.close()
        self.pool.close()


def with_descriptors(oracle: Oracle, use: Callable[[list[int]], T]) -> T:
    descriptors = oracle.arena.descriptors()
    try:
        return use(descriptors)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
