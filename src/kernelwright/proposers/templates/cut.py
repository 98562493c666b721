"""Cuts a graph into steps where fast patterns alone do not cover it: they take what they can, generic steps the rest.

Steps are asked for from the results backwards. A value is stored if it is a result, if it costs a loop (a reduction,
a product, a scan), or if two steps need it; everything else is computed where it is used.
"""

from __future__ import annotations

from collections.abc import Iterator

from kernelwright.proposers.templates.graph import (
    Broadcast,
    CannotExpressError,
    Constant,
    Graph,
    Permute,
    Pointwise,
    Reduce,
    total,
)
from kernelwright.proposers.templates.nests.index_maps import Contraction, IndexMap, Join, Ranked, Recurrent, Scan
from kernelwright.proposers.templates.patterns.attention import AttentionForm, AttentionStep, recognise_attention
from kernelwright.proposers.templates.patterns.contractions import (
    ContractionForm,
    ContractionStep,
    recognise_contraction,
)
from kernelwright.proposers.templates.patterns.heavy import HEAVY, recognise_heavy
from kernelwright.proposers.templates.patterns.nests import NestStep
from kernelwright.proposers.templates.patterns.recurrent import recurrent_step
from kernelwright.proposers.templates.patterns.row_pieces import recognise_windows
from kernelwright.proposers.templates.patterns.rows import FLOAT, HALVES, recognise
from kernelwright.proposers.templates.plan import Planner, StepPlan
from kernelwright.tasks.dtypes import NARROW

LOOPS = (*HEAVY, Contraction, Scan, Ranked, Recurrent)
MOVES = (IndexMap, Join, Permute)
CHEAP = 4  # operations on an element that are rather done again than stored


def make_plan(graph: Graph, *, attention: bool = False, mixed: bool = True) -> StepPlan:
    """By fast patterns alone if they cover the graph.

    `attention`: there may be steps of that pattern; `mixed`: operands of a contraction may have two dtypes.
    """
    try:
        return Planner(graph).plan()
    except CannotExpressError:
        return GenericPlanner(graph, attention=attention, mixed=mixed).plan()


class GenericPlanner(Planner):
    def __init__(self, graph: Graph, *, attention: bool = False, mixed: bool = True) -> None:
        super().__init__(graph)
        self.mixed = mixed
        self.users: dict[int, set[int]] = {}
        for place in self.alive:
            for given in graph.nodes[place].inputs:
                self.users.setdefault(given, set()).add(place)
        self.nests_in_products = attention  # the renderers that write attention
        self.attentions = dict(self._attentions()) if attention else {}

    def _attentions(self) -> Iterator[tuple[int, AttentionForm]]:
        for place in sorted(self.alive):
            if isinstance(self.graph.nodes[place], Contraction):
                form = recognise_attention(self.graph, place)
                if form is not None and self._only_inside(form.product, place):
                    yield place, form

    def _only_inside(self, product: int, place: int) -> bool:
        """Whether nothing but the node at `place` comes of a product, so that it need not be stored."""
        results = {result.node for result in self.graph.results}
        left, seen = [product], set[int]()
        while left:
            one = left.pop()
            if one == place or one in seen:
                continue
            seen.add(one)
            if one in results or one > place:
                return False
            left += self.users.get(one, set())
        return True

    def plan(self) -> StepPlan:
        inside = {form.product for form in self.attentions.values()}
        for place in sorted(self.alive - inside):  # in order, so that nothing recurses deeply
            if isinstance(self.graph.nodes[place], LOOPS):
                self.need(place)
        for result in self.graph.results:
            self.need(result.node)
        for result in self.graph.results:
            if not self.written(result.name):
                self._copy(result.name, result.node)
        return StepPlan(self.graph, tuple(self.steps), tuple(self.buffers))

    def need(self, place: int) -> None:
        place = self.base(place)
        node = self.graph.nodes[place]
        if place in self.held or isinstance(node, Constant):
            return
        if isinstance(node, HEAVY):
            self._fast(place)
            return
        if isinstance(node, Recurrent):
            self._recurrent(place, node)
            return
        if place in self.attentions:
            self._attention(place, self.attentions[place])
            return
        form = recognise_contraction(self.graph, place, mixed=self.mixed)
        if form is not None:
            self._contraction(place, form)
            return
        for inner in self._loops_below(place):
            self.need(inner)
        for inner in self._shared_below(place):
            self.need(inner)
        if isinstance(node, LOOPS) or not self._rows_cover(place):
            self._generic(place)

    def _fast(self, place: int) -> None:
        recognised = recognise_heavy(self.graph, place)
        for operand in recognised.operands:
            self._force(operand)
        inputs = tuple(self.held[self.base(operand)] for operand in recognised.operands)
        home = self.home(place)
        self.steps.append(recognised.step(inputs, home))
        self.held[place] = home

    def _recurrent(self, place: int, node: Recurrent) -> None:
        for operand in node.inputs:
            self._force(operand)
        inputs = tuple(self.held[self.base(operand)] for operand in node.inputs)
        home = self.home(place)
        self.steps.append(recurrent_step(self.graph, place, inputs, home))
        self.held[place] = home

    def _attention(self, place: int, form: AttentionForm) -> None:
        for operand in form.operands:
            self._force(operand.node)
        query, key, value = (self.held[self.base(operand.node)] for operand in form.operands)
        home = self.home(place)
        mask = NestStep(self.graph, form.score, home, (*self.held.items(), (form.product, "")))
        self.steps.append(AttentionStep(form, query, key, value, home, mask))
        self.held[place] = home

    def _contraction(self, place: int, form: ContractionForm) -> None:
        for operand in form.operands:
            self._force(operand.node)
        first, second = (self.held[self.base(operand.node)] for operand in form.operands)
        home = self.home(place)
        nest = NestStep(self.graph, place, home, tuple(self.held.items()))
        self.steps.append(ContractionStep(form, first, second, home, nest))
        self.held[place] = home

    def _force(self, place: int) -> None:
        """Also a constant lies in memory then."""
        self.need(place)
        place = self.base(place)
        if place not in self.held:
            self._store(place)

    def _region(self, place: int) -> Iterator[int]:
        """What is not stored yet of all that a node is made of, the node itself left out."""
        left, seen = list(self.graph.nodes[place].inputs), set()
        while left:
            one = left.pop()
            if one in seen or one in self.held:
                continue
            seen.add(one)
            yield one
            left += self.graph.nodes[one].inputs

    def _loops_below(self, place: int) -> list[int]:
        return sorted(one for one in self._region(place) if isinstance(self.graph.nodes[one], LOOPS))

    def _shared_below(self, place: int) -> list[int]:
        """What another step needs as well, and what is read so often that it must not be made again each time."""
        region = set(self._region(place)) | {place}
        found = []
        for one in sorted(region - {place}):
            node = self.graph.nodes[one]
            outside = self.users.get(one, set()) - region
            if isinstance(node, Pointwise | Reduce) and outside and self._cost(one) > 1:
                found.append(one)
            elif isinstance(node, IndexMap | Broadcast):
                base = self.base(node.inputs[0])
                often = total(node.shape).first > total(self.graph.nodes[base].shape).first
                if often and self._cost(base) > (0 if isinstance(node, IndexMap) else CHEAP):
                    found.append(base)
        return [one for one in dict.fromkeys(found) if one != place]

    def _cost(self, place: int) -> int:
        """Operations for one element, up to what is stored."""
        region = [place, *self._region(place)] if place not in self.held else []
        kinds = [self.graph.nodes[one] for one in region]
        return sum(1 if isinstance(n, Pointwise) else 9 if isinstance(n, Reduce) else 0 for n in kinds)

    def _rows_cover(self, place: int) -> bool:
        """Tried as it is, with windows of what lies in memory, and then, where rows are reduced, once more with
        whatever moves elements stored before."""
        if self._try_rows(place) or self._try_windows(place):
            return True
        region = [place, *self._region(place)]
        moved = [one for one in region if isinstance(self.graph.nodes[one], MOVES)]
        if not moved or not any(isinstance(self.graph.nodes[one], Reduce) for one in region):
            return False
        if not all(self._trailing(one) for one in region):
            return False
        for one in sorted(moved):
            if one != place and one not in self.held:
                self.need(one)
        return self._try_rows(place)

    def _trailing(self, place: int) -> bool:
        node = self.graph.nodes[place]
        if not isinstance(node, Reduce):
            return True
        rank = len(self.graph.nodes[node.inputs[0]].shape)
        return node.dims == tuple(range(rank - len(node.dims), rank))

    def _try_rows(self, place: int) -> bool:
        if self.graph.nodes[place].dtype not in (FLOAT, *HALVES):
            return False
        plain = {node: name for node, name in self.held.items() if self._plain(node, name)}
        count = len(self.buffers)
        home = self.home(place)
        try:
            program = recognise(self.graph, [(home, place)], plain)
        except CannotExpressError:
            del self.buffers[count:]
            return False
        self.steps.append(program)
        self.held[place] = home
        return True

    def _ends_a_product(self, place: int) -> bool:
        """Whether a renderer writes it into the product before it, which then need not be stored."""
        if (
            not self.nests_in_products
            or not self.steps
            or not isinstance(self.steps[-1], ContractionStep | AttentionStep)
        ):
            return False
        read = {self.held[one] for p in (place, *self._region(place)) for one in self._held_inputs(p)}
        reduces = any(isinstance(self.graph.nodes[one], Reduce) for one in (place, *self._region(place)))
        return self.steps[-1].output in read and not reduces

    def _held_inputs(self, place: int) -> list[int]:
        return [one for one in self.graph.nodes[place].inputs if one in self.held]

    def _try_windows(self, place: int) -> bool:
        if self.graph.nodes[place].dtype not in (FLOAT, *NARROW) or self._ends_a_product(place):
            return False
        plain = {node: name for node, name in self.held.items() if self._plain(node, name)}
        count = len(self.buffers)
        home = self.home(place)
        try:
            programs = recognise_windows(self.graph, home, place, plain)
        except CannotExpressError:
            del self.buffers[count:]
            return False
        self.steps += programs
        self.held[place] = home
        return True

    def _plain(self, node: int, name: str) -> bool:
        """Row programs read arguments of any dtype that they know, and buffers of floats."""
        floats = self.graph.nodes[node].dtype in (FLOAT, *HALVES)
        return floats or not any(b.name == name for b in self.buffers)

    def _generic(self, place: int) -> None:
        """Reductions below are stored first: a loop inside a loop would do their work again and again."""
        for one in sorted(self._region(place)):
            if isinstance(self.graph.nodes[one], Reduce) and one not in self.held:
                self.need(one)
        self._store(place)

    def _store(self, place: int) -> None:
        home = self.home(place)
        self.steps.append(NestStep(self.graph, place, home, tuple(self.held.items())))
        self.held[place] = home

    def _copy(self, name: str, place: int) -> None:
        """A result that is stored under another name, or under none: an argument, a constant, one result twice."""
        self.steps.append(NestStep(self.graph, place, name, tuple(self.held.items())))
