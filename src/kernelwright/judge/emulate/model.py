"""What a check on the emulator says. It has no field for a time or a speed, and it is no verdict."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from kernelwright.judge.verdict import Evidence, Reason, Stage, Value

SCHEMA_VERSION = 1


class CheckOutcome(StrEnum):
    """`unchecked`: the emulator does not have what the candidate needs, or did not come to an end."""

    right = "right"
    faulty = "faulty"
    unchecked = "unchecked"


class CheckedWorkload(Value):
    label: str
    sizes: dict[str, int]
    dtype: str
    trials: int
    public: bool


class Check(Value):
    candidate: str
    name: str
    task: str
    contract: str
    checked_on: Literal["emulator"] = "emulator"
    outcome: CheckOutcome
    stage: Stage = Stage.complete
    reason: Reason | None = None
    evidence: Evidence | None = None
    message: str = ""  # why it is unchecked
    workloads: tuple[CheckedWorkload, ...] = ()
    too_large: tuple[str, ...] = ()  # public workloads that were left out
    target: str
    sandbox: str
    sanitizers: str


class CheckReport(Value):
    """What `kernelwright check --json` prints."""

    schema_version: int = SCHEMA_VERSION
    command: Literal["check"] = "check"
    task: str
    results: tuple[Check, ...]
