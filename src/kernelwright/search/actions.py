"""What a policy can decide. Values, because a journal keeps them: what was decided and not yet done is done first."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from kernelwright.judge.verdict import Value
from kernelwright.proposers.model import Operator


class StopReason(StrEnum):
    """Why a run ended. `exhausted`: its proposer had nothing left to try. `unanswered`: nobody answers."""

    budget = "budget"
    at_the_bound = "at_the_bound"
    plateau = "plateau"
    exhausted = "exhausted"
    unanswered = "unanswered"
    interrupted = "interrupted"


class Ask(Value):
    """Ask the proposer. Parents and inspirations are numbers of candidates of this run."""

    kind: Literal["ask"] = "ask"
    request: int
    operator: Operator
    count: int
    seed: int
    parents: tuple[int, ...] = ()
    inspirations: tuple[int, ...] = ()
    island: int = 0


class Sweep(Value):
    """Propose a candidate's own tunables with other values."""

    kind: Literal["sweep"] = "sweep"
    request: int
    number: int
    seed: int


class Evaluate(Value):
    """Judge on public workloads with little effort: enough to choose parents, never to claim anything."""

    kind: Literal["evaluate"] = "evaluate"
    number: int


class Contest(Value):
    """Judge a finalist with all that a claim needs, and the reigning best afresh beside it."""

    kind: Literal["contest"] = "contest"
    challenger: int
    incumbent: int | None


class Stop(Value):
    kind: Literal["stop"] = "stop"
    reason: StopReason
    detail: str = ""


Action = Annotated[Ask | Sweep | Evaluate | Contest | Stop, Field(discriminator="kind")]
