"""Islands: several populations that mix now and then, with parents drawn by how fast and how little used they are.

A parent's chance is the logistic function of its distance from the island's median, in units of the spread, times
1 / (1 + its children): what is fast is used more, and what was used a lot makes room.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from statistics import median

from kernelwright.proposers.model import Operator
from kernelwright.search.actions import Ask
from kernelwright.search.archive import Kept
from kernelwright.search.policy import STALE, chance, inspired, request
from kernelwright.search.state import State

FRESH, CROSSED = 0.12, 0.3
MIGRATE_EVERY = 5  # rounds over all islands
SHARPNESS = 3.0
LEAST_SPREAD = 0.01  # of a logarithm: differences of one percent are noise


@dataclass(frozen=True)
class Islands:
    count: int = 3
    name: str = "islands"

    def ask(self, state: State) -> Ask:
        draw = chance(state)
        island = state.requests % self.count
        kept = state.archive.of(island)
        if not kept and state.run.repairs:  # its answers are too dear to begin on every island from nothing
            kept = tuple(state.archive)
        if not kept or state.barren >= STALE or draw.random() < FRESH:
            return request(state, Operator.fresh, inspirations=inspired(state), island=island)
        parent = choose(state, kept, draw)
        if self._migrating(state):
            foreign = state.archive.of((island + 1) % self.count)
            if foreign and foreign[0].number != parent:
                return self._crossed(state, (parent, foreign[0].number), island)
        others = tuple(one for one in kept if one.number != parent)
        if others and draw.random() < CROSSED:
            return self._crossed(state, (parent, choose(state, others, draw)), island)
        return request(state, Operator.mutate, (parent,), inspired(state, (parent,)), island=island)

    def _crossed(self, state: State, parents: tuple[int, int], island: int) -> Ask:
        return request(state, Operator.crossover, parents, inspired(state, parents), island=island)

    def _migrating(self, state: State) -> bool:
        return (state.requests // self.count) % MIGRATE_EVERY == MIGRATE_EVERY - 1


def choose(state: State, kept: tuple[Kept, ...], draw: random.Random) -> int:
    children = [state.entries[one.number].children for one in kept]
    (index,) = draw.choices(range(len(kept)), weights=weights([one.value for one in kept], children))
    return kept[index].number


def weights(values: list[float], children: list[int]) -> list[float]:
    """Of parents with these speeds (as factors) and so many children."""
    logs = [math.log(value) for value in values]
    middle = median(logs)
    spread = max(LEAST_SPREAD, median(abs(value - middle) for value in logs))
    return [
        _logistic(SHARPNESS * (value - middle) / spread) / (1 + born)
        for value, born in zip(logs, children, strict=True)
    ]


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, x))))
