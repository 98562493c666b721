"""Modules that keep a state, draw numbers, or go through hundreds of steps: what is traced of them, and how quickly."""

from __future__ import annotations

import time
from pathlib import Path

import torch

from kernelwright.tasks.declarations import NormalDraw, TensorInput
from kernelwright.tasks.drawing import draw_inputs, signature
from kernelwright.tasks.model import Task
from kernelwright.tasks.reference import Argument, run_reference
from kernelwright.tasks.validate import smallest_workload, validate
from tests.tasks.imported.problems import formed, opened_here, traced_here


def drawn(task: Task) -> dict[str, Argument]:
    return draw_inputs(task, smallest_workload(task), task.families[0], torch.Generator().manual_seed(1))


def test_a_state_that_is_kept_for_one_batch_is_an_input(tmp_path: Path) -> None:
    task = opened_here(
        formed(
            tmp_path,
            "self.state = torch.tanh(self.inner(x) + self.state); return self.state * 2",
            "torch.rand(batch, 8)",
            init="self.inner = nn.Linear(8, 8); self.state = torch.zeros(batch, 8)",
            top="batch = 6",
        )
    )
    assert list(task.inputs) == ["x", "state", "inner_weight", "inner_bias"]
    assert any("State that its module keeps" in note for note in task.notes)
    validate(task)
    inputs = drawn(task)
    x, state, weight, bias = (value.double() for value in inputs.values())  # type: ignore[union-attr]
    right = torch.tanh(x @ weight.T + bias + state) * 2
    torch.testing.assert_close(run_reference(task, inputs, torch.float64)["out"], right)


def test_running_statistics_that_are_kept_by_hand_do_not_change_the_arguments(tmp_path: Path) -> None:
    task = opened_here(
        formed(
            tmp_path,
            "self.mean.mul_(0.9).add_(0.1 * x.mean(0)); return x - self.mean",
            "torch.rand(32, 8)",
            init="self.register_buffer('mean', torch.zeros(8))",
        )
    )
    inputs = drawn(task)
    x, mean = inputs["x"].double(), inputs["mean"].double()  # type: ignore[union-attr]
    right = x - (0.9 * mean + 0.1 * x.mean(0))
    torch.testing.assert_close(run_reference(task, inputs, torch.float64)["out"], right)
    validate(task)


def test_random_numbers_that_the_code_draws_are_inputs(tmp_path: Path) -> None:
    task = opened_here(
        formed(tmp_path, "return x + 3 * torch.randn(x.shape[0], 4) + torch.rand_like(x)", "torch.rand(16, 4)")
    )
    assert list(task.inputs) == ["x", "drawn0", "drawn1"]
    declared = task.inputs["drawn0"]
    assert isinstance(declared, TensorInput) and declared.draw == NormalDraw(0.0, 1.0)
    inputs = drawn(task)
    x, normal, uniform = inputs.values()
    assert torch.equal(run_reference(task, inputs)["out"], x + 3 * normal + uniform)  # type: ignore[operator]


def test_a_long_recurrent_layer_is_one_step(tmp_path: Path) -> None:
    init = "self.layer = nn.LSTM(8, 16, 4, batch_first=True, bidirectional=True)"
    path = formed(tmp_path, "return self.layer(x)[0][:, -1]", "torch.rand(3, 4000, 8)", init=init, top="import torch")
    began = time.process_time()
    found = traced_here(path)
    assert time.process_time() - began < 30  # unrolled, it takes minutes
    assert [node.op for node in found.nodes if node.kind == "call"].count("aten.lstm.input") == 1
    assert len(found.nodes) < 20


def test_what_a_recurrent_layer_computes_is_what_torch_computes(tmp_path: Path) -> None:
    path = formed(tmp_path, "return self.layer(x)[0]", "torch.rand(5, 12, 8)", init="self.layer = nn.GRU(8, 16)")
    task = opened_here(path)
    inputs = drawn(task)
    x, *weights = (value.double() for value in inputs.values())  # type: ignore[union-attr]
    layer = torch.nn.GRU(8, 16).double()
    for parameter, weight in zip(layer.parameters(), weights, strict=True):
        parameter.data = weight
    torch.testing.assert_close(run_reference(task, inputs, torch.float64)["out"], layer(x)[0])
    where = smallest_workload(task)
    assert signature(task, where).outputs[0].shape == tuple(run_reference(task, inputs)["out"].shape)


def test_a_quotient_of_sizes_that_is_made_whole_lets_them_vary(tmp_path: Path) -> None:
    body = "b = int(x.shape[0] / (8 * 8 / 4 / 4)); return x.view(b, 4, 5).sum(1) * int(7 / 2)"
    task = opened_here(formed(tmp_path, body, "torch.rand(48, 5)"))
    assert any(low < high for low, high in task.hidden.values())
    inputs = drawn(task)
    right = inputs["x"].view(-1, 4, 5).sum(1) * 3  # type: ignore[union-attr]
    assert torch.equal(run_reference(task, inputs)["out"], right)


def test_what_is_computed_without_gradients(tmp_path: Path) -> None:
    body = """
        with torch.no_grad():
            scale = x.abs().max()
        return x / scale"""
    task = opened_here(formed(tmp_path, body.strip(), "torch.randn(16, 4)"))
    assert any("No gradient flows" in note for note in task.notes)
    x = drawn(task)["x"].double().requires_grad_()  # type: ignore[union-attr]
    task.reference(x).sum().backward()
    right = torch.full_like(x, 1 / float(x.detach().abs().max()))
    torch.testing.assert_close(x.grad, right)
