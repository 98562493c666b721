"""What a captured function gives back: names for the tensors that it computes, and the form that holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
        return {
            "named": [spec.context.__name__, [list(pair) for pair in zip(spec.context._fields, parts, strict=True)]]
        }
    raise TaskError(
        f"it returns a {getattr(spec.type, '__name__', spec.type)}: return tensors in tuples, lists or dicts"
    )


def _is_plain(form: Form, count: int) -> bool:
    """One tensor, a tuple of different ones, or nothing."""
    outputs: Sequence[Form] = form.get("tuple", [form])
    if form == {"none": True}:
        return True
    return outputs == [{"output": place} for place in range(count)] and (count > 1 or "output" in form)
