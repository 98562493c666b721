"""From a checked plan to a program: bytes as C++ lays them out, addresses by block, nothing that points elsewhere."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.contracts.cuda.plan import Plan
from kernelwright.contracts.cuda.toolchain.resolve import resolve
from kernelwright.contracts.layout import BASE, SPAN
from kernelwright.contracts.model import BuildFailure
from kernelwright.contracts.program import Argument, Program
from kernelwright.tasks.model import Signature, TensorSpec

X = TensorSpec("x", "float32", (10, 100), (100, 1), "input")
OUT = TensorSpec("out", "float32", (10, 100), (100, 1), "output")


def resolved(arguments: list[dict[str, Any]], **rest: Any) -> Program | BuildFailure:
    launch = {"kernel": "f", "grid": [1, 1, 1], "block": [32, 1, 1], "arguments": arguments}
    plan = Plan.model_validate_json(json.dumps({"launches": [launch], **rest}))
    return resolve(plan, Signature((X, OUT)), {"f": "_Z1fv"})


def only(arguments: list[dict[str, Any]], **rest: Any) -> Argument:
    program = resolved(arguments, **rest)
    assert isinstance(program, Program)
    return program.launches[0].arguments[0]


def test_numbers_are_packed_as_their_type() -> None:
    cases = [("i32", -2, "<i"), ("u64", 1 << 63, "<Q"), ("f32", 0.1, "<f"), ("f16", 1.5, "<e"), ("f64", 0.1, "<d")]
    for kind, value, packing in cases:
        family = "real" if kind.startswith("f") else "integer"
        assert only([{"kind": family, "type": kind, "value": value}]).data == struct.pack(packing, value).hex()


@given(st.floats(-(2.0**100), 2.0**100, width=32))
def test_bfloat16_is_rounded_to_nearest(value: float) -> None:
    packed = bytes.fromhex(only([{"kind": "real", "type": "bf16", "value": value}]).data)
    back: float = struct.unpack("<f", b"\0\0" + packed)[0]
    assert abs(back - value) <= abs(value) * 2**-8 or abs(value) < 1e-37


def test_what_does_not_fit_is_a_failure() -> None:
    for kind in ("f16", "f32", "bf16"):
        failure = resolved([{"kind": "real", "type": kind, "value": 1e300}])
        assert isinstance(failure, BuildFailure) and "does not fit" in failure.lines[0]


def test_a_structure_is_aligned_as_in_c() -> None:
    fields: list[dict[str, Any]] = [
        {"kind": "integer", "type": "i8", "value": 1},
        {"kind": "pointer", "name": "out", "offset": 16},
        {"kind": "integer", "type": "i16", "value": 2},
        {"kind": "real", "type": "f32", "value": 1.0},
    ]
    argument = only([{"kind": "struct", "fields": fields}])
    assert argument.size == 24
    (pointer,) = argument.pointers
    assert (pointer.at, pointer.block, pointer.offset) == (8, 1, 16)
    assert bytes.fromhex(argument.data)[16:18] == b"\2\0" and bytes.fromhex(argument.data)[20:] == struct.pack("<f", 1)


def test_memory_of_the_plan_lies_behind_the_tensors() -> None:
    program = resolved(
        [{"kind": "pointer", "name": "s"}, {"kind": "pointer", "name": "w"}],
        scratch=[{"name": "s", "bytes": 100, "zero": True}],
        workspaces=[{"name": "w", "bytes": 8}],
    )
    assert isinstance(program, Program)
    assert [block.fill for block in program.blocks] == ["received", "output", "zero", "workspace"]
    assert [block.writable for block in program.blocks] == [False, True, True, True]
    assert all(BASE < block.base < BASE + SPAN for block in program.blocks)


def test_a_tensor_map_names_the_drivers_values() -> None:
    program = resolved(
        [
            {
                "kind": "tensor_map",
                "name": "x",
                "type": "f32",
                "sizes": [100, 10],
                "strides": [400],
                "box": [64, 2],
                "steps": [1, 1],
                "swizzle": "128b",
                "fill": "nan",
            }
        ]
    )
    assert isinstance(program, Program)
    (entry,) = program.tensor_maps
    assert (entry.data_type, entry.swizzle, entry.promotion, entry.interleave, entry.fill) == (
        "FLOAT32",
        "128B",
        "L2_128B",
        "NONE",
        "NAN_REQUEST_ZERO_FMA",
    )
    assert program.launches[0].arguments[0].size == 128


@pytest.mark.parametrize(
    "argument", [{"kind": "pointer", "name": "nobody"}, {"kind": "pointer", "name": "x", "offset": 4001}]
)
def test_a_pointer_points_into_memory_that_is_there(argument: dict[str, Any]) -> None:
    assert isinstance(resolved([argument]), BuildFailure)


def test_a_program_survives_its_way_to_the_launcher() -> None:
    program = resolved(
        [
            {"kind": "pointer", "name": "x", "offset": 8},
            {"kind": "struct", "fields": [{"kind": "pointer", "name": "out"}]},
        ]
    )
    assert isinstance(program, Program)
    again = Program.from_json(json.loads(json.dumps(program.to_json())))
    assert again.blocks == program.blocks
    assert again.launches[0].arguments == program.launches[0].arguments
