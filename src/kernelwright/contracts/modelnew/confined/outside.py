"""Operators of torch and products of cuBLAS that an extension's host code asks for: this process has torch.

What they are is decided here, and a name that is not listed does not exist.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from kw_confined.refusal import Refusals

from .inline import BOOL, INTEGER, LIST, NONE, REAL, TENSOR, RawTensor, RawValue, numbered

ENTRY = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(RawValue), ctypes.c_int, ctypes.POINTER(RawTensor), ctypes.c_int
)
Tensors = Callable[[RawTensor], torch.Tensor]
Operator = Callable[..., torch.Tensor]


def _in_place(name: str) -> Operator:
    """A product that is added to a matrix, as cuBLAS does."""
    return lambda to, a, b, beta, alpha: getattr(to, name)(a, b, beta=beta, alpha=alpha)


OPERATORS: dict[str, Operator] = {
    **{name: getattr(torch, name) for name in ("exp", "log", "tanh", "sigmoid", "relu", "matmul", "mm", "bmm", "mv")},
    **{name: getattr(torch, name) for name in ("addmm", "baddbmm", "cat", "stack", "logsumexp", "cumsum", "cumprod")},
    **{name: getattr(torch, name) for name in ("softmax", "log_softmax", "layer_norm", "group_norm")},
    **{name: getattr(torch, name) for name in ("conv1d", "conv2d", "conv3d")},
    **{name: getattr(torch, name) for name in ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")},
    **{name: getattr(torch, name) for name in ("max_pool1d", "max_pool2d", "max_pool3d")},
    **{name: getattr(F, name) for name in ("gelu", "silu", "linear")},
    **{name: _in_place(name) for name in ("addmm_", "baddbmm_")},
}


class Outside:
    """Answers one library at a time. `tensor` gives the tensor at an address, `address` says where one lies."""

    def __init__(self, refusals: Refusals, tensor: Tensors, address: Callable[[torch.Tensor], int]) -> None:
        self._refusals, self._tensor, self._address = refusals, tensor, address
        self.failure: BaseException | None = None
        self.entry = ENTRY(self._answer)  # lives as long as the library may call it

    def _answer(self, name: bytes, values: Any, count: int, results: Any, room: int) -> int:
        try:
            made = self.carried_out(name.decode(), [self._value(values[place]) for place in range(count)])
            put(results[0], made, self._address(made) if made.numel() else 0)
        except BaseException as error:  # nothing may pass through C; it is raised again behind the call
            self.failure = self.failure or error
            return -1
        return 1

    def carried_out(self, name: str, given: Sequence[Any]) -> torch.Tensor:
        if name not in OPERATORS:
            raise self._refusals.refuse(f"an extension calls {name}, which nothing here carries out")
        return OPERATORS[name](*given)

    def _value(self, raw: RawValue) -> Any:
        if raw.kind == TENSOR:
            return self._tensor(raw.tensor)
        if raw.kind == LIST:
            return [self._value(raw.items[place]) for place in range(raw.count)]
        plain = {NONE: None, INTEGER: raw.integer, REAL: raw.real, BOOL: bool(raw.integer)}
        return plain[raw.kind]


def put(to: RawTensor, made: torch.Tensor, address: int) -> None:
    to.data, to.dtype, to.rank = address or None, numbered(made), made.dim()
    for axis, (size, stride) in enumerate(zip(made.shape, made.stride(), strict=True)):
        to.sizes[axis], to.strides[axis] = size, stride
