"""A task may have other workloads on a GPU, and whoever resolves it for one sees those alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kernelwright.tasks import TaskError, Workloads, validate
from kernelwright.tasks.drawing import draw_inputs
from kernelwright.tasks.model import Task
from kernelwright.tasks.resolve import resolve

from .samples import GOOD_FILE, small_task

WriteTask = Callable[[str], str]
LARGER = Workloads(public=[{"rows": 1 << 20, "cols": 512}], hidden={"rows": (1000, 1 << 20), "cols": (100, 999)})
LARGER_FILE = GOOD_FILE.replace("tensor\n", "Workloads, tensor\n", 1).replace(
    '    hidden={"n": (32, 128)},\n',
    '    hidden={"n": (32, 128)},\n    cuda=Workloads(public=[{"n": 1 << 40}], hidden={"n": (1 << 30, 1 << 40)}),\n',
)


def test_a_cpu_has_the_tasks_own_workloads() -> None:
    task = small_task(cuda=LARGER)
    assert task.on("cpu") is task


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "cuda:13"])
def test_a_gpu_has_those_declared_for_it_and_the_task_is_then_like_any_other(device: str) -> None:
    task = small_task(cuda=LARGER).on(device)
    assert (task.public, task.hidden, task.cuda) == (LARGER.public, LARGER.hidden, None)
    assert task == small_task(public=LARGER.public, hidden=LARGER.hidden)


def test_a_task_without_any_for_a_gpu_has_the_same_everywhere() -> None:
    task = small_task()
    assert task.on("cuda:1") is task


@pytest.mark.parametrize("device", ["", "gpu", "cuda:", "cuda:x", "cpu:"])
def test_an_unknown_device_is_refused(device: str) -> None:
    with pytest.raises(TaskError, match="write cpu, cuda or cuda:N"):
        small_task(cuda=LARGER).on(device)


FAULTY = [
    (Workloads(public=[], hidden={}), "public is empty"),
    (Workloads(public=[{"rows": 8}], hidden={"rows": (4, 9)}), "does not give the size 'cols'"),
    (Workloads(public=LARGER.public, hidden={"rows": (9, 4), "cols": (1, 2)}), "hidden range of 'rows'"),
]


@pytest.mark.parametrize(("workloads", "message"), FAULTY, ids=[message for _, message in FAULTY])
def test_workloads_for_a_gpu_are_checked_like_others(workloads: Workloads, message: str) -> None:
    with pytest.raises(TaskError, match=rf"^cuda=Workloads\(...\): .*{message}"):
        small_task(cuda=workloads)


@pytest.mark.parametrize("direction", ["", ":backward"])
def test_a_task_for_a_gpu_is_resolved_without_drawing_its_sizes(write_task: WriteTask, direction: str) -> None:
    """Drawing 2^40 elements would end in a lack of memory."""
    ref = write_task(LARGER_FILE) + direction
    assert resolve(ref).public == [{"n": 64}]
    task = resolve(ref, device="cuda")
    assert (task.public, task.hidden) == ([{"n": 1 << 40}], {"n": (1 << 30, 1 << 40)})


def test_it_is_tried_out_on_the_workloads_of_a_cpu(write_task: WriteTask, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: set[int] = set()

    def drawn(task: Task, workload: Any, family: Any, generator: torch.Generator) -> Any:
        tried.add(workload.size_map["n"])
        return draw_inputs(task, workload, family, generator)

    monkeypatch.setattr(validate, "draw_inputs", drawn)
    resolve(write_task(LARGER_FILE), "cuda:0")
    assert tried == {64, 32}


def test_sizes_at_which_the_reference_fails_are_found_without_data(write_task: WriteTask) -> None:
    failing = (
        LARGER_FILE.replace("1 << 40", "1 << 12")
        .replace("1 << 30", "1 << 10")
        .replace("return 2 * x", "return 2 * x if len(x) < 1000 else x.no_such")
    )
    ref = write_task(failing)
    assert resolve(ref).name == "my_task"
    with pytest.raises(TaskError, match="the reference raised: AttributeError"):
        resolve(ref, "cuda")
