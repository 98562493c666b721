"""What each model's answers were worth, told to the bandit as a run goes on, and told again when it is resumed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from kernelwright.search.events import Abandoned, Evaluated, Event, Refused
from kernelwright.search.state import Entry, State
from kernelwright.search.take import paid

Reward = Callable[[str, float, float], None]
FIRST_RIGHT = 0.1  # what a right answer is worth where there was none, beyond its speed


@dataclass(frozen=True)
class Rewards:
    """A watcher of a run. A member that is no longer in the ensemble is passed over."""

    reward: Reward
    members: frozenset[str]

    def __call__(self, event: Event, state: State) -> None:
        match event:
            case Evaluated():
                self._judged(state.entries[event.number], state)
            case Abandoned() if state.entries[event.number].verdict is None:  # a finalist was told of before
                self._judged(state.entries[event.number], state)
            case Refused():
                self._tell(event.member, 0.0, event.usd)

    def _judged(self, entry: Entry, state: State) -> None:
        member, usd = paid(entry.proposal)
        self._tell(member, gain(entry, state), usd)

    def _tell(self, member: str, gained: float, usd: float) -> None:
        if member in self.members:
            self.reward(member, gained, usd)


def gain(entry: Entry, state: State) -> float:
    """By how much it is faster than the fastest of its parents, as a logarithm; without parents, than the baseline."""
    if entry.provisional is None:
        return 0.0
    known = [state.by_id[name] for name in entry.proposal.parents if name in state.by_id]
    parents = [value for number in known if (value := state.entries[number].provisional) is not None]
    if not parents:
        return FIRST_RIGHT + max(0.0, math.log(entry.provisional))
    return max(0.0, math.log(entry.provisional / max(parents)))
