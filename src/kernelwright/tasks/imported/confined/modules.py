"""Modules as they are before they are exported: tensors that are plain attributes, and state that a call changes.

Also recurrent layers, whose shapes are known without going through every step: torch would unroll them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch._C import DispatchKey

from kernelwright.tasks.imported.confined.case import Leaf, ReferenceCase
from kernelwright.tasks.imported.recurrent import RECURRENT_OPERATORS, shapes_of

KEYS = (DispatchKey.CompositeImplicitAutograd, DispatchKey.Autograd)


def register_plain_tensors(model: Any) -> None:
    """`self.hidden = torch.randn(...)` becomes a buffer, as which export knows it."""
    for module in model.modules() if isinstance(model, torch.nn.Module) else ():
        for name, value in list(vars(module).items()):
            if isinstance(value, torch.Tensor) and name.isidentifier():
                delattr(module, name)
                module.register_buffer(name, value, persistent=False)


def with_state_as_inputs(case: ReferenceCase) -> ReferenceCase | None:
    """A module that keeps a state for one batch holds for that batch alone: given as an input, the state varies with
    it. None where it keeps none of that size."""
    model = case.function
    if not isinstance(model, torch.nn.Module) or not case.tensors or not case.tensors[0].value.dim():
        return None
    batch = int(case.tensors[0].value.shape[0])
    state = {name: value for name, value in model.named_buffers() if batch > 1 and batch in map(int, value.shape)}
    if not state:
        return None

    axes = {
        name: tuple(None if int(size) == batch else int(size) for size in value.shape) for name, value in state.items()
    }
    leaves = [Leaf(name, value, part="buffer", axes=axes[name]) for name, value in state.items()]
    inputs = (*case.inputs, *state.values())
    function = _Stateful(model, list(state), len(case.inputs))
    return replace(case, function=function, inputs=inputs, leaves=(*case.leaves, *leaves), notes=("state_as_input",))


class _Stateful(torch.nn.Module):
    def __init__(self, inner: torch.nn.Module, names: list[str], count: int) -> None:
        super().__init__()
        self.kept_module, self._names, self._count = inner, names, count

    def forward(self, *given: Any) -> Any:
        held = dict(zip(self._names, given[self._count :], strict=True))
        return torch.func.functional_call(self.kept_module, held, given[: self._count])


@contextmanager
def state_kept(model: Any) -> Iterator[None]:
    """What a call assigns to the module's buffers is undone, so that it can be exported again."""
    modules = list(model.modules()) if isinstance(model, torch.nn.Module) else []
    before = [(dict(vars(module)), dict(module._buffers)) for module in modules]
    try:
        yield
    finally:
        for module, (attributes, buffers) in zip(modules, before, strict=True):
            vars(module).clear()
            vars(module).update(attributes)
            module._buffers.clear()
            module._buffers.update(buffers)


@contextmanager
def recurrent_layers_whole() -> Iterator[None]:
    """Of a recurrent layer the result's shape is made, and not each of its hundreds of steps."""
    kept = []
    for operator in RECURRENT_OPERATORS.values():
        kept.append((operator, dict(operator.py_kernels)))
        for key in KEYS:
            operator.py_kernels[key] = _shaped(operator)
        operator._dispatch_cache.clear()
    try:
        yield
    finally:
        for operator, kernels in kept:
            operator.py_kernels.clear()
            operator.py_kernels.update(kernels)
            operator._dispatch_cache.clear()


def _shaped(operator: Any) -> Callable[..., Any]:
    def layer(*given: Any, **options: Any) -> Any:
        names = [argument.name for argument in operator._schema.arguments]
        named = {**dict(zip(names, given, strict=False)), **options}
        return shapes_of(named["input"], named["hx"], named["bidirectional"])

    return layer
