"""A GPU that is played: real builds, real oracle, real judging; kernels, baselines and clocks are stand-ins.

The arena is the CPU's. What a kernel does is told by its name, and its code is only compiled.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest
import torch

from kernelwright.contracts.program import FunctionUse, Program
from kernelwright.devices.names import Device
from kernelwright.devices.nvidia import Gpu
from kernelwright.devices.peaks_nvidia import GpuPeaks
from kernelwright.isolation.channel import Message
from kernelwright.isolation.levels import Isolation, Level
from kernelwright.isolation.log import Log
from kernelwright.isolation.roles import Role
from kernelwright.judge.baseline_processes.cpu import _map_tensor
from kernelwright.judge.gpu import workshop
from kernelwright.judge.gpu.client import Faulted, FaultKind, Timing
from kernelwright.judge.gpu.clocks import NullCall
from kernelwright.judge.gpu.sanitize import Finding, Inspection, Tool
from kernelwright.judge.oracle_client import OpenTask, OracleClient, WorkloadSpec
from kernelwright.runtime.library_steps import KEPT, with_kept_results
from kernelwright.tasks.model import TensorSpec

CUDA = Device("cuda", 0)
GPU = Gpu(
    index=0,
    name="Played GPU",
    uuid="GPU-played",
    driver="580.1",
    cuda=(13, 0),
    capability=(9, 0),
    multiprocessors=132,
    memory_bytes=8 << 30,
    l2_bytes=62914560,
    shared_per_block=232448,
    bus_bits=6016,
    max_sm_mhz=1980,
    max_memory_mhz=3201,
    ecc=True,
    pageable_memory_access=False,
    virtual_memory=True,
    exports_descriptors=True,
)
PEAKS = GpuPeaks("Played GPU", "580.1", 4e12, 4.2e12, 6e13, 5e13, 4e14, 7e14, 8e14, None, 2.75e-6)
EMPTY = NullCall(3e-6, 9e-6, 60e-6)
BASELINE_SECONDS = 60e-6
KERNEL_SECONDS = 30e-6


class PlayedOracle(OracleClient):
    """Works on the CPU's memory."""

    def __init__(self, key: bytes, threads: int, device: Device) -> None:
        assert device == CUDA
        super().__init__(key, threads)

    def peaks(self) -> Message:
        return dict(vars(PEAKS))


def mapped(tensor: TensorSpec, descriptor: int) -> torch.Tensor:
    return _map_tensor(tensor, os.dup(descriptor))


class PlayedBaseline:
    def __init__(self, name: str, helpers: bytes, index: int) -> None:
        self.name, self.alive = name, True
        self._times = itertools.cycle((1.0, 1.001, 0.999))

    def open(self, task: OpenTask, spec: WorkloadSpec, descriptors: Sequence[int]) -> None:
        tensors = zip(spec.signature.tensors, descriptors, strict=True)
        self._x, self._out = (mapped(tensor, descriptor) for tensor, descriptor in tensors)

    def write(self) -> None:
        self._out.copy_(self._x * 2)

    def time(self) -> float:
        return BASELINE_SECONDS * next(self._times)

    def empty(self) -> float:
        return 0.0

    def close(self) -> None:
        self.alive = False


class PlayedLauncher:
    """What a kernel does stands in its name, and in `torch_gives` what is there without any. Those that were begun are
    counted while they are up."""

    up = 0
    torch_gives = "left out"

    def __init__(
        self, helpers: bytes, index: int, *, level: Level = Level.full, torch: bool = False, held: bool = False
    ) -> None:
        self.log = Log()
        self._opened, self.calls, self.torch, self._begun = True, 0, torch, False
        if not held:
            self.begin()

    def begin(self) -> None:
        self._begun = True
        PlayedLauncher.up += 1

    def ready(self) -> None:
        assert self._opened and self._begun

    @property
    def alive(self) -> bool:
        return self._opened

    def open(
        self, program: Program, modules: Sequence[bytes], descriptors: Sequence[int], *, exact: bool = False
    ) -> tuple[FunctionUse, ...]:
        assert not program.library or self.torch
        self._does = program.launches[0].function if program.launches else self.torch_gives
        if self._does == "unlaunchable":
            raise self._fault(FaultKind.launch_failed, "launch of unlaunchable: CUDA_ERROR_INVALID_VALUE")
        blocks = [block for block in program.blocks if block.shared]
        blocks = [block for block in blocks if block.name != KEPT]
        roles = ["output" if block.writable else "input" for block in blocks]
        specs = [
            TensorSpec(block.name, "float32", (block.extent // 4,), (1,), role)
            for block, role in zip(blocks, roles, strict=True)
        ]
        self._x, self._out = (mapped(spec, fd) for spec, fd in zip(specs, descriptors, strict=False))
        return tuple(FunctionUse(step.function, 24, 0, 512, step.shared, 256, 8, 1.0) for step in program.launches)

    @contextmanager
    def without_torch(
        self, program: Program, modules: Sequence[bytes], descriptors: Sequence[int], deadline: float
    ) -> Iterator[tuple[Program, list[int]]]:
        if not program.library:
            yield program, list(descriptors)
            return
        self.open(program, modules, descriptors)
        if self._does == "illegal":
            raise self._fault(FaultKind.illegal_access, "the call: CUDA_ERROR_ILLEGAL_ADDRESS")
        kept = os.memfd_create("kept")
        yield with_kept_results(program), [*descriptors, kept]
        os.close(kept)

    def trial(self, word: int, deadline: float) -> Timing:
        if self._does == "illegal":
            raise self._fault(FaultKind.illegal_access, "the call: CUDA_ERROR_ILLEGAL_ADDRESS")
        if self._does == "endless":
            raise self._fault(FaultKind.timed_out, f"the call was not done within {deadline:g} s")
        if self._does == "left out":
            pass
        elif self._does == "partial":
            self._out[1:] = self._x[1:] * 2
        else:
            self._out.copy_(self._x * (3 if self._does == "wrong" else 2))
        if self._does == "instant":
            return Timing(1e-9, EMPTY.outside - EMPTY.device, EMPTY.answer - EMPTY.device)
        outside = 3 * KERNEL_SECONDS if self._does == "liar" else KERNEL_SECONDS
        answer = {"liar": 3, "early": 200}.get(self._does, 1) * KERNEL_SECONDS
        return Timing(EMPTY.device + KERNEL_SECONDS, EMPTY.outside + outside, EMPTY.answer + answer)

    def run(self, word: int, deadline: float, *, filled: bool = False) -> None:
        """A kernel called `leftover` has a result that depends on its scratch, a little; one called `varying` differs
        from call to call."""
        self.trial(word, deadline)
        self.calls += 1
        if (self._does == "leftover" and filled and word >> 31) or (self._does == "varying" and self.calls % 2):
            last = self._out[-1]
            self._out[-1] = last if last.isinf() else last.nextafter(torch.tensor(torch.inf))

    def _fault(self, kind: FaultKind, message: str) -> Faulted:
        self.close()
        return Faulted(kind, message)

    def close(self) -> None:
        if self._opened:
            self._opened = False
            PlayedLauncher.up -= self._begun

    def __enter__(self) -> PlayedLauncher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self.log.close()


class PlayedNullLauncher:
    """What an empty call takes is known."""

    call = EMPTY

    def __init__(self, launcher: PlayedLauncher, word: int) -> None:
        launcher.close()

    def between(self) -> None: ...

    def again(self) -> None:
        pass

    def close(self) -> None:
        pass


PUBLIC_ELEMENTS = (20000, 3000)  # of the task that they judge


UNENDING = ("stored_in_bulk", "leftover", "varying")


class PlayedInspectors:
    """All tools at once. A kernel called `racy` has a fault that only racecheck sees, and `late` does not end under
    them, or `late_unseen` on sizes that are not public. Those of `UNENDING` do not end under initcheck, nor does
    `never_raced` under racecheck; and for `large`, the device has no memory for copies."""

    asked: ClassVar[list[tuple[tuple[Tool, ...], int]]] = []  # with which tools, on how many elements

    def __init__(self, helpers: bytes, *_: object) -> None:
        self._helpers = helpers

    def inspect(
        self, tools: Sequence[Tool], program: Program, modules: Any, descriptors: Sequence[int], word: int, *_: object
    ) -> tuple[Inspection, ...]:
        elements, does = program.blocks[0].extent // 4, program.launches[0].function
        assert not program.library, "a tool would watch torch"
        self.asked.append((tuple(tools), elements))
        with PlayedLauncher(self._helpers, 0) as launcher:
            try:
                launcher.open(program, modules, descriptors)
                launcher.trial(word, 1.0)
            except Faulted as fault:
                return tuple(Inspection(tool, fault=fault) for tool in tools)
        if does == "late" or (does == "late_unseen" and elements not in PUBLIC_ELEMENTS):
            return tuple(Inspection(tool, fault=Faulted(FaultKind.timed_out, "no answer")) for tool in tools)
        if does == "large":
            return tuple(Inspection(tool, fault=Faulted(FaultKind.out_of_memory, "cuMemAlloc")) for tool in tools)
        unending = {Tool.initcheck} if does in UNENDING else {Tool.racecheck} if does == "never_raced" else set()
        if unending & set(tools):
            return tuple(
                Inspection(tool, fault=Faulted(FaultKind.timed_out, "no answer") if tool in unending else None)
                for tool in tools
            )
        finding = Finding(Tool.racecheck, "Race reported between Write access and Read access", 3, "racy")
        found = {Tool.racecheck: (finding,)} if does == "racy" else {}
        return tuple(Inspection(tool, found.get(tool, ())) for tool in tools)

    def refill(self) -> None:
        pass

    def close(self) -> None:
        pass


def play(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Puts the stand-ins in place. What is returned grows with every time the device was asked whether it is well."""
    asked: list[str] = []

    def well(*_: object) -> None:
        asked.append("well")

    for name, stand_in in {
        "require": lambda device: None,
        "OracleClient": PlayedOracle,
        "GpuBaselineProcess": PlayedBaseline,
        "LauncherProcess": PlayedLauncher,
        "launcher_isolation": lambda *_: Isolation(Role.launcher, Level.full),
        "torch_launcher_isolation": lambda *_: Isolation(Role.torch_launcher, Level.full),
        "tool_isolation": lambda *_: Isolation(Role.tool_launcher, Level.full),
        "NullLauncher": PlayedNullLauncher,
        "sanitizer": lambda: "compute-sanitizer",
        "Inspectors": PlayedInspectors,
        "wait_until_well": well,
    }.items():
        monkeypatch.setattr(workshop, name, stand_in)
    monkeypatch.setattr(workshop.nvidia, "probe", lambda index: GPU)
    return asked
