"""What the proposer answers: a function of the request, new each time, and with its lineage."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kernelwright.proposers.model import Operator, Parent, Proposal, Request
from kernelwright.proposers.templates import TemplateProposer, make
from kernelwright.tasks.resolve import resolve


@pytest.fixture(scope="module")
def proposer() -> TemplateProposer:
    return make(resolve("softmax"), "cpp")


def parent(proposal: Proposal) -> Parent:
    return Parent(proposal, cast(Any, SimpleNamespace()), 1.0)


def test_the_same_request_gives_the_same_answer_and_another_seed_another(proposer: TemplateProposer) -> None:
    first, again = (proposer.propose(Request(Operator.fresh, 40, seed=3)) for _ in range(2))
    assert [p.candidate.id for p in first] == [p.candidate.id for p in again]
    other = proposer.propose(Request(Operator.fresh, 40, seed=4))
    assert {p.candidate.id for p in first} != {p.candidate.id for p in other}


def test_fresh_proposals_begin_with_the_experts_choice_and_never_repeat(proposer: TemplateProposer) -> None:
    made = proposer.propose(Request(Operator.fresh, 30, seed=1))
    assert made[0].genes == proposer.renderer.gene_pool(proposer.plan).default()
    assert len({p.candidate.id for p in made}) == len(made) == 30
    assert made[0].origin == "templates row_reduction" and "passes over a row" in made[0].note


def test_a_mutation_differs_from_its_parent_in_one_gene_and_names_it(proposer: TemplateProposer) -> None:
    first = proposer.propose(Request(Operator.fresh, 1, seed=1))[0]
    for child in proposer.propose(Request(Operator.mutate, 8, seed=5, parents=(parent(first),))):
        assert sum(child.genes[name] != first.genes[name] for name in first.genes) == 1
        assert child.parents == (first.candidate.id,)


def test_a_cross_takes_its_genes_from_its_parents(proposer: TemplateProposer) -> None:
    both = proposer.propose(Request(Operator.fresh, 40, seed=2))[-2:]
    for child in proposer.propose(Request(Operator.crossover, 6, seed=2, parents=tuple(map(parent, both)))):
        assert all(child.genes[name] in {p.genes[name] for p in both} for name in child.genes)
        assert child.parents == tuple(p.candidate.id for p in both)


def test_a_used_up_pool_answers_with_fewer(proposer: TemplateProposer) -> None:
    first = proposer.propose(Request(Operator.fresh, 1, seed=1))[0]
    known = parent(first)
    assert len(proposer.propose(Request(Operator.crossover, 5, seed=1, parents=(known, known)))) == 0
