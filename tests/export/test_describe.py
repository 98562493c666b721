"""Tasks as operations: formulas for outputs, and references that travel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.export.describe import ExportError, operation_of
from kernelwright.export.reference_text import compiled_reference, reference_text
from kernelwright.export.standalone.dims import DimError, Shapes, formula
from kernelwright.tasks.drawing import draw_inputs, signature
from kernelwright.tasks.hidden import small_workloads
from kernelwright.tasks.reference import call_reference, prepared
from kernelwright.tasks.resolve import builtin_names, declared
from tests.export import making


@pytest.mark.parametrize("name", builtin_names())
def test_every_built_in_can_leave(name: str) -> None:
    """Its outputs' shapes are formulas, and its reference computes the same without Kernelwright."""
    task = declared(name)
    operation, traced = operation_of(task, name)
    text = reference_text(task, traced)
    assert "kernelwright" not in text.lower()
    alone = replace(task, reference=compiled_reference(text))
    for workload in small_workloads(task, 2):
        shapes = Shapes([one.dims or () for one in operation.tensors])
        inputs = [one for one in signature(task, workload).tensors if one.name in task.inputs]
        assert shapes.fitting([one.shape for one in inputs]) == workload.size_map
        values = draw_inputs(task, workload, task.families[0], torch.Generator().manual_seed(1))
        wanted = call_reference(task, prepared(task, values))
        got = call_reference(alone, prepared(task, values))
        for result, value in wanted.items():
            assert torch.equal(got[result], value)


def _scaled(factor: float) -> Callable[[torch.Tensor], torch.Tensor]:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x * factor

    return scaled


def test_a_reference_that_is_not_plain_source_travels_as_its_graph() -> None:
    task = replace(declared("softmax"), reference=_scaled(3.0))
    _, traced = operation_of(task, "scaled")
    text = reference_text(task, traced)
    assert "torch.ops.aten" in text
    x = torch.randn(7, 9)
    assert torch.equal(compiled_reference(text)(x), x * 3)


def test_a_size_that_no_argument_shows_is_refused(tmp_path: Path) -> None:
    text = making.TASK.replace('"rows", "cols"', '"rows * cols", "cols"')
    with pytest.raises(ExportError, match="'rows' cannot be read off"):
        operation_of(declared(making.task_file(tmp_path, text)), "any")


@given(
    st.sampled_from(("{a} * n", "n * {a} + {b}", "({b} + n) * {a}", "n - {b} + n * {a}", "-({b} - {a} * n)")),
    st.integers(1, 9),
    st.integers(0, 9),
    st.integers(1, 99),
)
def test_a_size_is_read_off_a_multiple_of_it_and_other_shapes_do_not_fit(dim: str, a: int, b: int, n: int) -> None:
    dim = dim.format(a=a, b=b)
    size = formula(dim)({"n": n})
    shapes = Shapes([(dim,)])
    assert shapes.names == {"n"} and shapes.fitting([(size,)]) == {"n": n}
    step = formula(dim)({"n": n + 1}) - size
    assert all(shapes.fitting([(size + other,)]) is None for other in range(1, step))


def test_a_size_that_is_there_as_it_is_is_read_there() -> None:
    shapes = Shapes([("2 * n",), ("n",)])
    assert shapes.read([(9,), (4,)]) == {"n": 4} and shapes.fitting([(9,), (4,)]) is None


@pytest.mark.parametrize("dim", ["n * n", "n // 2", "rows + n", "n - n", "0 * n"])
def test_what_does_not_tell_one_size_is_not_read(dim: str) -> None:
    assert Shapes([(dim,)]).names == set()


@given(st.text(max_size=40))
def test_a_formula_is_arithmetic_or_is_refused(text: str) -> None:
    try:
        made = formula(text)
    except DimError:
        return
    try:
        assert isinstance(made({"rows": 3, "cols": 5}), int)
    except (KeyError, ZeroDivisionError):
        return


@pytest.mark.parametrize("text", ["__import__('os')", "rows.real", "[1][0]", "rows ** 9", "rows if 1 else 2", "1.5"])
def test_nothing_but_arithmetic_is_taken(text: str) -> None:
    with pytest.raises(DimError):
        formula(text)
