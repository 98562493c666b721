"""From a task to the operation that a portable kernel carries out: parameters, outputs as formulas, and what is
differentiable."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kernelwright.errors import KernelwrightError
from kernelwright.export.standalone.dims import DimError, Shapes, formula
from kernelwright.export.standalone.manifest import CallParameter, OperationParameter, OperationSpec, Output
from kernelwright.tasks.declarations import (
    CallArgument,
    CustomDraw,
    IntegerDraw,
    NormalDraw,
    Saved,
    TensorInput,
    UniformDraw,
    Upstream,
)
from kernelwright.tasks.dims import TaskError
from kernelwright.tasks.model import Task, Workload

DISTINCT = (11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53)  # sizes that torch takes for different ones


class ExportError(KernelwrightError):
    """A kernel that cannot be made portable, and why."""


@dataclass(frozen=True)
class Traced:
    """The reference as a graph over symbols: the fallback where its source cannot travel, and the outputs' shapes."""

    code: str
    dims: tuple[tuple[int | str, ...], ...]


def operation_of(task: Task, name: str) -> tuple[OperationSpec, Traced]:
    """The forward's description. What cannot be described cannot be called by shape, and is refused."""
    gradients, upstream = _gradients(task)
    parameters = tuple(_parameter(task, one, one in gradients) for one in task.inputs)
    shapes = Shapes([one.dims for one in parameters if one.dims is not None])
    unread = sorted(set(task.hidden) - shapes.names)
    if unread:
        raise ExportError(f"{task.name}: the size {unread[0]!r} cannot be read off an argument's shape")
    traced = _traced(task)
    outputs = tuple(
        Output(one, dims, _output_dtype(task, place), one in upstream)
        for place, (one, dims) in enumerate(zip(task.outputs, traced.dims, strict=True))
    )
    _check(task, outputs)
    operation = OperationSpec(name, parameters, outputs, _returns(task), _call(task), _work(task), task.form)
    return operation, traced


def _gradients(task: Task) -> tuple[frozenset[str], frozenset[str]]:
    """The inputs that have a gradient, and the outputs from which gradients come."""
    from kernelwright.tasks.backward import derive_backward

    if task.inout:
        return frozenset(), frozenset()
    try:
        backward = derive_backward(task)
    except TaskError:  # it has none
        return frozenset(), frozenset()
    upstream = {one.output for one in backward.inputs.values() if isinstance(one, Upstream)}
    return frozenset(name.removeprefix("grad_") for name in backward.outputs), frozenset(upstream)


def _parameter(task: Task, name: str, gradient: bool) -> OperationParameter:
    given = task.inputs[name]
    if isinstance(given, TensorInput):
        return OperationParameter(name, given.dims, given.dtype, gradient, name in task.inout, draw=_draw(given))
    if isinstance(given, Saved | Upstream):
        raise ExportError(f"{task.name}: is a backward; name the run of its forward too")
    return OperationParameter(name, value=given)


def _draw(given: TensorInput) -> tuple[Any, ...]:
    match given.draw:
        case IntegerDraw():
            return ("integers", given.draw.low, given.draw.high)
        case CustomDraw() if given.draw.whole is not None:
            return ("integers", *given.draw.whole)
        case UniformDraw():
            return ("uniform", given.draw.low, given.draw.high)
        case NormalDraw():
            return ("normal", given.draw.mean, given.draw.std)
        case _:
            return ("normal", 0.0, 1.0)


def _call(task: Task) -> tuple[CallParameter, ...]:
    if task.call:
        return tuple(map(_captured, task.call))
    defaults = _defaults(task)
    return tuple(CallParameter(name, name, default=defaults.get(name)) for name in task.inputs)


def _captured(one: CallArgument) -> CallParameter:
    if one.input is not None:
        return CallParameter(one.name, one.input, held=one.held, values=one.values)
    return CallParameter(one.name, None, one.number, one.default, one.unused)


def _defaults(task: Task) -> dict[str, Any]:
    """Of the reference's own parameters, which may be called otherwise than the inputs are."""
    try:
        parameters = list(inspect.signature(task.reference).parameters.values())
    except (TypeError, ValueError):
        return {}
    pairs = zip(task.inputs, parameters, strict=False)
    return {name: one.default for name, one in pairs if isinstance(one.default, bool | int | float)}


def _work(task: Task) -> int | str:
    if task.work is not None:
        return task.work
    tensors = [one for one in task.inputs.values() if isinstance(one, TensorInput)]
    return " + ".join(" * ".join(f"({dim})" for dim in one.dims) or "1" for one in tensors)


def _returns(task: Task) -> str:
    returned = task.reference(*_drawn(task).values())
    if returned is None or (isinstance(returned, tuple | list) and not returned):
        return "none"
    return "tuple" if isinstance(returned, tuple | list) else "tensor"


def _drawn(task: Task) -> dict[str, Any]:
    """Small arguments with values: a reference may look at them."""
    import torch

    from kernelwright.tasks.drawing import draw_inputs
    from kernelwright.tasks.hidden import small_workloads
    from kernelwright.tasks.reference import prepared

    from_ranges = small_workloads(task, 1)[0]
    generator = torch.Generator().manual_seed(0)
    return prepared(task, draw_inputs(task, from_ranges, task.families[0], generator))


def _traced(task: Task) -> Traced:
    """Runs the reference over symbols for sizes. Sizes are chosen so that no two coincide."""
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    arguments = _example(task)
    tensors = {name: value for name, value in arguments.items() if isinstance(value, torch.Tensor)}

    def over_tensors(*given: torch.Tensor) -> Any:
        waiting = iter(given)
        full = [next(waiting) if isinstance(one, torch.Tensor) else one for one in arguments.values()]
        returned = task.reference(*full)
        return tuple(returned) if isinstance(returned, tuple | list) else returned

    try:
        with torch.no_grad():
            graph = make_fx(over_tensors, tracing_mode="symbolic")(*tensors.values())
    except Exception as error:  # whatever torch raises, it means that it cannot write this down
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ExportError(f"{task.name}: torch cannot trace the reference over symbolic sizes: {first:.200}") from error
    names = _symbols(task, graph)
    results = next(node for node in graph.graph.nodes if node.op == "output").args[0]
    results = results if isinstance(results, tuple | list) else () if results is None else (results,)
    dims = tuple(tuple(_dim(task, size, names) for size in one.meta["val"].shape) for one in results)
    return Traced(_as_function(task, graph, list(tensors)), dims)


def _example(task: Task) -> dict[str, Any]:
    import torch

    sizes: dict[str, int] = {}
    declared = [one for one in task.inputs.values() if isinstance(one, TensorInput)]
    fixed = {dim for one in declared for dim in one.dims if isinstance(dim, int)}
    waiting = iter([one for one in DISTINCT if one not in fixed])
    for name, (low, high) in task.hidden.items():
        wanted = next((one for one in waiting if low <= one <= high), None)
        sizes[name] = wanted if wanted is not None else _between(low, high, fixed | set(sizes.values()))
    from kernelwright.tasks.drawing import draw_inputs

    workload = Workload(tuple(sizes.items()), task.dtypes[0])
    return draw_inputs(task, workload, task.families[0], torch.Generator().manual_seed(0))


def _between(low: int, high: int, taken: set[int]) -> int:
    return next((one for one in range(max(low, 2), high + 1) if one not in taken), high)


def _symbols(task: Task, graph: Any) -> dict[str, str]:
    """The task's name for each of the tracer's symbols."""
    declared = [one for one in task.inputs.values() if isinstance(one, TensorInput)]
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    found: dict[str, str] = {}
    for one, node in zip(declared, placeholders, strict=True):
        for dim, size in zip(one.dims, node.meta["val"].shape, strict=True):
            plain = isinstance(dim, str) and dim.isidentifier()
            found.setdefault(str(size), str(dim) if plain or isinstance(dim, int) else f"({dim})")
    return found


def _dim(task: Task, size: Any, names: dict[str, str]) -> int | str:
    text = str(size)
    if text.isdigit():
        return int(text)
    renamed = re.sub(r"[A-Za-z_]\w*", lambda match: names.get(match[0], match[0]), text)
    if renamed.isdigit():
        return int(renamed)
    try:
        formula(renamed)
        unknown = set(re.findall(r"[A-Za-z_]\w*", renamed)) - set(task.hidden)
        if not unknown:
            return renamed
    except DimError:
        pass
    raise ExportError(f"{task.name}: a size of an output ({renamed:.60}) is not a formula over the task's sizes")


def _as_function(task: Task, graph: Any, tensors: Sequence[str]) -> str:
    """The graph as Python, with numbers among its parameters, which it does not look at."""
    code = graph.code
    body = [line for line in code.splitlines() if line.startswith("    ")]
    names = [node.name for node in graph.graph.nodes if node.op == "placeholder"]
    if "self." in code:
        return ""
    given = "\n".join(f"    {name} = {tensor}" for name, tensor in zip(names, tensors, strict=True) if name != tensor)
    imports = "import torch\nfrom math import inf, nan\nfrom torch import device\n"
    head = f"{imports}\n\ndef reference({', '.join(task.inputs)}):\n"
    cleaned = "\n".join(re.sub(r";  .*= None$", "", line) for line in body)
    return f"{head}{given}\n{cleaned}\n"


def _output_dtype(task: Task, place: int) -> str | None:
    """None where an output has the workload's dtype, whatever that is."""
    found: list[tuple[str, str]] = []
    for dtype in task.dtypes:
        workload = next(one for one in task.public_workloads() if one.dtype == dtype)
        found.append((dtype, _signature(task, workload).outputs[place].dtype))
    if all(output == dtype for dtype, output in found):
        return None
    if len({output for _, output in found}) == 1:
        return found[0][1]
    raise ExportError(f"{task.name}: the dtype of output {task.outputs[place]!r} follows no simple rule")


def _signature(task: Task, workload: Workload) -> Any:
    from kernelwright.tasks.drawing import signature

    return signature(task, workload)


def _check(task: Task, outputs: Sequence[Output]) -> None:
    """The formulas give what the reference gives, on other sizes than the traced ones."""
    from kernelwright.tasks.hidden import small_workloads

    for workload in (*task.public_workloads()[:1], *small_workloads(task, 2)):
        for output, spec in zip(outputs, _signature(task, workload).outputs, strict=True):
            shape = tuple(formula(dim)(workload.size_map) for dim in output.dims)
            if shape != spec.shape:
                raise ExportError(
                    f"{task.name}: output {output.name!r} has a shape that no formula over its sizes gives"
                )
