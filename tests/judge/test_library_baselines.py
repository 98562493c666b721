"""Baselines of libraries: PyTorch's fused variants, attention by each backend, and those that a task names itself."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kernelwright.contracts import Candidate
from kernelwright.judge.baseline_processes.variants import UnfitError, flags, tried, variant
from kernelwright.judge.controller import Judge
from kernelwright.judge.settings import Settings
from kernelwright.judge.timing.measure import Sampling
from kernelwright.judge.verdict import (
    BaselineTime,
    IntervalValue,
    Outcome,
    SpeedStanding,
    SpeedStatus,
    WorkloadResult,
    author_view,
)
from kernelwright.tasks.model import Task
from kernelwright.tasks.resolve import declared

ATTENTION = """
import torch
import torch.nn.functional as F
from kernelwright.tasks import Task, tensor


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def by_hand(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1) @ v


dims = ("batch", "heads", "tokens", "width")
task = Task(
    reference=attention,
    inputs={name: tensor(*dims) for name in ("q", "k", "v")},
    public=[{"batch": 1, "heads": 2, "tokens": 16, "width": 8}],
    hidden={"batch": (1, 2), "heads": (1, 4), "tokens": (4, 32), "width": (4, 16)},
    baselines={"by_hand": by_hand, "wrong": lambda q, k, v: v},
)
"""


@pytest.fixture
def attention(tmp_path: Path) -> Task:
    path = tmp_path / "attention.py"
    path.write_text(ATTENTION)
    return declared(str(path))


def values(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def test_attention_by_each_backend_of_a_cpu_is_the_references(attention: Task) -> None:
    q = values(1, 2, 16, 8)
    expected = attention.reference(q, q, q)
    for kind in ("sdpa-math", "sdpa-flash"):
        function = variant(kind, attention)
        tried(function, lambda function=function: function(q, q, q))  # type: ignore[misc]
        torch.testing.assert_close(function(q, q, q), expected)


def test_a_backend_that_cannot_do_it_is_unfit_in_one_line(attention: Task) -> None:
    function = variant("sdpa-cudnn", attention)  # there is no cuDNN on a CPU
    with pytest.raises(UnfitError, match=r"^RuntimeError: [^\n]+$"):
        tried(function, lambda: function(*(values(1, 2, 16, 8) for _ in range(3))))


def test_a_task_without_attention_is_not_for_an_attention_backend() -> None:
    function = variant("sdpa-math", declared("softmax"))
    with pytest.raises(UnfitError, match="does not call scaled_dot_product_attention"):
        tried(function, lambda: function(values(4, 4)))


def test_fused_variants_compute_what_the_built_in_tasks_do() -> None:
    x, weight = values(4, 32), values(32)
    rmsnorm = declared("rmsnorm")
    torch.testing.assert_close(variant("fused", rmsnorm)(x, weight, 1e-6), rmsnorm.reference(x, weight, 1e-6))
    adamw = declared("adamw")
    numbers = (0.01, 0.9, 0.999, 1e-8, 0.1, 10.0)
    ours, theirs = ([values(64), values(64, 1).flatten(), values(64), values(64).abs()] for _ in range(2))
    variant("fused", adamw)(*ours, *numbers)
    adamw.reference(*theirs, *numbers)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


def test_a_users_task_with_a_built_ins_name_does_not_get_its_library_call(tmp_path: Path) -> None:
    path = tmp_path / "rmsnorm.py"
    path.write_text(ATTENTION)
    with pytest.raises(UnfitError, match="fused has adamw, linear_relu, rmsnorm"):
        variant("fused", declared(str(path)))


def test_a_task_names_its_own_baselines_and_a_backward_has_none_of_them(attention: Task) -> None:
    q = values(1, 2, 16, 8)
    torch.testing.assert_close(variant("own:by_hand", attention)(q, q, q), attention.reference(q, q, q))
    with pytest.raises(UnfitError, match=r"names no baseline 'flash' \(it names by_hand, wrong\)"):
        variant("own:flash", attention)
    assert declared(f"{attention.origin}:backward").baselines == {}


def test_channels_last_runs_the_same_on_reordered_images_and_on_nothing_else() -> None:
    pooled = declared("maxpool2d")
    image = values(2, 3, 8, 8)
    arguments = [image if name == "x" else value for name, value in pooled.inputs.items()]
    torch.testing.assert_close(variant("channels-last", pooled)(*arguments), pooled.reference(*arguments))
    with pytest.raises(UnfitError, match="no tensor of four or five dimensions"):
        variant("channels-last", declared("softmax"))(values(4, 4))


def test_only_the_baseline_that_shows_tf32_has_it() -> None:
    before = torch.get_float32_matmul_precision()
    with flags("eager"):
        assert torch.get_float32_matmul_precision() == "highest"
    with flags("eager-tf32"):
        assert torch.get_float32_matmul_precision() == "high"
        assert torch.backends.cudnn.allow_tf32
    assert torch.get_float32_matmul_precision() == before


def test_a_claim_is_never_over_eager_with_tf32() -> None:
    def over(baseline: str, seconds: float, low: float) -> BaselineTime:
        return BaselineTime(
            baseline=baseline, seconds=seconds, speedup=IntervalValue(low=low, mid=low * 1.01, high=low * 1.02)
        )

    shown = over("eager-tf32", 0.5e-3, 0.5)
    result = WorkloadResult(
        label="a", sizes={"n": 1}, dtype="float32", hidden=False, speed=SpeedStatus.measured, seconds=1e-3,
        baselines=(over("eager", 2e-3, 2.0), shown),
    )  # fmt: skip
    assert result.best_baseline is not None
    assert result.best_baseline.baseline == "eager"
    assert result.fastest_baseline == result.best_baseline
    assert result.standing is SpeedStanding.faster
    assert shown in result.baselines


def settings(*baselines: str) -> Settings:
    return Settings(baselines=baselines, effort=Sampling(least=4, most=4), safety=False, domain=False, public_only=True)


DOUBLED = """
import torch
from kernelwright.tasks import Task, tensor

task = Task(
    reference=lambda x: x * 2,
    inputs={"x": tensor("n")},
    public=[{"n": 4096}],
    hidden={"n": (2000, 8000)},
    baselines={"added": lambda x: x + x, "wrong": lambda x: x * 3},
)
"""
DOUBLES = """#include <kernelwright.h>
void kernel(kw::Tensor<const float, 1> x, kw::Tensor<float, 1> out) {
  for (std::int64_t i = 0; i < x.size(0); ++i) out.data[i] = 2 * x.data[i];
}
"""


def test_a_verdict_has_the_baselines_that_can_do_the_task_and_says_why_others_are_left_out(
    judge: Judge, tmp_path: Path
) -> None:
    path = tmp_path / "doubled.py"
    path.write_text(DOUBLED)
    candidate = Candidate("cpp", DOUBLES, "doubles.cpp")
    verdict = judge.judge(str(path), candidate, settings=settings("eager", "own:added", "own:wrong"))
    assert verdict.verdict is Outcome.accepted, verdict.evidence
    assert {one.baseline for result in verdict.workloads for one in result.baselines} == {"eager", "own:added"}
    assert verdict.baselines_left_out == ("own:wrong: it gives a result that is not right",)
    assert author_view(verdict).baselines_left_out == verdict.baselines_left_out

    alone = judge.judge(str(path), candidate, settings=settings("own:wrong"))
    assert alone.verdict is Outcome.undecided
    assert "own:wrong baseline cannot do this task" in str(alone.evidence)
