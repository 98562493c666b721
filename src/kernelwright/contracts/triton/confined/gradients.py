"""torch.autograd.grad and backward on tensors without data: the graph that torch made, walked here node by node.

Torch's own engine would hand work to a thread of the GPU, and where there is no GPU it stops. What the nodes compute is
seen like all that host code computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

Place = tuple[Any, int]
"""A node of the graph and which of its forward's results is meant."""


def stand_in_for_autograd(tensors: type[torch.Tensor]) -> None:
    torch.autograd.grad, torch.autograd.backward = grad, backward  # type: ignore[assignment]
    tensors.backward = lambda self, gradient=None, *_, **__: backward(self, gradient)  # type: ignore[method-assign]


def grad(outputs: Any, inputs: Any, grad_outputs: Any = None, *_: Any, **named: Any) -> tuple[torch.Tensor | None, ...]:
    wanted = _listed(inputs)
    arrived = _walked(_listed(outputs), _listed(grad_outputs))
    found = tuple(arrived.get(_place_of(one)) for one in wanted)
    if any(one is None for one in found) and not named.get("allow_unused"):
        raise RuntimeError("One of the differentiated Tensors appears to not have been used in the graph.")
    return found


def backward(tensors: Any, grad_tensors: Any = None, *_: Any, **__: Any) -> None:
    for (node, _number), gradient in _walked(_listed(tensors), _listed(grad_tensors)).items():
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            leaf.grad = gradient if leaf.grad is None else leaf.grad + gradient


def _listed(given: Any) -> list[Any]:
    return [] if given is None else list(given) if isinstance(given, tuple | list) else [given]


def _place_of(tensor: torch.Tensor) -> Place:
    if tensor.grad_fn is not None:
        return tensor.grad_fn, tensor.output_nr
    if not tensor.requires_grad:
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    with torch.enable_grad():
        return tensor.view_as(tensor).grad_fn.next_functions[0][0], 0  # type: ignore[union-attr]


def _walked(outputs: Sequence[torch.Tensor], given: Sequence[torch.Tensor | None]) -> dict[Place, torch.Tensor]:
    """The gradient that arrives at each place of the graph."""
    arrived: dict[Place, torch.Tensor] = {}

    def add(place: Place, gradient: torch.Tensor | None) -> None:
        if gradient is not None:
            arrived[place] = arrived[place] + gradient if place in arrived else gradient

    with torch.no_grad():
        for number, output in enumerate(outputs):
            own = given[number] if number < len(given) else None
            add(_place_of(output), torch.ones_like(output) if own is None else own)
        for node in _in_order([_place_of(output)[0] for output in outputs]):
            if hasattr(node, "variable") or not any(place[0] is node for place in arrived):
                continue
            found = _listed(_applied(node, arrived))
            for (before, number), gradient in zip(node.next_functions, found, strict=False):
                if before is not None:
                    add((before, number), gradient)
    return arrived


def _applied(node: Any, arrived: dict[Place, torch.Tensor]) -> Any:
    """What a node makes of the gradients of its forward's results. Those without a use are zero."""
    forms = node._input_metadata
    given: list[torch.Tensor | None] = [arrived.get((node, number)) for number in range(len(forms))]
    written_in_python = isinstance(node, torch.autograd.function.BackwardCFunction)
    if not written_in_python or getattr(node, "materialize_grads", True):
        given = [_zeros(form) if one is None else one for one, form in zip(given, forms, strict=True)]
    return node.apply(*given) if written_in_python else node(*given)


def _zeros(form: Any) -> torch.Tensor:
    return torch.zeros(tuple(form.shape), dtype=form.dtype, device=form.device)


def _in_order(roots: Sequence[Any]) -> list[Any]:
    """Every node after all those that use its results."""
    done: list[Any] = []
    seen: set[Any] = set()
    waiting: list[tuple[Any, bool]] = [(root, False) for root in roots]
    while waiting:
        node, left = waiting.pop()
        if left:
            done.append(node)
        elif node not in seen:
            seen.add(node)
            waiting.append((node, True))
            waiting += [(before, False) for before, _ in node.next_functions if before is not None]
    return done[::-1]
