"""Real checks that cost little, before a model is asked for an opinion: the compiler and, without a GPU, the emulator.

Everything runs in the judge's own confined builders, and lands in the judge's cache: what is built here is not built
again for its judging.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from kernelwright.contracts import Candidate, CandidateError
from kernelwright.contracts.registry import contract_named
from kernelwright.contracts.target import HOPPER, Target, target_of
from kernelwright.contracts.tunables import TunableError, render
from kernelwright.devices import nvidia
from kernelwright.devices.names import Device
from kernelwright.isolation.levels import Level
from kernelwright.judge.emulate.check import Checker, CheckOutcome
from kernelwright.judge.wording import SENTENCES, evidence_lines
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
class Builds:
    """The contract's own toolchain, for every public workload, as far as it is installed here."""

    signatures: tuple[Signature, ...]
    target: Target = HOPPER

    def __call__(self, candidate: Candidate) -> CheckFault | None:
        contract = contract_named(candidate.contract)
        try:
            contract.check_source(candidate.source)
        except CandidateError as error:
            return CheckFault("it is not a candidate", (str(error),))
        failure = contract.build_failure(candidate, self.signatures, self.target)
        return None if failure is None else CheckFault("it does not build", failure.lines[:LINES])


@dataclass
class Emulated:
    """Small workloads on the emulator, for want of a GPU, one candidate at a time. What it cannot tell passes."""

    task: str
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, candidate: Candidate) -> CheckFault | None:
        with self._lock, Checker(most_elements=MOST_ELEMENTS, isolation=Level.none) as checker:
            found = checker.check(self.task, candidate)
        if found.outcome is not CheckOutcome.faulty or found.reason is None:
            return None
        lines = evidence_lines(found.evidence) if found.evidence is not None else []
        return CheckFault(SENTENCES[found.reason], tuple(lines[:LINES]))


def checks_for(contract: str, task: str, signatures: tuple[Signature, ...], device: Device) -> tuple[Check, ...]:
    """In the order in which they are worth trying."""
    chosen = contract_named(contract)
    if device.kind == "cpu":
        return (Builds(signatures),)
    if nvidia.absence():
        return (Builds(signatures), Emulated(task)) if chosen.emulated else (Builds(signatures),)
    return (Builds(signatures, target_of(nvidia.probe(device.index))),)


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
