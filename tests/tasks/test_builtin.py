"""The built-in tasks compute what their names say, and their hidden workloads are worth measuring."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import torch

from kernelwright.tasks import Chosen
from kernelwright.tasks.declarations import FAMILIES
from kernelwright.tasks.drawing import draw_inputs, run_reference
from kernelwright.tasks.hidden import hidden_workloads, work
from kernelwright.tasks.model import Task, Workload
from kernelwright.tasks.resolve import BUILTIN, builtin_names, resolve
from kernelwright.tasks.validate import smallest_workload

NAMES = builtin_names()
WITH_BACKWARD = tuple(name for name in NAMES if name not in ("argmax", "adamw"))
ALL = (*NAMES, *(f"{name}:backward" for name in WITH_BACKWARD))

task_named = cache(resolve)


def inputs_of(task: Task, workload: Workload | None = None, seed: int = 1) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(seed)
    return draw_inputs(task, workload or smallest_workload(task), task.families[0], generator)


@pytest.mark.parametrize("name", NAMES)
def test_a_built_in_is_a_file_as_a_user_would_write_it(name: str) -> None:
    tree = ast.parse(Path(BUILTIN / f"{name}.py").read_text())
    assert ast.get_docstring(tree)
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {module for module in imported if module and module.startswith("kernelwright")} == {"kernelwright.tasks"}


@pytest.mark.parametrize("name", NAMES)
def test_there_are_three_public_workloads_of_similar_work(name: str) -> None:
    task = task_named(name)
    amounts = [work(task, sizes) for sizes in task.public]
    assert len(amounts) == 3
    assert max(amounts) < 1.6 * min(amounts)


@pytest.mark.parametrize("name", ALL)
def test_hidden_workloads_fit(name: str) -> None:
    task = task_named(name)
    usual = median(work(task, sizes) for sizes in task.public)
    pool = hidden_workloads(task, b"key")
    assert len(set(pool)) == 16
    for workload in pool:
        assert 0.5 <= work(task, workload.size_map) / usual <= 1.5


@pytest.mark.parametrize("name", ALL)
def test_float32_is_close_to_float64_for_every_family(name: str) -> None:
    task = task_named(name)
    small = Workload(tuple((size, min(low, 70)) for size, (low, _) in task.hidden.items()))
    for family in FAMILIES:
        inputs = draw_inputs(task, small, family, torch.Generator().manual_seed(2))
        exact = run_reference(task, inputs, torch.float64)
        for result, value in run_reference(task, inputs).items():
            assert bool(value.isfinite().all())
            if not isinstance(task.comparator(result), Chosen):
                error = (value - exact[result]).abs().max() / exact[result].abs().max()
                assert float(error) < 1e-4, f"{result} of {family}"


def norm_rms(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)


def norm_layer(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> torch.Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt(centred.square().mean(-1, keepdim=True) + eps) * weight + bias


def windows(x: torch.Tensor) -> torch.Tensor:
    height, width = x.shape[2] // 2 * 2, x.shape[3] // 2 * 2
    x = x[:, :, :height, :width]
    return torch.stack([x[:, :, i::2, j::2] for i in (0, 1) for j in (0, 1)]).amax(0)


def norm_images(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> torch.Tensor:
    return norm_layer(x.flatten(1), weight.flatten(), bias.flatten(), eps).view(x.shape)


def patches(x: torch.Tensor, weight: torch.Tensor, padding: int) -> torch.Tensor:
    """A convolution as a product with every patch of 3 by 3."""
    columns = torch.nn.functional.unfold(x, 3, padding=padding)
    height, width = x.shape[2] + 2 * padding - 2, x.shape[3] + 2 * padding - 2
    return (weight.flatten(1) @ columns).view(x.shape[0], -1, height, width)


def over_planes(values: torch.Tensor) -> torch.Tensor:
    return values[:, None, None]


def block(x: torch.Tensor, conv1: torch.Tensor, *rest: Any) -> torch.Tensor:
    *first, conv2, scale2, shift2, mean2, var2, eps = rest
    inner = patches(x, conv1, 1)
    for conv, (scale, shift, mean, var) in ((None, first), (conv2, (scale2, shift2, mean2, var2))):
        inner = inner if conv is None else patches(inner.clamp_min(0), conv, 1)
        inner = (inner - over_planes(mean)) / over_planes((var + eps).sqrt()) * over_planes(scale) + over_planes(shift)
    return (x + inner).clamp_min(0)


def swiglu(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    before = torch.einsum("btf,hf->bth", x, gate)
    return torch.einsum("bth,fh->btf", before / (1 + (-before).exp()) * torch.einsum("btf,hf->bth", x, up), down)


OTHERWISE: dict[str, Callable[..., torch.Tensor]] = {
    "rmsnorm": norm_rms,
    "layernorm": norm_layer,
    "softmax": lambda x: (x.double() - x.double().logsumexp(-1, keepdim=True)).exp().float(),
    "cross_entropy": lambda x, t: (torch.logsumexp(x, -1) - x.gather(1, t[:, None])[:, 0]).mean(),
    "linear_relu": lambda x, w, b: torch.nn.functional.linear(x, w, b).clamp_min(0),
    "maxpool2d": windows,
    "linear": lambda x, w, b: torch.addmm(b, x, w.T),
    "unet_linear": lambda x, w, b: torch.einsum("btf,uf->btu", x, w) + b,
    "layernorm3d": norm_images,
    "unet_conv2d": lambda x, w, b: patches(x, w, 1) + over_planes(b),
    "conv_relu_pool": lambda x, w, b: windows((patches(x, w, 0) + over_planes(b)).clamp_min(0)),
    "llama_ffw": swiglu,
    "resnet_block": block,
    "argmax": lambda x: x.max(-1).indices,
}


@pytest.mark.parametrize("name", sorted(OTHERWISE))
def test_a_built_in_agrees_with_the_same_thing_written_otherwise(name: str) -> None:
    task = task_named(name)
    inputs = inputs_of(task)
    ours = run_reference(task, inputs)["out"]
    torch.testing.assert_close(ours, OTHERWISE[name](*inputs.values()), rtol=1e-5, atol=3e-5)


def test_adamw_is_the_step_of_torch() -> None:
    task = task_named("adamw")
    inputs = inputs_of(task, Workload((("elements", 1000),)))
    mine = run_reference(task, inputs, torch.float64)
    param = torch.nn.Parameter(inputs["param"].double())
    param.grad = inputs["grad"].double()
    betas = (inputs["beta1"], inputs["beta2"])
    optimizer = torch.optim.AdamW([param], inputs["lr"], betas, inputs["eps"], inputs["weight_decay"])
    optimizer.state[param] = {
        "step": torch.tensor(inputs["step"] - 1),
        "exp_avg": inputs["exp_avg"].double(),
        "exp_avg_sq": inputs["exp_avg_sq"].double(),
    }
    optimizer.step()
    torch.testing.assert_close(mine["param"], param.detach())
    for moment in ("exp_avg", "exp_avg_sq"):
        torch.testing.assert_close(mine[moment], optimizer.state[param][moment])


@pytest.mark.parametrize("name", WITH_BACKWARD)
def test_a_backward_agrees_with_finite_differences(name: str) -> None:
    """Along one random direction, in float64, on a small workload."""
    forward, backward = task_named(name), task_named(f"{name}:backward")
    tiny = Workload(tuple((size, 6) for size in forward.hidden), "float64")
    inputs = inputs_of(backward, tiny)
    generator = torch.Generator().manual_seed(7)
    step = 1e-6
    slope = 0.0
    gradients = run_reference(backward, inputs)
    moved = {sign: dict(inputs) for sign in (-1, 1)}
    for name, gradient in gradients.items():
        along = torch.randn(gradient.shape, generator=generator, dtype=torch.float64)
        slope += float((gradient * along).sum())
        for sign in moved:
            moved[sign][name.removeprefix("grad_")] = inputs[name.removeprefix("grad_")] + sign * step * along
    ends = {sign: (run_reference(forward, at)["out"] * inputs["grad_out"]).sum() for sign, at in moved.items()}
    assert slope == pytest.approx(float(ends[1] - ends[-1]) / (2 * step), rel=1e-6, abs=1e-8)


def test_the_backward_of_pooling_prefers_the_first_of_equals() -> None:
    backward = task_named("maxpool2d:backward")
    results = run_reference(backward, {"x": torch.ones(1, 1, 2, 2), "grad_out": torch.full((1, 1, 1, 1), 3.0)})
    assert results["grad_x"].flatten().tolist() == [3, 0, 0, 0]
