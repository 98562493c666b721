"""Dimensions are arithmetic over named sizes and nothing more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.tasks.dims import TaskError, evaluate, names_in

SIZES = {"rows": 7, "cols": 12, "heads": 3}

leaves = st.one_of(st.integers(0, 99).map(str), st.sampled_from(sorted(SIZES)))
expressions = st.recursive(
    leaves,
    lambda inner: st.tuples(inner, st.sampled_from(["+", "-", "*", "//"]), inner).map(
        lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"
    ),
    max_leaves=8,
)


@given(expressions)
def test_an_expression_means_what_it_means_in_python(expression: str) -> None:
    try:
        expected = eval(expression, {}, dict(SIZES))
    except ZeroDivisionError:
        with pytest.raises(TaskError, match="divides by zero"):
            evaluate(expression, SIZES)
    else:
        assert evaluate(expression, SIZES) == expected


@given(expressions)
def test_an_expression_depends_on_the_names_in_it_alone(expression: str) -> None:
    needed = {name: SIZES[name] for name in names_in(expression)}
    try:
        expected = evaluate(expression, SIZES)
    except TaskError:
        return
    assert evaluate(expression, needed) == expected


@pytest.mark.parametrize(
    "expression",
    [
        "rows ** 2",
        "-rows",
        "rows / 2",
        "rows.bit_length()",
        "True",
        "1.5",
        "rows if 1 else 2",
        "__import__('os')",
    ],
)
def test_anything_else_is_refused(expression: str) -> None:
    with pytest.raises(TaskError, match="may use whole numbers"):
        evaluate(expression, SIZES)


@pytest.mark.parametrize("expression", ["", "rows +", "rows; cols", "(" * 90, "\0", "1\n2"])
def test_what_is_no_expression_is_said_to_be_none(expression: str) -> None:
    with pytest.raises(TaskError, match="is not an expression"):
        evaluate(expression, SIZES)


def test_an_endless_expression_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(TaskError, match="longer than"):
        evaluate("1" + "+1" * 100_000, SIZES)


def test_an_unknown_size_is_named() -> None:
    with pytest.raises(TaskError, match="needs the size 'depth'"):
        evaluate("rows * depth", SIZES)


@pytest.mark.parametrize("dim", [True, 2.0, None])
def test_a_dimension_is_a_whole_number_or_a_string(dim: object) -> None:
    with pytest.raises(TaskError, match="neither"):
        evaluate(dim, SIZES)  # type: ignore[arg-type]
