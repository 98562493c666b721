"""Sizes of one's own in a task's name."""

from __future__ import annotations

import pytest

from kernelwright.tasks.dims import TaskError
from kernelwright.tasks.hidden import hidden_workloads
from kernelwright.tasks.resolve import resolve


def test_one_public_workload_and_hidden_ones_around_it() -> None:
    task = resolve("rmsnorm@rows=300,cols=1000")
    assert [workload.label for workload in task.public_workloads()] == ["rows=300 cols=1000"]
    assert task.name == "rmsnorm@rows=300,cols=1000"
    for workload in hidden_workloads(task, b"key"):
        assert 500 <= workload.size_map["cols"] <= 2000


def test_a_gradient_and_the_sizes_of_a_gpu() -> None:
    task = resolve("cross_entropy:backward@rows=64", "cuda")
    assert [dict(sizes) for sizes in task.public] == [{"rows": 64, "classes": 10}]
    assert task.hidden["rows"] == (32, 128)


def test_hidden_sizes_are_around_a_size_that_lies_outside_of_the_tasks_ranges() -> None:
    task = resolve("layernorm3d@batch=1", "cuda")
    assert task.public[0]["batch"] == 1
    assert task.hidden["batch"] == (1, 2)
    small = resolve("softmax@rows=64,cols=100")
    assert dict(small.hidden) == {"rows": (32, 128), "cols": (50, 200)}


def test_sizes_that_no_memory_holds_are_refused_in_a_line() -> None:
    with pytest.raises(TaskError, match="rows=99999999999"):
        resolve("softmax@rows=99999999999,cols=9999999999999")


@pytest.mark.parametrize(
    ("ref", "told"),
    [
        ("rmsnorm@rows", "'rows' is no size"),
        ("rmsnorm@rows=3,rows=4", "the size rows is given twice"),
        ("rmsnorm@rows=3:backward", "rmsnorm:backward@rows=64"),
        ("rmsnorm@rows=-3", "is no size"),
        ("rmsnorm@", "is no size"),
        ("rmsnorm@depth=3", "has no size 'depth': there is rows, cols"),
        ("rmsnrm@rows=3", "did you mean rmsnorm"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(ref: str, told: str) -> None:
    with pytest.raises(TaskError, match=told):
        resolve(ref)
