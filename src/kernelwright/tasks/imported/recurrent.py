"""Recurrent layers with their shapes looked at first.

On a CPU torch hands LSTMs to a library that is told the shapes which the arguments should have, and reads and writes by
those: a short hidden state or weight is memory of the process. Where only shapes are asked for, the hundreds of steps
of a layer are not gone through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def _check(
    gates: int,
    given: Any,
    states: Sequence[Any],
    params: Sequence[Any],
    biases: bool,
    layers: int,
    bidirectional: bool,
    batch_first: bool,
) -> None:
    ways = 2 if bidirectional else 1
    if given.dim() != 3 or any(state.dim() != 3 for state in states) or not 0 < layers <= len(params):
        raise ValueError("a recurrent layer needs an input and states of three dimensions, and weights for each layer")
    out, hidden = states[0].shape[2], states[-1].shape[2]
    batch = given.shape[0 if batch_first else 1]
    wanted: list[tuple[Any, ...]] = []
    for layer in range(layers):
        read = given.shape[2] if layer == 0 else out * ways
        for _ in range(ways):
            wanted += [(gates * hidden, read), (gates * hidden, out)]
            wanted += [(gates * hidden,)] * 2 if biases else []
            wanted += [(out, hidden)] if len(states) == 2 and out != hidden else []
    sizes = [(layers * ways, batch, size) for size in (out, hidden)][: len(states)]
    if len(params) != len(wanted) or any(tuple(p.shape) != shape for p, shape in zip(params, wanted, strict=True)):
        raise ValueError("the weights of a recurrent layer do not have the shapes that its input and states ask for")
    if any(tuple(state.shape) != shape for state, shape in zip(states, sizes, strict=True)):
        raise ValueError("the states of a recurrent layer do not have the shape that its input asks for")


RECURRENT_OPERATORS: dict[str, Any] = {name: getattr(torch.ops.aten, name).input for name in GATES}


def shapes_of(given: Any, hx: Any, bidirectional: bool) -> Any:
    """What a layer gives, without data: the output, and the last states."""
    states = tuple(hx) if isinstance(hx, list | tuple) else (hx,)
    out = given.new_empty((given.shape[0], given.shape[1], (2 if bidirectional else 1) * states[0].shape[2]))
    return (out, *(state.new_empty(state.shape) for state in states))


def _unseen(given: Any) -> bool:
    """Whether the single steps are not needed: there are no values, and nothing but the shapes is recorded."""
    if torch.compiler.is_compiling() or not (given.device.type == "meta" or isinstance(given, FakeTensor)):
        return False
    return all(isinstance(mode, FakeTensorMode) for mode in _get_current_dispatch_mode_stack())


def lstm(
    given: Any,
    hx: Any,
    params: Any,
    has_biases: Any,
    num_layers: Any,
    dropout: Any,
    train: Any,
    bidirectional: Any,
    batch_first: Any,
) -> Any:
    if len(hx) != 2:
        raise ValueError("an LSTM has two states")
    _check(GATES["lstm"], given, hx, params, has_biases, num_layers, bidirectional, batch_first)
    if _unseen(given):
        return shapes_of(given, hx, bidirectional)
    return torch.ops.aten.lstm.input(
        given, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first
    )


def _with_one_state(name: str) -> Callable[..., Any]:
    function = getattr(torch.ops.aten, name).input

    def checked(
        given: Any,
        hx: Any,
        params: Any,
        has_biases: Any,
        num_layers: Any,
        dropout: Any,
        train: Any,
        bidirectional: Any,
        batch_first: Any,
    ) -> Any:
        _check(GATES[name], given, (hx,), params, has_biases, num_layers, bidirectional, batch_first)
        if _unseen(given):
            return shapes_of(given, hx, bidirectional)
        return function(given, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)

    checked.__name__ = checked.__qualname__ = name
    return checked


gru = _with_one_state("gru")
rnn_tanh = _with_one_state("rnn_tanh")
rnn_relu = _with_one_state("rnn_relu")
RECURRENT: dict[str, Callable[..., Any]] = {"lstm": lstm, "gru": gru, "rnn_tanh": rnn_tanh, "rnn_relu": rnn_relu}
