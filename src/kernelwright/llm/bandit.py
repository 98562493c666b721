"""Which member is asked next: by measured gain for what it cost, with the rest left to chance.

Gain is taken to come in at a steady rate per dollar, so that what is believed of a member is a gamma distribution:
one pseudo-gain at the ensemble's own rate, plus what was measured. One rate is drawn for each member, and the highest
is asked (Thompson sampling). A member that was never asked is believed to be like the others and is drawn now and
then; one that costs much and brings little is drawn ever less, and never not at all.

A choice depends on the rewards and on the seed of what is asked, and on nothing else: telling the rewards of a
journal again restores it.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass
class _Measured:
    gain: float = 0.0
    cost: float = 0.0


class Bandit:
    """`weights` are preferences of the user; `evaluation_usd` is what measuring an answer is held to cost.

    Without the latter a model that is free would win whatever it brings, although its answers take the device's time.
    """

    def __init__(self, weights: Mapping[str, float], evaluation_usd: float) -> None:
        self._weights = dict(weights)
        self._evaluation_usd = evaluation_usd
        self._measured = {name: _Measured() for name in weights}
        self._gains = 0
        self._calls = 0

    def reward(self, member: str, gain: float, usd: float) -> None:
        """One answer was measured, or failed with gain 0. A loss counts as no gain, since it is not kept.

        So does what means nothing, of gains and of dollars: a journal may hold it, and the run must still resume.
        """
        gain, usd = (max(0.0, amount) if math.isfinite(amount) else 0.0 for amount in (gain, usd))
        measured = self._measured[member]
        measured.gain += gain
        measured.cost += usd + self._evaluation_usd
        self._gains += gain > 0
        self._calls += 1

    def choose(self, seed: str) -> str:
        """The same seed after the same rewards gives the same member."""
        rates = {name: weight * self._drawn(name, seed) for name, weight in self._weights.items()}
        return max(rates, key=lambda name: rates[name])

    def _drawn(self, name: str, seed: str) -> float:
        """In typical gains per dollar. Every member has a generator of its own, so that others do not disturb it."""
        digest = hashlib.sha256(f"{seed}\0{name}".encode()).digest()
        measured = self._measured[name]
        shape = 1.0 + measured.gain / self._typical_gain
        return random.Random(digest).gammavariate(shape, 1.0 / (self._prior_cost + measured.cost))

    @property
    def _typical_gain(self) -> float:
        """The mean of those that were gains, so that the scale of gains does not matter."""
        return sum(one.gain for one in self._measured.values()) / self._gains if self._gains else 1.0

    @property
    def _prior_cost(self) -> float:
        """What one typical gain has cost the ensemble so far."""
        if not self._calls:
            return self._evaluation_usd
        total = sum(one.cost for one in self._measured.values())
        return (total + total / self._calls) / (self._gains + 1)
