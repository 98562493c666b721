"""Runs a ModelNew on real values, as a runner does: go, call, done. Kernels run on the emulator or in Triton's own
interpreter, and operators of torch by torch, on the CPU.

    GO DONE LAYOUT REQUEST MODULE [without]

Tensors are those of the arena; host code is told that they are on the GPU that is built for. `without` leaves out the
candidate's own kernels, which shows whether they matter. What is wrong is said in one line that begins with the mark of
the emulator.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from kw_confined.interpreting import OnTheHost, _give_up, _hand_over  # first: it chooses the interpreter

import torch  # isort: skip
from kw_confined import tuning
from kw_confined.cuda import stand_in
from kw_confined.driver import RecordingDriver, RecordingState
from kw_confined.guarded import Allocations, read_layout
from kw_confined.interpreted import as_on_a_gpu
from kw_confined.modules import execute
from kw_confined.refusal import HostCodeRefused, Refusals, told
from torch.utils._python_dispatch import TorchDispatchMode
from triton.runtime import driver, interpreter

from .around import put_right
from .construction import Construction, DoesNotFitError, arguments_of, bind, initial_values, place_of, tensors_in
from .emulated_calls import EmulatedCalls
from .inline import Libraries
from .recording import CLASS, _flat

_UNSEEN = ("empty", "view", "alias", "detach", "as_strided")


def main(go: str, done: str, layout: str, request_path: str, source: str, without: str = "") -> None:
    request = json.loads(Path(request_path).read_text())
    with os.fdopen(int(layout)) as file:
        arguments = read_layout(file.read(), request["dtypes"])
    refusals = Refusals()
    state = RecordingState(request["device"], refusals, {})
    driver.set_active(RecordingDriver(state))
    stand_in(state.device, refusals, lambda: None)
    tuning.choose_by(request["choices"])
    as_on_a_gpu()
    if without:
        interpreter.InterpretedFunction.run = lambda *_, **__: None
    torch.Tensor.is_cuda = property(lambda self: True)  # type: ignore[assignment]
    _autocast()
    calls = EmulatedCalls(refusals, without_kernels=bool(without))
    libraries = Libraries(request["libraries"], calls, refusals)
    put_right(refusals, libraries.load_inline, libraries.load)
    while True:
        os.write(int(done), b"d")
        if os.read(int(go), 1) != b"r":
            return
        _one_call(request, arguments, Path(source), refusals, calls)


def _one_call(
    request: dict[str, Any], arguments: list[Any], source: Path, refusals: Refusals, calls: EmulatedCalls
) -> None:
    calls.allocations = allocations = Allocations()
    names: list[str] = request["names"]
    values = dict(zip(names, arguments, strict=True))
    one, construction = request["call"], Construction()
    try:
        with OnTheHost(allocations), torch.no_grad():
            with Constructing(construction):
                module = execute(source, refusals)
                model = getattr(module, CLASS)(*initial_values(one["initial"]))
            held = bind(model, one["held"])
            for name, tensor in held.items():
                construction.bound[place_of(tensor)] = name
                tensor.data.copy_(values[name].reshape(tensor.shape))
            construction.again()
            returned = list(_flat(model(*arguments_of(one, values))))
        _hand_over(returned, request, values)
        changed = [name for name, tensor in held.items() if _bytes(tensor) != _bytes(values[name])]
        if changed:
            _give_up(f"the call changes {changed[0]}, a parameter of the problem")
    except HostCodeRefused as error:
        _give_up(refusals.first or str(error))
    except DoesNotFitError as error:
        _give_up(str(error))
    except Exception as error:
        _give_up(told(error))
    if allocations.overrun():
        _give_up("a kernel writes past the end of a tensor")
    del returned, module, model, held, construction
    allocations.free()


class Constructing(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes what a constructor computes."""

    def __init__(self, construction: Construction) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._construction = construction

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if tensors_in(result) and not func.is_view and not func._schema.name.startswith(("aten::empty", "prim")):
            self._construction.note(func, args, kwargs, result)
        return result


def _autocast() -> None:
    """What is computed with fewer bits on a GPU is so here, too."""
    original = torch.amp.autocast_mode.autocast.__init__

    def begin(self: Any, device_type: str, dtype: Any = None, *rest: Any, **named: Any) -> None:
        if device_type == "cuda":
            device_type, dtype = "cpu", dtype or torch.float16
        original(self, device_type, dtype, *rest, **named)

    torch.amp.autocast_mode.autocast.__init__ = begin  # type: ignore[method-assign]


def _bytes(tensor: torch.Tensor) -> bytes:
    return tensor.detach().reshape(-1).view(torch.uint8).numpy().tobytes()
