"""`kernelwright.optimize`: a function and an example become a task that the judge can read."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import kernelwright
from kernelwright.api import write_task
from kernelwright.search import proposing, session
from kernelwright.tasks import TaskError
from kernelwright.tasks.faults import shown
from kernelwright.tasks.resolve import resolve
from tests.cli.test_optimize import Judge
from tests.search import toy


def rms(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(16, 8), nn.BatchNorm1d(8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.norm(self.linear(x)).relu()
        return hidden, hidden.sum(-1)


def test_a_function_becomes_a_task_with_sizes_that_vary_together(tmp_path: Path) -> None:
    task = resolve(str(write_task(rms, (torch.randn(128, 64), torch.randn(64), 1e-6), tmp_path)))
    assert task.name == "rms" and list(task.public) == [{"n0": 128, "n1": 64}]
    assert task.hidden == {"n0": (32, 512), "n1": (16, 256)}
    x, weight = torch.randn(5, 7), torch.randn(7)
    assert torch.equal(task.reference(x, weight), rms(x, weight, 1e-6))


def test_a_modules_parameters_become_inputs_within_their_range(tmp_path: Path) -> None:
    net = Net().eval()
    task = resolve(str(write_task(net, (torch.randn(32, 16),), tmp_path)))
    assert task.outputs == ("out0", "out1") and task.hidden == {"n0": (8, 128)}
    names = list(task.inputs)
    assert len(names) == 7 and "uniform(0.5, 1.5)" in str(task.inputs[names[5]].draw)  # the running variance
    x = torch.randn(9, 16)
    values = [*(v.detach() for v in net.parameters()), net.norm.running_mean, net.norm.running_var]
    for got, wanted in zip(task.reference(*values, x), net(x), strict=True):
        torch.testing.assert_close(got, wanted)


def test_a_backward_is_derived_from_it(tmp_path: Path) -> None:
    path = write_task(rms, (torch.randn(128, 64), torch.randn(64), 1e-6), tmp_path)
    assert resolve(f"{path}:backward").direction == "backward"


def test_whole_numbers_keep_to_the_examples_range(tmp_path: Path) -> None:
    def picked(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return x.gather(1, index[:, None]).squeeze(1)

    index = torch.tensor([0, 5, 3, 1])
    task = resolve(str(write_task(picked, (torch.randn(4, 6), index), tmp_path)))
    assert str(task.inputs["given_1"].draw) == "integers(0, 6)" and task.hidden["n1"] == (6, 24)


def branching(x: torch.Tensor) -> torch.Tensor:
    return x.relu() if x.sum() > 0 else x.tanh()


@pytest.mark.parametrize(
    ("function", "example", "said"),
    [
        (rms, ([1.0], 2), "an example input is a list"),
        (rms, (1.0, 2), "no example input is a tensor"),
        (branching, (torch.randn(4, 4),), "torch.export cannot write branching down"),
        (lambda x: x.add_(1), (torch.randn(4, 4),), "in place"),
        (nn.BatchNorm1d(8), (torch.randn(16, 8),), "call eval"),
        (lambda x: x.shape[0], (torch.randn(4, 4),), "write a task file"),
        (lambda x: x.reshape(2, 8) * 2, (torch.randn(4, 4),), "the reference raised"),
        (lambda x: x + torch.ones(4, 4), (torch.randn(4, 4),), "all sizes are fixed"),
    ],
)
def test_one_line_for_what_cannot_be_taken(
    tmp_path: Path, function: Callable[..., Any], example: tuple[Any, ...], said: str
) -> None:
    with pytest.raises(TaskError) as caught:
        write_task(function, example, tmp_path)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def halved(x: torch.Tensor) -> torch.Tensor:
    while x.norm() > 1:
        x = x / 2
    return x


@pytest.mark.parametrize("function", [branching, halved])
def test_control_flow_that_depends_on_values_is_named_and_the_rest_is_the_cause(
    tmp_path: Path, function: Callable[..., Any], capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(TaskError) as caught:
        write_task(function, (torch.randn(4, 4),), tmp_path)
    line = function.__code__.co_firstlineno + 1
    assert str(caught.value) == (
        f"torch.export cannot write {function.__name__} down: a branch, a loop or a size in it depends on the values "
        f"of a tensor ({shown(__file__)}:{line}): write a task file"
    )
    assert "data-dependent" in str(caught.value.__cause__)
    assert "def forward(" in "".join(caught.value.__cause__.__notes__)
    assert "def forward(" not in capfd.readouterr().err


def test_a_whole_search_from_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "WarmJudge", Judge)
    monkeypatch.setattr(session, "_bounds", lambda task: {})
    monkeypatch.setitem(proposing.PROPOSERS, "templates", toy.KIND)
    example = (torch.randn(128, 64), torch.randn(64), 1e-6)
    found = kernelwright.optimize(rms, example, budget="20evals", runs=tmp_path)
    assert found.score is not None and found.sources.keys() == {"kernel.cpp"} and found.run == tmp_path / "rms-1"
    assert resolve(found.task).name == "rms"


def test_importing_the_package_stays_light() -> None:
    code = "import sys, kernelwright; sys.exit(any(n in sys.modules for n in ('torch', 'pydantic', 'sqlite3')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
