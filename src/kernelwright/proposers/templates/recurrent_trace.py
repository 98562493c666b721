"""Keeps recurrent layers whole while a reference is traced, where torch would write a step for every point in time.

A layer becomes a product for all times at once, which gives each gate its share of the input, and one operation that
goes through time: `kernelwright_templates::recurrent`. Operations that torch cannot functionalize are written as others
that it can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

CELLS = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}  # gates of each
STATES = {"lstm": 2}
_library: Any = torch.library.Library("kernelwright_templates", "DEF")  # type: ignore[no-untyped-call]
_library.define("recurrent(Tensor gates, Tensor[] states, Tensor weight, Tensor? bias, str cell, bool back) -> Tensor")


def _form(gates: Any, states: Sequence[Any], weight: Any, bias: Any, cell: str, back: bool) -> Any:
    """States × times × batch × units: every state at every time."""
    return gates.new_empty((len(states), gates.shape[0], gates.shape[1], states[0].shape[-1]))


_library.impl("recurrent", _form, "Meta")


class WholeLayers(TorchFunctionMode):
    """`device` stands for every device that the reference names: a trace has no data, and lies nowhere."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = torch.device(device)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = dict(kwargs or {})
        layer = _layer(func)
        if layer and len(args) == 9 and _plain(layer, args):
            return _unfolded(layer, *args)
        args = tuple(self.device if isinstance(one, torch.device) else one for one in args)
        named = {name: self.device if isinstance(one, torch.device) else one for name, one in given.items()}
        return func(*args, **named)


def _layer(func: Any) -> str:
    name = str(getattr(func, "overloadpacket", func).__name__)
    return name if name in CELLS and getattr(func, "_overloadname", "input") in ("input", "") else ""


def _plain(layer: str, args: tuple[Any, ...]) -> bool:
    """Not with a projection, which has a weight more, and not where values are dropped between layers."""
    given, states, params, biases, layers, dropout, train, both, _ = args
    first = states[0] if layer == "lstm" else states
    each = 4 if biases else 2
    whole = len(params) == layers * each * (2 if both else 1)
    tracked = any(isinstance(one, torch.Tensor) and one.requires_grad for one in (given, first, *params))
    return whole and not (train and dropout) and given.dim() == 3 and not tracked


def _unfolded(
    layer: str,
    given: torch.Tensor,
    states: Any,
    params: Sequence[torch.Tensor],
    biases: bool,
    layers: int,
    dropout: float,
    train: bool,
    both: bool,
    batch_first: bool,
) -> tuple[torch.Tensor, ...]:
    several = list(states) if layer == "lstm" else [states]
    value = given.transpose(0, 1) if batch_first else given
    waiting = iter(params)
    last: list[list[torch.Tensor]] = [[] for _ in several]
    for number in range(layers):
        sides = []
        for side in range(2 if both else 1):
            read, again = next(waiting), next(waiting)
            inner, outer = (next(waiting), next(waiting)) if biases else (None, None)
            begin = [state[number * (2 if both else 1) + side] for state in several]
            flat = torch.nn.functional.linear(value.reshape(-1, value.shape[2]), read, inner)
            gates = flat.view(value.shape[0], value.shape[1], -1)
            recurrent: Callable[..., torch.Tensor] = torch.ops.kernelwright_templates.recurrent
            all_states = recurrent(gates, begin, again, outer, layer, bool(side))
            sides.append(all_states[0])
            for place in range(len(several)):
                last[place].append(all_states[place, 0 if side else value.shape[0] - 1])
        value = torch.cat(sides, -1) if both else sides[0]
    result = value.transpose(0, 1) if batch_first else value
    return (result, *(torch.stack(one) for one in last))


class PlainOperations(TorchFunctionMode):
    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = str(getattr(func, "overloadpacket", func).__name__)
        given = dict(kwargs or {})
        if name == "fill_diagonal_" and args[0].dim() == 2 and not (args[2:] or given.get("wrap")):
            return _fill_diagonal(args[0], args[1] if len(args) > 1 else given["fill_value"])
        return func(*args, **given)


def _fill_diagonal(matrix: torch.Tensor, value: float) -> torch.Tensor:
    rows, cols = (torch.arange(size, device=matrix.device) for size in matrix.shape)
    return matrix.masked_fill_(rows[:, None] == cols, value)
