"""Special values on kernels: eager and other honest formulas pass on every one of them, wrong kernels fail on some."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests"))

from corpus.operations import OPERATIONS, Kind, Operation, variants  # noqa: E402
from kernelwright.judge.oracle.right.compare import MismatchKind, check  # noqa: E402
from kernelwright.judge.oracle.right.tolerance import Expectation, Within  # noqa: E402
from kernelwright.judge.oracle.special_values import (  # noqa: E402
    SpecialValues,
    ValueKind,
    draw_special,
    special_expectations,
    special_values,
)
from kernelwright.tasks import Exact, Task, integers, normal, tensor  # noqa: E402
from kernelwright.tasks.backward import derive_backward  # noqa: E402
from kernelwright.tasks.catalogue import catalogue  # noqa: E402
from kernelwright.tasks.dtypes import NARROW  # noqa: E402
from kernelwright.tasks.model import Workload  # noqa: E402
from kernelwright.tasks.reference import Argument, run_reference  # noqa: E402
from kernelwright.tasks.resolve import resolve  # noqa: E402

SENTINEL = 0x7FF17FF2
INF = float("inf")
Tensor = torch.Tensor
Kernel = Callable[..., Any]
Arguments = dict[str, Argument]


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """Small tensors gain nothing from a second thread and wait for it on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def trials(task: Task, workload: Workload) -> Iterator[tuple[SpecialValues, Arguments, dict[str, Expectation]]]:
    """Every special value once, on a family of its own."""
    for number, special in enumerate(special_values(task)):
        family = task.families[number % len(task.families)]
        inputs = draw_special(task, workload, special, family, torch.Generator().manual_seed(number))
        yield special, inputs, special_expectations(task, inputs, workload, special)


def refused(task: Task, workload: Workload, run: Callable[[dict[str, Argument]], dict[str, Tensor]]) -> list[str]:
    """The special values on which a kernel is not right."""
    found = []
    for special, inputs, expected in trials(task, workload):
        results = run(inputs)
        wrong = [check(expected[name], results[name].contiguous(), SENTINEL) for name in expected]
        found += [special.name] if any(each is not None for each in wrong) else []
    return found


def small(task: Task, *sides: int, dtype: str = "float32") -> Workload:
    return Workload(tuple((name, sides[place % len(sides)]) for place, name in enumerate(task.hidden)), dtype)


def eager(task: Task) -> Callable[[dict[str, Argument]], dict[str, Tensor]]:
    """As PyTorch computes it, but in float32 between inputs and results of 16 bits, as every kernel must."""

    def run(inputs: dict[str, Argument]) -> dict[str, Tensor]:
        results = run_reference(task, inputs)
        if not any(value.dtype in NARROW for value in results.values()):
            return results
        unrounded = run_reference(task, inputs, torch.float32)
        return {name: unrounded[name].to(value.dtype) for name, value in results.items()}

    return run


def rounded_once(task: Task, dtype: str) -> Callable[[dict[str, Argument]], dict[str, Tensor]]:
    """As a kernel computes for a 16-bit format: in float32, and only the results are rounded."""
    if dtype == "float64":
        return eager(task)

    def run(inputs: dict[str, Argument]) -> dict[str, Tensor]:
        forms = {name: value.dtype for name, value in run_reference(task, inputs).items()}
        return {name: value.to(forms[name]) for name, value in run_reference(task, inputs, torch.float32).items()}

    return run


LIGHT = ("rmsnorm", "softmax", "cross_entropy", "linear_relu", "maxpool2d", "argmax", "adamw", "layernorm")


@pytest.mark.parametrize("name", LIGHT)
def test_eager_is_right_on_every_special_value(name: str) -> None:
    task = resolve(name)
    assert refused(task, small(task, 13, 16, 19), eager(task)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [info.name for info in catalogue()])
def test_eager_is_right_in_every_task_at_several_sizes(name: str) -> None:
    task = resolve(name)
    for sides in ((7,), (13, 16, 19), (24, 10, 9, 12)):
        assert refused(task, small(task, *sides), eager(task)) == []


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
@pytest.mark.parametrize("name", ["rmsnorm", "softmax:backward", "cross_entropy", "linear_relu", "maxpool2d", "adamw"])
def test_a_kernel_that_rounds_once_is_right_in_every_dtype(name: str, dtype: str) -> None:
    forward = replace(resolve(name.removesuffix(":backward")), dtypes=(dtype,))
    task = derive_backward(forward) if name.endswith(":backward") else forward
    assert special_values(task)
    assert refused(task, small(task, 9, 17, 8, dtype=dtype), rounded_once(task, dtype)) == []


CORPUS_SIZES = {"rows": 12, "cols": 70, "inner": 60, "n": 2, "c": 8, "k": 4, "height": 14}


def _marks(operation: Operation) -> list[pytest.MarkDecorator]:
    return [pytest.mark.slow] if operation.name.endswith(":backward") else []


@pytest.mark.parametrize("operation", [pytest.param(op, marks=_marks(op), id=op.name) for op in OPERATIONS])
def test_honest_formulas_are_right_on_every_special_value(operation: Operation) -> None:
    """Library, sequential, reversed and float64 sums, fast-math functions, online softmax, one-pass variance, 3xTF32,
    Winograd. Their cross entropies know nothing of ignored classes."""
    task = operation.task
    workload = Workload(tuple((name, CORPUS_SIZES[name]) for name in task.public[0]), task.dtypes[0])
    honest = [variant for variant in variants(operation) if variant.kind is Kind.HONEST]
    assert honest
    for special, inputs, expected in trials(task, workload):
        if "-100" in special.name:
            continue
        stored = {name: value.dtype for name, value in run_reference(task, inputs).items()}
        for variant in honest:
            results = variant.run(inputs)
            for name, expectation in expected.items():
                result = results[name]
                if isinstance(expectation, Within):
                    result = result.to(stored[name])
                assert check(expectation, result.contiguous(), SENTINEL) is None, (special.name, variant.name, name)


# --- other formulas, and wrong ones -------------------------------------------------------------------------


def made(reference: Kernel, **inputs: Any) -> Task:
    names = {str(dim) for declared in inputs.values() for dim in declared.dims}
    return Task(
        reference, inputs, public=[dict.fromkeys(names, 8)], hidden=dict.fromkeys(sorted(names), (2, 64)), name="made"
    )


def one(kernel: Kernel, task: Task) -> Callable[[dict[str, Argument]], dict[str, Tensor]]:
    return lambda inputs: {task.outputs[0]: kernel(*inputs.values())}


def flushed(x: Tensor) -> Tensor:
    return torch.where(x.abs() < torch.finfo(x.dtype).tiny, 0.0, x)


def rmsnorm_divided(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Divides by a root of a sequential sum, with subnormal numbers flushed."""
    x, weight = flushed(x), flushed(weight)
    total = torch.zeros(x.shape[0], 1)
    for column in x.unbind(1):
        total = total + (column * column).unsqueeze(1)
    return flushed(x / (total / x.shape[1] + eps).sqrt() * weight)


def softmax_in_base_two(x: Tensor) -> Tensor:
    scaled = flushed(x) * 1.4426950408889634
    powers = torch.exp2(scaled - scaled.amax(-1, keepdim=True))
    return flushed(powers * (1 / powers.sum(-1, keepdim=True)))


def attention_reference(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v


def attention_with_fused_scale(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The scale is multiplied within the subtraction of the maximum, and rounded once with it, as compilers do."""
    scores, scale = q @ k.mT, q.shape[-1] ** -0.5
    exact = scores.double() * torch.tensor(scale).double()
    powers = torch.exp((exact - (scores * scale).amax(-1, keepdim=True)).float())
    return powers / powers.sum(-1, keepdim=True) @ v


def attention_with_half_scores(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = (q @ k.mT).half().float() / q.shape[-1] ** 0.5
    return torch.softmax(scores, -1) @ v


def attention_from_minus_a_million(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """An online softmax whose maximum begins at -1e6."""
    scores = q @ k.mT / q.shape[-1] ** 0.5
    powers = torch.exp(scores - scores.amax(-1, keepdim=True).clamp(min=-1e6))
    return powers / powers.sum(-1, keepdim=True) @ v


def cross_entropy_with_ignored(logits: Tensor, target: Tensor) -> Tensor:
    counted = target != -100
    losses = torch.logsumexp(logits, -1) - logits.gather(1, target.clamp(min=0).unsqueeze(1)).squeeze(1)
    return torch.where(counted, losses, 0.0).sum() / counted.sum()


def pooled(x: Tensor, most: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    rows, cols = x.shape[2] // 2 * 2, x.shape[3] // 2 * 2
    corners = [x[:, :, i:rows:2, j:cols:2] for i in (0, 1) for j in (0, 1)]
    return most(most(corners[0], corners[1]), most(corners[2], corners[3]))


def linear_relu_split(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Half of the products, and then the other half."""
    middle = x.shape[1] // 2
    z = x[:, :middle] @ weight[:, :middle].T + x[:, middle:] @ weight[:, middle:].T + bias
    return torch.where((z > 0) | z.isnan(), z, 0.0)


HONEST: dict[str, Kernel] = {
    "rmsnorm": rmsnorm_divided,
    "softmax": softmax_in_base_two,
    "cross_entropy": cross_entropy_with_ignored,
    "maxpool2d": lambda x: pooled(x, torch.maximum),
    "linear_relu": linear_relu_split,
    "argmax": lambda x: x.shape[1] - 1 - x.flip(1).argmax(1),  # the last of equal values
}


@pytest.mark.parametrize("name", HONEST)
def test_another_formula_is_right_on_every_special_value(name: str) -> None:
    task = resolve(name)
    for sides in ((7,), (16, 33, 10, 11)):
        assert refused(task, small(task, *sides), one(HONEST[name], task)) == []


def rmsnorm_halves(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Squares in float16, which end at 65504: no family of ordinary trials goes there."""
    squares = (x * x).half().float()
    return x * torch.rsqrt(squares.mean(-1, keepdim=True) + eps) * weight


def cross_entropy_of_all(logits: Tensor, target: Tensor) -> Tensor:
    return F.nll_loss(F.log_softmax(logits, -1), target.clamp(min=0))


def swallowing(one_: Tensor, other: Tensor) -> Tensor:
    return torch.fmax(one_, other)


def safe_softmax(x: Tensor) -> Tensor:
    """Rows without a finite value become zeros."""
    return torch.softmax(x, -1).nan_to_num(0.0)


# task, kernel, and special values that show what is wrong
WRONG: dict[str, tuple[str, Kernel, set[str]]] = {
    "fp16 intermediates": ("rmsnorm", rmsnorm_halves, {"x times a large power of two"}),
    "clamped inputs": (
        "softmax",
        lambda x: torch.softmax(x.clamp(-1e4, 1e4), -1),
        {"inf in x", "-inf in whole rows of x"},
    ),
    "fmax in a pooling": ("maxpool2d", lambda x: pooled(x, swallowing), {"nan in x"}),
    "fmax in a ReLU": (
        "linear_relu",
        lambda x, w, b: torch.fmax(F.linear(x, w, b), torch.zeros(())),
        {"nan in x", "nan in weight", "nan in bias"},
    ),
    "-100 is a class": (
        "cross_entropy",
        cross_entropy_of_all,
        {"target -100 everywhere", "target -100 in some places"},
    ),
    "weights of one sign": (
        "rmsnorm",
        lambda x, weight, eps: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight.abs(),
        {"weight of random signs", "weight -1 everywhere"},
    ),
    "NaN becomes zero": ("softmax", safe_softmax, {"nan in x", "inf in x", "-inf in whole rows of x"}),
    "nothing is written": ("softmax", lambda x: sentinels(x), {"nan in x", "-inf in whole rows of x"}),
}


def sentinels(x: Tensor) -> Tensor:
    return torch.full(x.shape, SENTINEL, dtype=torch.int32).view(torch.float32)


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_kernels_are_refused(wrong: str) -> None:
    name, kernel, shown = WRONG[wrong]
    task = resolve(name)
    found = set(refused(task, small(task, 16, 33, 10, 11), one(kernel, task)))
    assert shown <= found
    if wrong != "nothing is written":
        assert len(found) < len(special_values(task))


def test_a_masked_softmax_with_masks_that_are_all_true() -> None:
    task = made(
        lambda x, mask: torch.softmax(x.masked_fill(mask, -INF), -1),
        x=tensor("rows", "cols"),
        mask=tensor("rows", "cols", draw=integers(0, 2), dtype="bool"),
    )
    workload = small(task, 9, 12)
    assert refused(task, workload, eager(task)) == []

    def large_number(x: Tensor, mask: Tensor) -> Tensor:
        return torch.softmax(x.masked_fill(mask, -1e30), -1)

    assert {"mask true everywhere", "mask true in whole rows"} <= set(refused(task, workload, one(large_number, task)))


def test_ties_go_to_the_first_maximum_as_the_reference_says() -> None:
    task = resolve("maxpool2d:backward")

    def to_the_last(inputs: dict[str, Argument]) -> dict[str, Tensor]:
        turned = {name: value.flip(2, 3) for name, value in inputs.items() if isinstance(value, Tensor)}
        return {"grad_x": run_reference(task, turned)["grad_x"].flip(2, 3).contiguous()}

    assert {"ties in x", "x 0 everywhere"} <= set(refused(task, small(task, 2, 3, 8, 12), to_the_last))


# --- what is not demanded -----------------------------------------------------------------------------------


def expectation(task: Task, name: str, workload: Workload) -> tuple[dict[str, Argument], dict[str, Expectation]]:
    for special, inputs, expected in trials(task, workload):
        if special.name == name:
            return inputs, expected
    raise AssertionError(f"{name} is not among {[special.name for special in special_values(task)]}")


def test_where_steps_compute_nan_is_as_good_as_an_infinity() -> None:
    task = made(lambda x: x * 2 + 1, x=tensor("rows", "cols"))
    inputs, expected = expectation(task, "inf in x", small(task, 9, 12))
    x = inputs["x"]
    assert isinstance(x, Tensor)
    assert check(expected["out"], torch.where(x.isinf(), torch.nan, x * 2 + 1), SENTINEL) is None
    finite = check(expected["out"], torch.where(x.isinf(), 1e38, x * 2 + 1), SENTINEL)
    assert finite is not None and finite.kind is MismatchKind.nan_or_inf


def test_where_data_is_only_moved_an_infinity_stays_what_it_is() -> None:
    task = made(lambda x: x.flip(-1), x=tensor("rows", "cols"))
    inputs, expected = expectation(task, "-inf in x", small(task, 9, 12))
    x = inputs["x"]
    assert isinstance(x, Tensor)
    assert check(expected["out"], x.flip(-1), SENTINEL) is None
    assert check(expected["out"], torch.where(x.isinf(), torch.inf, x).flip(-1), SENTINEL) is not None
    assert check(expected["out"], torch.where(x.isinf(), torch.nan, x).flip(-1), SENTINEL) is not None


def test_either_zero_is_right_where_bits_are_compared_otherwise() -> None:
    task = replace(made(lambda x: x.flip(-1), x=tensor("rows", "cols")), comparators={"out": Exact()})
    _, expected = expectation(task, "x -0 everywhere", small(task, 9, 12))
    assert check(expected["out"], torch.zeros(9, 12).view(expected["out"].low.shape), SENTINEL) is None  # type: ignore[union-attr]
    assert check(expected["out"], torch.full_like(expected["out"].low, 1e-30), SENTINEL) is not None  # type: ignore[union-attr]


def test_convolutions_may_spread_nan_over_its_plane_and_not_beyond() -> None:
    task = resolve("unet_conv2d")
    inputs, expected = expectation(task, "nan in weight", small(task, 2, 3, 12, 12, 40))
    answer = run_reference(task, inputs)["out"]
    planes = answer.isnan().any(-1, keepdim=True).any(-2, keepdim=True)
    assert bool(planes.any()) and not bool(planes.all())
    assert check(expected["out"], torch.where(planes, torch.nan, answer), SENTINEL) is None
    assert check(expected["out"], torch.full_like(answer, torch.nan), SENTINEL) is not None
    assert check(expected["out"], answer.nan_to_num(0.0), SENTINEL) is not None


def test_a_mask_may_be_multiplied_with_the_gradient() -> None:
    task = resolve("maxpool2d:backward")
    inputs, expected = expectation(task, "nan in grad_out", small(task, 2, 3, 8, 12))
    answer = run_reference(task, inputs)["grad_x"]
    x = inputs["x"]
    assert isinstance(x, Tensor)
    window = F.interpolate(answer.isnan().float(), scale_factor=1)  # the places themselves
    spoilt = F.interpolate(F.max_pool2d(window, 2), scale_factor=2) > 0
    assert check(expected["grad_x"], torch.where(spoilt, torch.nan, answer), SENTINEL) is None
    assert check(expected["grad_x"], answer.nan_to_num(0.0), SENTINEL) is not None


def test_a_kernel_may_skip_products_with_zero() -> None:
    """The reference multiplies the zeros behind a ReLU with NaN, and gets NaN."""
    task = made(
        lambda x, y: (torch.relu(x) @ y).clone(),
        x=tensor("rows", "inner"),
        y=tensor("inner", "cols", draw=normal(0, 1)),
    )
    inputs, expected = expectation(task, "nan in y", small(task, 12, 9, 16))
    x, y = inputs["x"], inputs["y"]
    assert isinstance(x, Tensor) and isinstance(y, Tensor)
    factor = torch.relu(x).unsqueeze(-1)
    skipped = torch.where(factor == 0, 0.0, factor * y).sum(1)
    assert bool(skipped.isnan().any()) and bool((run_reference(task, inputs)["out"].isnan() & skipped.isfinite()).any())
    assert check(expected["out"], skipped, SENTINEL) is None
    assert check(expected["out"], skipped.nan_to_num(0.0), SENTINEL) is not None


LARGE = [(name, "weight times a large power of two") for name in ("rmsnorm", "unet_conv2d", "conv_relu_pool")]


def test_finite_elements_keep_a_tolerance_beside_nan_and_at_any_scale() -> None:
    """Neither none at all, because probes that meet NaN say nothing, nor one that admits everything."""
    for name, special in (("rmsnorm", "nan in x"), ("linear", "nan in x"), *LARGE):
        task = resolve(name)
        inputs, expected = expectation(task, special, small(task, 3, 10, 12, 12, 9))
        within = expected["out"]
        assert isinstance(within, Within)
        answer = run_reference(task, inputs, torch.float64)["out"]
        finite = answer.isfinite()
        width = (within.high.double() - within.low.double())[finite]
        assert bool(width.isfinite().all()) and bool((width > 0).all())
        finite &= answer != 0  # behind a ReLU
        width = (within.high.double() - within.low.double())[finite]
        size = answer[finite].abs()
        assert float((width / size.clamp_min(1e-3 * float(size.mean()))).median()) < 1e-3
        worse = torch.where(finite, answer * 1.01, answer).float()
        assert check(within, worse, SENTINEL) is not None


def test_a_reference_that_refuses_values_at_the_size_in_question_demands_nothing() -> None:
    def picky(x: Tensor) -> Tensor:
        if x.numel() > 100 and bool(x.isnan().any()):
            raise ValueError("not at this size")
        return x * 2

    task = made(picky, x=tensor("rows", "cols"))
    _, expected = expectation(task, "nan in x", small(task, 12, 12))
    assert check(expected["out"], torch.full((12, 12), torch.nan), SENTINEL) is None
    assert check(expected["out"], torch.zeros(12, 12), SENTINEL) is None
    unwritten = torch.full((12, 12), SENTINEL, dtype=torch.int32).view(torch.float32)
    mismatch = check(expected["out"], unwritten, SENTINEL)
    assert mismatch is not None and mismatch.kind is MismatchKind.unwritten


def test_a_kind_that_shows_nothing_is_not_found_by_chance() -> None:
    """Float64 and eager disagree on most of exp at a scale where only one of them overflows."""
    task = made(torch.exp, x=tensor("rows", "cols"))
    assert "x times a large power of two" not in {special.name for special in special_values(task)}
    assert ValueKind.nan in {special.kind for special in special_values(task)}


ATTENTION = {"q": tensor("queries", "width"), "k": tensor("keys", "width"), "v": tensor("keys", "width")}


def test_a_score_may_be_rounded_once_for_each_of_its_uses() -> None:
    """At 2^112 that alone is 2^88, whose exponential is infinite; the reference rounds it once for all."""
    task = made(attention_reference, **ATTENTION)
    for sides in ((7, 9, 11), (1, 24, 1)):
        assert refused(task, small(task, *sides), one(attention_with_fused_scale, task)) == []


@pytest.mark.parametrize("wrong", [attention_with_half_scores, attention_from_minus_a_million])
def test_scores_are_still_large_enough_to_show_what_overflows(wrong: Kernel) -> None:
    task = made(attention_reference, **ATTENTION)
    found = refused(task, small(task, 7, 9, 11), one(wrong, task)) + refused(
        task, small(task, 1, 9, 11), one(wrong, task)
    )
    assert any("large power" in name for name in found)
