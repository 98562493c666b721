"""Which candidates are kept as parents: the fastest of each niche, on each island.

A niche is a `Descriptor`: what a proposal says of itself and what its verdict shows, coarsely. Keeping the best of each
niche keeps a search from putting everything on the first idea that worked. The archive holds all members of a niche,
so that an elite that turns out to be wrong makes room for the one that it had displaced.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass, field

from kernelwright.contracts.tunables import TunableError, declared
from kernelwright.judge.verdict import AuthorVerdict, LaunchProfile
from kernelwright.proposers.model import MODEL_GENES, SWEPT, Proposal

CAPACITY = 24  # niches of an island from which parents are chosen
FEATURES = (
    *("omp parallel", "omp simd", "_mm256_", "_mm512_", "__shared__", "__shfl", "float4", "kw.tensor_map"),
    *("atomicAdd", "cooperative", "cluster", "mma", "nontemporal", "prefetch", "unroll"),
)


@dataclass(frozen=True)
class Descriptor:
    """A niche. The first three are the proposal's; the others are the verdict's, and empty where it does not say.

    Neither a number among the genes, nor the value of a tunable, nor the name of a model makes a niche.
    """

    family: str  # the proposer with its template or operator
    choices: tuple[str, ...]  # genes that are words or switches
    features: tuple[str, ...]  # of the source
    kernels: int = 0  # launched per call
    limited_by: str = ""  # what a profile says: memory or compute


def descriptor(proposal: Proposal, verdict: AuthorVerdict | None, family: str = "") -> Descriptor:
    """`family` is that of the candidate whose tunables were swept, where a sweep made this one."""
    workloads = verdict.workloads if verdict is not None else ()
    first = workloads[0] if workloads else None
    return Descriptor(
        family=family or family_of(proposal),
        choices=_choices(proposal),
        features=tuple(feature for feature in FEATURES if feature in proposal.candidate.source),
        kernels=len(first.kernels) if first is not None else 0,
        limited_by=_limited_by(next((r.profile.launches for r in workloads if r.profile is not None), ())),
    )


def family_of(proposal: Proposal) -> str:
    """Its origin without counters."""
    return " ".join(word for word in proposal.origin.split() if not word.isdigit())


def is_swept(proposal: Proposal) -> bool:
    """Whether a sweep of another candidate's tunables made it."""
    return proposal.origin.startswith(SWEPT)


def _choices(proposal: Proposal) -> tuple[str, ...]:
    words = {name: value for name, value in proposal.genes.items() if isinstance(value, str | bool)}
    if not words:
        return ()
    try:
        swept = {tunable.name for tunable in declared(proposal.candidate)}
    except TunableError:
        swept = set()
    return tuple(sorted(f"{name}={value}" for name, value in words.items() if name not in swept | MODEL_GENES))


def _limited_by(launches: tuple[LaunchProfile, ...]) -> str:
    """By the launch that takes longest."""
    longest = max(launches, key=lambda launch: launch.seconds or 0.0, default=None)
    if longest is None or longest.of_dram is None or longest.of_sm is None:
        return ""
    return "memory" if longest.of_dram >= longest.of_sm else "compute"


@dataclass(frozen=True)
class Elite:
    number: int
    value: float


@dataclass
class Archive:
    """All members by island and niche, fastest first."""

    islands: dict[int, dict[Descriptor, list[tuple[float, int]]]] = field(default_factory=dict)

    def add(self, island: int, niche: Descriptor, elite: Elite) -> None:
        members = self.islands.setdefault(island, {}).setdefault(niche, [])
        bisect.insort(members, (-elite.value, elite.number))

    def drop(self, island: int, niche: Descriptor, elite: Elite) -> None:
        niches = self.islands[island]
        niches[niche].remove((-elite.value, elite.number))
        if not niches[niche]:
            del niches[niche]

    def of(self, island: int) -> tuple[Elite, ...]:
        """The fastest of each niche, fastest first; the slowest niches are left out beyond the capacity."""
        first = sorted(members[0] for members in self.islands.get(island, {}).values())
        return tuple(Elite(number, -value) for value, number in first[:CAPACITY])

    def __iter__(self) -> Iterator[Elite]:
        for island in sorted(self.islands):
            yield from self.of(island)
