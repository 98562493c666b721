"""How far a right answer may lie from the reference: eager PyTorch always passes, and shortcuts never do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.judge.oracle.right.compare import check
from kernelwright.judge.oracle.right.scales import row_scale
from kernelwright.judge.oracle.right.tolerance import Within, expectations
from kernelwright.tasks import Close, Exact, Family, Precision, Rounded, Task, custom, tensor
from kernelwright.tasks.backward import derive_backward
from kernelwright.tasks.declarations import FAMILIES
from kernelwright.tasks.drawing import draw_inputs
from kernelwright.tasks.model import Workload
from kernelwright.tasks.reference import run_reference

SENTINEL = 0x7FF17FF2


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """Small tensors gain nothing from a second thread and wait for it on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make(reference: Callable[..., Any], *dims: tuple[Any, ...], dtype: str = "float32", **more: Any) -> Task:
    """A task with inputs a, b, ... of the given dimensions."""
    inputs = {name: tensor(*shape) for name, shape in zip("abcdefg", dims, strict=False)}
    return Task(reference=reference, inputs=inputs, public=[{}], hidden={}, name="t", dtypes=(dtype,), **more)


class Trial:
    def __init__(self, task: Task, family: Family = Family.NORMAL, seed: int = 0) -> None:
        self.task, self.workload = task, task.public_workloads()[0]
        self.inputs = draw_inputs(task, self.workload, family, torch.Generator().manual_seed(seed))
        self.expect()

    def expect(self) -> None:
        self.expected = expectations(self.task, self.inputs, self.workload)
        self.eager = {k: v.contiguous() for k, v in run_reference(self.task, self.inputs).items()}

    def right(self, result: torch.Tensor, name: str = "out") -> bool:
        return check(self.expected[name], result.contiguous(), SENTINEL) is None


def rmsnorm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * w


OPERATIONS = {
    "rmsnorm": make(rmsnorm, (9, 130), (130,)),
    "softmax": make(lambda x: torch.softmax(x, -1), (9, 130)),
    "linear": make(lambda x, w, b: F.linear(x, w, b), (9, 70), (33, 70), (33,)),
    "mean": make(lambda x: x.mean(), (9, 130)),
    "row sums": make(lambda x: x.sum(-1), (200, 33)),
    "kept row sums": make(lambda x: x.sum(-1, keepdim=True), (200, 33)),
    "dot": make(lambda x, y: x @ y, (500,), (500,)),
    "one element": make(lambda x: x.exp(), (1,)),
    "short rows": make(lambda x: x.tanh(), (100, 3)),
    "transposed": make(lambda x: (x * 3).t(), (9, 40)),
    "gelu": make(F.gelu, (9, 130)),
    "cumsum": make(lambda x: x.cumsum(-1), (9, 130)),
    "pool": make(lambda x: F.max_pool2d(F.conv2d(x, torch.ones(4, 3, 3, 3, dtype=x.dtype)), 2), (2, 3, 12, 12)),
    "layernorm": make(lambda x: F.layer_norm(x, x.shape[1:]), (4, 5, 30)),
    "attention": make(F.scaled_dot_product_attention, (2, 8, 16), (2, 8, 16), (2, 8, 16)),
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("family", FAMILIES)
def test_eager_passes_and_other_answers_do_not(name: str, family: Family) -> None:
    trial = Trial(OPERATIONS[name], family)
    eager = trial.eager["out"]
    assert trial.right(eager)
    assert not trial.right(torch.zeros_like(eager))
    assert not trial.right(torch.full_like(eager, 1e-30))
    assert not trial.right(torch.full_like(eager, torch.nan))
    assert not trial.right(eager * 1.001)
    assert not trial.right(eager + eager.abs().max() * 1e-3)
    one = eager.clone()
    one.view(-1)[eager.abs().argmax()] *= 1.001
    assert not trial.right(one)


@pytest.mark.parametrize("name", ["rmsnorm", "softmax", "linear", "layernorm", "gelu"])
def test_gradients_of_eager_pass(name: str) -> None:
    task = derive_backward(OPERATIONS[name])
    for family in FAMILIES:
        trial = Trial(task, family)
        for result, value in trial.eager.items():
            assert trial.right(value, result)
            assert not trial.right(value * 1.001, result)


@settings(max_examples=25)
@given(st.integers(1, 5), st.integers(1, 200), st.sampled_from(FAMILIES), st.integers(0, 99))
def test_any_shape_has_bounds_around_the_reference(rows: int, cols: int, family: Family, seed: int) -> None:
    trial = Trial(make(lambda x: (x * x).sum(0) / x.exp().sum(), (rows, cols)), family, seed)
    bounds = trial.expected["out"]
    assert isinstance(bounds, Within)
    assert bounds.low.shape == bounds.high.shape == (cols,)
    assert bounds.low.is_contiguous() and bounds.low.dtype == torch.float32
    assert bool((bounds.low <= bounds.high).all())
    assert trial.right(trial.eager["out"])


def test_every_row_is_checked_at_its_own_scale() -> None:
    trial = Trial(make(lambda x, w: x @ w, (16, 300), (300, 100)), Family.NORMAL)
    trial.inputs["a"] *= torch.exp2(torch.linspace(-6, 6, 16)).view(-1, 1)
    trial.expect()
    for row in range(16):
        idle, coarse = trial.eager["out"].clone(), trial.eager["out"].clone()
        idle[row] = 0
        coarse[row] = coarse[row].bfloat16().float()
        assert not trial.right(idle)
        assert not trial.right(coarse)


def test_one_stale_row_or_element_is_enough() -> None:
    trial = Trial(OPERATIONS["rmsnorm"])
    other = Trial(OPERATIONS["rmsnorm"], seed=1).eager["out"]
    for place in [(0, slice(None)), (8, slice(120, 130)), (slice(None), 129)]:
        stale = trial.eager["out"].clone()
        stale[place] = other[place]
        assert not trial.right(stale)


def test_results_that_barely_vary_are_told_from_constants() -> None:
    mean = Trial(make(lambda x: x.mean(), (300, 300)))
    assert not mean.right(torch.zeros(()))
    rows = Trial(make(lambda x: torch.softmax(x, -1).mean(0), (300, 50)))
    assert not rows.right(torch.full((50,), 1 / 50))


def test_truncated_sums_fail() -> None:
    trial = Trial(make(lambda x: x.square().mean(-1), (64, 1000)))
    assert not trial.right(trial.inputs["a"][:, :-1].square().sum(-1) / 1000)


def test_epsilons_matter_where_inputs_are_small() -> None:
    trial = Trial(OPERATIONS["rmsnorm"], Family.SMALL)
    x, w = trial.inputs["a"], trial.inputs["b"]
    assert not trial.right(x * torch.rsqrt(x.square().mean(-1, keepdim=True)) * w)


def test_nan_and_infinity_must_be_met_where_they_are() -> None:
    trial = Trial(make(lambda x: 1 / x, (4, 100)))
    x = trial.inputs["a"]
    x[0, 0], x[1, 1], x[2, 2] = 0.0, -0.0, torch.nan
    trial.expect()
    eager = trial.eager["out"]
    assert trial.right(eager)
    for place, value in [((0, 0), torch.nan), ((0, 0), 1e38), ((0, 0), -torch.inf), ((2, 2), 0.0), ((2, 2), torch.inf)]:
        other = eager.clone()
        other[place] = value
        assert not trial.right(other), (place, value)
    elsewhere = eager.clone()
    elsewhere[3, 3] = torch.nan
    assert not trial.right(elsewhere)


def test_values_too_small_for_normal_numbers_may_be_flushed() -> None:
    trial = Trial(make(lambda x: torch.exp(-x.abs() - 80), (4, 100)), Family.NORMAL)
    trial.inputs["a"] *= 10
    trial.expect()
    flushed = torch.where(trial.eager["out"] < torch.finfo(torch.float32).tiny, 0.0, trial.eager["out"])
    assert (flushed == 0).any()
    assert trial.right(flushed)
    assert not trial.right(torch.zeros_like(flushed))


def test_overflow_of_a_narrow_result_is_infinity() -> None:
    trial = Trial(make(lambda x: x * 30000, (4, 100), dtype="float16"))
    assert torch.isinf(trial.eager["out"]).any()
    assert trial.right(trial.eager["out"])
    assert not trial.right(trial.eager["out"].clamp(-60000, 60000))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_rounded_once_or_twice_but_not_summed_in(dtype: str) -> None:
    trial = Trial(make(lambda x: torch.softmax(x, -1), (16, 1000), dtype=dtype))
    narrow = getattr(torch, dtype)
    x = trial.inputs["a"].float()
    powers = torch.exp(x - x.amax(-1, keepdim=True))
    assert trial.right((powers / powers.sum(-1, keepdim=True)).to(narrow))
    total = torch.zeros(16, dtype=narrow)
    for column in powers.to(narrow).unbind(-1):
        total += column
    assert not trial.right((powers / total.float().unsqueeze(-1)).to(narrow))


def test_only_a_reference_that_casts_between_its_steps_lets_a_kernel_do_so() -> None:
    def norm(x: torch.Tensor, weight: torch.Tensor, casts: bool) -> torch.Tensor:
        wide = x.float()
        normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True))
        return (normed.to(x.dtype) * weight) if casts else (normed * weight.float()).to(x.dtype)

    for casts in (False, True):
        task = make(lambda x, w, casts=casts: norm(x, w, casts and x.dtype == torch.bfloat16), (16, 300), (300,))
        trial = Trial(replace(task, dtypes=("bfloat16",)))
        assert trial.right(norm(trial.inputs["a"], trial.inputs["b"], False))
        assert trial.right(norm(trial.inputs["a"], trial.inputs["b"], True)) is casts


def test_a_double_task_is_not_met_in_single_precision() -> None:
    trial = Trial(make(lambda x, w: x @ w, (16, 100), (100, 50), dtype="float64"))
    a, b = trial.inputs["a"], trial.inputs["b"]
    assert trial.right(torch.einsum("ij,jk->ik", a, b))
    assert not trial.right((a.float() @ b.float()).double())


def test_a_better_formula_is_right_where_the_reference_in_float64_cancels() -> None:
    trial = Trial(make(F.gelu, (300, 1), dtype="float64"))
    x = trial.inputs["a"] = torch.linspace(-5.7, 0.01, 300, dtype=torch.float64).view(300, 1)
    trial.expect()
    tail = x * 0.5 * torch.erfc(x * -(0.5**0.5))
    assert trial.right(tail)
    assert not trial.right(tail.float().double())
    assert not trial.right(torch.where(x < -5.5, 0.0, tail))


@pytest.mark.parametrize("norm", [lambda x, w: F.layer_norm(x, (1,), w), lambda x, w: F.group_norm(x, 1, w)])
def test_a_fused_multiplication_is_right_where_a_gradient_cancels(norm: Callable[..., torch.Tensor]) -> None:
    """Of one column a gradient is 0, which `g * w - round(g * w)` with one rounding is not."""
    task = derive_backward(make(norm, (200, 1), (1,)))
    trial = Trial(task)
    product = trial.inputs["grad_out"].double() * trial.inputs["b"].double()
    left = (product - product.float().double()) * 1e-5**-0.5
    assert bool(left.any()) and trial.right((left * 8).float(), "grad_a")  # with room, not by luck
    assert not trial.right((left + product * 0.1).float(), "grad_a")


def test_slack_widens() -> None:
    def width(slack: float) -> torch.Tensor:
        bounds = Trial(make(torch.exp, (4, 100), precision=Precision(slack=slack))).expected["out"]
        assert isinstance(bounds, Within)
        return bounds.high.double() - bounds.low.double()

    torch.testing.assert_close(width(10.0), 10 * width(1.0), rtol=2e-2, atol=0)


def test_a_coarse_compute_precision_is_allowed_where_a_task_says_so() -> None:
    def passes(compute: str) -> bool:
        trial = Trial(make(lambda x, w: x @ w, (16, 100), (100, 50), precision=Precision(compute=compute)))
        return trial.right((trial.inputs["a"].bfloat16() @ trial.inputs["b"].bfloat16()).float())

    assert passes("bfloat16") and not passes("float32")


def test_the_same_trial_has_the_same_bounds() -> None:
    one, two = Trial(OPERATIONS["softmax"]).expected["out"], Trial(OPERATIONS["softmax"]).expected["out"]
    assert isinstance(one, Within) and isinstance(two, Within)
    assert torch.equal(one.low, two.low) and torch.equal(one.high, two.high)


def test_inputs_are_left_as_they_are() -> None:
    def step(parameter: torch.Tensor, gradient: torch.Tensor) -> None:
        parameter.sub_(gradient, alpha=0.1)

    task = make(step, (300,), (300,), inout=("a",), outputs=())
    trial = Trial(task)
    again = Trial(task)
    assert torch.equal(trial.inputs["a"], again.inputs["a"])
    assert trial.right(trial.inputs["a"] - 0.1 * trial.inputs["b"], "a")
    assert not trial.right(trial.inputs["a"], "a")


def test_a_winner_that_changes_places_loosens_no_neighbour() -> None:
    """A near-tie in max pooling moves a whole gradient under a probe; the row around it stays strict."""
    trial = Trial(derive_backward(make(lambda x: F.max_pool2d(x, 2), (1, 1, 2, 400))))
    x = trial.inputs["a"]
    x[0, 0, 0, 0], x[0, 0, 0, 1] = 5.0, 5.000001
    trial.expect()
    eager = trial.eager["grad_a"]
    assert trial.right(eager, "grad_a")
    near = eager.clone()
    near[..., 2:] += 1e-3 * (near[..., 2:] != 0)
    assert not trial.right(near, "grad_a")


def test_flags_that_coarsen_the_reference_change_nothing() -> None:
    before = Trial(OPERATIONS["linear"]).expected["out"]
    torch.set_float32_matmul_precision("medium")
    try:
        after = Trial(OPERATIONS["linear"]).expected["out"]
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")
    assert isinstance(before, Within) and isinstance(after, Within)
    assert torch.equal(before.low, after.low)


def test_a_probe_that_steps_outside_the_reference_is_left_out() -> None:
    """An index computed from values leaves its table as soon as the values are disturbed."""

    def draw(generator: torch.Generator, shape: Any, dtype: torch.dtype, sizes: Any) -> torch.Tensor:
        return torch.rand(shape, generator=generator, dtype=dtype).masked_fill_(torch.arange(shape[0]) == 3, 1 - 2**-24)

    task = Task(
        reference=lambda x: torch.linspace(1, 2, 10, dtype=x.dtype)[(x * 10).long()],
        inputs={"a": tensor(50, draw=custom(draw))},
        public=[{}],
        hidden={},
        name="look up",
    )
    trial = Trial(task)
    assert trial.right(trial.eager["out"])
    assert not trial.right(trial.eager["out"] * 1.001)


def test_what_a_long_sum_in_one_accumulator_loses_is_allowed() -> None:
    """One large term and a hundred thousand that are each too small to change it."""
    trial = Trial(make(lambda x: x.sum(-1), (3, 100_000)))
    x = trial.inputs["a"]
    x.abs_().mul_(1e-9)
    x[:, 0] = 1.0
    trial.expect()
    assert x.double().sum(-1).max() > 1.00007
    assert trial.right(torch.ones(3))
    x[:, 1:].mul_(1e3)
    trial.expect()
    assert not trial.right(torch.ones(3))


# --- masks that rounding decides ----------------------------------------------------------------------------


def relu_trial() -> Trial:
    """The gradient of relu(x w): one pre-activation is a rounding error away from zero."""
    task = derive_backward(make(lambda x, w, b: torch.relu(x @ w + b), (40, 64), (64, 50), (50,)))
    trial = Trial(task)
    x, w = trial.inputs["a"].double(), trial.inputs["b"].double()
    trial.inputs["c"][7] = -(x[3] @ w[:, 7]).float()
    trial.expect()
    near = (x @ w + trial.inputs["c"].double())[3, 7]
    assert near.abs() < 1e-5
    return trial


def gradients(trial: Trial, flipped: tuple[int, int] | None) -> dict[str, torch.Tensor]:
    x, w, b, g = (trial.inputs[name].double() for name in ("a", "b", "c", "grad_out"))
    mask = x @ w + b > 0
    if flipped is not None:
        mask[flipped] = ~mask[flipped]
    g = g * mask
    results = {"grad_a": g @ w.t(), "grad_b": x.t() @ g, "grad_c": g.sum(0)}
    return {name: value.float() for name, value in results.items()}


@pytest.mark.parametrize(("flipped", "right"), [(None, True), ((3, 7), True), ((4, 7), False), ((3, 8), False)])
def test_only_a_mask_within_rounding_of_zero_may_flip(flipped: tuple[int, int] | None, right: bool) -> None:
    trial = relu_trial()
    results = gradients(trial, flipped)
    assert all(trial.right(value, name) for name, value in results.items()) is right


def test_a_mask_over_raw_inputs_may_not_flip() -> None:
    trial = Trial(derive_backward(make(torch.relu, (4, 100))))
    trial.inputs["a"][1, 1] = 1e-7
    trial.expect()
    flipped = trial.eager["grad_a"].clone()
    flipped[1, 1] = 0
    assert trial.right(trial.eager["grad_a"], "grad_a")
    assert not trial.right(flipped, "grad_a")


@pytest.mark.parametrize(
    ("activation", "place"),
    [
        (F.relu, 0.0),
        (F.relu6, 6.0),
        (F.leaky_relu, 0.0),
        (F.hardswish, -3.0),
        (torch.abs, 0.0),
        (lambda z: torch.where(z > 0, z, 0.1 * z), 0.0),
        (lambda z: F.threshold(z, 0.5, 0.1), 0.5),
        (lambda z: z.clamp(-1, 1), 1.0),
        (lambda z: torch.maximum(z, -z), 0.0),
    ],
)
def test_gradients_through_other_kinks_pass(activation: Callable[..., torch.Tensor], place: float) -> None:
    """A hundred values are put so close to the kink that another order of summation takes other sides."""
    trial = Trial(derive_backward(make(lambda x, w: activation(x @ w), (200, 64), (64, 512))))
    x, w, g = (trial.inputs[name] for name in ("a", "b", "grad_out"))
    w[0] = w[0].sign() * (1 + w[0].abs())
    z = x.double() @ w.double()
    x[:100, 0] += ((place - z.diagonal()[:100]) / w[0, :100].double()).float()
    trial.expect()
    terms = torch.stack([x[:, k : k + 1] * w[k] for k in range(64)])
    other = terms[0]
    for term in terms[1:]:
        other = other + term
    assert ((other > place) != (x.double() @ w.double() > place)).any()
    dz = torch.func.vjp(activation, other)[1](g)[0]
    for name, value in {**trial.eager, "grad_a": dz @ w.t(), "grad_b": x.t() @ dz}.items():
        assert trial.right(value, name)
    wrong = dz.clone()
    wrong[150, 300] += 0.1
    assert not trial.right(wrong @ w.t(), "grad_a")


def test_a_threshold_that_is_computed_is_a_kink_too() -> None:
    trial = Trial(make(lambda x: torch.where(x > x.mean(-1, keepdim=True), x, 0), (20, 100)))
    x = trial.inputs["a"]
    x[:, 0] = x[:, 1:].double().mean(-1).float()
    trial.expect()
    either, other = trial.eager["out"].clone(), trial.eager["out"].clone()
    either[:, 0] = torch.where(either[:, 0] == 0, x[:, 0], 0)
    other[:, 1] = torch.where(other[:, 1] == 0, x[:, 1], 0)
    assert trial.right(either)
    assert not trial.right(other)


# --- other comparators --------------------------------------------------------------------------------------


def test_integers_and_booleans_are_exact_by_default() -> None:
    trial = Trial(make(lambda x: (x > 0, (x * 10).to(torch.int32)), (4, 100), outputs=("p", "q")))
    assert trial.right(trial.eager["p"], "p") and trial.right(trial.eager["q"], "q")
    assert not trial.right(~trial.eager["p"], "p")
    off = trial.eager["q"].clone()
    off[0, 0] += 1
    assert not trial.right(off, "q")


def test_exact_floats_are_compared_bit_for_bit() -> None:
    trial = Trial(make(lambda x: x.t(), (4, 100), comparators={"out": Exact()}))
    assert trial.right(trial.eager["out"])
    assert not trial.right(torch.nextafter(trial.eager["out"], torch.tensor(torch.inf)))


def quantised() -> Trial:
    def draw(generator: torch.Generator, shape: Any, dtype: torch.dtype, sizes: Any) -> torch.Tensor:
        values = torch.rand(shape, generator=generator).mul_(40.0).to(dtype)
        values[0, :4] = torch.tensor([1.0, 3.0, 2.3, 80.0])
        return values

    task = Task(
        reference=lambda x: torch.round(x * 2.5).clamp(0, 100).to(torch.uint8),
        inputs={"a": tensor(4, 50, draw=custom(draw))},
        public=[{}],
        hidden={},
        name="quantise",
        comparators={"out": Rounded(lambda x: x * 2.5)},
    )
    return Trial(task)


@pytest.mark.parametrize(
    ("column", "steps"),
    [(0, {0, 1}), (1, {0, -1}), (2, {0}), (3, {0})],
    ids=["2.5 rounds to 2 or 3", "7.5 rounds to 8 or 7", "5.75 rounds to 6", "200 is clamped to 100"],
)
def test_a_rounded_result_may_differ_by_one_at_a_tie_only(column: int, steps: set[int]) -> None:
    trial = quantised()
    for step in (-2, -1, 0, 1, 2):
        moved = trial.eager["out"].clone()
        moved[0, column] += step
        assert trial.right(moved) is (step in steps)


def test_close_is_the_default_for_floats_only() -> None:
    task = OPERATIONS["softmax"]
    assert isinstance(task.comparator("out"), Close)
    assert isinstance(Trial(task).expected["out"], Within)


# --- the scale of a row -------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.integers(1, 40), st.integers(1, 300), st.integers(1, 64), st.floats(1e-3, 1e3))
def test_a_row_of_equal_values_has_that_scale(rows: int, cols: int, least: int, value: float) -> None:
    values = torch.full((rows, cols), value)
    torch.testing.assert_close(row_scale(values, least).expand(rows, cols), values)


def test_one_huge_element_barely_moves_the_scale_of_its_row() -> None:
    values = torch.rand(8, 256, generator=torch.Generator().manual_seed(0))
    before = row_scale(values, 64)
    values[3, 5] = 1e6
    after = row_scale(values, 64)
    assert torch.equal(before[:3], after[:3])
    assert after[3].item() < 1.5 * before[3].item()


def test_zeros_count_unless_asked_not_to() -> None:
    values = torch.ones(1, 100)
    values[0, ::2] = 0
    assert row_scale(values, 64).item() == pytest.approx(0.5)
    assert row_scale(values, 64, nonzero=True).item() == pytest.approx(1.0)


def test_a_workload_without_a_tensor_result_of_floats_needs_no_probe() -> None:
    task = make(lambda x: torch.argmax(x, -1), (4, 10), comparators={"out": Exact()})
    inputs = draw_inputs(task, Workload(()), Family.NORMAL, torch.Generator().manual_seed(0))
    assert set(expectations(task, inputs, Workload(()))) == {"out"}
