"""The recorder's walk over autograd's graph gives what torch's own engine gives."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kernelwright.contracts.triton.confined import gradients


class ProductAndSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.save_for_backward(x, y)
        return x * y, x + y

    @staticmethod
    def backward(ctx: Any, *given: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, y = ctx.saved_tensors
        return given[0] * y + given[1], given[0] * x + given[1]


def both(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    product, total = ProductAndSum.apply(x, y.view(12).view(3, 4))  # type: ignore[no-untyped-call]
    turned = torch.tanh(product).t()
    return (turned * turned).sum() + (x * total.split(2, 1)[0].repeat(1, 2)).sum()


def one_result(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Of a function with two: the other's gradient is zero."""
    found: torch.Tensor = ProductAndSum.apply(x, y)[0]  # type: ignore[no-untyped-call]
    return found.sin()


@pytest.mark.parametrize("function", [both, one_result])
def test_gradients_are_those_of_torch(function: Any) -> None:
    chance = torch.Generator().manual_seed(3)
    x, y = (torch.randn(3, 4, generator=chance).requires_grad_() for _ in range(2))
    upstream = torch.ones_like(function(x, y)) * 3
    expected = torch.autograd.grad(function(x, y), (x, y), upstream)
    torch.testing.assert_close(gradients.grad(function(x, y), (x, y), upstream), expected)
    gradients.backward(function(x, y), upstream)
    gradients.backward(function(x, y), upstream)
    assert x.grad is not None
    torch.testing.assert_close(x.grad, 2 * expected[0])


def test_a_tensor_that_the_graph_does_not_use_is_told() -> None:
    x, unused = torch.ones(3).requires_grad_(), torch.ones(3).requires_grad_()
    with pytest.raises(RuntimeError, match="not have been used"):
        gradients.grad(x.sum(), unused)
    assert gradients.grad(x.sum(), (x, unused), allow_unused=True)[1] is None
    with pytest.raises(RuntimeError, match="does not require grad"):
        gradients.grad(x.sum(), torch.ones(3))
