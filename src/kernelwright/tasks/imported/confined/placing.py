"""Devices and generators that a stranger's code names: nothing is on a GPU here, and nothing is drawn."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

CPU = torch.device("cpu")
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
    named = isinstance(value, str) and value.split(":")[0] in ("cuda", "hip", "xpu", "mps")
    return CPU if named else value


class Generator:
    """In place of torch's: what is drawn is recorded, and has no values."""

    def __init__(self, device: Any = None) -> None:
        self.device = CPU

    def manual_seed(self, seed: int) -> Generator:
        return self

    def seed(self) -> int:
        return 0

    def initial_seed(self) -> int:
        return 0

    def get_state(self) -> None:
        return None

    def set_state(self, state: Any) -> None:
        return None
