"""From validated data to functions: the reference of an imported task, and the recipes of its arguments.

The result is a torch.fx module made of listed operators and of names of our own, so that everything that takes a
reference takes it: float64, tracing, autograd, torch.compile.
"""

from __future__ import annotations

import keyword
import linecache
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx
from torch.utils._python_dispatch import _disable_current_modes

from kernelwright.tasks.casting import literals, working_device
from kernelwright.tasks.declarations import FLOATS
from kernelwright.tasks.dims import TaskError
from kernelwright.tasks.exporting import widen_types
from kernelwright.tasks.imported.arguments import require_fitting, require_numbers
from kernelwright.tasks.imported.bounded import Bounded
from kernelwright.tasks.imported.operators import SEEDED, makes_of_nothing, operator_named, schema_of
from kernelwright.tasks.imported.traced import (
    DrawnNumbers,
    DtypeValue,
    ListValue,
    Literals,
    MemoryFormat,
    NodeValue,
    OddFloat,
    OperatorCall,
    Recipe,
    SameDevice,
    TextValue,
    TracedProblem,
    Value,
)
from kernelwright.tasks.reference import torch_dtype
from kernelwright.tasks.source_lines import SourceLine

Node = torch.fx.Node
TAKEN = frozenset({"self", "torch", "device", "inf", "nan", "NoneType", "fx_pytree", "pytree", "math", "operator"})
ASSIGNED = re.compile(r"    (\w+) = ")
BYTES = 64  # for an element of an argument: a recipe makes it in several steps, in types of up to eight bytes
MOST_DRAWN, SECONDS = 1 << 30, 120.0


@dataclass(frozen=True)
class Rebuilt:
    """The function of the arguments, in order, that the graph computes; and of its own text, by line, the node of the
    problem that is computed there."""

    reference: Callable[..., Any]
    file: str
    nodes: Mapping[int, int]


def reference_of(problem: TracedProblem) -> Callable[..., Any]:
    return rebuilt(problem).reference


def rebuilt(problem: TracedProblem, lines: Mapping[int, SourceLine] | None = None) -> Rebuilt:
    """`lines` says of nodes where they come from, for the error that refuses one."""
    for name in problem.names:
        _require_free(name)
    graph = torch.fx.Graph()
    arguments = [graph.placeholder(argument.name) for argument in problem.arguments]
    declared = [(node, argument.dtype) for node, argument in zip(arguments, problem.arguments, strict=True)]
    device = graph.call_function(working_device, (arguments[0],))
    made = _append(graph, arguments, problem.nodes, device, lines or {})
    results = [made[index] for index in problem.results]
    graph.output(results[0] if len(results) == 1 else tuple(results))
    if not device.users:  # authors read the graph as the reference
        graph.erase_node(device)
    floats = [(node, dtype) for node, dtype in declared if dtype in FLOATS]
    if floats:
        given, dtype = floats[0]
        widen_types(graph, given, torch_dtype(dtype))
    module = torch.fx.GraphModule(torch.nn.Module(), graph, "Imported")

    numbers = {number.place for number in problem.numbers}

    def reference(*given: Any) -> Any:
        """The numbers that it is called with are written into the graph."""
        if numbers:
            given = tuple(value for place, value in enumerate(given) if place not in numbers)
        return module(*given)

    reference.__wrapped__ = module.forward  # type: ignore[attr-defined]  # so that its text can be shown
    file = module.forward.__code__.co_filename
    places = {node.name: place for place, node in enumerate(made[len(arguments) :])}
    assigned = ((number, ASSIGNED.match(line)) for number, line in enumerate(linecache.getlines(file), 1))
    found = {number: places.get(match[1]) for number, match in assigned if match is not None}
    return Rebuilt(reference, file, {number: place for number, place in found.items() if place is not None})


def _require_free(name: str) -> None:
    """A graph becomes a function in Python, in which an argument could hide what the function calls."""
    if keyword.iskeyword(name) or name in TAKEN or name.startswith("kernelwright"):
        raise TaskError(f"it calls an argument {name!r}, which has a meaning of its own in a reference")


def _append(
    graph: torch.fx.Graph,
    made: list[Node],
    nodes: Sequence[OperatorCall | Literals | DrawnNumbers],
    device: Node,
    lines: Mapping[int, SourceLine],
) -> list[Node]:
    made = list(made)
    for place, node in enumerate(nodes):
        if isinstance(node, OperatorCall):
            try:
                function = _checked(node)
            except TaskError as error:
                raise TaskError(f"{error} (at {lines[place]})" if place in lines else str(error)) from error
            args = tuple(_value(value, made, device) for value in node.args)
            kwargs = _options(node, made, device)
            made.append(graph.call_function(function, args, kwargs))
        elif isinstance(node, Literals):
            written = (_numbers(node), list(node.shape), torch_dtype(node.dtype), device)
            made.append(graph.call_function(literals, written))
        else:
            raise TaskError("a reference draws no random numbers")
    return made


def _checked(call: OperatorCall) -> Callable[..., Any]:
    """The function, for arguments of its types. Dropout inside of an operator would draw numbers, which the tracer has
    taken out of an honest graph."""
    function = operator_named(call.op)
    family, name = call.op.split(".")[:2]
    if family == "sym":
        require_numbers(call)
        return function
    schema = schema_of(call.op)
    require_fitting(call, schema)
    if name in SEEDED:
        for place, argument in enumerate(schema.arguments):
            given = call.args[place] if place < len(call.args) else call.kwargs.get(argument.name, 0)
            if argument.name in ("dropout_p", "dropout") and given not in (0, 0.0):
                raise TaskError(f"it uses {call.op} with dropout, which draws random numbers")
    return function


def _numbers(node: Literals) -> list[Any]:
    return [float(value) if isinstance(value, str) else value for value in node.values]


def _options(call: OperatorCall, made: Sequence[Any], device: Any) -> dict[str, Any]:
    """What is made of nothing is made where the arguments are, also without values: a graph may leave that out."""
    found = {name: _value(value, made, device) for name, value in call.kwargs.items()}
    return found | {"device": device} if makes_of_nothing(call.op) else found


def _value(value: Value, made: Sequence[Any], device: Any) -> Any:
    match value:
        case NodeValue(node=index):
            return made[index]
        case ListValue(items=items):
            return [_value(item, made, device) for item in items]
        case DtypeValue(dtype=name):
            return torch_dtype(name)
        case OddFloat(number=number):
            return float(number)
        case TextValue(text=text):
            return text
        case MemoryFormat(memory_format=name):
            return getattr(torch, name)
        case SameDevice():
            return device
        case _:
            return value


Recipes = Callable[[torch.Generator, tuple[int, ...], torch.dtype, Mapping[str, int]], torch.Tensor]


def recipe_of(recipe: Recipe) -> Recipes:
    """A custom draw that goes through the steps of the problem's own, with numbers of the judge's generator."""
    functions = {place: _checked(node) for place, node in enumerate(recipe.nodes) if isinstance(node, OperatorCall)}

    def draw(
        generator: torch.Generator, shape: tuple[int, ...], dtype: torch.dtype, sizes: Mapping[str, int]
    ) -> torch.Tensor:
        made: list[Any] = []
        with Bounded(MOST_DRAWN + BYTES * math.prod(shape), SECONDS) as bound:
            for place, node in enumerate(recipe.nodes):
                if isinstance(node, DrawnNumbers):
                    bound.spend(BYTES * _count(node, shape))
                    with _disable_current_modes():  # these numbers are counted, and a generator has values only
                        made.append(_drawn(node, shape, generator))
                elif isinstance(node, Literals):
                    made.append(literals(_numbers(node), list(node.shape), torch_dtype(node.dtype), generator.device))
                else:
                    args = [_value(value, made, generator.device) for value in node.args]
                    options = _options(node, made, generator.device)
                    made.append(functions[place](*args, **options))
        found = made[recipe.result]
        return found.to(dtype) if isinstance(found, torch.Tensor) else found

    draw.__name__ = "as_the_problem_does"
    return draw


def _count(node: DrawnNumbers, own: tuple[int, ...]) -> int:
    if node.of == "permutation":
        return int(node.high)
    return math.prod(own if node.shape is None else node.shape)


def _drawn(node: DrawnNumbers, own: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    shape = own if node.shape is None else tuple(node.shape)
    dtype, device = torch_dtype(node.dtype), generator.device
    if node.of == "integers":
        return torch.randint(int(node.low), int(node.high), shape, generator=generator, device=device).to(dtype)
    if node.of == "permutation":
        return torch.randperm(int(node.high), generator=generator, device=device).to(dtype)
    if node.of == "normal":
        drawn = torch.randn(shape, generator=generator, device=device)
        return drawn.mul_(node.high).add_(node.low).to(dtype)
    drawn = torch.rand(shape, generator=generator, device=device)
    if node.of == "bernoulli":
        return (drawn < node.low).to(dtype)
    return drawn.mul_(node.high - node.low).add_(node.low).to(dtype)
