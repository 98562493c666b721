"""`found.load()` gives what is called exactly like the function or module that was optimized."""

from __future__ import annotations

import warnings
from collections import namedtuple
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from kernelwright.api import written_task
from kernelwright.export.loading import load_proved
from kernelwright.export.own_function import KernelModule, fallback_of
from kernelwright.export.standalone.kernel import FallbackWarning, LoadedKernel
from kernelwright.export.standalone.manifest import parsed, proved_digest
from kernelwright.proposers.model import Operator, Request
from kernelwright.proposers.templates import make
from kernelwright.tasks.resolve import declared
from tests.export import making


def loaded(function: Callable[..., Any], example: Any, folder: Path, **keywords: Any) -> LoadedKernel:
    """By templates and, without a judging, as if proved."""
    with written_task(function, example, folder, "made", keywords) as made:
        path = str(made.path)
        proposal = make(declared(path), "cpp").propose(Request(Operator.fresh, 1, 0))[0]
        kernel = load_proved([making.proved(path, proposal.candidate)], allow=("sizes", "threads"))
    kernel.fall_back_to(fallback_of(function, kernel.manifest.operation.call))
    kernel.return_as(*made.result_types)
    return kernel


class Gate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(64) + 0.5)
        self.register_buffer("shift", torch.randn(64))

    def forward(self, x: torch.Tensor, residual: torch.Tensor | None = None, factor: float = 2.0) -> torch.Tensor:
        y = torch.sigmoid(x) * self.scale * factor + self.shift
        return y if residual is None else y + residual


def test_a_module_keeps_its_parameters_and_is_called_as_before(tmp_path: Path) -> None:
    module, x, residual = Gate(), torch.randn(32, 64), torch.randn(32, 64)
    kernel = KernelModule(module, loaded(module, (x, residual), tmp_path))
    with torch.no_grad():
        torch.testing.assert_close(kernel(x, residual), module(x, residual))
        torch.testing.assert_close(kernel(x, residual=residual), module(x, residual))
        module.scale.mul_(3)
        torch.testing.assert_close(kernel(x, residual, factor=2.0), module(x, residual))
        assert kernel.counts["kernel"] == 3 and kernel.why_not(x, residual) is None
        with pytest.warns(FallbackWarning):
            torch.testing.assert_close(kernel(x, residual, 3.0), module(x, residual, 3.0))
    assert [name for name, _ in kernel.named_parameters()] == ["module.scale"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        kernel(x, residual).sum().backward()
    assert module.scale.grad is not None


def stats(x: torch.Tensor, *, eps: float = 1e-5) -> dict[str, Any]:
    mean = x.mean(-1, keepdim=True)
    return {"centred": x - mean, "inputs": (x, None), "mean": mean * (1 + eps)}


def test_arguments_by_name_and_results_in_a_dict(tmp_path: Path) -> None:
    x = torch.randn(32, 64)
    kernel = loaded(stats, (x,), tmp_path, eps=1e-3)
    expected = stats(x, eps=1e-3)
    found = kernel(x, eps=1e-3)
    assert list(found) == list(expected) and found["inputs"] == (x, None)
    for one, other in zip(tree_leaves(found), tree_leaves(expected), strict=True):
        torch.testing.assert_close(one, other)
    with pytest.warns(FallbackWarning, match="number"):
        torch.testing.assert_close(kernel(x, 0.5)["mean"], stats(x, eps=0.5)["mean"])


Moments = namedtuple("Moments", ["mean", "centred"])


def moments(x: torch.Tensor) -> Moments:
    mean = x.mean(-1, keepdim=True)
    return Moments(mean, x - mean)


def test_a_named_tuple_is_of_the_callers_own_class(tmp_path: Path) -> None:
    x = torch.randn(32, 64)
    kernel = loaded(moments, x, tmp_path)
    assert type(kernel(x)) is Moments and kernel.counts == {"kernel": 1}
    torch.testing.assert_close(kernel(x).centred, moments(x).centred)
    kernel.return_as()
    found = kernel(x)
    assert type(found) is not Moments and found._fields == Moments._fields


def update(p: torch.Tensor, g: torch.Tensor, lr: float = 0.1) -> torch.Tensor:
    p.sub_(g, alpha=lr)
    return p


def test_an_argument_that_is_changed_and_given_back_is_that_argument(tmp_path: Path) -> None:
    p, g = torch.randn(32, 64), torch.randn(32, 64)
    kernel = loaded(update, (p.clone(), g), tmp_path)
    expected = update(p.clone(), g)
    assert kernel(p, g) is p and torch.allclose(p, expected) and kernel.counts == {"kernel": 1}


def weighted(x: torch.Tensor) -> torch.Tensor:
    return x * torch.tensor([0.5, 2.0, -1.0, 3.0])


def test_a_tensor_that_the_code_writes_out_is_not_an_argument(tmp_path: Path) -> None:
    x = torch.randn(64, 4)
    kernel = loaded(weighted, (x,), tmp_path)
    torch.testing.assert_close(kernel(x), weighted(x))
    torch.testing.assert_close(kernel(x[:7]), weighted(x[:7]))
    assert str(kernel.__signature__) == "(x)" and kernel.counts["kernel"] >= 1


def geglu(x: torch.Tensor) -> torch.Tensor:
    value, gate = x.chunk(2, dim=-1)
    return value * torch.nn.functional.gelu(gate)


def test_halves_of_an_axis_are_a_size_that_is_read_off_it(tmp_path: Path) -> None:
    x = torch.randn(64, 96)
    kernel = loaded(geglu, (x,), tmp_path)
    for given in (x, x[:32], torch.randn(64, 128)):
        torch.testing.assert_close(kernel(given), geglu(given))
    assert kernel.counts == {"kernel": 3}
    with pytest.warns(FallbackWarning), pytest.raises(RuntimeError, match="must match"):
        kernel(torch.randn(64, 97))
    compiled = torch.compile(kernel, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), geglu(x))


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, heads: int) -> torch.Tensor:
    rows, length, width = q.shape
    q, k, v = (one.view(rows, length, heads, width // heads).transpose(1, 2) for one in (q, k, v))
    weights = torch.softmax(q @ k.transpose(-1, -2) * (width // heads) ** -0.5, -1)
    return (weights @ v).transpose(1, 2).reshape(rows, length, width)


def test_attention_of_the_product_core_can_be_loaded(tmp_path: Path) -> None:
    example = (*torch.randn(3, 2, 32, 64).unbind(), 4)
    kernel = loaded(attention, example, tmp_path)
    torch.testing.assert_close(kernel(*example), attention(*example))
    assert kernel.counts == {"kernel": 1}


def test_a_module_that_is_compiled_whole_keeps_the_kernel_in_its_graph(tmp_path: Path) -> None:
    module, x = nn.Sequential(Gate()), torch.randn(32, 64)
    kernel = KernelModule(module, loaded(module, (x,), tmp_path))
    compiled = torch.compile(kernel, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), module(x))
    assert kernel.counts["kernel"] == 1


def test_what_was_signed_before_forms_were_known_is_valid_still(tmp_path: Path) -> None:
    kernel = loaded(weighted, (torch.randn(64, 4),), tmp_path)
    manifest = parsed(kernel.manifest.to_json())
    assert manifest == kernel.manifest
    operation, variant = manifest.operation, manifest.forward[0]
    bare = replace(operation, call=tuple(replace(one, values=None) for one in operation.call))
    assert proved_digest(operation, "forward", variant) != proved_digest(bare, "forward", variant)
    formed = replace(bare, form={"list": [{"output": 0}]})
    assert proved_digest(formed, "forward", variant) != proved_digest(bare, "forward", variant)
