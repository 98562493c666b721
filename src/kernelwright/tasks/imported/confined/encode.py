"""Writes operators and their arguments as plain data: of an exported graph and of a tape alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import torch

from kernelwright.tasks.imported.confined.tape import Draws, TapeStep, Untraceable, draws, is_fake, is_random, view_of

Data = Any
MOST_LITERALS = 1 << 16
SYMBOLIC_MODULES = ("_operator", "operator", "math", "torch")
FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def op_name(target: Any) -> str:
    """`aten.add.Tensor`, or `sym.mul` for arithmetic on sizes. The other side decides what it takes."""
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    module, name = getattr(target, "__module__", ""), getattr(target, "__name__", "")
    if module in SYMBOLIC_MODULES or name.startswith("sym_"):
        return f"sym.{name}"
    raise Untraceable(f"it uses {getattr(target, '__name__', target)}, which cannot be written down")


def value(given: Any, node: Callable[[Any], int | None]) -> Data:
    """`node` gives the place of what an earlier step made, or None for a plain value."""
    place = node(given)
    if place is not None:
        return {"node": place}
    if given is None or isinstance(given, bool | int):
        return given
    if isinstance(given, float):
        return given if math.isfinite(given) else {"number": str(given)}
    if isinstance(given, str):
        return {"text": given}
    if isinstance(given, torch.dtype):
        return {"dtype": dtype_name(given)}
    if isinstance(given, torch.device):
        return {"device": "same"}
    if isinstance(given, torch.memory_format):
        return {"memory_format": str(given).removeprefix("torch.")}
    if isinstance(given, torch.layout):
        return None
    if isinstance(given, list | tuple):
        return {"items": [value(item, node) for item in given]}
    raise Untraceable(f"it uses a value of type {type(given).__name__}, which cannot be written down")


def initial(given: Any) -> Data:
    """What a constructor takes; None where something of it is not a number, a text or a list of those."""
    try:
        return _initial(given) if isinstance(given, list | tuple) else None
    except TypeError:
        return None


def fixed(inputs: Sequence[Any]) -> list[Data]:
    """Those of a call's arguments that are not tensors."""
    found = []
    for place, given in enumerate(inputs):
        with suppress(TypeError):
            found.append({"place": place, "value": _initial(given)})
    return found


def _initial(given: Any) -> Data:
    if given is None or isinstance(given, bool | int):
        return given
    if isinstance(given, float):
        return given if math.isfinite(given) else {"number": str(given)}
    if isinstance(given, str):
        return {"text": given}
    if isinstance(given, list | tuple):
        return {"kind": "tuple" if isinstance(given, tuple) else "list", "items": [_initial(one) for one in given]}
    raise TypeError


def call(target: Any, args: Any, kwargs: Any, node: Callable[[Any], int | None]) -> Data:
    options = {name: value(given, node) for name, given in kwargs.items() if not _of_no_matter(name)}
    return {"kind": "call", "op": op_name(target), "args": [value(given, node) for given in args], "kwargs": options}


def _of_no_matter(option: str) -> bool:
    return option in ("pin_memory", "layout", "non_blocking", "generator")


def literals(tensor: torch.Tensor) -> Data:
    if tensor.numel() > MOST_LITERALS:
        raise Untraceable(f"a constant of {tuple(tensor.shape)} is given by its values, which are too many")
    found = tensor.detach().cpu().reshape(-1).tolist()
    written = [str(one) if isinstance(one, float) and not math.isfinite(one) else one for one in found]
    return {"kind": "literals", "dtype": dtype_name(tensor.dtype), "shape": list(tensor.shape), "values": written}


class RecipeWriter:
    """The steps that make a tensor, as nodes of their own.

    `own` is the shape that becomes the argument's, whatever it is in another workload.
    """

    def __init__(self, first: int = 0, own: tuple[int, ...] | None = None) -> None:
        self.nodes: list[Data] = []
        self._first, self._own = first, own
        self._places: dict[Any, int] = {}

    def add(self, steps: list[TapeStep]) -> None:
        for step in steps:
            if is_random(step):
                self._add_random(step)
            else:
                self._put(call(step.func, step.args, step.kwargs, self._place), step)

    def place(self, tensor: torch.Tensor) -> int:
        found = self._places.get(view_of(tensor))
        if found is None:
            raise Untraceable("a tensor comes from steps that were not seen")
        return found

    def _put(self, data: Data, step: TapeStep) -> None:
        self.nodes.append(data)
        place = self._first + len(self.nodes) - 1
        if isinstance(step.result, torch.Tensor):
            self._places[view_of(step.result)] = place
            return
        for index, made in enumerate(step.made):  # several results
            self.nodes.append({"kind": "call", "op": "sym.getitem", "args": [{"node": place}, index]})
            self._places[view_of(made)] = self._first + len(self.nodes) - 1

    def _add_random(self, step: TapeStep) -> None:
        drawn, made = draws(step), step.made[0]
        if drawn is None:
            raise Untraceable(f"its values are drawn by {step.name}, which is not known here")
        self.nodes.append(self._drawn(drawn, made))
        place = self._first + len(self.nodes) - 1
        if not step.changed:
            self._places[view_of(made)] = place
            return
        args = [{"node": self.place(step.changed[0])}, {"node": place}]
        self._put({"kind": "call", "op": "aten.copy_.default", "args": args}, step)

    def _drawn(self, drawn: Draws, made: torch.Tensor) -> Data:
        shape = tuple(map(int, made.shape))
        named = {"kind": "drawn", "of": drawn.of, "low": drawn.low, "high": drawn.high, "dtype": dtype_name(made.dtype)}
        return named if shape == self._own else {**named, "shape": list(shape)}

    def _place(self, given: Any) -> int | None:
        if not isinstance(given, torch.Tensor):
            return None
        if not is_fake(given):
            self.nodes.append(literals(given))
            return self._first + len(self.nodes) - 1
        return self.place(given)
