"""Which candidates are kept as parents: the fastest of each niche, on each island.

A niche is where a candidate came from and what kind of kernel it is, coarsely. Keeping the best of each keeps a search
from putting everything on the first idea that worked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from kernelwright.proposers.model import Proposal

CAPACITY = 24  # niches that an island keeps
FEATURES = (
    *("omp parallel", "omp simd", "_mm256_", "_mm512_", "__shared__", "__shfl", "float4", "kw.tensor_map"),
    *("atomicAdd", "cooperative", "cluster", "mma", "nontemporal", "prefetch", "unroll"),
)


def niche(proposal: Proposal) -> str:
    """Origin without its counter, genes that are words or switches, and features of the source."""
    origin = " ".join(word for word in proposal.origin.split() if not word.isdigit())
    words = sorted(f"{name}={value}" for name, value in proposal.genes.items() if isinstance(value, str | bool))
    features = [feature for feature in FEATURES if feature in proposal.candidate.source]
    text = "|".join((origin, *words, *features))
    return hashlib.sha256(text.encode()).hexdigest()[:8]


@dataclass(frozen=True)
class Kept:
    number: int
    value: float


@dataclass
class Archive:
    """By island, then by niche. Bounded, so that whoever looks through it takes the same time in a long run."""

    islands: dict[int, dict[str, Kept]] = field(default_factory=dict)

    def add(self, island: int, niche: str, kept: Kept) -> None:
        niches = self.islands.setdefault(island, {})
        there = niches.get(niche)
        if there is not None and there.number != kept.number and there.value >= kept.value:
            return
        niches[niche] = kept
        if len(niches) > CAPACITY:
            del niches[min(niches, key=lambda name: (niches[name].value, -niches[name].number))]

    def drop(self, island: int, niche: str, number: int) -> None:
        niches = self.islands.get(island, {})
        if niche in niches and niches[niche].number == number:
            del niches[niche]

    def of(self, island: int) -> tuple[Kept, ...]:
        """Fastest first."""
        return tuple(sorted(self.islands.get(island, {}).values(), key=lambda kept: (-kept.value, kept.number)))

    def __iter__(self) -> Iterator[Kept]:
        for island in sorted(self.islands):
            yield from self.of(island)
