"""Whether anybody answers: a fold of the calls of a run's models, since the run was last taken up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kernelwright.llm.model import CallRecord, FailureKind

NOBODY = (FailureKind.unavailable, FailureKind.timed_out)
NOT_SENT = (FailureKind.over_budget, FailureKind.not_recorded)  # anything else, a refusal too, comes from somebody
ENOUGH = 4  # calls in a row, each of them several attempts, after which nobody is there


@dataclass(frozen=True)
class Reach:
    """`missed` counts each member's calls since its last answer."""

    answered: bool = False
    missed: Mapping[str, int] = field(default_factory=dict)
    why: str = ""

    def after(self, call: CallRecord) -> Reach:
        if call.outcome in NOT_SENT:
            return self
        if call.outcome not in NOBODY:
            return Reach(True, {name: count for name, count in self.missed.items() if name != call.member}, self.why)
        missed = {**self.missed, call.member: self.missed.get(call.member, 0) + 1}
        return Reach(self.answered, missed, f"{call.member}: {call.detail}")

    def silence(self, members: Iterable[str]) -> str:
        """Why no member answers any more; empty while one may."""
        silent = sum(self.missed.values()) >= ENOUGH and all(name in self.missed for name in members)
        return self.why if silent else ""
