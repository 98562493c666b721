"""Functions of an extension on stand-ins: the recorder of extensions, as a library in this process, notes what they
ask of the CUDA runtime; memory is that of the one record."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Sequence
from typing import Any

import torch
from kw_confined.driver import RecordingState
from kw_confined.refusal import LONGEST

from .inline import BY_NUMBER, LibraryArguments, LoadedLibrary, RawTensor, called, handed_back, loaded
from .outside import Outside

FIRST_LIBRARY = 512  # as toolchain/record.py numbers modules


class StandInCalls:
    """`order` has the keys of the libraries as the recorder numbers their modules."""

    def __init__(self, recorder: str, state: RecordingState, start: int, gap: int) -> None:
        self._state, self._start, self._gap = state, start, gap
        self._path, self._recorder = recorder, None
        self.order: list[str] = []
        self._known: list[torch.Tensor] = []  # in whose memory the tensors of the call in hand lie
        self._outside = RecordedOutside(self, state)

    def _entry(self) -> Any:
        if self._recorder is None:
            device = self._state.device
            found: Any = ctypes.CDLL(self._path, mode=ctypes.RTLD_GLOBAL)
            found.kw_recorder_taken.restype = ctypes.c_char_p
            found.kw_recorder_refused.restype = ctypes.c_char_p
            found.kw_recorder_begin.argtypes = (ctypes.c_ulonglong, ctypes.c_int, ctypes.c_ulonglong)
            found.kw_recorder_go_on.argtypes = (ctypes.c_ulonglong, ctypes.c_ulonglong)
            found.kw_recorder_prepare(
                *(ctypes.c_ulonglong(self._start), ctypes.c_ulonglong(self._gap), device["multiprocessors"]),
                *(device["shared"], device["l2"], device["capability"]),
            )
            self._recorder = found
        return self._recorder

    def __call__(self, library: LoadedLibrary, function: str, given: Sequence[Any]) -> Any:
        memory, recorder = self._state.in_call, self._entry()
        if memory.stream:
            raise memory.refusals.refuse("a function of an extension is called on a side stream")
        if library.key not in self.order:
            loaded(library, self._outside.entry)
            self.order.append(library.key)
        values = LibraryArguments(given, memory.address, memory.refusals)
        recorder.kw_recorder_begin(memory._next, memory.streams, len(memory.steps))
        self._known, self._outside.failure = _tensors(given), None
        failure: RuntimeError | None = None
        try:
            results, listed = called(loaded(library), function, values)
        except RuntimeError as error:
            failure = error
        if self._outside.failure is not None:
            raise self._outside.failure
        refused = recorder.kw_recorder_refused()
        if refused:
            raise memory.refusals.refuse(f"{function}: {refused.decode(errors='replace')}"[:LONGEST])
        if failure is not None:
            raise memory.refusals.refuse(f"{function} raised an exception: {failure}"[:LONGEST])
        self.take()
        return handed_back([self.tensor(one) for one in results], listed)

    def take(self) -> None:
        """What the library has asked for so far, into the one record."""
        memory, taken = self._state.in_call, json.loads(self._entry().kw_recorder_taken())
        self._known += [self._allocation(one) for one in taken["buffers"]]
        memory._next, memory.streams = taken["next"], taken["streams"]
        memory.steps += [_of_library(step) for step in taken["steps"]]

    def go_on(self, made: torch.Tensor) -> None:
        """The library's call continues, after steps that were not its own."""
        memory = self._state.in_call
        self._known.append(made)
        memory.address(made)
        self._entry().kw_recorder_go_on(memory._next, len(memory.steps))

    def _allocation(self, buffer: dict[str, Any]) -> torch.Tensor:
        memory = self._state.in_call
        made = torch.empty(buffer["bytes"], dtype=torch.uint8, device="cuda")
        memory.buffers.append(buffer)
        storage = made.untyped_storage()
        memory._places[storage._cdata] = buffer["address"]
        memory._kept.append(storage)
        return made

    def tensor(self, raw: RawTensor) -> torch.Tensor:
        """A view of the buffer that the address lies in."""
        memory = self._state.in_call
        dtype = BY_NUMBER.get(raw.dtype)
        sizes, strides = list(raw.sizes[: raw.rank]), list(raw.strides[: raw.rank])
        if dtype is None:
            raise memory.refusals.refuse("a function of an extension returns a tensor of no known type")
        if raw.data is None:
            return torch.empty_strided(sizes, strides, dtype=dtype, device="cuda")
        for one in self._known:
            storage = one.untyped_storage()
            begin = memory._places.get(storage._cdata, 0)
            if begin <= raw.data < begin + max(1, storage.nbytes()):
                found = torch.empty(0, dtype=dtype, device="cuda")
                offset, rest = divmod(raw.data - begin, found.element_size())
                if rest:
                    break
                return found.set_(storage, offset, sizes, strides)
        raise memory.refusals.refuse("a function of an extension returns a tensor of no memory that is known")


class RecordedOutside(Outside):
    """Operators become steps between those of the library."""

    def __init__(self, calls: StandInCalls, state: RecordingState) -> None:
        super().__init__(state.refusals, calls.tensor, lambda tensor: state.in_call.address(tensor))
        self._calls = calls

    def carried_out(self, name: str, given: Sequence[Any]) -> torch.Tensor:
        made = super().carried_out(name, given)
        self._calls.go_on(made)
        return made

    def _answer(self, *given: Any) -> int:
        self._calls.take()
        return super()._answer(*given)


def _of_library(step: dict[str, Any]) -> dict[str, Any]:
    return {**step, "module": FIRST_LIBRARY + step["module"]} if step["op"] == "launch" else step


def _tensors(given: Any) -> list[torch.Tensor]:
    if isinstance(given, torch.Tensor):
        return [given]
    return [one for part in given for one in _tensors(part)] if isinstance(given, list | tuple) else []
