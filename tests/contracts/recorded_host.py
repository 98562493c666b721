"""Recorded host code without a recorder: a Python function that says what is launched, as a toolchain would.

Hundreds of recordings cost nothing, and a test knows what each of them has to be.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kernelwright.contracts import Candidate
from kernelwright.contracts import program as made
from kernelwright.contracts.layout import BASE, SPAN, lay_out
from kernelwright.contracts.model import BuildFailure, GpuBuild, GpuBuilt, PortableBuild, PortableRequest
from kernelwright.contracts.portable import NamedSize, PortableKernel
from kernelwright.contracts.recorded.portable import build_portable
from kernelwright.contracts.symbolic import SymbolicSignature, SymbolicTensor
from kernelwright.contracts.target import HOPPER
from kernelwright.tasks.model import Signature

SIGNATURE = SymbolicSignature(
    (NamedSize("rows", 1, 9000), NamedSize("cols", 16, 5000)),
    (
        SymbolicTensor("x", "float32", ("rows", "cols"), "input"),
        SymbolicTensor("out", "float32", ("rows", "cols"), "output"),
    ),
)
LISTED = ({"rows": 64, "cols": 256}, {"rows": 100, "cols": 1000})
Sizes = Mapping[str, int]
HostCode = Callable[[int, int], "Call"]


@dataclass
class Call:
    """What a function of host code launches: `steps` are launches and memsets, `memory` what it allocates."""

    steps: list[Any] = field(default_factory=list)
    memory: dict[str, int] = field(default_factory=dict)

    def launch(self, module: str, grid: tuple[int, ...], block: int, *arguments: Any, **changes: Any) -> Call:
        self.steps.append((module, (*grid, 1, 1)[:3], (block, 1, 1), arguments, changes))
        return self

    def fill(self, name: str, size: int) -> Call:
        self.steps.append((name, size))
        return self


class Toolchain:
    """Builds what the host code says, and notes where it was asked."""

    compiler = "none"

    def __init__(self, host: HostCode) -> None:
        self.host = host
        self.asked: list[tuple[int, int]] = []

    def build(self, candidate: Candidate, signatures: tuple[Signature, ...]) -> GpuBuild | BuildFailure:
        built = []
        for signature in signatures:
            rows, cols = signature.tensors[0].shape
            self.asked.append((rows, cols))
            try:
                built.append(built_at(self.host(rows, cols), signature))
            except AssertionError:
                return BuildFailure((f"host code refuses {rows} rows",))
        return GpuBuild(tuple(built), 0.0)

    def refill(self) -> None: ...

    def close(self) -> None: ...


def built_at(call: Call, signature: Signature) -> GpuBuilt:
    layout = lay_out(signature, tuple(call.memory.items()))
    roles = {one.name: one.role for one in signature.tensors}
    fills = {"input": "received", "output": "output"}
    blocks = tuple(
        made.Block(p.name, p.base, p.bytes, p.offset, p.extent, True, fills.get(roles.get(p.name, ""), "poison"))
        for p in (*layout.tensors, *layout.private)
    )
    numbers = {block.name: number for number, block in enumerate(blocks)}
    modules = list(dict.fromkeys(step[0] for step in call.steps if len(step) > 2))
    steps: list[Any] = []
    for step in call.steps:
        if len(step) == 2:
            steps.append(made.Memset(numbers[step[0]], 0, step[1]))
            continue
        module, grid, block, arguments, changes = step
        given = tuple(_argument(one, numbers) for one in arguments)
        steps.append(made.ProgramStep(modules.index(module), "kernel", grid, block, given, **changes))
    program = made.Program(BASE, SPAN, blocks, tuple(steps), (), len(modules))
    return GpuBuilt(program, tuple(b"\x7fELF" + module.encode() for module in modules), "", (), cached=False)


def _argument(given: Any, numbers: dict[str, int]) -> made.Argument:
    if isinstance(given, str):
        return made.Argument(bytes(8).hex(), (made.Pointer(0, numbers[given], 0),))
    if isinstance(given, bytes):
        return made.Argument(given.hex(), (made.Pointer(0, numbers["x"], 0),))
    return made.Argument(struct.pack("<f" if isinstance(given, float) else "<i", given).hex())


def portable(host: HostCode, **changes: Any) -> tuple[PortableBuild, Toolchain]:
    toolchain = Toolchain(host)
    listed = tuple((sizes, SIGNATURE.at(sizes)) for sizes in LISTED)
    request = PortableRequest("task", SIGNATURE, listed, HOPPER, **changes)
    found = build_portable(toolchain, Candidate("triton", host.__name__), request)
    assert isinstance(found, PortableBuild), found
    assert PortableKernel.read(found.kernel.text()) == found.kernel
    return found, toolchain


def at_sizes(host: HostCode, sizes: Sizes) -> GpuBuilt:
    return built_at(host(sizes["rows"], sizes["cols"]), SIGNATURE.at(sizes))


def up(value: int, step: int) -> int:
    return -(-value // step)


def tiled(rows: int, cols: int) -> Call:
    """A memset and two kernels, with memory of their own."""
    call = Call(memory={"partial": 4 * rows * up(cols, 512)}).fill("partial", 4 * rows * up(cols, 512))
    call.launch("split", (up(cols, 512), up(rows, 8)), 256, "x", "partial", rows, cols)
    return call.launch("join", (up(rows * cols, 1024),), 256, "partial", "out", 1.0 / cols, rows * cols)
