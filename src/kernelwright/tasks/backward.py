"""Derives the backward of a task: vjp(inputs, saved, upstream gradients) -> gradients, by autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from kernelwright.tasks.declarations import Input, Saved, TensorInput, Upstream
from kernelwright.tasks.drawing import on_any_arguments
from kernelwright.tasks.model import Task, TaskError
from kernelwright.tasks.reference import Argument, call_reference, fault, guarded


@dataclass(frozen=True)
class Differentiable:
    """The places of the arguments and outputs between which gradients flow."""

    arguments: tuple[int, ...]
    outputs: tuple[int, ...]


def derive_backward(task: Task) -> Task:
    """The backward as a task of its own, on the same workloads; TaskError where there is none."""
    if task.direction == "backward":
        raise fault(task, f"{task.name} is already a backward: second derivatives are not derived")
    if task.inout:
        raise fault(task, f"{task.name} has no backward: it changes {', '.join(task.inout)} in place")
    between = _differentiable(task)
    try:
        return _derived(task, between)
    except TaskError as error:
        raise fault(task, f"{task.name} has no backward: {error}") from error


def _derived(task: Task, between: Differentiable) -> Task:
    names = list(task.inputs)
    inputs: dict[str, Input] = dict(task.inputs)
    inputs |= {name: Saved(task, function) for name, function in task.saved.items()}
    upstream = {f"grad_{task.outputs[i]}": Upstream(task, task.outputs[i]) for i in between.outputs}
    for name in upstream:
        if name in inputs:
            raise TaskError(f"input {name!r} has the name of an upstream gradient: rename it")
    inputs |= upstream
    return replace(
        task,
        reference=task.vjp or _vjp(task.reference, between, len(names), len(task.saved)),
        inputs=inputs,
        name=f"{task.name}:backward",
        doc=f"Gradients of {task.name}. {task.doc}".strip(),
        outputs=tuple(f"grad_{names[i]}" for i in between.arguments),
        comparators={},
        baselines={},
        saved={},
        vjp=None,
        direction="backward",
        pullback=TwoGoes(task.reference, between, len(names), len(task.saved)),
    )


@dataclass(frozen=True)
class TwoGoes:
    """The forward, which keeps whatever it likes for later, and then the gradients: for a baseline alone, since a
    candidate is given no more than the signature says."""

    forward: Callable[..., Any]
    between: Differentiable
    forward_count: int
    saved_count: int

    def begin(self, forward: Callable[..., Any], arguments: Sequence[Any]) -> Callable[[], tuple[torch.Tensor, ...]]:
        complete = list(arguments[: self.forward_count])
        leaves = [complete[place].detach().requires_grad_() for place in self.between.arguments]
        for place, leaf in zip(self.between.arguments, leaves, strict=True):
            complete[place] = leaf
        with torch.enable_grad():
            outputs = _chosen(forward(*complete), self.between)
        upstream = tuple(arguments[self.forward_count + self.saved_count :])
        return lambda: torch.autograd.grad(outputs, leaves, upstream)


def _vjp(
    forward: Callable[..., Any], between: Differentiable, forward_count: int, saved_count: int
) -> Callable[..., tuple[torch.Tensor, ...]]:
    """The reference of a backward. Saved tensors are for kernels; autograd computes what it needs again."""

    def vjp(*arguments: Any) -> tuple[torch.Tensor, ...]:
        upstream = arguments[forward_count + saved_count :]

        def varying(*primals: torch.Tensor) -> tuple[torch.Tensor, ...]:
            complete = list(arguments[:forward_count])
            for place, primal in zip(between.arguments, primals, strict=True):
                complete[place] = primal
            return _chosen(forward(*complete), between)

        return _pull_back(varying, [arguments[place] for place in between.arguments], upstream)

    vjp.__wrapped__ = forward  # type: ignore[attr-defined]  # so that the author's source is shown
    return vjp


def _chosen(returned: Any, between: Differentiable) -> tuple[torch.Tensor, ...]:
    outputs = returned if isinstance(returned, tuple | list) else (returned,)
    return tuple(outputs[place] for place in between.outputs)


def _pull_back(
    function: Callable[..., tuple[torch.Tensor, ...]],
    primals: list[torch.Tensor],
    upstream: tuple[torch.Tensor, ...],
) -> tuple[torch.Tensor, ...]:
    """Two forms, so that neither baseline is handicapped.

    torch.compile breaks its graph at autograd.grad and makes one graph of torch.func.vjp, which in turn costs
    eager PyTorch about 0.1 ms more per call.
    """
    gradients: tuple[torch.Tensor, ...]
    if torch.compiler.is_compiling():
        gradients = torch.func.vjp(function, *primals)[1](tuple(upstream))
        return gradients
    with torch.enable_grad():
        leaves = [primal.detach().requires_grad_() for primal in primals]
        gradients = torch.autograd.grad(function(*leaves), leaves, upstream)
    return gradients


def _differentiable(task: Task) -> Differentiable:
    """Found by differentiating once, on the first public workload and without data where that is possible."""
    return on_any_arguments(task, task.public_workloads()[0], partial(_probe, task))


def _probe(task: Task, arguments: dict[str, Argument]) -> Differentiable:
    leaves: dict[int, torch.Tensor] = {}
    for place, (name, declared) in enumerate(task.inputs.items()):
        value = arguments[name]
        if isinstance(value, torch.Tensor) and value.is_floating_point() and _wanted(declared):
            leaves[place] = arguments[name] = value.requires_grad_()
    if not leaves:
        raise fault(task, f"{task.name} has no backward: no floating-point input has gradient=True")
    with torch.enable_grad():
        results = call_reference(task, arguments)
        outputs = {i: results[name] for i, name in enumerate(task.outputs) if results[name].requires_grad}
        if not outputs:
            raise fault(task, f"{task.name} has no backward: none of its outputs is differentiable")
        gradients = guarded(task, "differentiating the reference raised", _gradients, outputs, leaves)
    for place, gradient in zip(leaves, gradients, strict=True):
        if gradient is None:
            name = list(task.inputs)[place]
            raise fault(task, f"no output depends on {name!r}: declare it tensor(..., gradient=False)")
    return Differentiable(tuple(leaves), tuple(outputs))


def _gradients(outputs: dict[int, torch.Tensor], leaves: dict[int, torch.Tensor]) -> tuple[torch.Tensor | None, ...]:
    upstream = [torch.ones_like(output) for output in outputs.values()]
    return torch.autograd.grad(list(outputs.values()), list(leaves.values()), upstream, allow_unused=True)


def _wanted(declared: Input) -> bool:
    return isinstance(declared, TensorInput) and declared.gradient
