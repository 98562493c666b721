"""What a captured function gives back: names for the tensors that it computes, and the form that holds them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from kernelwright.tasks.dims import TaskError

if TYPE_CHECKING:
    import torch

Form = dict[str, Any]


@dataclass(frozen=True)
class CapturedResults:
    """`nodes` are the tensors that the task computes. No `form`: the function gives back these and nothing else."""

    nodes: tuple[Any, ...]
    form: Form | None

    @property
    def names(self) -> tuple[str, ...]:
        return ("out",) if len(self.nodes) == 1 else tuple(f"out{index}" for index in range(len(self.nodes)))

    @property
    def last_line(self) -> str:
        """Of the reference."""
        names = [node.name for node in self.nodes]
        return f"    return {names[0]}" if len(names) == 1 else f"    return ({', '.join(names)})" if names else ""


def results_of(exported: Any, arguments: Mapping[str, int]) -> CapturedResults:
    """`arguments` are the places in the call of the tensors that the function is given, by placeholder."""
    output = next(node for node in exported.graph.nodes if node.op == "output")
    given = {
        storage: node
        for node in exported.graph.nodes
        if node.op == "placeholder" and node.name in arguments and (storage := _storage(node)) is not None
    }
    nodes: list[Any] = []
    leaves = iter([_leaf(value, nodes, given, arguments) for value in output.args[0]])
    spec = exported.module_call_graph[0].signature.out_spec
    form = _form(spec, leaves)
    return CapturedResults(tuple(nodes), None if _is_plain(form, len(nodes)) else form)


def result_types(exported: Any) -> tuple[type, ...]:
    """The classes of named tuples among the results: a task file has their names, a caller wants the classes."""
    return tuple(dict.fromkeys(_named_types(exported.module_call_graph[0].signature.out_spec)))


def _named_types(spec: Any) -> Iterator[type]:
    if isinstance(spec.context, type) and hasattr(spec.context, "_fields"):
        yield spec.context
    for child in [] if spec.is_leaf() else spec.children():
        yield from _named_types(child)


def copy_views(exported: Any, arguments: Mapping[str, str], changed: Collection[int | None]) -> None:
    """Gives a result that is a view of an argument, or of a part of one, memory of its own: a kernel writes new
    tensors. A result that is all of an argument stays that argument. `arguments` are the author's names by placeholder;
    `changed` is the memory that a call changes, of which a copy would not follow later changes."""
    import torch

    graph = exported.graph_module.graph
    output = next(node for node in graph.nodes if node.op == "output")
    holders = {_storage(node): node for node in graph.nodes if node.op == "placeholder" and node.name in arguments}

    def copied(value: Any) -> Any:
        if not isinstance(value, torch.fx.Node) or value.op == "placeholder" or _storage(value) is None:
            return value
        held, holder = value.meta["val"], holders.get(_storage(value))
        if holder is None or _is_all_of(held, holder.meta["val"]):
            return value
        if _storage(value) in changed:
            name = arguments[holder.name]
            raise TaskError(f"it returns a view of {name!r}, which it changes in place: return a copy, as by clone()")
        with graph.inserting_before(output):
            layout = {"memory_format": torch.contiguous_format}
            copy = graph.call_function(torch.ops.aten.clone.default, (value,), layout)
        copy.meta["val"] = held.clone(memory_format=torch.contiguous_format)
        return copy

    output.args = (type(output.args[0])(copied(value) for value in output.args[0]),)


def _leaf(value: Any, nodes: list[Any], given: Mapping[int, Any], arguments: Mapping[str, int]) -> Form:
    import torch

    if value is None:
        return {"none": True}
    if isinstance(value, bool | int | float):
        return {"number": value}
    held = getattr(value, "meta", {}).get("val")
    if not isinstance(held, torch.Tensor):
        raise TaskError("it returns a number that depends on sizes: return tensors, or write a task file")
    argument = given.get(_storage(value) or 0)
    if argument is not None and _is_all_of(held, argument.meta["val"]):
        return {"argument": arguments[argument.name]}
    if value.op == "placeholder":
        raise TaskError("it returns a parameter or buffer of its own: return what it computes alone")
    if value not in nodes:
        nodes.append(value)
    return {"output": nodes.index(value)}


def _storage(node: Any) -> int | None:
    import torch

    value = node.meta.get("val")
    return int(value.untyped_storage()._cdata) if isinstance(value, torch.Tensor) else None


def _is_all_of(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Not a view of a part, nor of another shape."""
    same = str(tuple(one.shape)) == str(tuple(other.shape)) and str(one.stride()) == str(other.stride())
    return same and one.dtype == other.dtype


def _form(spec: Any, leaves: Any) -> Form:
    """From torch's description of nested values."""
    import torch

    if spec.is_leaf():
        found: Form = next(leaves)
        return found
    parts = [_form(child, leaves) for child in spec.children()]
    if spec.type is tuple:
        return {"tuple": parts}
    if spec.type is list:
        return {"list": parts}
    if isinstance(spec.type, type) and issubclass(spec.type, dict):
        keys = spec.context if isinstance(spec.context, list) else list(spec.context[-1])
        if all(isinstance(key, str | int) for key in keys):
            return {"dict": [list(pair) for pair in zip(keys, parts, strict=True)]}
    if hasattr(spec.context, "_fields"):
        return _named(spec.context.__name__, spec.context._fields, parts)
    name = getattr(spec.type, "__name__", str(spec.type))
    if spec.type is not None and getattr(torch.return_types, name, None) is spec.type:  # such as torch.topk's
        return _named(f"torch.return_types.{name}", cast("Any", spec.type).__match_args__, parts)
    raise TaskError(f"it returns a {name}: return tensors in tuples, lists or dicts")


def _named(name: str, fields: Sequence[str], parts: Sequence[Form]) -> Form:
    return {"named": [name, [list(pair) for pair in zip(fields, parts, strict=True)]]}


def _is_plain(form: Form, count: int) -> bool:
    """One tensor, a tuple of different ones, or nothing."""
    outputs: Sequence[Form] = form.get("tuple", [form])
    if form == {"none": True}:
        return True
    return outputs == [{"output": place} for place in range(count)] and (count > 1 or "output" in form)
