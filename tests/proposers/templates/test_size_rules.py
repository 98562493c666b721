"""Sizes deep in a reference follow from those of arguments by rules, without a trace with symbols."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from kernelwright.proposers.templates import trace
from kernelwright.proposers.templates.graph import Extent
from kernelwright.proposers.templates.size_rules import SizeForms
from kernelwright.proposers.templates.sizes import Sizes
from kernelwright.tasks import Task, tensor


def halved(x: torch.Tensor) -> torch.Tensor:
    for _ in range(5):
        x = F.max_pool2d(x, 3, 2, 1)
    return F.pad(torch.cat([x, x[..., 1:]], -1), (1, 2)).flatten(2)


def test_a_chain_of_windows_needs_no_symbols(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("traced with symbols")

    monkeypatch.setattr(trace, "closed_forms", refuse)
    sizes = {"n": 2, "c": 3, "h": 70, "w": 90}
    task = Task(halved, {"x": tensor("n", "c", "h", "w")}, [sizes], dict.fromkeys(sizes, (40, 200)), "halved")
    graph = trace.read_graph(task)
    assert not graph.unclear
    known = Sizes(graph)
    for node in graph.nodes:
        for extent in node.shape:
            known.expression(extent)


def test_what_is_equal_in_both_traces_alone_is_not_a_constant() -> None:
    """113 and 128 both come to 4 after five halvings."""
    forms = SizeForms({Extent(113, 128): (40, 64, 200)})
    forms.learn(Extent(4, 4), "(({113,128} + 31) / 32)")
    assert forms.found.ambiguous == {Extent(4, 4)}


def test_two_formulas_that_differ_elsewhere_are_ambiguous() -> None:
    forms = SizeForms({Extent(10, 20): (7, 9)})
    forms.learn(Extent(5, 10), "({10,20} / 2)")
    assert not forms.found.ambiguous
    forms.learn(Extent(5, 10), "(({10,20} + 1) / 2)")
    assert forms.found.ambiguous == {Extent(5, 10)}
