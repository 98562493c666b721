"""Programs with steps of torch's, for a driver that is played."""

from __future__ import annotations

import json
from typing import Any

from kernelwright.contracts.layout import BASE, SPAN, Access, lay_out
from kernelwright.contracts.model import GpuBuilt, LaunchedKernel
from kernelwright.contracts.program import (
    Argument,
    Block,
    Copy,
    LibraryStep,
    Memset,
    Pointer,
    Program,
    ProgramStep,
    TensorView,
)
from tests.gpu.test_played_driver import COUNT, NUMBER, SIGNATURE

X, OUT, FIRST, SECOND = range(4)
LAYOUT = lay_out(SIGNATURE, (("first", 4 * COUNT), ("second", 4 * COUNT)))
FILLS = ("received", "output", "poison", "poison")


def view(block: int, count: int = COUNT) -> TensorView:
    return TensorView(block, 0, "float32", (count,), (1,))


def torchs(name: str, read: int, made: int, *more: Any, overload: str = "default", **options: Any) -> LibraryStep:
    """`more` are further arguments of the operator."""
    call = {"kind": "call", "op": f"aten.{name}.{overload}", "args": [{"node": 0}, *more], "kwargs": options}
    return LibraryStep(name, json.dumps(call), (view(read),), (), (view(made),))


def launch(name: str, read: int, made: int) -> ProgramStep:
    pointers = [Argument("00" * 8, (Pointer(0, block, 0),)) for block in (read, made)]
    return ProgramStep(0, name, (4, 1, 1), (256, 1, 1), (*pointers, NUMBER))


def program(*steps: ProgramStep | Memset | Copy | LibraryStep) -> Program:
    places = (*LAYOUT.tensors, *LAYOUT.private)
    blocks = tuple(
        Block(place.name, place.base, place.bytes, place.offset, place.extent, place.access is Access.write, fill)
        for place, fill in zip(places, FILLS, strict=True)
    )
    return Program(BASE, SPAN, blocks, steps, modules=1)


def built(*steps: ProgramStep | Memset | Copy | LibraryStep, ours: tuple[str, ...] = ()) -> GpuBuilt:
    """`ours` are kernels that are not the candidate's own."""
    made = program(*steps)
    kernels = tuple(LaunchedKernel(step.function, own=step.function not in ours) for step in made.launches)
    return GpuBuilt(made, (b"cubin",), "digest", kernels, cached=False)
