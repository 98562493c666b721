"""Sees every operator of torch that a ModelNew calls: memory and copies as steps of the program, small arithmetic as
kernels of ours, and everything else as a step that torch itself carries out."""

from __future__ import annotations

import json
import math
from typing import Any

import torch
from kw_confined.arithmetic import Arithmetic
from kw_confined.tensors import COPYING, EMPTIES, FILLS, FULLS, READS, VIEWS, StandInMemory
from torch.utils._python_dispatch import TorchDispatchMode

from .construction import HOST, RANDOM, Construction, draws_numbers, tensors_in, written_by

DTYPES = frozenset(["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"])
_OF_NO_MATTER = frozenset({"device", "layout", "pin_memory"})


class LibraryWatch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """`constructing` until the call begins: what runs before is noted, and done in the call where it is needed."""

    def __init__(self, memory: StandInMemory, construction: Construction) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._memory, self._construction = memory, construction
        self._arithmetic = Arithmetic(memory)
        self.constructing = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.split("::")[1]
        if name in VIEWS or name in EMPTIES or name == "set_" or func._schema.name.startswith("prim"):
            return func(*args, **kwargs)
        given = tensors_in([args, kwargs])
        if name in READS:
            return self._read(func, args, kwargs, given)
        result = func(*args, **kwargs)  # shapes and dtypes, without values
        made = tensors_in(result)
        if all(one.device.type == "cpu" for one in (*given, *made)):
            return result
        mixed = name in COPYING and len({one.device.type for one in (*given, *made)}) > 1
        if mixed and any(one.device.type == "cpu" for one in made):
            raise self._memory.refusals.refuse("host code copies values between host and device")
        if self.constructing:
            self._construction.note(func, args, kwargs, result, HOST if mixed else "")
        elif mixed:
            raise self._memory.refusals.refuse("host code copies values between host and device")
        else:
            self._record(func, args, kwargs, result)
        return result

    def _read(self, func: Any, args: Any, kwargs: Any, given: list[torch.Tensor]) -> Any:
        """A number that the code itself wrote is known; a value of a tensor never is."""
        name = func._schema.name.split("::")[1]
        if given and all(one.device.type == "cpu" and getattr(one, "constant", None) is not None for one in given):
            return func(*args, **kwargs)
        raise self._memory.refusals.refuse(f"host code {READS[name]}: no value of a tensor reaches host code")

    def finish(self) -> None:
        """Puts what ran before the call, as far as it is needed, in front of the call's own steps."""
        memory = self._memory
        needed = self._construction.needed(set(memory._places))
        if isinstance(needed, str):
            raise memory.refusals.refuse(
                f"forward uses a tensor that its constructor fills with {needed}, and that is not a parameter of the "
                "problem"
            )
        own, memory.steps = memory.steps, []
        stream, memory.stream = memory.stream, 0
        for one in needed:
            self._record(one.func, one.args, one.kwargs, one.result)
        memory.steps += own
        memory.stream = stream

    def _record(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        name = func._schema.name.split("::")[1]
        if draws_numbers(func) and not _without_chance(args, kwargs, func):
            raise self._memory.refusals.refuse(f"host code draws {RANDOM} ({name})")
        if name in FILLS or name in FULLS:
            value = _filling(name, args, kwargs)
            if not isinstance(value, torch.Tensor):
                if not self._memory.memset(result, float(value) if not isinstance(value, bool) else int(value)):
                    self._arithmetic.fill(result, value)
                return
        elif self._arithmetic.do(name, args, kwargs, result):
            return
        self._library(func, args, kwargs, result)

    def _library(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        memory = self._memory
        if func.namespace != "aten":
            raise memory.refusals.refuse(f"host code calls {func._schema.name}, which is not an operator of torch")
        tensors: list[torch.Tensor] = []
        options = {name: value for name, value in kwargs.items() if name not in _OF_NO_MATTER}
        call = {
            "kind": "call",
            "op": str(func),
            "args": [_encoded(value, tensors) for value in args],
            "kwargs": {name: _encoded(value, tensors) for name, value in options.items()},
        }
        written = {id(one) for one in written_by(func, args, kwargs)}
        step = {
            "op": "library",
            "call": json.dumps(call),
            "tensors": [self._tensor(one) for one in tensors],
            "written": [place for place, one in enumerate(tensors) if id(one) in written],
            "results": [self._tensor(one) for one in tensors_in(result)],
            "stream": memory.stream,
        }
        memory.steps.append(step)

    def _tensor(self, tensor: torch.Tensor) -> dict[str, Any]:
        dtype = str(tensor.dtype).removeprefix("torch.")
        if dtype not in DTYPES or tensor.layout != torch.strided:
            raise self._memory.refusals.refuse(f"an operator of torch takes or makes {dtype}, which no record can have")
        on_device = tensor.device.type == "cuda"
        if not on_device and not (tensor.dim() == 0 and getattr(tensor, "constant", None) is not None):
            raise self._memory.refusals.refuse("an operator of torch takes a tensor of the CPU")
        if not on_device:
            raise self._memory.refusals.refuse("an operator of torch takes a number as a tensor: write it as a number")
        address = self._memory.address(tensor) if tensor.numel() else 0
        return {"address": address, "dtype": dtype, "sizes": list(tensor.shape), "strides": list(tensor.stride())}


def _filling(name: str, args: Any, kwargs: Any) -> Any:
    if name in FILLS:
        return FILLS[name]
    place = 2 if name == "new_full" else 1
    return args[place] if len(args) > place else kwargs.get("fill_value", kwargs.get("value", 0))


def _without_chance(args: Any, kwargs: Any, func: Any) -> bool:
    """Attention and recurrent layers draw numbers for their dropout alone."""
    for place, argument in enumerate(func._schema.arguments):
        if argument.name in ("dropout_p", "dropout"):
            return (args[place] if place < len(args) else kwargs.get(argument.name, 0)) in (0, 0.0)
    return False


def _encoded(value: Any, tensors: list[torch.Tensor]) -> Any:
    """As an operator's call in a traced problem (tasks/imported/traced.py): a tensor is the number of one."""
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return {"node": len(tensors) - 1}
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"number": str(value)}
    if isinstance(value, str):
        return {"text": value}
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if isinstance(value, torch.memory_format):
        return {"memory_format": str(value).removeprefix("torch.")}
    if isinstance(value, list | tuple):
        return {"items": [_encoded(one, tensors) for one in value]}
    return None
