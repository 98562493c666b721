"""Devices and generators that a stranger's code names: nothing is on a GPU here, and nothing is drawn."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

CPU = torch.device("cpu")
_GENERATOR, _TO = torch.Generator, torch.nn.Module.to
DEVICE = re.compile(r"(cuda|hip|xpu|mps)(:\d+)?")
STAYING = {torch.Tensor.cuda, torch.Tensor.cpu}


class OnCpu(TorchFunctionMode):
    """Every device becomes the CPU, under which tensors without data live; generators are left out."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in STAYING:
            return args[0]
        given = {name: _placed(value) for name, value in (kwargs or {}).items() if name != "generator"}
        if "pin_memory" in given:
            given["pin_memory"] = False
        if func in (torch.Tensor.to, torch.full, torch.arange, torch.Tensor.new_tensor, torch.tensor):
            args = tuple(_placed(value) for value in args)
        return func(*args, **given)


def _placed(value: Any) -> Any:
    if isinstance(value, torch.device):
        return CPU
    return CPU if isinstance(value, str) and DEVICE.fullmatch(value) else value


class Generator:
    """In place of torch's: on the CPU, whatever device it is asked for. What is drawn has no values."""

    def __new__(cls, device: Any = None) -> Any:
        return _GENERATOR(CPU)


def module_to(module: torch.nn.Module, *args: Any, **kwargs: Any) -> torch.nn.Module:
    """A module that only moves stays as it is: torch cannot swap parameters without data."""
    dtype = torch._C._nn._parse_to(*map(_placed, args), **{name: _placed(one) for name, one in kwargs.items()})[1]
    return module if dtype is None else _TO(module, dtype)


def module_stays(module: torch.nn.Module, *_: Any, **__: Any) -> torch.nn.Module:
    return module
