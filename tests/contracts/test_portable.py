"""Portable kernels are data that a stranger may have sent: what is not of the closed form is refused in one line."""

from __future__ import annotations

import ast
import copy
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kernelwright.contracts.portable as portable
from kernelwright.contracts.portable import (
    Case,
    FormulaError,
    LaunchFormula,
    Module,
    NamedSize,
    Nodes,
    NumberArgument,
    PlannedCall,
    PointerArgument,
    PortableKernel,
    PortableLaunch,
    PortableMemory,
    Ref,
    ScalarArgument,
    TensorArgument,
    Variant,
)
from kernelwright.contracts.portable.expressions import ARITY, MAGNITUDE, MOST_NODES
from kernelwright.contracts.portable.reading import MalformedData

CASE = Case(
    PlannedCall(
        (PortableLaunch("k<4>", (Ref(2), 1, 1), (256, 1, 1), (PointerArgument("x"), NumberArgument("i32", Ref(1)))),),
        (PortableMemory("s", Ref(2), "zero"), PortableMemory("w", 64, "workspace")),
    ),
    (("W", "4"),),
)
FORMULA = LaunchFormula(Nodes(("rows", "cols", ("mul", (0, 1)))), (), (CASE,))
KERNEL = PortableKernel(
    "rmsnorm",
    "cuda",
    (NamedSize("rows", 1, 9), NamedSize("cols", 1, 99)),
    Nodes(("rows", "cols")),
    (TensorArgument("x", "input", "float32", (Ref(0), Ref(1))), ScalarArgument("eps", 1e-6)),
    (Variant("sm_90a", 132, 1, 1, FORMULA, (Module("0" * 64, (("k<4>", "_Z1k"),)),), ((0,),)),),
)


def test_a_kernel_reads_as_it_was_written() -> None:
    assert PortableKernel.read(KERNEL.text()) == KERNEL


def test_a_user_needs_the_standard_library_alone() -> None:
    """An exported package carries a copy of the folder: it may import itself and Python, and runs no code."""
    for path in Path(portable.__file__).parent.glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                assert all(name.name.partition(".")[0] in sys.stdlib_module_names for name in node.names), path
            if isinstance(node, ast.ImportFrom) and not node.level:
                assert (node.module or "").partition(".")[0] in sys.stdlib_module_names, (path, node.module)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec", "compile", "__import__"), path


CHANGES: dict[str, tuple[tuple[Any, ...], Any]] = {
    "another format": (("format",), 1),
    "a name with a path": (("arguments", 0, "name"), "../x"),
    "an unknown dtype": (("arguments", 0, "dtype"), "complex"),
    "a shape of a node that is not there": (("arguments", 0, "shape", 0), {"node": 7}),
    "a digest that is a path": (("variants", 0, "modules", 0, "digest"), "/etc/passwd"),
    "a module that is not there": (("variants", 0, "builds", 0), [1]),
    "a kernel that two modules name": (("variants", 0, "builds", 0), [0, 0]),
    "a number of a module alone": (("variants", 0, "builds", 0), 0),
    "a kernel that no module names": (("variants", 0, "formula", "cases", 0, "launches", 0, "kernel"), "other"),
    "an unknown operation": (("variants", 0, "formula", "nodes", 2), ["system", 0]),
    "a node that refers to itself": (("variants", 0, "formula", "nodes", 2), ["mul", 2, 2]),
    "a node that refers backwards": (("variants", 0, "formula", "nodes", 2), ["mul", -1, 0]),
    "too many nodes": (("variants", 0, "formula", "nodes"), [1] * (MOST_NODES + 1)),
    "a branch that leads back": (("variants", 0, "formula", "branches"), [[0, 0, -1]]),
    "a branch to no case": (("variants", 0, "formula", "branches"), [[0, -2, -1]]),
    "a use of a node that is not there": (("variants", 0, "formula", "cases", 0, "launches", 0, "shared"), {"node": 9}),
    "a grid that is a text": (("variants", 0, "formula", "cases", 0, "launches", 0, "grid", 0), "9"),
    "a whole number that is a fraction": (
        ("variants", 0, "formula", "cases", 0, "launches", 0, "arguments", 1, "value"),
        0.5,
    ),
    "an enormous number": (("variants", 0, "formula", "cases", 0, "launches", 0, "shared"), MAGNITUDE),
    "a key too many": (("surprise",), 1),
}


@pytest.mark.parametrize("what", sorted(CHANGES))
def test_what_is_not_of_the_closed_form_is_refused(what: str) -> None:
    (*path, last), value = CHANGES[what]
    raw = copy.deepcopy(KERNEL.to_json())
    place: Any = raw
    for key in path:
        place = place[key]
    place[last] = value
    with pytest.raises(ValueError) as refused:
        PortableKernel.read(json.dumps(raw))
    assert isinstance(refused.value, (MalformedData, FormulaError)) and "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "[" * 100000, '{"a": NaN}', '{"a": 1, "a": 2}', "[1e999]"])
def test_what_is_not_our_json_is_refused(text: str) -> None:
    with pytest.raises(MalformedData):
        PortableKernel.read(text)


LITERALS = st.one_of(st.integers(-(1 << 126), 1 << 126), st.floats(allow_nan=False, allow_infinity=False))


@given(
    st.lists(st.tuples(st.sampled_from(sorted(ARITY)), st.integers(0, 40), st.integers(0, 40)), max_size=30), LITERALS
)
def test_an_evaluation_ends_in_a_bounded_number_or_a_line(steps: list[tuple[str, int, int]], literal: float) -> None:
    table: list[Any] = ["n", literal, 3]
    for operation, one, other in steps:
        operands = (one % len(table), other % len(table))[: ARITY[operation]]
        table.append((operation, operands))
    values = Nodes(tuple(table)).at({"n": 12345})
    for number in range(len(table)):
        try:
            assert abs(values[number]) < MAGNITUDE or isinstance(values[number], float)
        except FormulaError as error:
            assert "\n" not in str(error)


def test_a_long_chain_needs_no_stack() -> None:
    table: list[Any] = ["n", 1]
    for _ in range(MOST_NODES - 2):
        table.append(("add", (len(table) - 1, 1)))
    assert Nodes(tuple(table)).at({"n": 0})[MOST_NODES - 1] == 1 + (MOST_NODES - 2)


def test_sizes_come_from_shapes_that_agree() -> None:
    assert KERNEL.sizes_of({"x": (3, 5)}) == {"rows": 3, "cols": 5}
    for shape in ((3,), (10, 5), (3, 100), (0, 5)):
        with pytest.raises(FormulaError):
            KERNEL.sizes_of({"x": shape})


def test_listed_sizes_and_no_others() -> None:
    listed = [({"rows": 1, "cols": 2}, CASE), ({"rows": 1, "cols": 3}, CASE), ({"rows": 4, "cols": 2}, CASE)]
    cases = [Case(PlannedCall((PortableLaunch("f", (1, 1, 1), (n + 1, 1, 1), ()),))) for n in range(3)]
    made = LaunchFormula.of_listed([(sizes, case) for (sizes, _), case in zip(listed, cases, strict=True)])
    assert made.listed and [made.case_at(sizes) for sizes, _ in listed] == [0, 1, 2]
    with pytest.raises(FormulaError):
        made.case_at({"rows": 4, "cols": 3})
