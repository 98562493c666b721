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
    """One choice. Values are in a meaningful order; `good` lists the promising ones, the best first.

    Genes of several steps that are `alike` mean the same for each.
    """

    name: str
    values: tuple[Value, ...]
    good: tuple[Value, ...]
    alike: str = ""

    def __post_init__(self) -> None:
        assert set(self.good) <= set(self.values) and self.good, self.name


@dataclass(frozen=True)
class GenePool:
    genes: tuple[Gene, ...]

    def default(self) -> Genes:
        return {gene.name: gene.good[0] for gene in self.genes}

    def promising(self) -> list[Genes]:
        """The default, then each gene alone at its further good values, the most promising first.

        Genes that are alike change together at first: what suits one step mostly suits the others.
        """
        default = self.default()
        groups: dict[str, list[Gene]] = {}
        for gene in self.genes:
            groups.setdefault(gene.alike or gene.name, []).append(gene)
        several = [[gene] for group in groups.values() if len(group) > 1 for gene in group]
        return [default, *_further(default, list(groups.values())), *_further(default, several)]

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


def _further(default: Genes, groups: Sequence[Sequence[Gene]]) -> list[Genes]:
    """Each group alone at its second good values, then each at its third."""
    depth = max((len(gene.good) for group in groups for gene in group), default=1)
    changes = [{g.name: g.good[n] for g in group if n < len(g.good)} for n in range(1, depth) for group in groups]
    return [default | change for change in changes if change]
