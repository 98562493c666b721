"""From a PyTorch function or module and an example of its inputs to the text of a task file.

The judge reads tasks in a process of its own, so the function itself cannot be handed over: torch.export writes down
what it computes, parameters become inputs, and every size that may vary becomes a named one.
"""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernelwright.tasks.captured_results import copy_views, result_types, results_of
from kernelwright.tasks.declarations import DTYPES, FLOATS, CallArgument
from kernelwright.tasks.dims import TaskError
from kernelwright.tasks.exporting import (
    SizeNames,
    drop_type_assertions,
    export_call,
    function_name,
    meant_equal,
    widen_types,
)
from kernelwright.tasks.imported.confined.surgery import argument, changed_by, inline_blocks, packet
from kernelwright.tasks.size_trials import SizeTrial
from kernelwright.tasks.source_lines import SourceLine, line_of

if TYPE_CHECKING:
    import torch

KNOWN_NAMES = {"inf", "nan", "NoneType", "torch", "device", "fx_pytree", "pytree"}
WIDENING = "kernelwright_tasks_casting_working_dtype"  # as torch.fx writes that function's name
RANDOM = re.compile(r"rand|normal|uniform|bernoulli|exponential|multinomial|poisson|cauchy|geometric|log_normal")
ASSIGNED = re.compile(r"    (\w+) = ")
IN_BACKWARD = ("grad_", "saved_")
GIVEN = re.compile(r"\bgiven_\d+\b")
WRAPPED: dict[type, str] = {dict: "{'x': x, 'y': y}", tuple: "(x, y)"}
MOST_REFUSALS = 3  # reasons that one line names
MOST_VALUES = 4096  # of a tensor that the code writes out
NORMS = ("batch_norm", "instance_norm")
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
    ),{further}
)
'''
NONE_TYPE = "\n\nNoneType = type(None)"


@dataclass(frozen=True)
class _Argument:
    name: str
    dims: tuple[int | str, ...]
    dtype: str
    draw: str


@dataclass(frozen=True)
class CapturedText:
    """The task file, whose lines its lines stand for, and the classes of named tuples among the function's results."""

    text: str
    lines: Mapping[int, SourceLine]
    result_types: tuple[type, ...] = ()


def task_text(function: Callable[..., Any], example: Sequence[Any] | torch.Tensor, doc: str = "") -> str:
    """The task file. One line says what cannot be taken."""
    return captured(function, example, doc=doc).text


def captured(
    function: Callable[..., Any],
    example: Sequence[Any] | torch.Tensor,
    keywords: Mapping[str, Any] | None = None,
    *,
    within: bool = False,
    doc: str = "",
) -> CapturedText:
    """As `task_text`, with its source map. `keywords` are arguments given by name. `within`: floating-point inputs are
    drawn within the range that they have in the example, as for a function that takes no other values."""
    import torch

    if not callable(function):
        by_name = "; a task by its name is for the command `kernelwright optimize`" if isinstance(function, str) else ""
        raise TaskError(f"give a function or a module, not a value of type {type(function).__name__}{by_name}")
    called = _called(function, example, keywords or {})
    tensors = tuple(value for value in called.example if isinstance(value, torch.Tensor))
    exported = _exported(called)
    refused = list(itertools.islice(dict.fromkeys(_refusals(called, exported)), MOST_REFUSALS))
    if refused:
        raise TaskError("; ".join(refused))
    inline_blocks(exported.graph_module)
    copy_views(exported, called.names(exported), _changes(exported).keys())
    _view_as_reshape(exported.graph_module.graph)
    exported.graph_module.recompile()
    _widen(exported)
    doc = doc or f"{function_name(function)}, captured by torch.export."
    text = _text(exported, tensors, doc, called, within=within)
    return CapturedText(text, _lines(text, exported), result_types(exported))


def _lines(text: str, exported: Any) -> dict[int, SourceLine]:
    """By line of the text: each assigns one node of the graph."""
    known = {node.name: line_of(node.meta.get("stack_trace")) for node in exported.graph.nodes}
    assigned = ((number, ASSIGNED.match(line)) for number, line in enumerate(text.splitlines(), 1))
    found = {number: known.get(match[1]) for number, match in assigned if match is not None}
    return {number: line for number, line in found.items() if line is not None}


def _called(
    function: Callable[..., Any], example: Sequence[Any] | torch.Tensor, keywords: Mapping[str, Any]
) -> _Called:
    """The call, before torch.export, whose message is long and names a line of its own."""
    import torch

    if isinstance(example, torch.Tensor):
        example = (example,)
    if not isinstance(example, list | tuple):
        raise TaskError(
            f"the example inputs are of type {type(example).__name__}: give a tuple or list of the call's arguments, "
            "or the tensor that is the only one; arguments by name go into example_kwargs"
        )
    signature = _signature(function)
    order = list(signature.parameters) if signature is not None else []
    named = sorted(keywords, key=lambda name: order.index(name) if name in order else len(order))
    values = (*example, *(keywords[name] for name in named))
    labels = (*(f"number {place + 1}" for place in range(len(example))), *(repr(name) for name in named))
    for label, value in zip(labels, values, strict=True):
        if not isinstance(value, torch.Tensor | int | float | bool | None):
            raise TaskError(
                f"the example input {label} is a {type(value).__name__}: a task takes tensors and numbers; wrap the "
                f"function in one that does, such as lambda x, y: f({WRAPPED.get(type(value), '[x, y]')})"
            )
    if not any(isinstance(value, torch.Tensor) for value in values):
        raise TaskError("no example input is a tensor: give at least one")
    if signature is not None:
        try:
            signature.bind(*example, **keywords)
        except TypeError as error:
            call = f"{function_name(function)}({', '.join(signature.parameters)})"
            raise TaskError(f"the example inputs are not the arguments of {call}: {error}") from error
    return _Called(function, values, tuple(named))


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    import torch

    try:
        return inspect.signature(function.forward if isinstance(function, torch.nn.Module) else function)
    except (TypeError, ValueError):  # it is not written in Python
        return None


def _exported(called: _Called) -> Any:
    """With all sizes free or, where torch cannot say how they depend on each other, with the first of each tensor."""
    try:
        return export_call(called.function, called.example, keywords=called.keywords)
    except TaskError:
        try:
            return export_call(called.function, called.example, most=1, keywords=called.keywords)
        except TaskError:
            pass  # the first line says more
        raise


def _refusals(called: _Called, exported: Any) -> Iterator[str]:
    """Why a function cannot be taken: types, random numbers, and what a call changes beside its arguments. Arguments
    that are changed in place are results."""
    yield from _other_types(called, exported)
    for drops in exported.graph.nodes:
        if "dropout" in str(drops.target) and _drops(drops):
            training = "call eval() on it first" if getattr(called.function, "training", False) else "take it out"
            yield f"it uses dropout, which draws random numbers{_at(drops)}: {training}"
        elif _draws(drops):
            yield (
                f"it draws random numbers ({packet(drops)}){_at(drops)}, and two draws differ: make what it draws an "
                "argument"
            )
    yield from _other_changes(exported)


def _other_types(called: _Called, exported: Any) -> Iterator[str]:
    """Of tensors that are used, by the author's names."""
    import torch

    names = called.names(exported)
    for node in exported.graph.nodes:
        value = node.meta.get("val")
        if node.op == "placeholder" and node.users and isinstance(value, torch.Tensor):
            dtype = str(value.dtype).removeprefix("torch.")
            if dtype not in DTYPES:
                yield f"{names.get(node.name, node.name)} is {dtype}: a task takes {', '.join(DTYPES)}"


def _other_changes(exported: Any) -> Iterator[str]:
    changes = _changes(exported)
    nodes = {node.name: node for node in exported.graph.nodes if node.op == "placeholder"}
    for spec in exported.graph_signature.input_specs:
        node = nodes.get(getattr(spec.arg, "name", ""))
        change = changes.get(_storage(node)) if node is not None else None
        if change is not None and spec.kind.name != "USER_INPUT":
            name = str(spec.target).removeprefix("inner.")
            if spec.kind.name != "BUFFER":
                yield f"it changes its tensor {name!r}{_at(change)}: make that an argument"
            else:
                yield f"it changes its buffer {name!r}{_at(change)}: call eval() on the module"
        elif change is not None and packet(change) in NORMS:
            yield f"it updates running statistics{_at(change)}: leave them out, or call it in evaluation"


def _storage(node: Any) -> int | None:
    import torch

    value = node.meta.get("val")
    return int(value.untyped_storage()._cdata) if isinstance(value, torch.Tensor) else None


def _changes(exported: Any) -> dict[int | None, Any]:
    """The memory that a call changes, each with a step that does. Norms in training do not say it of their own."""
    found: dict[int | None, Any] = {}
    for node in exported.graph.nodes:
        written = changed_by(node) if packet(node) != "detach_" else []  # which changes no value
        if packet(node) in NORMS and (argument(node, "training") or argument(node, "use_input_stats")):
            written = [
                one for one in (argument(node, "running_mean"), argument(node, "running_var")) if one is not None
            ]
        for given in written:
            found.setdefault(_storage(given), node)
    found.pop(None, None)
    return found


def _draws(node: Any) -> bool:
    import torch

    drawn = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
    return drawn and RANDOM.match(packet(node)) is not None  # dropout has the tag where it does nothing, too


def _drops(node: Any) -> bool:
    """Whether a dropout is one: in evaluation, or with a share of 0, it is not."""
    names = [one.name for one in node.target._schema.arguments] if hasattr(node.target, "_schema") else []
    given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    return bool(given.get("train", given.get("training", True))) and given.get("p", given.get("dropout_p", 0)) != 0


def _at(node: Any) -> str:
    line = line_of(node.meta.get("stack_trace"))
    return f" (at {line})" if line is not None else ""


def _view_as_reshape(graph: Any) -> None:
    """How a result lies in memory depends on the device and its kernels, so that what can be viewed here may have to be
    copied elsewhere."""
    import torch

    for node in graph.nodes:
        if node.target is torch.ops.aten.view.default:
            node.target = torch.ops.aten.reshape.default


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
    example: tuple[Any, ...]  # all values, those given by name last
    keywords: tuple[str, ...] = ()

    def places(self, exported: Any) -> dict[str, int]:
        """The places in the call of the tensors that it is given, by their placeholders' names."""
        import torch
        from torch.export.graph_signature import InputKind

        specs = exported.graph_signature.input_specs
        given = iter([spec.arg.name for spec in specs if spec.kind is InputKind.USER_INPUT])
        values = [value for _, _, value in self._parameters()]
        return {next(given): place for place, value in enumerate(values) if isinstance(value, torch.Tensor)}

    def names(self, exported: Any) -> dict[str, str]:
        """The author's names of the tensors that the code uses, by their placeholders' names."""
        from torch.export.graph_signature import InputKind

        shown = [name for name, _, _ in self._parameters()]
        given = {placeholder: shown[place] for placeholder, place in self.places(exported).items()}
        others = [spec for spec in exported.graph_signature.input_specs if spec.kind is not InputKind.USER_INPUT]
        return given | {spec.arg.name: str(spec.target).removeprefix("inner.") for spec in others}

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
        others = [spec for spec in specs if spec.kind is not InputKind.USER_INPUT and spec.arg.name in inputs]
        return [*found, *(self._held(exported, spec.arg.name, str(spec.target)) for spec in others)]

    def _held(self, exported: Any, name: str, target: str) -> CallArgument:
        """A tensor of the module's, or one that the code writes out, whose values go along."""
        if target.startswith("inner."):
            return CallArgument(name, name, held=target.removeprefix("inner."))
        value = exported.constants[target]
        if value.numel() > MOST_VALUES:
            raise TaskError(
                f"it uses a tensor of {value.numel():,} numbers that is not an argument or buffer: pass it as an "
                "argument, or register it in a module"
            )
        return CallArgument(name, name, values=value.tolist())

    def _parameters(self) -> Iterator[tuple[str, Any, Any]]:
        """Names, defaults and values, in the function's order. What was not given and is not a number keeps its
        default, and is not offered."""
        signature = _signature(self.function)
        kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        named = [one for one in signature.parameters.values() if one.kind not in kinds] if signature else []
        first = len(self.example) - len(self.keywords)
        by_name = dict(zip(self.keywords, self.example[first:], strict=True))
        for place, value in enumerate(self.example[:first]):
            default = named[place].default if place < len(named) else None
            name = named[place].name if place < len(named) else f"given_{place}"
            yield name, default if isinstance(default, bool | int | float) else None, value
        for one in named[first:]:
            default = one.default if isinstance(one.default, bool | int | float) else None
            if one.name in by_name:
                yield one.name, default, by_name.pop(one.name)
            elif default is not None:
                yield one.name, default, default
        yield from ((name, None, value) for name, value in by_name.items())


def _text(exported: Any, tensors: tuple[torch.Tensor, ...], doc: str, called: _Called, *, within: bool) -> str:
    code = exported.graph_module.graph.python_code("self")
    source = code.src.replace(WIDENING, "working_dtype")
    unknown = set(code.globals) - KNOWN_NAMES - {WIDENING}
    if unknown or "self." in source:
        raise TaskError("it has control flow or calls that cannot be written to a file: write a task file")
    sizes = SizeNames(meant_equal(exported))
    arguments = _arguments(exported, tensors, sizes, within=within)
    trial = SizeTrial(exported, sizes)
    if ties := trial.ties():
        sizes = SizeNames(meant_equal(exported) | ties)
        arguments = _arguments(exported, tensors, sizes, within=within)
        trial = SizeTrial(exported, sizes, ties)
    if units := trial.units():
        sizes.count_in(units)
        arguments = _arguments(exported, tensors, sizes, within=within)
    if not sizes.values:
        raise TaskError("all sizes are fixed by its code, so there are no other sizes to test: write a task file")
    hidden = _ranges(sizes, exported.range_constraints, _reach(tensors), trial)
    if all(low == high for low, high in hidden.values()):
        raise TaskError("its code runs at the sizes of the example alone, so there are no other sizes to test")
    results = results_of(exported, called.places(exported))
    lines = [re.sub(r";  .*= None$", "", line) for line in source.splitlines() if line.startswith("    ")]
    body = [line for line in lines if line.strip() and not line.lstrip().startswith("return ")]
    floats = [argument.dtype for argument in arguments if argument.dtype in FLOATS]
    main = floats[0] if floats else "float32"
    computed = "\n".join(line for line in (*body, results.last_line) if line)
    declared = "\n".join(f"        {_declared(argument, main)}," for argument in arguments)
    call = called.arguments(exported, [argument.name for argument in arguments])
    given = "\n".join(f"        {_written(one)}," for one in call)
    text = HEAD.format(
        doc=doc.replace("\\", " ").replace('"', "'"),
        imports=_imports(computed, f"{declared}\n{given}"),
        arguments=", ".join(argument.name for argument in arguments),
        body=computed,
        inputs=declared,
        public=repr(sizes.values),
        hidden=repr(hidden),
        outputs=repr(results.names),
        dtype=main,
        call=given,
        further=_further(exported, results.form),
    )
    return _with_own_names(text, call)


def _with_own_names(text: str, call: Sequence[CallArgument]) -> str:
    """Arguments are called as the author calls them, where nothing else in the text or in the task's backward may be:
    torch.export numbers them."""
    taken = set(re.findall(r"\w+", re.sub(r"CallArgument\(.*\)", "", text)))
    own = {one.input: one.name for one in call if one.input is not None and GIVEN.fullmatch(one.input)}
    free = {given: name for given, name in own.items() if name not in taken and not name.startswith(IN_BACKWARD)}
    return GIVEN.sub(lambda match: free.get(match[0], match[0]), text)


def _further(exported: Any, form: Any) -> str:
    """What most tasks do not say: arguments that are changed in place, and results that are not just tensors."""
    changes = _changes(exported)
    inout = [node.name for node in exported.graph.nodes if node.op == "placeholder" and _storage(node) in changes]
    lines = [f"inout={tuple(inout)!r},"] if inout else []
    lines += [f"form={form!r},"] if form is not None else []
    return "".join(f"\n    {line}" for line in lines)


def _written(one: CallArgument) -> str:
    """As a task file has it, without what goes without saying."""
    if one.input is not None:
        held = f", held={one.held!r}" if one.held else ""
        values = f", values={one.values!r}" if one.values is not None else ""
        return f"CallArgument({one.name!r}, {one.input!r}{held}{values})"
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
    draws = sorted(declared & {"labels", "mask_rows"})
    lines += [f"from kernelwright.tasks.example_draws import {', '.join(draws)}"] if draws else []
    return "\n".join(lines) + (NONE_TYPE if "NoneType" in words else "")


def _ranges(sizes: SizeNames, constraints: Any, reach: int, trial: SizeTrial) -> dict[str, tuple[int, int]]:
    """Within what torch.export and the code allow. A whole number below `reach` may index any size that has it."""
    allowed = {str(symbol): (found.lower, found.upper) for symbol, found in constraints.items()}
    found = {}
    for symbol, name in sizes.symbols.items():
        value, unit = sizes.values[name], sizes.units.get(name, 1)
        low, high = max(1, value // SPREAD), value * SPREAD
        if value * unit >= reach:
            low = max(low, -(-reach // unit))
        least, most = allowed.get(symbol, (low, high))
        high = min(high, int(most) // unit) if most < high * unit else high
        low = max(low, -(-int(least) // unit))
        found[name] = trial.ends(symbol, low, high) if unit == 1 else (low, high)
    return found


def _arguments(exported: Any, tensors: tuple[torch.Tensor, ...], sizes: SizeNames, *, within: bool) -> list[_Argument]:
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
        found.append(_Argument(name, sizes.dims(shape), dtype, _draw(value, dtype, given=given, within=within)))
    return found


def _reach(tensors: tuple[torch.Tensor, ...]) -> int:
    whole = [int(t.max()) + 1 for t in tensors if t.numel() and not t.is_floating_point() and not t.is_complex()]
    return max(whole, default=0)


def _draw(value: torch.Tensor, dtype: str, *, given: bool, within: bool) -> str:
    """Inputs are drawn from every family; parameters and whole numbers within the range that they have."""
    from kernelwright.tasks.example_draws import draw_text
    from kernelwright.tasks.formats import arithmetic

    if dtype not in FLOATS:
        return draw_text(value)
    if given and not within:
        return ""
    value = arithmetic(value.detach())
    low, high = (float(value.min()), float(value.max())) if value.numel() else (0.0, 1.0)
    if low == high:
        low, high = ((0.0, 1.0) if given else (-0.1, 0.1)) if low == 0 else sorted((0.5 * low, 1.5 * low))
    return f"uniform({low!r}, {high!r})"


def _declared(argument: _Argument, main: str) -> str:
    parts = [repr(dim) for dim in argument.dims]
    if argument.draw:
        parts.append(f"draw={argument.draw}")
    if argument.dtype != main:
        parts.append(f"dtype={argument.dtype!r}")
    return f"{argument.name!r}: tensor({', '.join(parts)})"
