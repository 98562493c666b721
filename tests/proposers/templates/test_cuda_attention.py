"""Attention in CUDA as one kernel, on the emulator: masks, heads of all sizes, grouped queries, every dtype."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from kernelwright.contracts import nvrtc
from kernelwright.contracts.cuda.source import split
from kernelwright.contracts.cuda.toolchain.evaluate import evaluate_plans
from kernelwright.contracts.cuda.toolkit import include_directories
from kernelwright.contracts.target import HOPPER
from kernelwright.proposers.templates import TemplateProposer, make
from kernelwright.proposers.templates.cuda.candidate import steps_of
from kernelwright.proposers.templates.cuda.contractions.nested import NestedContraction
from kernelwright.proposers.templates.patterns.attention import AttentionStep
from kernelwright.proposers.templates.patterns.contractions import ContractionStep
from kernelwright.tasks import Task, tensor
from kernelwright.tasks.backward import derive_backward
from tests.proposers.templates.emulated import emulated_errors, source_of


def plain(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v)


def causal(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def grouped(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def masked(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def layer(q: Any, k: Any, v: Any) -> Any:
    """As a model writes it: heads lie side by side, and a softmax by hand."""
    q, k, v = (one.view(*one.shape[:2], 3, 16).transpose(1, 2) for one in (q, k, v))
    return (q @ k.transpose(-2, -1) * 0.25).softmax(-1) @ v


def task_of(function: Callable[..., Any], dtype: str, head: int = 16, wide: int = 16) -> tuple[Task, dict[str, int]]:
    sizes = {"b": 2, "t": 70, "s": 77}
    inputs = {"q": tensor("b", 3, "t", head), "k": tensor("b", 3, "s", head), "v": tensor("b", 3, "s", wide)}
    if function is grouped:
        inputs = {"q": tensor("b", 4, "t", head), "k": tensor("b", 2, "s", head), "v": tensor("b", 2, "s", wide)}
    if function is layer:
        inputs = {"q": tensor("b", "t", 48), "k": tensor("b", "s", 48), "v": tensor("b", "s", 48)}
    if function is masked:
        inputs["mask"] = tensor("t", "s")
    ranges = {name: (max(1, size - 3), size + 3) for name, size in sizes.items()}
    return Task(function, inputs, [sizes], ranges, "attention", dtypes=(dtype,)), sizes


def templates_of(task: Task) -> TemplateProposer:
    templates = make(task, "cuda")
    steps = [step.contraction if isinstance(step, NestedContraction) else step for step in steps_of(templates.plan)]
    assert [type(step) for step in steps] == [AttentionStep]
    return templates


CASES = [
    *((function, dtype) for function in (plain, causal, grouped, masked) for dtype in ("float32", "bfloat16")),
    *((layer, "float32"), (causal, "float16")),
]
QUICK = [(causal, "float32"), (causal, "float16"), (grouped, "bfloat16"), (layer, "float32")]


@pytest.mark.parametrize(
    ("function", "dtype"), [one if one in QUICK else pytest.param(*one, marks=pytest.mark.slow) for one in CASES]
)
def test_attention_is_one_right_kernel(function: Callable[..., Any], dtype: str) -> None:
    task, sizes = task_of(function, dtype)
    assert emulated_errors(task, source_of(templates_of(task), {}), sizes) == []


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("head", "wide"),
    [(5, 7), *(pytest.param(*one, marks=pytest.mark.slow) for one in ((64, 64), (128, 40), (144, 144), (256, 256)))],
)
def test_heads_of_any_size_are_right(head: int, wide: int, dtype: str) -> None:
    task, sizes = task_of(plain, dtype, head, wide)
    assert emulated_errors(task, source_of(templates_of(task), {}), sizes | {"b": 1}) == []


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (causal, "float32"),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in ((plain, "bfloat16"), (layer, "float32"))),
    ],
)
def test_gradients_are_products_and_row_programs(function: Callable[..., Any], dtype: str) -> None:
    forward, sizes = task_of(function, dtype)
    task = derive_backward(forward)
    templates = make(task, "cuda")
    steps = steps_of(templates.plan)
    assert sum(isinstance(step, ContractionStep | NestedContraction) for step in steps) >= 5
    assert emulated_errors(task, source_of(templates, {"border": 18}), sizes | {"b": 1, "t": 9, "s": 11}) == []


def test_larger_heads_are_products_and_a_softmax() -> None:
    steps = steps_of(make(task_of(plain, "float32", 264)[0], "cuda").plan)
    assert len(steps) > 1 and not any(isinstance(step, AttentionStep) for step in steps)


def added(q: Any, k: Any, v: Any) -> Any:
    """Causal as torch computes it in float64 on a GPU: a score of -inf for every key that is hidden."""
    visible = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
    scores = q.float() @ k.float().transpose(-2, -1) * 0.25 + torch.where(visible, 0.0, -inf)
    return (scores.softmax(-1) @ v.float()).to(q.dtype)


@pytest.mark.parametrize(
    "planted",
    [
        *({}, {"k": nan}),
        *(pytest.param(one, marks=pytest.mark.slow) for one in ({"v": nan}, {"k": -inf}, {"q": inf})),
    ],
)
def test_hidden_keys_are_skipped_where_they_have_no_effect(planted: dict[str, float]) -> None:
    """A NaN or an infinity behind the mask reaches rows before it. There are more keys than in the steps of any row."""
    task, sizes = task_of(added, "bfloat16", 16)
    assert emulated_errors(task, source_of(templates_of(task), {}), sizes | {"b": 1, "t": 200, "s": 150}, planted) == []


def launches_of(function: Callable[..., Any], dtype: str) -> int:
    templates = templates_of(task_of(function, dtype)[0])
    plans = evaluate_plans(split(source_of(templates, {})).plan, templates.signatures, HOPPER)
    assert isinstance(plans, tuple), plans
    return len(plans[0].launches)


def test_only_a_causal_kernel_looks_for_what_it_may_not_skip() -> None:
    found = {function: launches_of(function, "bfloat16") for function in (plain, causal, added, masked)}
    assert found == {plain: 1, causal: 2, added: 2, masked: 1}
    assert launches_of(causal, "float32") == 1


def named_head(most: int) -> tuple[Task, dict[str, int]]:
    sizes = {"b": 1, "s": 70, "d": 24}
    inputs = {name: tensor("b", 2, "s", "d") for name in "qkv"}
    ranges = {"b": (1, 2), "s": (60, 70), "d": (8, most)}
    return Task(causal, inputs, [sizes], ranges, "attention", dtypes=("bfloat16",)), sizes


def test_heads_may_have_a_named_size() -> None:
    """One that the domain bounds by 256; any other is products and a softmax."""
    task, sizes = named_head(256)
    assert emulated_errors(task, source_of(templates_of(task), {}), sizes) == []
    steps = steps_of(make(named_head(257)[0], "cuda").plan)
    assert not any(isinstance(step, AttentionStep) for step in steps)


def by_hand(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return (q @ k.transpose(-2, -1) + mask * float("inf")).softmax(-1) @ v


def by_torch(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask * float("inf"))


@pytest.mark.parametrize("function", [by_hand, by_torch])
def test_a_row_without_keys_is_what_torch_makes_of_it(function: Callable[..., Any]) -> None:
    """With a mask of -inf and inf by chance, and one of -inf alone: zeros, or NaN."""
    task, sizes = task_of(masked, "float32")
    for scaled in (lambda mask: mask, lambda mask: mask.abs() * -1 - 1):

        def made(q: Any, k: Any, v: Any, mask: Any, scaled: Callable[[Any], Any] = scaled) -> Any:
            return function(q, k, v, scaled(mask))

        own = Task(lambda q, k, v, mask: made(q, k, v, mask), task.inputs, list(task.public), task.hidden, "attention")
        assert emulated_errors(own, source_of(templates_of(own), {}), sizes | {"b": 1}) == []


@pytest.mark.skipif(bool(nvrtc.available()), reason="NVRTC is missing")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
def test_the_gpu_compiler_takes_it(dtype: str, architecture: str) -> None:
    templates = templates_of(task_of(causal, dtype, 64, 64)[0])
    sources = split(source_of(templates, {}))
    plans = evaluate_plans(sources.plan, templates.signatures, HOPPER)
    assert isinstance(plans, tuple), plans
    options = [f"--gpu-architecture={architecture}", f"--std={plans[0].options.std}"]
    options += [f"-D{key}={value}" for key, value in plans[0].definitions]
    options += [f"-I{folder}" for folder in include_directories()]
    assert nvrtc.compile_cuda(sources.kernel, "kernel.cu", options, plans[0].kernels).cubin
