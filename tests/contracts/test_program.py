"""A program travels as JSON and can say what a recording needs; the launcher that reads it loads little.

`recorded` is what a contract would do whose host code is recorded (docs/decisions/0023): a record of launches at
addresses becomes a program over blocks. The records below are those of a Triton softmax and a Triton layernorm.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from typing import Any

from kernelwright.contracts.layout import BASE, SPAN, lay_out
from kernelwright.contracts.program import Argument, Block, Memset, Pointer, Program, ProgramStep, TensorMap
from kernelwright.tasks.model import Signature, TensorSpec

AT = 0x3000_0000_0000  # of the first stand-in; each has a gap behind it
X, OUT, MEAN, COUNT = (AT + (number << 21) for number in range(4))


def launch(module: int, kernel: str, *arguments: bytes, **more: Any) -> dict[str, Any]:
    grid, block = (64, 1, 1), (256, 1, 1)
    return {"op": "launch", "mod": module, "kernel": kernel, "grid": grid, "block": block, "args": arguments, **more}


def address(value: int) -> bytes:
    return struct.pack("<Q", value)


def number(value: int) -> bytes:
    return struct.pack("<i", value)


def buffer(at: int, size: int, name: str) -> dict[str, Any]:
    return {"addr": at, "bytes": size, "name": name}


SIGNATURE = Signature(
    (
        TensorSpec("x", "float32", (64, 100), (100, 1), "input"),
        TensorSpec("out", "float32", (64, 100), (100, 1), "output"),
    )
)
NULL = address(0)
SOFTMAX = {
    "modules": 1,
    "buffers": [buffer(X, 25600, "x"), buffer(OUT, 25600, "out")],
    "ops": [launch(0, "softmax_kernel", address(OUT), address(X), number(100), number(100), NULL, NULL, smem=1024)],
}
LAYERNORM = {
    "modules": 2,
    "buffers": [buffer(X, 25600, "x"), buffer(OUT, 25600, "out"), buffer(MEAN, 256, ""), buffer(COUNT, 4096, "")],
    "ops": [
        {"op": "memset", "dst": MEAN, "value": 0, "bytes": 256},  # torch.zeros, in between
        launch(0, "ln_kernel", address(X + 400), address(MEAN), number(100), address(COUNT), NULL),
        {"op": "memset", "dst": OUT, "value": 0, "bytes": 25600},
        launch(1, "ln_kernel", address(OUT), address(MEAN), NULL, NULL, cluster=(2, 1, 1)),
    ],
}


def recorded(record: dict[str, Any], signature: Signature) -> Program:
    """Tensors of the task by their names, everything else as scratch; addresses as blocks and offsets."""
    buffers = record["buffers"]
    names = [one["name"] or f"scratch{index}" for index, one in enumerate(buffers)]
    private = tuple((name, one["bytes"]) for name, one in zip(names, buffers, strict=True) if not one["name"])
    layout = lay_out(signature, private)
    outputs = {tensor.name for tensor in signature.outputs}
    places = (*layout.tensors, *layout.private)
    fills = ["output" if p.name in outputs else "poison" if p in layout.private else "received" for p in places]
    blocks = tuple(
        Block(p.name, p.base, p.bytes, p.offset, p.extent, p.access == "write", fill)
        for p, fill in zip(places, fills, strict=True)
    )
    numbers = {block.name: index for index, block in enumerate(blocks)}

    def found(at: int) -> tuple[int, int]:
        index = next(i for i, one in enumerate(buffers) if one["addr"] <= at < one["addr"] + one["bytes"])
        return numbers[names[index]], at - buffers[index]["addr"]

    def argument(data: bytes) -> Argument:
        if len(data) == 8 and (at := struct.unpack("<Q", data)[0]):
            return Argument(bytes(8).hex(), (Pointer(0, *found(at)),))
        return Argument(data.hex())

    def step(op: dict[str, Any]) -> ProgramStep | Memset:
        if op["op"] == "memset":
            return Memset(*found(op["dst"]), op["bytes"], op["value"])
        arguments = tuple(map(argument, op["args"]))
        sizes = op["grid"], op["block"]
        return ProgramStep(op["mod"], op["kernel"], *sizes, arguments, op.get("smem", 0), op.get("cluster"))

    return Program(BASE, SPAN, blocks, tuple(map(step, record["ops"])), (), record["modules"])


def again(program: Program) -> Program:
    return Program.from_json(json.loads(json.dumps(program.to_json())))


def test_a_recorded_softmax_is_a_program() -> None:
    program = recorded(SOFTMAX, SIGNATURE)
    (step,) = program.launches
    assert [argument.size for argument in step.arguments] == [8, 8, 4, 4, 8, 8] and step.shared == 1024
    assert step.arguments[0].pointers == (Pointer(0, 1, 0),) and not step.arguments[-1].pointers
    assert again(program) == program


def test_a_recording_of_several_modules_memsets_and_scratch_is_a_program() -> None:
    program = recorded(LAYERNORM, SIGNATURE)
    assert [type(step).__name__ for step in program.steps] == ["Memset", "ProgramStep", "Memset", "ProgramStep"]
    assert [step.module for step in program.launches] == [0, 1] and program.modules == 2
    assert program.steps[0] == Memset(2, 0, 256, 0) and program.steps[2] == Memset(1, 0, 25600, 0)
    first, second = program.launches
    assert first.arguments[0].pointers == (Pointer(0, 0, 400),) and first.arguments[3].pointers == (Pointer(0, 3, 0),)
    assert second.cluster == (2, 1, 1)
    assert [block.fill for block in program.blocks] == ["received", "output", "poison", "poison"]
    assert again(program) == program


def test_tensor_maps_travel_too() -> None:
    entry = TensorMap(0, 0, "FLOAT32", (100, 64), (400,), (64, 8), (1, 1), "NONE", "128B", "L2_128B", "NONE")
    step = ProgramStep(0, "f", (1, 1, 1), (32, 1, 1), (Argument(tensor_map=0),))
    program = Program(BASE, SPAN, (), (step,), (entry,), 1)
    assert again(program) == program


def test_reading_a_program_loads_no_contract_and_nothing_heavy() -> None:
    code = "import sys, kernelwright.contracts.program; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "kernelwright.contracts.program" in loaded
    heavy = ("torch", "numpy", "pydantic", "kernelwright.contracts.model", "kernelwright.contracts.registry")
    assert not [
        name
        for name in loaded
        if name in heavy
        or (name.startswith(("kernelwright.contracts.c", "cuda")) and name != "kernelwright.contracts.candidate")
    ]
