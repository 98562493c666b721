"""Honest tasks are clean: the built-ins, and operations whose results only look suspicious."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from kernelwright.insight.lint import run
from kernelwright.insight.lint.finding import LintFinding, Rule, Severity
from kernelwright.insight.lint.run import lint
from kernelwright.tasks import Chosen, Task, integers, normal, tensor
from kernelwright.tasks.backward import derive_backward
from kernelwright.tasks.resolve import builtin_names, resolve

GRADIENTS = (f"{name}:backward" for name in builtin_names() if name not in ("adamw", "argmax"))
LONGEST = 256
BUILTIN = (*builtin_names(), *GRADIENTS)
# Gradients of what another built-in does as well.
REPEATED = ("layernorm3d", "linear", "llama_ffw", "resnet_block", "rmsnorm", "unet_conv2d", "unet_linear")
SLOW = tuple(f"{name}:backward" for name in REPEATED)


def rows_task(reference: Callable[..., Any], **changes: Any) -> Task:
    fields: dict[str, Any] = {
        "reference": reference,
        "inputs": {"x": tensor("rows", "cols")},
        "public": [{"rows": 256, "cols": 512}],
        "hidden": {"rows": (16, 900), "cols": (16, 900)},
        "name": "honest",
    }
    return Task(**{**fields, **changes})


def gathered(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return x.gather(1, index.unsqueeze(1)).squeeze(1)


INDEXED = {"x": tensor("rows", "cols"), "index": tensor("rows", draw=integers(0, "cols"), dtype="int64")}
HONEST: dict[str, Task] = {
    "relu": rows_task(torch.relu),
    "abs": rows_task(torch.abs),
    "transpose": rows_task(lambda x: x.T.contiguous()),
    "softmax": rows_task(lambda x: torch.softmax(x, -1)),
    "positive": rows_task(lambda x: x > 0),
    "clamp": rows_task(lambda x: x.clamp(-1, 1)),
    "cumsum": rows_task(lambda x: x.cumsum(-1)),
    "sums": rows_task(lambda x: x.sum(-1)),
    "total": rows_task(
        lambda x: x.sum(), public=[{"rows": 64, "cols": 128}], hidden={"rows": (40, 99), "cols": (40, 199)}
    ),
    "one of each row": rows_task(gathered, inputs=INDEXED),
    "largest": rows_task(lambda x: x.argmax(-1), comparators={"out": Chosen("x")}),
    "half precision": rows_task(lambda x: torch.tanh(x), dtypes=("bfloat16",)),
    "few elements": rows_task(lambda x: x.mean(-1), public=[{"rows": 16, "cols": 9000}]),
    "mean of squares": rows_task(lambda x: x.square().mean(-1)),
    "dropout": rows_task(
        lambda x, keep: x * keep * 2,
        inputs={"x": tensor("rows", "cols"), "keep": tensor("rows", "cols", draw=normal())},
    ),
}


def flagged(findings: tuple[LintFinding, ...]) -> list[str]:
    return [f.line("task") for f in findings if f.severity is not Severity.note]


@pytest.fixture(autouse=True)
def _no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eager times are left out: they depend on the machine, and on what else it does."""
    monkeypatch.setattr(run, "cpu_peaks", lambda: None)
    monkeypatch.setattr(run, "slowness_findings", lambda task, peaks, workloads: ())


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_task_is_clean(name: str) -> None:
    assert flagged(lint(HONEST[name])) == []


def test_a_sparse_gradient_is_no_error() -> None:
    (finding,) = lint(derive_backward(rows_task(gathered, inputs=INDEXED)))[:1]
    assert (finding.rule, finding.severity) == (Rule.mostly_constant, Severity.warning)


def test_a_gradient_may_repeat_itself_and_need_not_use_all_that_its_forward_did() -> None:
    repeated, unused = lint(derive_backward(rows_task(lambda x: x.sum(-1))))
    assert (repeated.rule, repeated.severity) == (Rule.repeated, Severity.warning)
    assert "axis 1" in repeated.message
    assert (unused.rule, unused.severity, unused.subject) == (Rule.insensitive, Severity.note, "input x")


def small(name: str) -> Task:
    """As declared, on sizes that take no time; `kernelwright tasks lint` looks at the declared ones."""
    task = resolve(name)
    sizes = {size: min(low, LONGEST) for size, (low, _) in task.hidden.items()}
    return replace(task, public=[sizes], hidden={size: (value, 2 * value) for size, value in sizes.items()})


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in BUILTIN])
def test_a_built_in_is_clean_on_small_workloads(name: str) -> None:
    assert flagged(lint(small(name))) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", BUILTIN)
def test_a_built_in_is_clean_with_any_seed(name: str) -> None:
    for seed in range(1, 4):
        assert flagged(lint(small(name), seed)) == []
