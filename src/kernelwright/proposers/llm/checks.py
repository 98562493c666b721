"""Real checks that cost little, before a model is asked for an opinion: plan, compiler and, without a GPU, emulator.

Everything runs in the judge's own confined builders, and lands in the judge's cache: what is built here is not built
again for its judging.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec

from kernelwright.contracts import HOST_CONTRACTS, Candidate, CandidateError
from kernelwright.contracts.cuda.source import split
from kernelwright.contracts.cuda.target import HOPPER, Target, target_of
from kernelwright.contracts.cuda.toolchain.evaluate import evaluate_plans
from kernelwright.contracts.cuda.toolchain.failure import GpuBuildFailure
from kernelwright.contracts.host_build import BuildFailure, build
from kernelwright.contracts.tunables import TunableError, render
from kernelwright.devices import nvidia
from kernelwright.devices.names import Device
from kernelwright.judge.emulate.check import Checker
from kernelwright.judge.emulate.model import CheckOutcome
from kernelwright.judge.words import SENTENCES, evidence_lines
from kernelwright.tasks.model import Signature

LINES = 24
MOST_ELEMENTS = 1 << 19  # of a workload for the emulator: a second or two each


@dataclass(frozen=True)
class CheckFault:
    """Why a candidate would be rejected, in a sentence and in the compiler's or emulator's words."""

    sentence: str
    lines: tuple[str, ...] = ()


Check = Callable[[Candidate], CheckFault | None]


@dataclass(frozen=True)
class Compiles:
    """For contracts that a host compiler builds, one signature after another."""

    signatures: tuple[Signature, ...]

    def __call__(self, candidate: Candidate) -> CheckFault | None:
        for signature in dict.fromkeys(self.signatures):
            built = build(candidate, signature)
            if isinstance(built, BuildFailure):
                return CheckFault("it does not build", built.lines[:LINES])
        return None


@dataclass(frozen=True)
class CudaBuilds:
    """The plan is evaluated for every public workload; NVRTC compiles what it names, where it is installed."""

    signatures: tuple[Signature, ...]
    target: Target

    def __call__(self, candidate: Candidate) -> CheckFault | None:
        try:
            sources = split(candidate.source)
        except CandidateError as error:
            return CheckFault("it is no candidate", (str(error),))
        failure = self._compiled(candidate) if has_nvrtc() else None
        if failure is None and not has_nvrtc():
            plans = evaluate_plans(sources.plan, self.signatures, self.target)
            failure = plans if isinstance(plans, GpuBuildFailure) else None
        return None if failure is None else CheckFault("it does not build", failure.lines[:LINES])

    def _compiled(self, candidate: Candidate) -> GpuBuildFailure | None:
        from kernelwright.contracts.cuda.toolchain.build import build_cuda
        from kernelwright.contracts.cuda.toolchain.builder import BuilderPool

        pool = BuilderPool(self.target.architecture)
        try:
            made = build_cuda(candidate, self.signatures, self.target, pool)
        finally:
            pool.close()
        return made if isinstance(made, GpuBuildFailure) else None


@dataclass
class Emulated:
    """Small workloads on the emulator, for want of a GPU, one candidate at a time. What it cannot tell passes."""

    task: str
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, candidate: Candidate) -> CheckFault | None:
        with self._lock, Checker(most_elements=MOST_ELEMENTS) as checker:
            found = checker.check(self.task, candidate)
        if found.outcome is not CheckOutcome.faulty or found.reason is None:
            return None
        lines = evidence_lines(found.evidence) if found.evidence is not None else []
        return CheckFault(SENTENCES[found.reason], tuple(lines[:LINES]))


def checks_for(contract: str, task: str, signatures: tuple[Signature, ...], device: Device) -> tuple[Check, ...]:
    """In the order in which they are worth trying."""
    if contract in HOST_CONTRACTS:
        return (Compiles(signatures),)
    if nvidia.absence():
        return (CudaBuilds(signatures, HOPPER), Emulated(task))
    gpu = nvidia.probe(device.index)
    target = target_of(gpu)
    return (CudaBuilds(signatures, target),)


def has_nvrtc() -> bool:
    try:
        return find_spec("cuda.bindings.nvrtc") is not None
    except ModuleNotFoundError:
        return False


def first_fault(candidate: Candidate, checks: tuple[Check, ...]) -> CheckFault | None:
    """Of the candidate as it will be judged, with the first values of its tunables."""
    try:
        rendered = render(candidate)
    except TunableError as error:
        return CheckFault("a tunable cannot be understood", (str(error),))
    for check in checks:
        fault = check(rendered)
        if fault is not None:
            return fault
    return None
