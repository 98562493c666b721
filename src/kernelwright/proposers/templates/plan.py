"""Cuts a graph into steps that templates cover: products, windows, and row programs between them.

A step reads tensors and writes tensors: arguments, results, or buffers for what passes from one step to the next. A row
program that only goes over the elements of a product becomes the epilogue of that product.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from kernelwright.proposers.templates.graph import (
    ArgumentNode,
    CannotExpressError,
    Extent,
    Graph,
    Node,
    Reduce,
    ViewNode,
    total,
)
from kernelwright.proposers.templates.patterns.attention import AttentionStep
from kernelwright.proposers.templates.patterns.contractions import ContractionStep
from kernelwright.proposers.templates.patterns.heavy import (
    HEAVY,
    ConvolutionStep,
    HeavyStep,
    MatmulStep,
    PoolBackwardStep,
    PoolStep,
    ScatterStep,
    recognise_heavy,
)
from kernelwright.proposers.templates.patterns.nests import NestStep
from kernelwright.proposers.templates.patterns.recurrent import RecurrentStep
from kernelwright.proposers.templates.patterns.rows import RowProgram, Span, recognise

Step = RowProgram | HeavyStep | ContractionStep | AttentionStep | NestStep | RecurrentStep


@dataclass(frozen=True)
class Buffer:
    name: str
    count: Extent
    dtype: str = "float32"


@dataclass(frozen=True)
class StepPlan:
    graph: Graph
    steps: tuple[Step, ...]
    buffers: tuple[Buffer, ...]


class Planner:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.held = {place: n.name for place, n in enumerate(graph.nodes) if isinstance(n, ArgumentNode)}
        self.steps: list[Step] = []
        self.buffers: list[Buffer] = []
        self.alive = self._alive_nodes()

    def plan(self) -> StepPlan:
        for place in sorted(self.alive):
            node = self.graph.nodes[place]
            if isinstance(node, HEAVY):
                self._heavy(place, node)
        left = [r.node for r in self.graph.results if not self.written(r.name)]
        if left:
            self._rows(left)
        return StepPlan(self.graph, tuple(self.steps), tuple(self.buffers))

    def _alive_nodes(self) -> set[int]:
        alive = {result.node for result in self.graph.results}
        for place in range(len(self.graph.nodes) - 1, -1, -1):
            if place in alive:
                alive |= set(self.graph.nodes[place].inputs)
        return alive

    def base(self, place: int) -> int:
        """The node whose elements these are, in the same order."""
        node = self.graph.nodes[place]
        return self.base(node.inputs[0]) if isinstance(node, ViewNode) and place not in self.held else place

    def written(self, name: str) -> bool:
        return any(name in outputs_of(step) for step in self.steps)

    def home(self, place: int) -> str:
        """Where a step puts this node: a result of the kernel if it is one, else a new buffer."""
        for result in self.graph.results:
            if self.base(result.node) == place and not self.written(result.name):
                inout = any(t.name == result.name and t.role == "inout" for t in self.graph.tensors)
                if not inout:
                    return result.name
        name = f"buffer{len(self.buffers)}"
        node = self.graph.nodes[place]
        self.buffers.append(Buffer(name, total(node.shape), node.dtype))
        return name

    def _heavy(self, place: int, node: Node) -> None:
        recognised = recognise_heavy(self.graph, place)
        missing = [base for base in map(self.base, recognised.operands) if base not in self.held]
        if missing:
            self._rows(missing)
        inputs = tuple(self.held[self.base(operand)] for operand in recognised.operands)
        home = self.home(place)
        self.steps.append(recognised.step(inputs, home))
        self.held[place] = home

    def _rows(self, nodes: Sequence[int]) -> None:
        """Row programs for these nodes: one for all that can be computed by now, or one for each."""
        ready = [n for n in dict.fromkeys((*nodes, *self._soon())) if self.base(n) not in self.held or n in nodes]
        try:
            self._row_program(ready)
            return
        except CannotExpressError:
            if len(ready) == 1:
                raise
        for node in nodes:
            if node not in self.held:
                self._row_program([node])

    def _soon(self) -> list[int]:
        """Results that need no product that is still to come."""
        return [r.node for r in self.graph.results if not self.written(r.name) and self._ready(r.node)]

    def _ready(self, place: int) -> bool:
        node = self.graph.nodes[place]
        if place in self.held:
            return True
        return not isinstance(node, HEAVY) and all(self._ready(operand) for operand in node.inputs)

    def _row_program(self, nodes: Sequence[int]) -> None:
        results = {r.name: r.node for r in self.graph.results if r.node in nodes and not self.written(r.name)}
        wanted = list(results.items())
        kept = [node for node in nodes if node not in results.values()]
        count = len(self.buffers)
        homes = [(self.home(node), node) for node in kept]
        try:
            program = recognise(self.graph, [*homes, *wanted], self.held)
        except CannotExpressError:
            del self.buffers[count:]
            inner = self._inner_reductions(nodes)
            if not inner:
                raise
            for node in inner:
                self._row_program([node])
            self._row_program(nodes)
            return
        self.steps.append(program)
        for name, node in (*homes, *wanted):
            self.held.setdefault(node, name)

    def _inner_reductions(self, nodes: Sequence[int]) -> list[int]:
        """Reductions whose results are reduced again, so that a program of their own can hold them."""
        found: dict[int, None] = {}
        seen: set[int] = set()
        left = list(nodes)
        while left:
            place = left.pop()
            node = self.graph.nodes[place]
            if place in seen or place in self.held or isinstance(node, HEAVY):
                continue
            seen.add(place)
            left += node.inputs
            if isinstance(node, Reduce):
                inner = self.base(node.inputs[0])
                if isinstance(self.graph.nodes[inner], Reduce) and inner not in self.held:
                    found[inner] = None
        return [node for node in found if node not in nodes]


def outputs_of(step: Step) -> tuple[str, ...]:
    if isinstance(step, RowProgram):
        return tuple(store.tensor for store in step.stores)
    return (step.output,)


def inputs_of(step: Step) -> tuple[str, ...]:
    match step:
        case RowProgram():
            return tuple(i.tensor for i in step.instructions if i.operation == "load")
        case NestStep():
            return tuple(dict.fromkeys(step.reads.values()))
        case AttentionStep():
            return step.reads
        case RecurrentStep():
            return step.inputs
        case MatmulStep():
            return (step.left, step.right)
        case ConvolutionStep() | ContractionStep():
            return (step.first, step.second)
        case ScatterStep():
            return (step.index, step.source)
        case PoolStep():
            return (step.input,)
        case PoolBackwardStep():
            return (step.gradient, step.input)


def touched(step: Step) -> set[str]:
    """The tensors that a step and its epilogue read or write."""
    last: RowProgram | None = getattr(step, "epilogue", None)
    return {*inputs_of(step), *outputs_of(step), *(touched(last) if last is not None else ())}


Product = MatmulStep | ConvolutionStep | ContractionStep | AttentionStep


def fused(plan: StepPlan) -> StepPlan:
    steps: list[Step] = []
    buffers = list(plan.buffers)
    for number, step in enumerate(plan.steps):
        before = steps[-1] if steps else None
        if isinstance(before, Product) and isinstance(step, RowProgram):
            halves = isinstance(before, AttentionStep)  # only renderers that can do it have such steps
            joined = with_last_steps(before, step, buffers, plan.steps[number + 1 :], halves=halves)
            if joined is not None:
                steps[-1] = joined
                continue
        steps.append(step)
    return replace(plan, steps=tuple(steps), buffers=tuple(buffers))


def with_last_steps(
    product: Product, program: RowProgram, buffers: list[Buffer], later: Sequence[Step], *, halves: bool = False
) -> Product | None:
    """The product and a program over its elements as one step, if they can be; `halves`: also of 16-bit tensors."""
    if program.windows:
        return None
    program = _in_shape_of(program, product)
    if not _follows(program, product) or (program.memory and not halves):
        return None
    return _joined(product, program, buffers, later)


def _joined(product: Product, program: RowProgram, buffers: list[Buffer], later: Sequence[Step]) -> Product:
    """The product goes where its last step puts its result, element over element, if nothing else reads it."""
    target = program.stores[0].tensor
    lone = not any(product.output in inputs_of(step) for step in later)
    buffer = next((buffer for buffer in buffers if buffer.name == product.output), None)
    if lone and buffer is not None and target not in inputs_of(program):
        moved = (replace(i, tensor=target) if i.tensor == product.output else i for i in program.instructions)
        program = replace(program, instructions=tuple(moved))
        product = replace(product, output=target)
        if isinstance(product, ContractionStep):
            product = replace(product, nest=replace(product.nest, output=target))
        buffers.remove(buffer)
    return replace(product, epilogue=program)


def _shape(product: Product) -> tuple[Extent, Extent]:
    match product:
        case MatmulStep():
            return product.m, product.n
        case ContractionStep():
            return product.form.shape
        case AttentionStep():
            return product.form.values.shape
    return product.batch * product.filters, product.tall * product.broad


def _in_shape_of(program: RowProgram, product: Product) -> RowProgram:
    """A program over all elements alike may as well go over the rows of the product before it."""
    alike = program.rows.single and not program.reduces_cols and not program.reduces_rows
    rows, cols = _shape(product)
    return replace(program, rows=rows, cols=cols) if alike and program.cols == rows * cols else program


def _follows(program: RowProgram, product: Product) -> bool:
    if isinstance(product, ConvolutionStep) and product.kind != "forward":
        return False
    simple = not program.reduces_cols and not program.reduces_rows and program.stages == 1
    stored = all(program.instructions[s.place].span == Span.full for s in program.stores)
    alone = product.epilogue is None and product.output in inputs_of(program)
    return simple and stored and alone and (program.rows, program.cols) == _shape(product)


# --- memory -----------------------------------------------------------------------------------------------------------

FEW = 6  # buffers that all get memory of their own, so that steps stay free to run side by side


def homes(uses: Sequence[Collection[str]], buffers: Sequence[str]) -> dict[str, str]:
    """For each buffer the one whose memory it lies in. `uses` are the tensors that each step touches, in order."""
    if len(buffers) <= FEW:
        return {name: name for name in buffers}
    last = {name: number for number, names in enumerate(uses) for name in names}
    found: dict[str, str] = {}
    free: list[str] = []  # what was given back first is taken first
    for number, names in enumerate(uses):
        for name in buffers:
            if name in names and name not in found:
                found[name] = free.pop(0) if free else name
        free += [found[name] for name in buffers if name in names and last[name] == number]
    return {name: found.get(name, name) for name in buffers}


def residents(homes_of: Mapping[str, str]) -> dict[str, list[str]]:
    """The buffers that lie in each piece of memory."""
    found: dict[str, list[str]] = {}
    for name, home in homes_of.items():
        found.setdefault(home, []).append(name)
    return found
