"""The backward is a task like any other, and its gradients are those of the forward."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kernelwright.tasks import Family, TaskError, integers, tensor
from kernelwright.tasks.backward import derive_backward
from kernelwright.tasks.drawing import draw_inputs, run_reference, signature
from kernelwright.tasks.hidden import small_workloads
from kernelwright.tasks.model import Task, Workload
from kernelwright.tasks.resolve import resolve

from .samples import small_task

WORKLOAD = Workload((("rows", 6), ("cols", 10)))


def inputs_of(task: Task) -> dict[str, Any]:
    return draw_inputs(task, WORKLOAD, Family.NORMAL, torch.Generator().manual_seed(1))


def test_arguments_are_forward_inputs_and_upstream_gradients() -> None:
    backward = derive_backward(small_task())
    assert backward.name == "scaled:backward" and backward.direction == "backward"
    assert list(backward.inputs) == ["x", "weight", "factor", "grad_out"]
    assert backward.outputs == ("grad_x", "grad_weight")
    specs = {spec.name: spec for spec in signature(backward, WORKLOAD).tensors}
    assert specs["grad_out"].shape == (6, 10) and specs["grad_out"].role == "input"
    assert specs["grad_weight"].shape == (10,) and specs["grad_weight"].role == "output"


@pytest.mark.parametrize("dtype", [None, torch.float64])
def test_gradients_are_right(dtype: torch.dtype | None) -> None:
    backward = derive_backward(small_task())
    inputs = inputs_of(backward)
    x, weight, grad = (inputs[name].to(dtype or torch.float32) for name in ("x", "weight", "grad_out"))
    results = run_reference(backward, inputs, dtype)
    torch.testing.assert_close(results["grad_x"], grad * weight * 2)
    torch.testing.assert_close(results["grad_weight"], (grad * x * 2).sum(0))


def test_the_caller_may_have_turned_gradients_off() -> None:
    backward = derive_backward(small_task())
    with torch.no_grad():
        results = run_reference(backward, inputs_of(backward))
    assert not results["grad_x"].requires_grad and bool((results["grad_x"] != 0).any())


def test_upstream_gradients_follow_the_family() -> None:
    backward = derive_backward(small_task())
    generator = torch.Generator().manual_seed(1)
    grad = draw_inputs(backward, WORKLOAD, Family.SMALL, generator)["grad_out"]
    assert isinstance(grad, torch.Tensor) and float(grad.abs().max()) < 0.01


def test_saved_tensors_are_computed_from_the_forward_inputs() -> None:
    def total(x: torch.Tensor, weight: torch.Tensor, factor: float) -> torch.Tensor:
        return (x * weight).sum(-1)

    backward = derive_backward(small_task(saved={"total": total}))
    assert list(backward.inputs) == ["x", "weight", "factor", "total", "grad_out"]
    inputs = inputs_of(backward)
    assert torch.equal(inputs["total"], (inputs["x"] * inputs["weight"]).sum(-1))
    assert signature(backward, WORKLOAD).tensors[2].shape == (6,)
    assert set(run_reference(backward, inputs)) == {"grad_x", "grad_weight"}


def test_saved_must_be_a_tensor() -> None:
    backward = derive_backward(small_task(saved={"total": lambda x, w, f: 3}))
    with pytest.raises(TaskError, match=r"saved\['total'\] returned a int"):
        signature(backward, WORKLOAD)


def test_a_vjp_that_the_author_wrote_is_taken() -> None:
    def vjp(x: torch.Tensor, weight: torch.Tensor, factor: float, grad: torch.Tensor) -> Any:
        return grad * weight * factor, (grad * x * factor).sum(0)

    assert derive_backward(small_task(vjp=vjp)).reference is vjp


def test_integer_outputs_and_inputs_without_gradient_are_left_out() -> None:
    def picked(x: torch.Tensor, shift: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, indices = (x + shift)[rows].max(-1)
        return indices, values

    backward = derive_backward(
        small_task(
            reference=picked,
            inputs={
                "x": tensor("rows", "cols"),
                "shift": tensor("cols", gradient=False),
                "rows": tensor("rows", draw=integers(0, "rows"), dtype="int64"),
            },
            outputs=("indices", "values"),
        )
    )
    assert list(backward.inputs) == ["x", "shift", "rows", "grad_values"]
    assert backward.outputs == ("grad_x",)
    assert run_reference(backward, inputs_of(backward))["grad_x"].shape == (6, 10)


def test_a_forward_that_looks_at_its_data_can_be_differentiated() -> None:
    def branching(x: torch.Tensor, weight: torch.Tensor, factor: float) -> torch.Tensor:
        return x * weight if float(x.detach().sum()) > 1e9 else x * weight * 3

    backward = derive_backward(small_task(reference=branching))
    inputs = inputs_of(backward)
    expected = inputs["grad_out"] * inputs["weight"] * 3
    torch.testing.assert_close(run_reference(backward, inputs)["grad_x"], expected)


def in_place(x: torch.Tensor, weight: torch.Tensor, factor: float) -> None:
    x.mul_(weight)


NO_BACKWARD: list[tuple[dict[str, Any], str]] = [
    ({"reference": lambda x, w, f: (x * w).argmax(-1)}, "none of its outputs is differentiable"),
    ({"reference": in_place, "inout": ("x",), "outputs": ()}, "it changes x in place"),
    ({"reference": lambda x, w, f: x * 2}, "no output depends on 'weight'"),
    (
        {"inputs": {"x": tensor("rows", "cols", gradient=False)}, "reference": lambda x: x * 2},
        "no floating-point input has gradient=True",
    ),
    (
        {"inputs": {"grad_out": tensor("rows", "cols")}, "reference": lambda x: x * 2},
        "input 'grad_out' has the name of an upstream gradient",
    ),
    (
        {"inputs": {"x": tensor("rows", "cols"), "grad_x": 1}, "reference": lambda x, y: x * 2},
        "scaled has no backward: 'grad_x' names two of",
    ),
]


@pytest.mark.parametrize(("changes", "message"), NO_BACKWARD, ids=[message for _, message in NO_BACKWARD])
def test_a_task_without_backward_says_why(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskError, match=message):
        derive_backward(small_task(**changes))


def test_a_backward_has_no_backward() -> None:
    with pytest.raises(TaskError, match="already a backward"):
        derive_backward(derive_backward(small_task()))


@pytest.mark.slow
@pytest.mark.compile
def test_torch_compile_makes_one_graph_of_a_backward() -> None:
    backward = derive_backward(small_task())
    inputs = inputs_of(backward)
    compiled = torch.compile(backward.reference, dynamic=False, fullgraph=True)(*inputs.values())
    for result, expected in zip(compiled, run_reference(backward, inputs).values(), strict=True):
        torch.testing.assert_close(result, expected)


@pytest.mark.parametrize("name", ["rmsnorm", "cross_entropy", "linear_relu", "maxpool2d"])
@pytest.mark.parametrize("compiled", [False, True])
def test_a_backward_in_two_goes_is_the_same(name: str, compiled: bool) -> None:
    task = resolve(f"{name}:backward")
    generator = torch.Generator().manual_seed(1)
    arguments = list(draw_inputs(task, small_workloads(task, 1)[0], Family.NORMAL, generator).values())
    assert task.pullback is not None
    forward = torch.compile(task.pullback.forward, backend="aot_eager") if compiled else task.pullback.forward
    found, again = (task.pullback.begin(forward, arguments)() for _ in range(2))
    expected = task.reference(*arguments)
    for one, other, exact in zip(found, again, expected, strict=True):
        torch.testing.assert_close(one, exact)
        torch.testing.assert_close(other, exact)
