"""The policies: what to ask the proposer for next, and why. Each is a pure function of the state and of its parameters.

A policy is named as in `islands` or `islands:islands=4,migrate=12`. The journal keeps the name and every parameter.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, ClassVar

from kernelwright.errors import KernelwrightError
from kernelwright.proposers.model import Operator
from kernelwright.search.core.archive import Elite
from kernelwright.search.core.events import Ask, ParameterValue, Started
from kernelwright.search.core.scheduler import Policy, ask_for, inspirations, random_for
from kernelwright.search.core.state import State

STALE = 2  # answers in a row without anything new, after which something fresh is asked for
SHARPNESS = 3.0
LEAST_SPREAD = 0.01  # of a logarithm: differences of one percent are noise


class _Parameters:
    """The fields of a policy are its parameters: whole numbers, or probabilities."""

    name: ClassVar[str]

    @property
    def parameters(self) -> dict[str, ParameterValue]:
        return dataclasses.asdict(self)  # type: ignore[call-overload, no-any-return]


@dataclass(frozen=True)
class RandomPolicy(_Parameters):
    """Random sampling, never from a parent. What other policies are compared with."""

    name = "random"

    def ask(self, state: State) -> Ask:
        return ask_for(state, Operator.sample, why="drawn at random, without a parent")


@dataclass(frozen=True)
class Greedy(_Parameters):
    """Varies the fastest so far; crosses it with the next fastest, or begins afresh, now and then."""

    first: int = 3  # requests for something new before anything is varied
    fresh: float = 0.15
    crossover: float = 0.35
    mates: int = 4

    name = "greedy"

    def ask(self, state: State) -> Ask:
        draw = random_for(state)
        ranked = [number for _, number in state.fastest]
        beginning = _fresh_because(state, bool(ranked), state.requests < self.first)
        if beginning or draw.random() < self.fresh:
            why = beginning or f"something new with probability {self.fresh:g}"
            return ask_for(state, Operator.fresh, inspired_by=inspirations(state), why=why)
        leader, mates = ranked[0], ranked[1 : 1 + self.mates]
        if mates and draw.random() < self.crossover:
            pair = (leader, draw.choice(mates))
            why = f"the fastest with one of the next {len(mates)}, with probability {self.crossover:g}"
            return ask_for(state, Operator.crossover, pair, inspirations(state, pair), why=why)
        place = state.unproductive % len(ranked)  # after an answer with nothing new, the next fastest is varied
        why = f"number {place + 1} by estimate" if place else "the fastest by estimate"
        return ask_for(state, Operator.mutate, (ranked[place],), inspirations(state, (ranked[place],)), why=why)


@dataclass(frozen=True)
class Islands(_Parameters):
    """Several populations that mix now and then, with parents drawn by how fast and how little used they are.

    A parent's weight is the logistic function of its distance from the island's median, in units of the spread, times
    1 / (1 + its children): what is fast is used more, and what was used a lot less.
    """

    islands: int = 3
    migrate: int = 5  # rounds over all islands between two migrations
    fresh: float = 0.12
    crossover: float = 0.3

    name = "islands"

    def ask(self, state: State) -> Ask:
        draw = random_for(state)
        island = state.requests % self.islands
        kept = state.archive.of(island)
        if not kept and state.run.repairs:  # its answers are too expensive to begin on every island from nothing
            kept = tuple(state.archive)
        beginning = _fresh_because(state, bool(kept))
        if beginning or draw.random() < self.fresh:
            why = beginning or f"something new with probability {self.fresh:g}"
            return ask_for(state, Operator.fresh, inspired_by=inspirations(state), island=island, why=why)
        parent, why = choose(state, kept, draw)
        if self._migrating(state):
            other = (island + 1) % self.islands
            foreign = state.archive.of(other)
            if foreign and foreign[0].number != parent:
                pair = (parent, foreign[0].number)
                return self._crossed(state, pair, island, f"{why}; migration: the fastest of island {other}")
        others = tuple(one for one in kept if one.number != parent)
        if others and draw.random() < self.crossover:
            mate, mates_why = choose(state, others, draw)
            return self._crossed(state, (parent, mate), island, f"{why}; {mates_why}")
        return ask_for(state, Operator.mutate, (parent,), inspirations(state, (parent,)), island=island, why=why)

    def _crossed(self, state: State, parents: tuple[int, int], island: int, why: str) -> Ask:
        return ask_for(state, Operator.crossover, parents, inspirations(state, parents), island=island, why=why)

    def _migrating(self, state: State) -> bool:
        return (state.requests // self.islands) % self.migrate == self.migrate - 1


def _fresh_because(state: State, has_parents: bool, early: bool = False) -> str:
    """Why no parent is varied; empty where one can be."""
    if early:
        return "one of the first requests"
    if not has_parents:
        return "there is no parent yet"
    if state.unproductive >= STALE:
        return f"{state.unproductive} answers in a row brought nothing new"
    return ""


def choose(state: State, kept: tuple[Elite, ...], draw: random.Random) -> tuple[int, str]:
    """A parent, and why it was chosen."""
    children = [state.entries[one.number].children for one in kept]
    chances = weights([one.value for one in kept], children)
    (index,) = draw.choices(range(len(kept)), weights=chances)
    one = kept[index]
    share = chances[index] / sum(chances)
    why = f"{one.number:04d} drawn from {len(kept)} with probability {share:.2f}: about {one.value:.2f}×"
    return one.number, f"{why}, {children[index]} children"


def weights(values: list[float], children: list[int]) -> list[float]:
    """Of parents with these speeds (as factors) and this many children."""
    logs = [math.log(value) for value in values]
    middle = median(logs)
    spread = max(LEAST_SPREAD, median(abs(value - middle) for value in logs))
    return [
        _logistic(SHARPNESS * (value - middle) / spread) / (1 + born)
        for value, born in zip(logs, children, strict=True)
    ]


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, x))))


POLICIES: dict[str, Policy] = {policy.name: policy for policy in (Greedy(), Islands(), RandomPolicy())}


def policy_named(text: str) -> Policy:
    """From `NAME` or `NAME:PARAMETER=VALUE,…`."""
    name, _, rest = text.partition(":")
    given: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in rest.split(","))):
        parameter, equals, value = part.partition("=")
        if not equals:
            raise KernelwrightError(f"policy {text!r}: {part!r} is not a parameter; write it as in islands:islands=4")
        if parameter in given:
            raise KernelwrightError(f"policy {text!r}: gives {parameter} twice")
        given[parameter] = value
    return _made(name, given)


def policy_of(run: Started) -> Policy:
    """The policy of a run, with the parameters that its journal keeps."""
    return _made(run.policy, run.policy_parameters)


def _made(name: str, given: Mapping[str, str | ParameterValue]) -> Policy:
    if name not in POLICIES:
        raise KernelwrightError(f"unknown policy {name!r}: choose from {', '.join(POLICIES)}")
    defaults = POLICIES[name].parameters
    unknown = [parameter for parameter in given if parameter not in defaults]
    if unknown:
        has = f"has {', '.join(defaults)}" if defaults else "has none"
        raise KernelwrightError(f"the policy {name} has no parameter {unknown[0]!r}: it {has}")
    values: dict[str, Any] = {
        parameter: _value(name, parameter, value, type(defaults[parameter])) for parameter, value in given.items()
    }
    return type(POLICIES[name])(**values)


def _value(policy: str, parameter: str, value: str | ParameterValue, kind: type) -> ParameterValue:
    """A whole number from 1, or a probability."""
    try:
        found: ParameterValue = int(value) if kind is int else float(value)
    except ValueError:
        found = math.nan
    if kind is int and not found >= 1:
        raise KernelwrightError(f"the policy {policy}: {parameter} is {value}, and must be a whole number from 1")
    if kind is float and not 0 <= found <= 1:
        raise KernelwrightError(f"the policy {policy}: {parameter} is {value}, and must be a number from 0 to 1")
    return found
