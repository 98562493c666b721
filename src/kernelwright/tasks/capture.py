"""From a PyTorch function or module and an example of its inputs to the text of a task file.

The judge reads tasks in a process of its own, so the function itself cannot be handed over: torch.export writes down
what it computes, parameters become inputs, and every size that may vary becomes a named one.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernelwright.tasks.declarations import DTYPES, FLOATS, CallArgument
from kernelwright.tasks.dims import TaskError
from kernelwright.tasks.exporting import (
    SizeNames,
    drop_type_assertions,
    export_call,
    function_name,
    meant_equal,
    quietly,
    widen_types,
)
from kernelwright.tasks.loading import summary

if TYPE_CHECKING:
    import torch

KNOWN_NAMES = {"inf", "nan", "NoneType", "torch", "device", "fx_pytree", "pytree"}
WIDENING = "kernelwright_tasks_casting_working_dtype"  # as torch.fx writes that function's name
RANDOM = re.compile(r"rand|normal|uniform|bernoulli|exponential|multinomial|poisson|cauchy|geometric|log_normal")
MOST_UNIT = 64  # of which a size may have to be a multiple
SPREAD = 4  # hidden sizes lie between a quarter and four times the example's
HEAD = '''"""{doc}"""

{imports}


def reference({arguments}):
{body}


task = Task(
    reference,
    inputs={{
{inputs}
    }},
    public=[{public}],
    hidden={hidden},
    outputs={outputs},
    dtypes=({dtype!r},),
    call=(
{call}
    ),
)
'''
NONE_TYPE = "\n\nNoneType = type(None)"


@dataclass(frozen=True)
class _Argument:
    name: str
    dims: tuple[int | str, ...]
    dtype: str
    draw: str


def task_text(function: Callable[..., Any], example: Sequence[Any] | torch.Tensor, doc: str = "") -> str:
    """The task file. One line says what cannot be taken."""
    import torch

    if not callable(function):
        by_name = "; a task by its name is for the command `kernelwright optimize`" if isinstance(function, str) else ""
        raise TaskError(f"give a function or a module, not a value of type {type(function).__name__}{by_name}")
    if isinstance(example, torch.Tensor):
        example = (example,)
    if not isinstance(example, list | tuple):
        raise TaskError(
            f"the example inputs are of type {type(example).__name__}: give a tuple or list of the call's arguments, "
            "or the tensor that is the only one"
        )
    tensors = tuple(value for value in example if isinstance(value, torch.Tensor))
    for value in example:
        if not isinstance(value, torch.Tensor | int | float | bool | None):
            raise TaskError(f"an example input is a {type(value).__name__}: give tensors and numbers")
    if not tensors:
        raise TaskError("no example input is a tensor: give at least one")
    _refuse_misfit(function, example)
    exported = _exported(function, example)
    plain = _plain(exported)
    if getattr(function, "training", False) and any("dropout" in str(node.target) for node in plain.graph.nodes):
        raise TaskError("the module uses dropout in training mode: call eval() on it first")
    if drawn := next((node for node in plain.graph.nodes if _draws(node)), None):
        raise TaskError(
            f"it draws random numbers ({drawn.target.__name__.partition('.')[0]}), and two draws differ: make what it "
            "draws an argument"
        )
    changes = plain.graph_signature  # the first form still has changes in place
    if changes.buffers_to_mutate or changes.user_inputs_to_mutate:
        raise TaskError("it changes a buffer or an input in place: call eval() on the module, or write a task file")
    _widen(exported)
    doc = doc or f"{function_name(function)}, captured by torch.export."
    return _text(exported, tensors, doc, _Called(function, tuple(example)))


def _plain(exported: Any) -> Any:
    """In a form in which every change in place is named."""
    try:
        return quietly(exported.run_decompositions, {})
    except RuntimeError as error:  # a tensor that is an attribute, and neither parameter nor buffer, is changed
        raise TaskError(
            f"torch.export cannot write it down: {summary(error)}; pass its state as an argument, or write a task file"
        ) from error


def _draws(node: Any) -> bool:
    import torch

    drawn = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
    return drawn and RANDOM.match(node.target.__name__) is not None  # dropout has the tag where it does nothing, too


def _exported(function: Callable[..., Any], example: Sequence[Any]) -> Any:
    """With all sizes free or, where torch cannot say how they depend on each other, with the first of each tensor."""
    try:
        return export_call(function, example)
    except TaskError:
        try:
            return export_call(function, example, most=1)
        except TaskError:
            pass  # the first line says more
        raise


def _refuse_misfit(function: Callable[..., Any], example: Sequence[Any]) -> None:
    """Before torch.export, whose message is long and names a line of its own."""
    import torch

    try:
        signature = inspect.signature(function.forward if isinstance(function, torch.nn.Module) else function)
    except (TypeError, ValueError):  # it is not written in Python
        return
    try:
        signature.bind(*example)
    except TypeError as error:
        call = f"{function_name(function)}({', '.join(signature.parameters)})"
        raise TaskError(f"the example inputs are not the arguments of {call}: {error}") from error


def _widen(exported: Any) -> None:
    graph = exported.graph_module.graph
    drop_type_assertions(graph)
    holders = [node for node in graph.nodes if node.op == "placeholder" and node.users and _is_float(node.meta["val"])]
    if holders:
        widen_types(graph, holders[0], holders[0].meta["val"].dtype)


def _is_float(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor) and value.is_floating_point()


@dataclass(frozen=True)
class _Called:
    """How the function was called, so that a kernel can be called in the same way."""

    function: Callable[..., Any]
    example: tuple[Any, ...]

    def arguments(self, exported: Any, inputs: Sequence[str]) -> list[CallArgument]:
        """The function's own parameters in order, then the tensors that a module has of its own."""
        import torch
        from torch.export.graph_signature import InputKind

        specs = exported.graph_signature.input_specs
        given = iter([spec.arg.name for spec in specs if spec.kind is InputKind.USER_INPUT])
        found = []
        for name, default, value in self._parameters():
            if isinstance(value, torch.Tensor):
                taken = next(given)
                found.append(CallArgument(name, taken) if taken in inputs else CallArgument(name, unused=True))
            else:
                found.append(CallArgument(name, number=value, default=default))
        others = (spec.arg.name for spec in specs if spec.kind is not InputKind.USER_INPUT)
        return [*found, *(CallArgument(name, name) for name in others if name in inputs)]

    def _parameters(self) -> Iterator[tuple[str, Any, Any]]:
        """Names, defaults and values. What was not given and is not a number keeps its default, and is not offered."""
        import torch

        function = self.function
        try:
            signature = inspect.signature(function.forward if isinstance(function, torch.nn.Module) else function)
            named = [one for one in signature.parameters.values() if one.kind in (one.POSITIONAL_OR_KEYWORD,)]
        except (TypeError, ValueError):  # it is not written in Python
            named = []
        for place, value in enumerate(self.example):
            name = named[place].name if place < len(named) else f"given_{place}"
            default = named[place].default if place < len(named) else None
            yield name, default if isinstance(default, bool | int | float) else None, value
        for one in named[len(self.example) :]:
            if isinstance(one.default, bool | int | float):
                yield one.name, one.default, one.default


def _text(exported: Any, tensors: tuple[torch.Tensor, ...], doc: str, called: _Called) -> str:
    code = exported.graph_module.graph.python_code("self")
    source = code.src.replace(WIDENING, "working_dtype")
    unknown = set(code.globals) - KNOWN_NAMES - {WIDENING}
    if unknown or "self." in source:
        raise TaskError("it has control flow or calls that cannot be written to a file: write a task file")
    sizes = SizeNames(meant_equal(exported))
    arguments = _arguments(exported, tensors, sizes)
    if units := _units(exported, sizes):
        sizes.count_in(units)
        arguments = _arguments(exported, tensors, sizes)
    if not sizes.values:
        raise TaskError("all sizes are fixed by its code, so there are no other sizes to test: write a task file")
    results, last = _results(exported)
    lines = [re.sub(r";  .*= None$", "", line) for line in source.splitlines() if line.startswith("    ")]
    body = [line for line in lines if line.strip() and not line.lstrip().startswith("return ")]
    floats = [argument.dtype for argument in arguments if argument.dtype in FLOATS]
    main = floats[0] if floats else "float32"
    computed = "\n".join([*body, last])
    declared = "\n".join(f"        {_declared(argument, main)}," for argument in arguments)
    call = called.arguments(exported, [argument.name for argument in arguments])
    return HEAD.format(
        doc=doc.replace("\\", " ").replace('"', "'"),
        imports=_imports(computed, declared),
        arguments=", ".join(argument.name for argument in arguments),
        body=computed,
        inputs=declared,
        public=repr(sizes.values),
        hidden=repr(_ranges(sizes, exported.range_constraints, _reach(tensors))),
        outputs=repr(results),
        dtype=main,
        call="\n".join(f"        {_written(one)}," for one in call),
    )


def _written(one: CallArgument) -> str:
    """As a task file has it, without what goes without saying."""
    if one.input is not None:
        return f"CallArgument({one.name!r}, {one.input!r})"
    if one.unused:
        return f"CallArgument({one.name!r}, unused=True)"
    default = "" if one.default is None else f", default={one.default!r}"
    return f"CallArgument({one.name!r}, number={one.number!r}{default})"


def _imports(body: str, inputs: str) -> str:
    """What the text uses, and nothing else: a person will read it, and may go on from it."""
    words = set(re.findall(r"\w+", body))
    declared = set(re.findall(r"\w+", inputs))
    numbers = sorted((words | declared) & {"inf", "nan"})
    ours = ["CallArgument", "Task", *sorted(declared & {"integers", "tensor", "uniform"})]
    lines = ["import torch"] if "torch" in words else []
    lines += [f"from math import {', '.join(numbers)}"] if numbers else []
    lines += ["from torch import device"] if "device" in words else []
    lines += [f"from kernelwright.tasks import {', '.join(ours)}"]
    lines += ["from kernelwright.tasks.casting import working_dtype"] if "working_dtype" in words else []
    return "\n".join(lines) + (NONE_TYPE if "NoneType" in words else "")


def _ranges(sizes: SizeNames, constraints: Any, reach: int) -> dict[str, tuple[int, int]]:
    """Within what torch.export allows. A whole number below `reach` may be an index into any size that has it."""
    allowed = {str(symbol): (found.lower, found.upper) for symbol, found in constraints.items()}
    found = {}
    for symbol, name in sizes.symbols.items():
        value, unit = sizes.values[name], sizes.units.get(name, 1)
        low, high = max(1, value // SPREAD), value * SPREAD
        if value * unit >= reach:
            low = max(low, -(-reach // unit))
        least, most = allowed.get(symbol, (low, high))
        high = min(high, int(most) // unit) if most < high * unit else high
        found[name] = (max(low, -(-int(least) // unit)), high)
    return found


def _units(exported: Any, sizes: SizeNames) -> dict[str, int]:
    """Sizes, by symbol, that the code takes as multiples of a number alone, as halves of a gate are: found by calling
    it without data, since torch.export notes only what its own operations refuse."""
    import torch

    placeholders = [node for node in exported.graph.nodes if node.op == "placeholder"]
    example = {symbol: sizes.values[name] for symbol, name in sizes.symbols.items()}

    def size(given: Any, chosen: dict[str, int]) -> int:
        if isinstance(given, int):
            return given
        expression = given.node.expr
        return int(expression.subs({one: chosen.get(str(one), given.node.hint) for one in expression.free_symbols}))

    def runs(chosen: dict[str, int]) -> bool:
        try:
            with torch.no_grad():
                exported.graph_module(
                    *(
                        torch.empty(
                            [size(one, chosen) for one in n.meta["val"].shape], dtype=n.meta["val"].dtype, device="meta"
                        )
                        for n in placeholders
                    )
                )
        except Exception:  # whatever its code raises at sizes that it cannot take
            return False
        return True

    found: dict[str, int] = {}
    if not runs(example):  # it needs data
        return found
    for symbol, value in example.items():
        units = (unit for unit in range(1, MOST_UNIT + 1) if value % unit == 0)
        fits = (u for u in units if all(runs(example | {symbol: value + more * u}) for more in (1, 2, 3)))
        found[symbol] = next(fits, 1)
    return {symbol: unit for symbol, unit in found.items() if unit > 1}


def _arguments(exported: Any, tensors: tuple[torch.Tensor, ...], sizes: SizeNames) -> list[_Argument]:
    from torch.export.graph_signature import InputKind

    nodes = {node.name: node for node in exported.graph.nodes if node.op == "placeholder"}
    state = {**exported.state_dict, **exported.constants}
    waiting = iter(tensors)
    used = []
    for spec in exported.graph_signature.input_specs:
        given = spec.kind is InputKind.USER_INPUT
        value, node = next(waiting) if given else state[spec.target], nodes[spec.arg.name]
        if node.users:
            used.append((spec.arg.name, value, node.meta["val"].shape, given))
            sizes.learn(spec.arg.name, node.meta["val"].shape, value.shape)
    found = []
    for name, value, shape, given in used:
        dtype = str(value.dtype).removeprefix("torch.")
        if dtype not in DTYPES:
            raise TaskError(f"{name} is {dtype}: a task takes {', '.join(DTYPES)}")
        found.append(_Argument(name, sizes.dims(shape), dtype, _draw(value, dtype, given=given)))
    return found


def _reach(tensors: tuple[torch.Tensor, ...]) -> int:
    whole = [int(t.max()) + 1 for t in tensors if t.numel() and not t.is_floating_point() and not t.is_complex()]
    return max(whole, default=0)


def _draw(value: torch.Tensor, dtype: str, *, given: bool) -> str:
    """Inputs are drawn from every family; parameters and whole numbers within the range that they have."""
    from kernelwright.tasks.formats import arithmetic

    if dtype in FLOATS and given:
        return ""
    value = arithmetic(value.detach())
    low, high = (float(value.min()), float(value.max())) if value.numel() else (0.0, 1.0)
    if dtype not in FLOATS:
        return f"integers({int(low)}, {int(high) + 1})"
    if low == high:
        low, high = (-0.1, 0.1) if low == 0 else sorted((0.5 * low, 1.5 * low))
    return f"uniform({low!r}, {high!r})"


def _declared(argument: _Argument, main: str) -> str:
    parts = [repr(dim) for dim in argument.dims]
    if argument.draw:
        parts.append(f"draw={argument.draw}")
    if argument.dtype != main:
        parts.append(f"dtype={argument.dtype!r}")
    return f"{argument.name!r}: tensor({', '.join(parts)})"


def _results(exported: Any) -> tuple[tuple[str, ...], str]:
    """Names for the results, and the line that returns them."""
    import torch

    output = next(node for node in exported.graph.nodes if node.op == "output")
    values = output.args[0]
    for value in values:
        if not isinstance(getattr(value, "meta", {}).get("val"), torch.Tensor) or value.op == "placeholder":
            raise TaskError("it returns something other than new tensors: write a task file")
    if len(values) == 1:
        return ("out",), f"    return {values[0].name}"
    returned = ", ".join(value.name for value in values)
    return tuple(f"out{index}" for index in range(len(values))), f"    return ({returned})"
