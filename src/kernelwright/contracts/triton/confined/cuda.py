"""What host code may ask torch.cuda: the device that is built for, and streams, which the record keeps in order."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable
from typing import Any

import torch

from .refusal import Refusals
from .tensors import StandInMemory


class StandInEvent:
    """`recorded`: the stream, and how many steps there were; None before, when nothing waits for it."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.recorded: tuple[int, int] | None = None


class StandInStream:
    """Numbered as the record numbers them; 0 is the one that the caller waits for."""

    def __init__(self, number: int, memory: Callable[[], StandInMemory | None]) -> None:
        self.number, self._memory = number, memory

    @property
    def cuda_stream(self) -> int:
        return self.number

    def wait_stream(self, other: StandInStream) -> None:
        self.wait_event(other.record_event())

    def record_event(self, event: StandInEvent | None = None) -> StandInEvent:
        event, found = event or StandInEvent(), self._memory()
        event.recorded = None if found is None else (self.number, len(found.steps))
        return event

    def wait_event(self, event: StandInEvent) -> None:
        found = self._memory()
        if found is not None and event.recorded is not None and event.recorded[0] != self.number:
            on, until = event.recorded
            found.steps.append({"op": "wait", "stream": self.number, "on": on, "until": until})

    def synchronize(self) -> None: ...


def stand_in(device: dict[str, Any], refusals: Refusals, memory: Callable[[], StandInMemory | None]) -> None:
    """Puts stand-ins into torch.cuda of this process."""
    main = StandInStream(0, memory)
    capability = divmod(device["capability"], 10)
    properties = types.SimpleNamespace(
        name="NVIDIA GPU",
        major=capability[0],
        minor=capability[1],
        multi_processor_count=device["multiprocessors"],
        total_memory=64 << 30,
        warp_size=32,
        max_threads_per_multi_processor=2048,
        max_threads_per_block=1024,
        L2_cache_size=device["l2"],
        shared_memory_per_block=49152,
        shared_memory_per_block_optin=device["shared"],
        shared_memory_per_multiprocessor=device["shared"] + 1024,
        regs_per_multiprocessor=65536,
    )

    def new_stream(*_: Any, **__: Any) -> StandInStream:
        found = memory()
        if found is None:
            return main
        found.streams += 1
        return StandInStream(found.streams, memory)

    @contextlib.contextmanager
    def on_stream(stream: StandInStream | None) -> Any:
        found = memory()
        if found is None or stream is None:
            yield
            return
        before, found.stream = found.stream, stream.number
        try:
            yield
        finally:
            found.stream = before

    def current(_: Any = None) -> StandInStream:
        found = memory()
        return main if found is None or found.stream == 0 else StandInStream(found.stream, memory)

    def timer(*_: Any, **__: Any) -> Any:
        raise refusals.refuse("host code times a kernel: there is no clock and no GPU where it runs")

    class Guard(contextlib.nullcontext[None]):
        def __init__(self, *_: Any) -> None:
            super().__init__()

    class Event(StandInEvent):
        elapsed_time = timer

        def record(self, stream: StandInStream | None = None) -> None:
            (stream or current()).record_event(self)

        def wait(self, stream: StandInStream | None = None) -> None:
            (stream or current()).wait_event(self)

        def synchronize(self) -> None: ...

        def query(self) -> bool:
            return True

    for name, value in {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "_lazy_init": lambda: None,
        "init": lambda: None,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda _: None,
        "device": Guard,
        "get_device_properties": lambda _=None: properties,
        "get_device_capability": lambda _=None: capability,
        "get_device_name": lambda _=None: properties.name,
        "synchronize": lambda _=None: None,
        "empty_cache": lambda: None,
        "current_stream": current,
        "default_stream": lambda _=None: main,
        "Stream": new_stream,
        "stream": on_stream,
        "Event": Event,
        "is_bf16_supported": lambda *_: capability >= (8, 0),
        "is_current_stream_capturing": lambda: False,
    }.items():
        setattr(torch.cuda, name, value)
