"""Records calls of a Triton module, in the order in which they are asked for, each on a fresh module.

The answer has the PTX of the kernels and for each call a record (contracts/recorded/record.py) or why there is none.
"""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from triton.experimental import gluon  # noqa: F401 - which a first compile imports
from triton.runtime import cache, driver

from . import tuning
from .arithmetic import Arithmetic
from .cuda import stand_in
from .driver import NeedsRegisters, RecordingDriver, RecordingState, compile_to_ptx
from .gradients import stand_in_for_autograd
from .modules import MODULE_NAME, call, execute, with_what_is_missing
from .refusal import LONGEST, HostCodeRefused, Refusals, told
from .tensors import StandInMemory, Watch, stand_in_for_cuda

LATER_CALLS = 2
OTHER_WORK = "host code does other work in a later call than in its first: set in each call what it needs"


cache.triton_key()  # reads all of Triton once, here while the recorder waits for its candidate


def main(request_path: str, source: str, answer: str) -> None:
    request = json.loads(Path(request_path).read_text())
    refusals = Refusals()
    state = RecordingState(request["device"], refusals, request["registers"])
    _prepare(state, request)
    calls = [_recorded(one, Path(source), state, request) for one in request["calls"]]
    Path(answer).write_text(json.dumps({"kernels": state.kernels.found, "calls": calls}))


def _prepare(state: RecordingState, request: dict[str, Any]) -> None:
    compile_to_ptx(request["ptx_version"])
    driver.set_active(RecordingDriver(state))
    stand_in(state.device, state.refusals, lambda: state.memory)
    # A torch with CUDA would allocate on the GPU that `stand_in` says is there, before it makes the first fake tensor.
    fake_tensor.init_gpu_context = lambda device: None  # type: ignore[assignment]
    FakeTensor.data_ptr = lambda self: state.in_call.address(self)  # type: ignore[method-assign,arg-type]
    stand_in_for_cuda(state.refusals, FakeTensor)
    stand_in_for_autograd(FakeTensor)
    FakeTensor.is_cuda = property(lambda self: self.device.type == "cuda")  # type: ignore[assignment]
    tuning.choose_by(request["choices"])


def _recorded(one: dict[str, Any], source: Path, state: RecordingState, request: dict[str, Any]) -> dict[str, Any]:
    state.refusals.first = ""
    try:
        return _call(one, source, state, request)
    except NeedsRegisters as error:
        return {"needs": [error.kernel]}
    except HostCodeRefused as error:
        return {"refused": state.refusals.first or str(error)}
    except RecursionError:
        return {"refused": "host code recurses without end"}
    except Exception as error:
        said = state.refusals.first or told(error)
        return {"refused": with_what_is_missing(sys.modules.get(MODULE_NAME), error, said)[:LONGEST]}
    finally:
        state.memory = None
        sys.modules.pop(MODULE_NAME, None)


def _call(one: dict[str, Any], source: Path, state: RecordingState, request: dict[str, Any]) -> dict[str, Any]:
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    memory = StandInMemory(request["base"]["start"], request["base"]["gap"], state.refusals)
    with mode:
        watch = Watch(memory, Arithmetic(memory))
        with watch:
            module = execute(source, state.refusals)
        values: dict[str, Any] = dict(one["numbers"])
        for tensor in one["tensors"]:
            dtype = getattr(torch, tensor["dtype"])
            made = torch.empty_strided(tensor["shape"], tensor["strides"], dtype=dtype, device="cuda")
            memory.argument(made, tensor["kind"], tensor["name"], tensor["bytes"])
            values[tensor["name"]] = made
        state.memory = memory
        with watch:
            first = _once(module, one, values, memory)
            buffers = list(memory.buffers)
            for _ in range(LATER_CALLS):  # a user calls it again, too
                memory.steps, memory.stream, memory.streams = [], 0, 0
                again = _once(module, one, values, memory)
                if memory.without_addresses(again) != memory.without_addresses(first):
                    raise HostCodeRefused(OTHER_WORK)
    if state.refusals.first:  # host code went on regardless
        raise HostCodeRefused(state.refusals.first[:LONGEST])
    return {"buffers": buffers, **first}


def _once(
    module: types.ModuleType, one: dict[str, Any], values: dict[str, Any], memory: StandInMemory
) -> dict[str, list[Any]]:
    """The steps and the outputs of one call."""
    outputs = [
        {
            "address": memory.address(tensor) if tensor.numel() else 0,
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "sizes": list(tensor.shape),
            "strides": list(tensor.stride()),
        }
        for tensor in call(module, one, values)
    ]
    return {"steps": memory.steps, "outputs": outputs}
