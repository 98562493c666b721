"""Genes are drawn, changed and crossed within their declared values, by chance that the seed decides."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from kernelwright.proposers.templates.genes import Gene, GenePool

POOL = GenePool(
    (
        Gene("unroll", (1, 2, 4, 8), (4, 2)),
        Gene("stream", (False, True), (True, False)),
        Gene("only", (7,), (7,)),
    )
)
seeds = st.integers(0, 2**32)


def test_the_experts_choice_comes_first_and_each_promising_one_changes_one_gene() -> None:
    first, *others = POOL.promising()
    assert first == {"unroll": 4, "stream": True, "only": 7}
    assert others == [first | {"unroll": 2}, first | {"stream": False}]


def test_genes_that_are_alike_change_together_and_then_one_by_one() -> None:
    pool = GenePool(tuple(Gene(name, (1, 2, 4), (1, 2), alike="tile") for name in ("tile", "tile2")))
    assert pool.promising() == [
        {"tile": 1, "tile2": 1},
        {"tile": 2, "tile2": 2},
        {"tile": 2, "tile2": 1},
        {"tile": 1, "tile2": 2},
    ]


@given(seeds)
def test_a_mutation_changes_exactly_one_gene_and_stays_legal(seed: int) -> None:
    before = POOL.drawn(random.Random(seed))
    after = POOL.mutated(before, random.Random(seed + 1))
    assert sum(before[name] != after[name] for name in before) == 1
    assert all(after[gene.name] in gene.values for gene in POOL.genes)


@given(seeds, seeds)
def test_a_cross_has_every_gene_from_a_parent(one: int, other: int) -> None:
    parents = [POOL.drawn(random.Random(one)), POOL.drawn(random.Random(other))]
    child = POOL.crossed(parents, random.Random(one ^ other))
    assert all(child[name] in (parents[0][name], parents[1][name]) for name in child)


def test_genes_of_other_templates_are_made_good() -> None:
    assert POOL.legal({"unroll": 3, "stream": False, "tile": 9}) == {"unroll": 4, "stream": False, "only": 7}
