"""Running a reference leaves its inputs alone, names its results, and blames the right line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from kernelwright.tasks import TaskError
from kernelwright.tasks.loading import load_task
from kernelwright.tasks.reference import run_reference

from .samples import GOOD_FILE, small_task


def step(x: torch.Tensor, weight: torch.Tensor, factor: float) -> torch.Tensor:
    x.mul_(factor)
    return x.sum(-1)


INPUTS = {"x": torch.ones(2, 3) / 3, "weight": torch.ones(3), "factor": 2.0}


def test_results_are_named_and_inputs_unchanged() -> None:
    inputs = {name: v.clone() if isinstance(v, torch.Tensor) else v for name, v in INPUTS.items()}
    results = run_reference(small_task(reference=step, inout=("x",)), inputs)
    assert list(results) == ["x", "out"]
    assert torch.equal(results["x"], INPUTS["x"] * 2)
    assert torch.equal(inputs["x"], INPUTS["x"])


def test_the_answer_is_computed_in_float64() -> None:
    exact = run_reference(small_task(reference=step, inout=("x",)), INPUTS, torch.float64)
    assert {result.dtype for result in exact.values()} == {torch.float64}
    third = float(torch.tensor(1.0) / 3)
    assert exact["out"].tolist() == [6 * third] * 2


def test_integers_stay_integers_in_the_answer() -> None:
    seen = []
    task = small_task(reference=lambda x, w, f: seen.append(w.dtype) or x + w)
    run_reference(task, {**INPUTS, "weight": torch.ones(3, dtype=torch.int64)}, torch.float64)
    assert seen == [torch.int64]


def test_a_list_of_outputs_is_as_good_as_a_tuple() -> None:
    task = small_task(reference=lambda x, w, f: [x + 1, x + 2], outputs=("one", "two"))
    assert set(run_reference(task, INPUTS)) == {"one", "two"}


@pytest.mark.parametrize(
    ("returned", "message"),
    [(3.0, "returned a float for 'out'"), (torch.zeros(2, dtype=torch.complex64), "is complex64")],
)
def test_a_result_must_be_a_tensor_of_a_known_dtype(returned: object, message: str) -> None:
    with pytest.raises(TaskError, match=message):
        run_reference(small_task(reference=lambda *_: returned), INPUTS)


def test_an_error_names_the_line_of_the_task_file(
    write_task: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(write_task(GOOD_FILE.replace("2 * x", "torch.cat([x, x[None]])")))
    monkeypatch.chdir(path.parent)
    with pytest.raises(TaskError) as error:
        run_reference(load_task(Path("my_task.py")), {"x": torch.ones(4)})
    assert str(error.value).startswith("my_task.py:9: the reference raised: RuntimeError: Tensors must have same")
    assert "\n" not in str(error.value)
