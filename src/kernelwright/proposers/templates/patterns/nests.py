"""The generic step: one value of the graph, element by element, by loops over index maps from what memory holds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from kernelwright.proposers.templates.graph import Extent, Graph, Node, Reduce, Shape, total
from kernelwright.proposers.templates.nests.index_maps import Ranked, Scan


@dataclass(frozen=True)
class NestStep:
    """`node` into `output`; `held` says which nodes lie in which tensors."""

    graph: Graph
    node: int
    output: str
    held: tuple[tuple[int, str], ...]
    pattern: ClassVar[str] = "generic"

    @property
    def root(self) -> Node:
        return self.graph.nodes[self.node]

    @cached_property
    def reads(self) -> dict[int, str]:
        """The tensors that are read, by node."""
        known = dict(self.held)
        found: dict[int, str] = {}
        left, seen = [self.node], set[int]()
        while left:
            place = left.pop()
            if place in seen:
                continue
            seen.add(place)
            if place in known:
                found[place] = known[place]
            else:
                left += self.graph.nodes[place].inputs
        return found

    @property
    def reduces(self) -> bool:
        return isinstance(self.root, Reduce) and self.node not in self.reads

    @property
    def space(self) -> Shape:
        """What threads are shared out over: results, rows of a scan, or elements to be ranked."""
        root = self.root
        if self.node in self.reads:
            return root.shape
        if isinstance(root, Scan):
            return tuple(e for dim, e in enumerate(root.shape) if dim != root.dim)
        if isinstance(root, Ranked):
            return self.graph.nodes[root.inputs[0]].shape
        return root.shape

    @property
    def reduced(self) -> Shape:
        root = self.root
        if not isinstance(root, Reduce) or self.node in self.reads:
            return ()
        shape = self.graph.nodes[root.inputs[0]].shape
        return tuple(shape[dim] for dim in root.dims)

    @property
    def totals(self) -> list[Extent]:
        """Counts that an index must reach."""
        shapes = [self.root.shape, self.space, self.reduced, *(self.graph.nodes[place].shape for place in self.reads)]
        return list(dict.fromkeys(total(shape) for shape in shapes))
