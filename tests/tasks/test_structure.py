"""A task that cannot be right is refused when it is made, in one line that says what to do."""

from __future__ import annotations

from typing import Any

import pytest

from kernelwright.tasks import (
    Chosen,
    Exact,
    Family,
    Precision,
    TaskError,
    integers,
    normal,
    tensor,
    uniform,
)
from kernelwright.tasks.declarations import Close

from .samples import small_task

X = tensor("rows", "cols")

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"reference": 3}, "reference is not a function"),
    ({"inputs": {"x y": X}}, "'x y' cannot name an argument"),
    ({"inputs": {"lambda": X}}, "'lambda' cannot name an argument"),
    ({"outputs": ("x",)}, "'x' names two of"),
    ({"outputs": "out"}, "write ('out',)"),
    ({"outputs": ()}, "the task has no result"),
    ({"direction": "sideways"}, "write 'forward' or 'backward'"),
    ({"dtypes": ("float33",)}, "dtypes has 'float33'"),
    ({"dtypes": ()}, "at least one dtype"),
    ({"dtypes": "float32"}, "dtypes"),
    ({"families": ("normal",)}, "families must be some of Family.NORMAL"),
    ({"inputs": {"x": "rows"}}, "write tensor(...) or a number"),
    ({"inputs": {"x": X, "factor": float("nan")}}, "a scalar must be finite"),
    ({"inputs": {"x": tensor("rows", "cols", dtype="f32")}}, "input 'x' has dtype 'f32'"),
    ({"inputs": {"x": tensor("rows", "cols", dtype="int64")}}, "use draw=integers(low, high)"),
    ({"inputs": {"x": tensor("rows", "cols", draw=3)}}, "has draw 3"),
    ({"inout": ("y",)}, "inout names 'y', which is not a tensor input: choose among x, weight"),
    ({"inout": "x"}, "write ('x',)"),
    ({"constant": ("factor",)}, "constant names 'factor', which is not a tensor input"),
    ({"inout": ("x",), "constant": ("x",)}, "both inout and constant"),
    ({"comparators": {"y": Exact()}}, "comparators has 'y', which is not a result: choose among out"),
    ({"comparators": {"out": "exact"}}, "comparator of 'out'"),
    ({"comparators": {"out": Chosen("z")}}, "Chosen(source='z') is not a tensor input"),
    ({"unchecked": ("nans",)}, "unchecked has 'nans', which is not a kind of special values: choose among magnitudes"),
    ({"unchecked": "nan"}, "write ('nan',)"),
    ({"public": []}, "public is empty"),
    ({"public": [{"rows": 8}]}, "does not give the size 'cols'"),
    ({"public": [{"rows": 8, "cols": 0}]}, "cols=0: a size is a positive whole number"),
    ({"public": [{"rows": 8, "cols": True}]}, "cols=True"),
    ({"public": [{"rows": 8, "cols": 8, "depth": 8}]}, "a size 'depth' that no dimension uses"),
    ({"hidden": {"rows": (4, 40)}}, "hidden has no range for 'cols'"),
    ({"hidden": {"rows": (4, 40), "cols": (40, 4)}}, "write (low, high), 1 <= low <= high"),
    ({"hidden": {"rows": (0, 40), "cols": (4, 40)}}, "hidden range of 'rows'"),
    ({"hidden": {"rows": (4, 40), "cols": (4, 40), "depth": (1, 2)}}, "a range for 'depth'"),
    ({"work": "rows * depth"}, "does not give the size 'depth'"),
    ({"work": "rows - 100"}, "is not positive for"),
    ({"inputs": {"x": tensor("rows - 20", "cols")}}, "it must be at least 1"),
    ({"inputs": {"x": X, "i": tensor("rows", draw=integers("cols", 4), dtype="int64")}}, "is empty for"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_a_faulty_task_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskError) as error:
        small_task(**changes)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_the_task_that_these_vary_is_accepted() -> None:
    assert small_task().result_names == ("out",)


@pytest.mark.parametrize(
    "make",
    [
        lambda: normal(0, 0),
        lambda: normal(float("inf"), 1),
        lambda: uniform(1, 1),
        lambda: uniform(0, float("nan")),
        lambda: Precision(compute="int64"),
        lambda: Precision(slack=0.5),
    ],
)
def test_a_value_that_would_weaken_the_judge_cannot_be_made(make: Any) -> None:
    with pytest.raises(TaskError):
        make()


def test_results_are_inout_tensors_in_declared_order_and_then_outputs() -> None:
    task = small_task(inout=("weight", "x"), outputs=("first", "second"))
    assert task.result_names == ("x", "weight", "first", "second")


def test_the_default_comparator_follows_the_dtype() -> None:
    task = small_task(comparators={"out": Chosen("x")})
    assert task.comparator("out", "int64") == Chosen("x")
    assert small_task().comparator("out") == Close()
    assert small_task().comparator("out", "int64") == Exact()


def test_public_workloads_are_every_size_in_every_dtype() -> None:
    labels = [w.label for w in small_task(dtypes=("float32", "bfloat16")).public_workloads()]
    assert labels == [
        "rows=8 cols=16",
        "rows=16 cols=8",
        "rows=8 cols=16 bfloat16",
        "rows=16 cols=8 bfloat16",
    ]


def test_a_task_may_use_some_families_only() -> None:
    assert small_task(families=(Family.NORMAL,)).families == (Family.NORMAL,)
