"""Greedy: vary the fastest so far, cross it with the next fastest now and then, begin afresh now and then."""

from __future__ import annotations

from dataclasses import dataclass

from kernelwright.proposers.model import Operator
from kernelwright.search.actions import Ask
from kernelwright.search.policy import STALE, chance, inspired, request
from kernelwright.search.state import State

FIRST = 3  # requests for something new before anything is varied
FRESH, CROSSED = 0.15, 0.35  # the chance of a fresh request; of a cross, where not fresh
MATES = 4


@dataclass(frozen=True)
class Greedy:
    name: str = "greedy"

    def ask(self, state: State) -> Ask:
        draw = chance(state)
        ranked = [number for _, number in state.ranking]
        if state.requests < FIRST or not ranked or state.barren >= STALE or draw.random() < FRESH:
            return request(state, Operator.fresh, inspirations=inspired(state))
        leader, mates = ranked[0], ranked[1 : 1 + MATES]
        if mates and draw.random() < CROSSED:
            pair = (leader, draw.choice(mates))
            return request(state, Operator.crossover, pair, inspired(state, pair))
        parent = ranked[state.barren % len(ranked)]  # a proposer that has nothing new for one is asked about the next
        return request(state, Operator.mutate, (parent,), inspired(state, (parent,)))
