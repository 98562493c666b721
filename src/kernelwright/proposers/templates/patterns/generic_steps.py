"""Which steps of a plan are generic, correct but not fast, and from which lines of the author's they come."""

from __future__ import annotations

from collections.abc import Iterator

from kernelwright.proposers.templates.graph import (
    ArgumentNode,
    Broadcast,
    Constant,
    Node,
    Origin,
    Permute,
    Pointwise,
    ViewNode,
)
from kernelwright.proposers.templates.nests.index_maps import IndexValue
from kernelwright.proposers.templates.patterns.nests import NestStep
from kernelwright.proposers.templates.plan import StepPlan
from kernelwright.tasks.source_lines import SourceLine

ORDINARY = (Pointwise, Constant, ViewNode, Broadcast, Permute, ArgumentNode, IndexValue)  # as fast patterns have them


def generic_steps(plan: StepPlan) -> tuple[str, ...]:
    """One line for each line of the author's: `cumsum at scan.py:7: h = torch.cumsum(x, 1)`."""
    found: dict[SourceLine | None, dict[str, None]] = {}
    for step in plan.steps:
        if isinstance(step, NestStep):
            for origin in _causes(step):
                found.setdefault(origin.line, {})[origin.operation] = None
    lines = [(", ".join(names), line) for line, names in found.items()]
    return tuple(f"{names} at {line}" if line is not None else names for names, line in lines)


def _causes(step: NestStep) -> list[Origin]:
    """The operations that only a generic step computes or, where there are none, the one that it ends with."""
    graph = step.graph
    inside = list(_inside(step))
    unusual = [place for place in inside if not isinstance(graph.nodes[place], ORDINARY)]
    origins = [graph.origin(place) for place in unusual or inside[:1]]
    return list(dict.fromkeys(origin for origin in origins if origin is not None))


def _inside(step: NestStep) -> Iterator[int]:
    """The nodes that a step computes, its own first."""
    left, seen = [step.node], set[int]()
    while left:
        place = left.pop()
        if place in seen or (place in step.reads and place != step.node):
            continue
        seen.add(place)
        yield place
        node: Node = step.graph.nodes[place]
        left += () if place in step.reads else node.inputs
