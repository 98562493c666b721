"""Genes: the named choices of a template, their values in order, and how they are drawn, changed and crossed."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Value = int | float | str | bool
Genes = dict[str, Value]
NEIGHBOUR = 0.75  # how often a mutation moves to a neighbouring value instead of any


@dataclass(frozen=True)
class Gene:
    """One choice. Values are in a meaningful order; `good` lists the promising ones, the best first."""

    name: str
    values: tuple[Value, ...]
    good: tuple[Value, ...]

    def __post_init__(self) -> None:
        assert set(self.good) <= set(self.values) and self.good, self.name


@dataclass(frozen=True)
class GenePool:
    genes: tuple[Gene, ...]

    def default(self) -> Genes:
        return {gene.name: gene.good[0] for gene in self.genes}

    def promising(self) -> list[Genes]:
        """The default, then each gene alone at its further good values, the most promising first."""
        default = self.default()
        depth = max((len(gene.good) for gene in self.genes), default=1)
        singles = [default | {g.name: g.good[n]} for n in range(1, depth) for g in self.genes if n < len(g.good)]
        return [default, *singles]

    def drawn(self, chance: random.Random) -> Genes:
        return {gene.name: chance.choice(gene.values) for gene in self.genes}

    def mutated(self, genes: Mapping[str, Value], chance: random.Random) -> Genes:
        """One gene changed, mostly to a neighbouring value; unknown or illegal genes of a parent are made good."""
        base = self.legal(genes)
        open_genes = [gene for gene in self.genes if len(gene.values) > 1]
        if not open_genes:
            return base
        gene = chance.choice(open_genes)
        place = gene.values.index(base[gene.name])
        near = [gene.values[p] for p in (place - 1, place + 1) if 0 <= p < len(gene.values)]
        others = [value for value in gene.values if value != base[gene.name]]
        return base | {gene.name: chance.choice(near if chance.random() < NEIGHBOUR else others)}

    def crossed(self, parents: Sequence[Mapping[str, Value]], chance: random.Random) -> Genes:
        legal = [self.legal(parent) for parent in parents]
        return {gene.name: chance.choice(legal)[gene.name] for gene in self.genes}

    def legal(self, genes: Mapping[str, Value]) -> Genes:
        return {g.name: genes[g.name] if genes.get(g.name) in g.values else g.good[0] for g in self.genes}
