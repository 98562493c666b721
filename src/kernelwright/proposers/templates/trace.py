"""Traces a reference twice, with other sizes and other scalars, and makes one graph with symbolic numbers of it.

What is equal in both traces is a constant of the reference; what differs must be a size or follow from the scalar
arguments. docs/decisions/0011-templates-trace-twice.md says why sizes are not traced symbolically.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.fx
from torch._decomp import core_aten_decompositions, decomposition_table, get_decompositions
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.traceback import preserve_node_meta

from kernelwright.proposers.templates.closed_forms import ClosedForms, closed_forms
from kernelwright.proposers.templates.graph import (
    OTHERS,
    ArgumentNode,
    CannotExpressError,
    Extent,
    Formula,
    Graph,
    GraphBuilder,
    GraphTensor,
    Merged,
    NodeRef,
    Number,
    Origin,
    Result,
    Shape,
    not_covered,
)
from kernelwright.proposers.templates.lower import lower, operations, whole_nests
from kernelwright.proposers.templates.recurrent_trace import PlainOperations, WholeLayers
from kernelwright.proposers.templates.size_rules import POWERS, samples_of, size_forms
from kernelwright.tasks.declarations import Upstream
from kernelwright.tasks.drawing import without_data
from kernelwright.tasks.line_recorder import LineRecorder
from kernelwright.tasks.model import Task, TaskError, Workload
from kernelwright.tasks.reference import call_reference, dtype_name
from kernelwright.tasks.source_lines import line_of

aten = torch.ops.aten
PRIMES = (
    (  # an odd and an even size each: what a window rounds up or down differs at one of them
        (113, 137, 101, 151, 179, 193, 211, 227, 241, 257, 271, 283, 307, 317),
        (128, 104, 166, 196, 140, 222, 158, 262, 280, 292, 310, 332, 346, 358),
    ),
    (  # far apart, so that they can still be told apart after many windows
        (1031, 1163, 1289, 1433, 1559, 1693, 1823, 1979, 2111, 2243, 2377, 2503, 2633, 2767),
        (2176, 3328, 2560, 3008, 3968, 2752, 3584, 4480, 4032, 5184, 4736, 5504, 6016, 5760),
    ),
    (
        (101, 109, 127, 137, 149, 157, 173, 191, 197, 223, 229, 241, 263, 271),
        (103, 113, 131, 139, 151, 163, 179, 193, 199, 227, 233, 251, 269, 277),
    ),
    (  # multiples of what is often asked for, with different odd parts
        (352, 416, 544, 608, 736, 928, 992, 1184, 1312, 1376, 1504, 1696, 1888, 1952),
        (960, 1120, 1248, 1440, 1632, 1824, 2016, 2208, 2400, 2592, 2784, 2976, 3168, 3360),
    ),
)
SAMPLED = ((40, 7), (45, 12), (53, 5), (64, 9), (71, 14), (98, 3), (127, 10))  # first size, and on from name to name
MOST_SYMBOLIC = 600  # operations of a reference that is traced with symbols: longer ones take minutes
LITERAL = 16  # a size that never varies is a constant of the reference, if small enough for a window
SHIFTS = (0.9871931, 0.9932547)  # what scalar arguments are multiplied with: near enough to stay in their domain


def _lerp(start: torch.Tensor, end: torch.Tensor, weight: float) -> torch.Tensor:
    """torch's own decomposition chooses between two forms at run time; a number is known now."""
    if abs(weight) < 0.5:
        return start + weight * (end - start)
    return end - (end - start) * (1 - weight)


def _name(operation: Any) -> str:
    return str(operation.__name__).partition(".")[0]


def decompositions() -> dict[Any, Callable[..., Any]]:
    further = [
        *(aten._softmax, aten._log_softmax, aten.native_layer_norm, aten.addmm, aten._fused_rms_norm),
        *(aten.native_batch_norm, aten._native_batch_norm_legit, aten.native_batch_norm_backward),
        *(aten.gelu, aten.silu, aten.leaky_relu, aten.hardtanh, aten.elu, aten.softplus, aten.linalg_vector_norm),
    ]
    core: dict[Any, Callable[..., Any]] = dict(core_aten_decompositions())
    registered: dict[Any, Callable[..., Any]] = dict(decomposition_table)
    known = {op: made for op, made in registered.items() if _name(op) not in operations()}
    core = {op: made for op, made in core.items() if _name(op) not in whole_nests()}
    table = known | core | dict(get_decompositions(further))
    return table | {aten.lerp.Scalar: _lerp}


@dataclass(frozen=True)
class _Traced:
    """One of the two traces."""

    nodes: tuple[torch.fx.Node, ...]
    everything: tuple[torch.fx.Node, ...]  # also what no result needs: a gradient may need its size
    results: tuple[torch.fx.Node, ...]
    ledger: FormulaTable
    tensors: Mapping[str, tuple[tuple[int, ...], str]]


def read_graph(task: Task) -> Graph:
    """The graph of the task's reference; CannotExpressError where it has none of one form for all sizes."""
    fault: Exception | None = None
    waiting: Graph | None = None
    for workloads in _choices(task):
        try:
            first, second = (_trace(task, *pair) for pair in zip(workloads, SHIFTS, strict=True))
        except (TaskError, RuntimeError, TypeError, ValueError) as error:
            fault = fault or error
            continue
        forms = _closed_forms(task, workloads, first, second)
        found = _merged(task, first, second, forms)
        if not forms.ambiguous:
            return found
        waiting = waiting or found  # another choice may tell those sizes apart
    if waiting is not None:
        return waiting
    reason = _reason(fault) if fault else "it has too few workloads"
    raise CannotExpressError(f"{task.name}: templates cannot trace the reference: {reason}; {OTHERS}")


def _reason(fault: Exception) -> str:
    """In one line; torch says at length that it knows no sizes where they depend on values."""
    line = str(fault).splitlines()[0]
    unsized = re.search(r"register_meta function for torch\.(\w+)\(\)", line)
    if unsized is not None:
        before = line.partition("the reference raised:")[0]
        return f"{before}the size of what {unsized[1]} gives depends on values"
    return line


def _closed_forms(task: Task, workloads: Sequence[Workload], first: _Traced, second: _Traced) -> ClosedForms:
    """By rules for each operation; where one has none, by a trace with symbols, which takes long."""
    samples = samples_of([_argument_shapes(task, workload) for workload in (*workloads, *_others(*workloads))])
    found, complete = size_forms(
        first.everything, second.everything, samples, lambda value: first.ledger.term(value) is not None
    )
    if complete or len(first.nodes) > MOST_SYMBOLIC:
        return found
    more = closed_forms(lambda: _trace(task, workloads[0], SHIFTS[0], symbolic=True).nodes, first.nodes, second.nodes)
    more.sizes = found.sizes | more.sizes
    return more


def _argument_shapes(task: Task, workload: Workload) -> dict[str, tuple[int, ...]]:
    given = without_data(task, workload)
    return {name: tuple(value.shape) for name, value in given.items() if isinstance(value, torch.Tensor)}


def _others(first: Workload, second: Workload) -> list[Workload]:
    """Sizes of every kind, at which two formulas for a size would differ. Nothing is traced there."""
    fixed = {name: size for name, size in first.sizes if (name, size) in second.sizes}
    made = []
    for start, step in SAMPLED:
        sizes = {name: start + step * place for place, (name, _) in enumerate(first.sizes)}
        made.append(Workload(tuple((sizes | fixed).items()), first.dtype))
    return made


def _choices(task: Task) -> Iterator[tuple[Workload, Workload]]:
    """Pairs of workloads that tell sizes apart; at last some that a reference takes which is written for few sizes."""
    dtype = task.dtypes[0]

    def chosen(primes: tuple[int, ...]) -> Workload:
        left = iter(primes * 4)
        sizes = {name: _constant(task, name) or next(left) for name in task.hidden}
        return Workload(tuple(sizes.items()), dtype)

    yield from ((chosen(first), chosen(second)) for first, second in PRIMES)
    public = task.public_workloads()
    if len(public) > 1:
        yield public[0], public[1]
    yield from _near_public(task, public[0])


def _near_public(task: Task, public: Workload) -> Iterator[tuple[Workload, Workload]]:
    """The public sizes with those changed that the reference lets vary, all at once or one alone; the others are
    constants then."""

    def runs(sizes: dict[str, int]) -> bool:
        try:
            with WholeLayers("meta"):
                call_reference(task, without_data(task, Workload(tuple(sizes.items()), public.dtype)))
        except (TaskError, RuntimeError, TypeError, ValueError):
            return False
        return True

    base = dict(public.sizes)
    found: dict[str, list[int]] = {}
    for place, (name, size) in enumerate(base.items()):
        tries = (size + 2 * place + 3, 2 * size + 2 * place + 5, 2 * size, 3 * size, size + 1)
        working = [value for value in tries if runs(base | {name: value})][:2]
        if len(working) == 2:
            found[name] = working
    for names in (tuple(found), *((name,) for name in found)):
        pair = [base | {name: found[name][which] for name in names} for which in (0, 1)]
        if names and all(runs(sizes) for sizes in pair):
            first, second = (Workload(tuple(sizes.items()), public.dtype) for sizes in pair)
            yield first, second


def _constant(task: Task, name: str) -> int | None:
    """A size that neither public nor hidden workloads vary, if it is small."""
    values = {*task.hidden[name], *(sizes[name] for sizes in task.public)}
    return values.pop() if len(values) == 1 and max(values) <= LITERAL else None


def _trace(task: Task, workload: Workload, shift: float, *, symbolic: bool = False) -> _Traced:
    ledger = FormulaTable()
    given = without_data(task, workload)
    tensors = {name: value for name, value in given.items() if isinstance(value, torch.Tensor)}
    scalars = {
        name: ledger.argument(name, value * shift) if isinstance(value, float) else value
        for name, value in given.items()
        if not isinstance(value, torch.Tensor)
    }

    def reference(*values: torch.Tensor) -> list[torch.Tensor]:
        named = dict(zip(tensors, values, strict=True))
        arguments = {name: named[name] if name in named else scalars[name] for name in given}
        for name in task.inout:
            arguments[name] = named[name].clone()
        with PlainOperations(), WholeLayers("meta"), LineRecorder(task.lines):
            return list(call_reference(task, arguments).values())

    mode: Literal["symbolic", "real"] = "symbolic" if symbolic else "real"
    table = decompositions()

    def functional(function: Callable[..., Any]) -> torch.fx.GraphModule:
        whole = torch.func.functionalize(function)
        return written(whole, decomposition_table=table)

    def written(function: Callable[..., Any], **options: Any) -> torch.fx.GraphModule:
        with preserve_node_meta():  # so that nodes get the lines that the recorder sets
            return make_fx(function, tracing_mode=mode, **options)(*tensors.values())

    # A gradient is written down first, since autograd does not work on what functionalize hands out; so is what a
    # decomposition changes in place.
    derived = any(isinstance(value, Upstream) for value in task.inputs.values())
    module = None if derived else functional(reference)
    if module is None or any(_changes(node) for node in module.graph.nodes):
        module = functional(torch.fx.Interpreter(written(reference)).run)
    nodes = _live(module.graph)
    returned: Any = nodes[-1].args[0]
    forms = {name: (tuple(value.shape), dtype_name(value.dtype)) for name, value in tensors.items()}
    for name, node in zip(task.result_names, returned, strict=True):
        if name not in forms:
            forms[name] = (tuple(node.meta["val"].shape), dtype_name(node.meta["val"].dtype))
    return _Traced(nodes, tuple(module.graph.nodes), tuple(returned), ledger, forms)


def _live(graph: torch.fx.Graph) -> tuple[torch.fx.Node, ...]:
    """What results need, and all arguments."""
    nodes = tuple(graph.nodes)
    needed: set[torch.fx.Node] = set()
    left = [nodes[-1]]
    while left:
        node = left.pop()
        if node not in needed:
            needed.add(node)
            left += node.all_input_nodes
    return tuple(node for node in nodes if node in needed or node.op == "placeholder")


def _changes(node: torch.fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable


def _merged(task: Task, first: _Traced, second: _Traced, forms: ClosedForms) -> Graph:
    _require_same_steps(task, first, second)
    builder = GraphBuilder(task.name)
    places: dict[torch.fx.Node, NodeRef | tuple[NodeRef, ...]] = {}
    tensors = _tensors(task, first, second)
    sizes = tuple(dict.fromkeys(e for tensor in tensors for e in tensor.shape if e.literal is None))
    merge = _Merge(places, first.ledger, second.ledger, forms, sizes)
    arguments = iter(tensor for tensor in tensors if tensor.role != "output")
    for one, other in zip(first.nodes, second.nodes, strict=True):
        if one.op == "placeholder":
            tensor = next(arguments)
            places[one] = builder.add(ArgumentNode(tensor.shape, tensor.dtype, name=tensor.name))
        elif one.op == "call_function":
            builder.origin = _origin(task, one)
            shape, dtype = _form(one, other)
            try:
                args = tuple(merge(a, b) for a, b in zip(one.args, other.args, strict=True))
                kwargs = {key: merge(value, other.kwargs[key]) for key, value in one.kwargs.items()}
            except UnclearNumberError as error:
                raise not_covered(task.name, builder.origin.operation, builder.origin, str(error)) from error
            places[one] = lower(builder, one.target, args, kwargs, shape, dtype)
        elif one.op != "output":
            raise CannotExpressError(f"{task.name}: the reference holds a tensor of its own, which no template covers")
    builder.origin = None
    results = []
    for name, node in zip(task.result_names, first.results, strict=True):
        place = places[node]
        assert isinstance(place, NodeRef)
        results.append(Result(name, place.node))
    scalars = tuple(name for name, value in task.inputs.items() if isinstance(value, bool | int | float))
    closed = tuple((extent, text) for extent, text in forms.sizes.items() if extent not in forms.ambiguous)
    unclear = frozenset(forms.ambiguous)
    made, origins = tuple(builder.nodes), tuple(builder.origins)
    largest = _largest(task, tensors)
    return Graph(task.name, made, tuple(results), tensors, scalars, closed, unclear, origins, largest)


def _largest(task: Task, tensors: Sequence[GraphTensor]) -> tuple[tuple[Extent, int], ...]:
    """What the dimensions of arguments are where every size is at its largest, of the domain and public workloads."""
    most = {name: max(*ends, *(sizes[name] for sizes in task.public)) for name, ends in task.hidden.items()}
    try:
        shapes = _argument_shapes(task, Workload(tuple(most.items()), task.dtypes[0]))
    except (TaskError, RuntimeError, TypeError, ValueError):
        return ()  # no sizes of the task are all at their largest
    found: dict[Extent, int] = {}
    for tensor in tensors:
        for extent, size in zip(tensor.shape, shapes.get(tensor.name, ()), strict=False):
            found[extent] = max(size, found.get(extent, 0))
    return tuple(found.items())


def _origin(task: Task, node: torch.fx.Node) -> Origin:
    target: Any = node.target
    packet = getattr(target, "overloadpacket", target)
    return Origin(str(getattr(packet, "__name__", packet)), line_of(node.stack_trace, task.lines))


def _require_same_steps(task: Task, first: _Traced, second: _Traced) -> None:
    steps = [[node for node in traced.nodes if node.op == "call_function"] for traced in (first, second)]
    if [node.target for node in steps[0]] == [node.target for node in steps[1]]:
        return
    apart = next((one for one, other in zip(*steps, strict=False) if one.target != other.target), None)
    line = _origin(task, apart).line if apart is not None else None
    where = f", from {line}" if line is not None else ""
    raise CannotExpressError(
        f"{task.name}: templates need one form for all sizes; the reference's steps differ{where}; {OTHERS}"
    )


class UnclearNumberError(Exception):
    """A number that does not follow from sizes and scalars in a way that templates know."""


def _tensors(task: Task, first: _Traced, second: _Traced) -> tuple[GraphTensor, ...]:
    def role(name: str) -> str:
        if name in task.inout:
            return "inout"
        return "input" if name in task.inputs else "output"

    names = [name for name in (*task.inputs, *task.outputs) if name in first.tensors]
    return tuple(
        GraphTensor(name, first.tensors[name][1], _shape(first.tensors[name][0], second.tensors[name][0]), role(name))
        for name in names
    )


def _shape(first: tuple[int, ...], second: tuple[int, ...]) -> Shape:
    return tuple(Extent(int(a), int(b)) for a, b in zip(first, second, strict=True))


def _form(one: torch.fx.Node, other: torch.fx.Node) -> tuple[Shape, str]:
    value, twin = one.meta.get("val"), other.meta.get("val")
    if not isinstance(value, torch.Tensor) or not isinstance(twin, torch.Tensor):
        return (), ""
    return _shape(tuple(value.shape), tuple(twin.shape)), dtype_name(value.dtype)


@dataclass(frozen=True)
class _Merge:
    """Two arguments of the same operation as one."""

    places: Mapping[torch.fx.Node, NodeRef | tuple[NodeRef, ...]]
    first: FormulaTable
    second: FormulaTable
    forms: ClosedForms
    sizes: tuple[Extent, ...] = ()

    def __call__(self, one: Any, other: Any) -> Merged:
        if isinstance(one, torch.fx.Node):
            return self.places[one]
        if isinstance(one, list | tuple):
            return [self(a, b) for a, b in zip(one, other, strict=True)]
        if isinstance(one, bool) or not isinstance(one, int | float):
            return one
        return self._number(one, other)

    def _number(self, one: float, other: float) -> Number:
        if one == other or (one != one and other != other):
            return one
        term = self.first.term(one)
        if term is not None and term == self.second.term(other):
            return term
        if float(one).is_integer() and float(other).is_integer():
            return Extent(int(one), int(other))
        if (one, other) in self.forms.numbers:
            return self.forms.numbers[one, other]
        for size in (*self.sizes, *self.forms.sizes):
            for power in POWERS:
                if all(abs(n**power / v - 1) < 1e-14 for n, v in ((size.first, one), (size.second, other))):
                    return Formula("pow", (size, power))
        raise UnclearNumberError(f"templates cannot tell how {one!r} follows from sizes and scalars")


Term = Formula | str | float


class FormulaTable:
    """Which formula produced which value. Values are drawn so that no two formulas agree by chance."""

    def __init__(self) -> None:
        self._terms: dict[float, Term] = {}

    def argument(self, name: str, value: float) -> TracedFloat:
        return self.note(value, name)

    def note(self, value: float, term: Term) -> TracedFloat:
        self._terms.setdefault(value, term)
        return TracedFloat(value, term, self)

    def term(self, value: float) -> Term | None:
        return self._terms.get(value)


def _term(value: Any) -> Term | None:
    if isinstance(value, TracedFloat):
        return value.term
    return float(value) if isinstance(value, int | float) else None


class TracedFloat(float):
    term: Term
    ledger: FormulaTable

    def __new__(cls, value: float, term: Term, ledger: FormulaTable) -> TracedFloat:
        made = super().__new__(cls, value)
        made.term = term
        made.ledger = ledger
        return made

    def _combined(self, operator: str, left: Any, right: Any, value: Any) -> Any:
        first, second = _term(left), _term(right)
        if value is NotImplemented or first is None or second is None or not isinstance(value, float):
            return value
        return self.ledger.note(value, Formula(operator, (first, second)))

    def __add__(self, other: Any) -> Any:
        return self._combined("+", self, other, float.__add__(self, other))

    def __radd__(self, other: Any) -> Any:
        return self._combined("+", other, self, float.__radd__(self, other))

    def __sub__(self, other: Any) -> Any:
        return self._combined("-", self, other, float.__sub__(self, other))

    def __rsub__(self, other: Any) -> Any:
        return self._combined("-", other, self, float.__rsub__(self, other))

    def __mul__(self, other: Any) -> Any:
        return self._combined("*", self, other, float.__mul__(self, other))

    def __rmul__(self, other: Any) -> Any:
        return self._combined("*", other, self, float.__rmul__(self, other))

    def __truediv__(self, other: Any) -> Any:
        return self._combined("/", self, other, float.__truediv__(self, other))

    def __rtruediv__(self, other: Any) -> Any:
        return self._combined("/", other, self, float.__rtruediv__(self, other))

    def __pow__(self, other: Any, modulus: None = None) -> Any:
        return self._combined("pow", self, other, float.__pow__(self, other))

    def __rpow__(self, other: Any, modulus: None = None) -> Any:
        return self._combined("pow", other, self, float.__rpow__(self, other))

    def __neg__(self) -> Any:
        return self.ledger.note(float.__neg__(self), Formula("neg", (self.term,)))
