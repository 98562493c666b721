"""A captured function may cast: the answer in float64 is not narrowed, and the task's own type computes as written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from kernelwright.contracts import Candidate
from kernelwright.judge.controller import Judge
from kernelwright.judge.settings import Settings
from kernelwright.judge.timing.measure import Sampling
from kernelwright.judge.verdict import Outcome
from kernelwright.tasks import TaskError
from kernelwright.tasks.capture import task_text
from kernelwright.tasks.drawing import draw_inputs
from kernelwright.tasks.model import Task
from kernelwright.tasks.reference import run_reference
from kernelwright.tasks.resolve import resolve

pytestmark = pytest.mark.timed

ROWS, COLS = 96, 256
RIGHT = Settings(baselines=(), effort=Sampling(least=6, most=6))
KERNEL = """
#include <kernelwright.h>
#include <cmath>
void kernel(kw::Tensor<const kw::bfloat16, 1> weight, kw::Tensor<const kw::bfloat16, 2> x,
            kw::Tensor<kw::bfloat16, 2> out) {
  const long rows = x.size(0), cols = x.size(1);
  for (long row = 0; row < rows; ++row) {
    const auto* in = x.data + row * cols;
    float sum = 0;
    for (long col = 0; col < cols; ++col) sum += float(in[col]) * float(in[col]);
    const float scale = 1 / std::sqrt(sum / cols + 1e-6f);
    for (long col = 0; col < cols; ++col) {
      const kw::bfloat16 normed(float(in[col]) * scale);
      out.data[row * cols + col] = kw::bfloat16(float(weight.data[col]) * FACTOR * float(normed));
    }
  }
}
"""


class LlamaRMSNorm(nn.Module):
    """As Hugging Face's transformers has it."""

    def __init__(self, hidden_size: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        input_dtype = hidden_states.dtype
        hidden_states = hidden_states.to(torch.float32)
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
        return self.weight * hidden_states.to(input_dtype)


def captured(function: Callable[..., Any], dtype: torch.dtype, folder: Path) -> Task:
    """Read back from its file, as the judge does, which validates it."""
    path = folder / "captured.py"
    path.write_text(task_text(function, (torch.randn(ROWS, COLS).to(dtype),)))
    return resolve(str(path))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.float().sin().to(x.dtype),
        lambda x: x.double().sin().to(x.dtype),
        lambda x: torch.softmax(x, -1, dtype=torch.float32).to(x.dtype),
        lambda x: x.half().sin(),
        lambda x: x.sin().to(torch.bfloat16),
        lambda x: (x.to(torch.float32).sin() + torch.arange(x.shape[1], dtype=torch.float32)).type_as(x),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_casts_are_kept_in_the_tasks_type_and_widened_in_float64(
    function: Callable[..., torch.Tensor], dtype: torch.dtype, tmp_path: Path
) -> None:
    task = captured(function, dtype, tmp_path)
    inputs = draw_inputs(task, task.public_workloads()[0], task.families[0], torch.Generator().manual_seed(1))
    (x,) = inputs.values()
    assert isinstance(x, torch.Tensor) and x.dtype is dtype
    eager = function(x)
    assert torch.equal(run_reference(task, inputs)["out"], eager)
    answer = run_reference(task, inputs, torch.float64)["out"]
    assert answer.dtype is torch.float64
    assert not torch.equal(answer.to(eager.dtype).double(), answer)  # it holds more than the task's type can


def test_float64_inputs_are_not_cast_down() -> None:
    with pytest.raises(TaskError, match="casts float64 inputs to float32"):
        task_text(lambda x: x.float() * 2, (torch.randn(4, 4, dtype=torch.float64),))


def test_the_norm_of_llama_is_captured_and_judged(judge: Judge, tmp_path: Path) -> None:
    path = tmp_path / "norm.py"
    example = (torch.randn(ROWS, COLS).to(torch.bfloat16),)
    path.write_text(task_text(LlamaRMSNorm(COLS).to(torch.bfloat16), example))
    for factor, outcome in (("1", Outcome.accepted), ("1.03f", Outcome.rejected)):
        candidate = Candidate("cpp", KERNEL.replace("FACTOR", factor), "norm.cpp")
        assert judge.judge(str(path), candidate, settings=RIGHT).verdict is outcome, factor


def test_what_draws_random_numbers_is_refused_and_a_dropout_that_does_nothing_is_not() -> None:
    with pytest.raises(TaskError, match=r"draws random numbers .rand.*: make what it draws an argument"):
        task_text(lambda x: x + torch.randn(x.shape[0], 3), (torch.ones(5, 3),))
    dropped = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5)).eval()
    assert "linear" in task_text(dropped, (torch.ones(5, 3),))


class Remembering(nn.Module):
    """Its state is neither a parameter nor a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.state = torch.zeros(5, 3)

    def forward(self, x: torch.Tensor, initial: torch.Tensor) -> torch.Tensor:
        self.state.copy_(initial)
        self.state = (x + self.state).tanh()
        return self.state * 2


def test_a_module_that_changes_an_attribute_is_refused_in_one_line() -> None:
    with pytest.raises(TaskError, match=r"changes its tensor .*state.* an argument") as caught:
        task_text(Remembering(), (torch.ones(5, 3), torch.ones(5, 3)))
    assert "\n" not in str(caught.value)
