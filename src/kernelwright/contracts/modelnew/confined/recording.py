"""Records calls of a ModelNew, in the order in which they are asked for, each on a fresh module.

The answer has the PTX of Triton's kernels, the libraries in the order of their modules, those that are still to be
built, and for each call a record (contracts/recorded/record.py) or why there is none.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from kw_confined.driver import NeedsRegisters, RecordingState
from kw_confined.modules import MODULE_NAME, execute, with_what_is_missing
from kw_confined.recording import _prepare
from kw_confined.refusal import LONGEST, HostCodeRefused, Refusals, told
from kw_confined.tensors import StandInMemory
from torch._subclasses.fake_tensor import FakeTensorMode

from .around import put_right
from .construction import Construction, DoesNotFitError, arguments_of, bind, initial_values, move_to_device, place_of
from .inline import Libraries, NeedsLibrary
from .library import LibraryWatch
from .recorded_calls import StandInCalls

CLASS = "ModelNew"


def main(request_path: str, source: str, answer: str, folder: str) -> None:
    request = json.loads(Path(request_path).read_text())
    refusals = Refusals()
    state = RecordingState(request["device"], refusals, request["registers"])
    _prepare(state, request)
    calls = StandInCalls(request["recorder"], state, request["base"]["start"], request["base"]["gap"])
    libraries = Libraries({key: f"{folder}/{key}.so" for key in request["libraries"]}, calls, refusals)
    put_right(refusals, libraries.load_inline, libraries.load)
    found = [_recorded(one, Path(source), state, request) for one in request["calls"]]
    told_back = {
        "kernels": state.kernels.found,
        "libraries": calls.order,
        "wanted": list(libraries.wanted.values()),
        "calls": found,
    }
    Path(answer).write_text(json.dumps(told_back))


def _recorded(one: dict[str, Any], source: Path, state: RecordingState, request: dict[str, Any]) -> dict[str, Any]:
    state.refusals.first = ""
    try:
        return _call(one, source, state, request)
    except NeedsRegisters as error:
        return {"needs": [error.kernel]}
    except NeedsLibrary:
        return {"refused": "a library is not built yet"}
    except HostCodeRefused as error:
        return {"refused": state.refusals.first or str(error)}
    except DoesNotFitError as error:
        return {"refused": str(error)[:LONGEST]}
    except RecursionError:
        return {"refused": "host code recurses without end"}
    except Exception as error:
        said = state.refusals.first or told(error)
        return {"refused": with_what_is_missing(sys.modules.get(MODULE_NAME), error, said)[:LONGEST]}
    finally:
        state.memory = None
        sys.modules.pop(MODULE_NAME, None)


def _call(one: dict[str, Any], source: Path, state: RecordingState, request: dict[str, Any]) -> dict[str, Any]:
    memory = StandInMemory(request["base"]["start"], request["base"]["gap"], state.refusals)
    construction = Construction()
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        watch = LibraryWatch(memory, construction)
        with watch, torch.device("cuda"):
            module = execute(source, state.refusals)
            model = getattr(module, CLASS)(*initial_values(one["initial"]))
            move_to_device(model)
        held = bind(model, one["held"])
        values: dict[str, Any] = dict(one["numbers"])
        for tensor in one["tensors"]:
            name = tensor["name"]
            if name in held:
                construction.bound[place_of(held[name])] = name
            else:
                dtype = getattr(torch, tensor["dtype"])
                values[name] = torch.empty_strided(tensor["shape"], tensor["strides"], dtype=dtype, device="cuda")
            memory.argument(held.get(name, values.get(name)), tensor["kind"], name, tensor["bytes"])
        state.memory = memory
        watch.constructing = False
        with watch:
            returned = [_row_major(tensor) for tensor in _flat(model(*arguments_of(one, values)))]
            watch.finish()
        outputs = [
            {
                "address": memory.address(tensor) if tensor.numel() else 0,
                "dtype": str(tensor.dtype).removeprefix("torch."),
                "sizes": list(tensor.shape),
                "strides": list(tensor.stride()),
            }
            for tensor in returned
        ]
    if state.refusals.first:  # host code went on regardless
        raise HostCodeRefused(state.refusals.first[:LONGEST])
    return {"buffers": memory.buffers, "steps": memory.steps, "outputs": outputs}


def _row_major(tensor: torch.Tensor) -> torch.Tensor:
    """A result in another layout is copied, which counts as the candidate's work."""
    return tensor.contiguous()


def _flat(returned: Any) -> Any:
    if isinstance(returned, torch.Tensor):
        yield returned
    elif isinstance(returned, dict):
        yield from _flat(list(returned.values()))
    elif isinstance(returned, tuple | list):
        for one in returned:
            yield from _flat(one)
