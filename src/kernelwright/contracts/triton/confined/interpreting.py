"""Runs a Triton module on real values with Triton's own interpreter, as a runner does: go, call, done.

    GO DONE LAYOUT REQUEST MODULE

Tensors are those of the arena, on the CPU; host code is told that they are on the GPU that is built for. What is wrong
is said in one line that begins with the mark of the emulator.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

import torch
from torch.overrides import TorchFunctionMode
from triton.runtime import driver

from . import tuning
from .cuda import stand_in
from .driver import RecordingDriver, RecordingState
from .guarded import Allocations, read_layout
from .interpreted import as_on_a_gpu
from .modules import call, execute
from .refusal import HostCodeRefused, Refusals, told
from .tensors import EMPTIES, FILLS, FULLS

SAYS = "emulator: "
FAULT = 98
_MAKING = EMPTIES | FULLS | set(FILLS) - {"zero_"} - {"fill_"}


class OnTheHost(TorchFunctionMode):
    """What is asked for on a GPU is made on the CPU, between guards."""

    def __init__(self, allocations: Allocations) -> None:
        super().__init__()
        self._allocations = allocations

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {name: _host(value) for name, value in (kwargs or {}).items()}
        args = tuple(_host(value) for value in args)
        name = getattr(func, "__name__", "")
        if name == "cuda":
            return args[0]
        if name not in _MAKING or name in ("fill_", "fill", "zero_"):
            return func(*args, **given)
        shape = func(*args, **{**given, "device": "meta"})
        made = self._allocations.like(shape)
        if name in EMPTIES:
            return made
        value = FILLS[name] if name in FILLS else given.get("fill_value", args[-1])
        return made.fill_(value)


def _host(value: Any) -> Any:
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    return "cpu" if isinstance(value, str) and value.split(":")[0] == "cuda" else value


def main(go: str, done: str, layout: str, request_path: str, source: str) -> None:
    request = json.loads(Path(request_path).read_text())
    with os.fdopen(int(layout)) as file:
        arguments = read_layout(file.read(), request["dtypes"])
    refusals = Refusals()
    state = RecordingState(request["device"], refusals, {})
    driver.set_active(RecordingDriver(state))
    stand_in(state.device, refusals, lambda: None)
    tuning.choose_by(request["choices"])
    as_on_a_gpu()
    torch.Tensor.is_cuda = property(lambda self: True)  # type: ignore[assignment]
    while True:
        os.write(int(done), b"d")
        if os.read(int(go), 1) != b"r":
            return
        _one_call(request, arguments, Path(source), refusals)


def _one_call(request: dict[str, Any], arguments: list[Any], source: Path, refusals: Refusals) -> None:
    allocations = Allocations()
    names: list[str] = request["names"]
    values = dict(zip(names, arguments, strict=True))
    try:
        with OnTheHost(allocations):
            module = execute(source, refusals)
            returned = call(module, request["call"], values)
        _hand_over(returned, request, values)
    except HostCodeRefused as error:
        _give_up(str(error))
    except Exception as error:
        _give_up(told(error))
    if allocations.overrun():
        _give_up("a kernel writes past the end of a tensor that host code allocated")
    del returned, module
    allocations.free()


def _hand_over(returned: list[torch.Tensor], request: dict[str, Any], values: dict[str, Any]) -> None:
    outputs, changed = request["outputs"], request["changed"]
    if changed and len(returned) == len(outputs) + len(changed):
        returned = returned[len(changed) :]
    if len(returned) < len(outputs) or (not outputs and len(returned) > len(changed)):
        _give_up(f"the host code returns {len(returned)} tensors and the task has {len(outputs)}")
    for name, result in zip(outputs, returned, strict=False):
        target = values[name]
        found = result.reshape(()) if target.dim() == 0 and tuple(result.shape) == (1,) else result
        if (found.dtype, found.shape) != (target.dtype, target.shape):
            said = f"{str(found.dtype).removeprefix('torch.')}{list(found.shape)}"
            wanted = f"{str(target.dtype).removeprefix('torch.')}{list(target.shape)}"
            _give_up(f"{name}: the host code returns {said}; the task has {wanted}")
        target.copy_(found)


def _give_up(why: str) -> None:
    print(f"{SAYS}{why}", file=sys.stderr, flush=True)
    os._exit(FAULT)
