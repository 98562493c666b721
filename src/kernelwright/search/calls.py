"""How the calls of a run's models fared, and where a replay found their answers: folded from the journal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from kernelwright.llm.model import FailureKind, Match
from kernelwright.search.events import Event, ModelCalled

WAYS = {
    Match.request: "by the very request",
    Match.call: "by the same call with other figures",
    Match.material: "by the same sources",
    Match.order: "by order",
}


@dataclass(frozen=True)
class Fared:
    """`outcomes` counts all calls; `matches` those of a replay that were answered."""

    outcomes: dict[str, int]
    matches: dict[str, int]

    @property
    def line(self) -> str:
        """Empty where everybody who was asked answered."""
        failed = [f"{self.outcomes[kind]} {kind.replace('_', ' ')}" for kind in FailureKind if kind in self.outcomes]
        found = [f"{self.matches[match]} {said}" for match, said in WAYS.items() if match in self.matches]
        if found:
            return f"answered from recordings: {', '.join([*found, *failed])}"
        return f"without an answer: {', '.join(failed)}" if failed else ""


def fared(events: Iterable[Event]) -> Fared:
    calls = [event.call for event in events if isinstance(event, ModelCalled)]
    outcomes = Counter(str(call.outcome) for call in calls)
    return Fared(dict(outcomes), dict(Counter(str(call.match) for call in calls if call.ok and call.match)))
