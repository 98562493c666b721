"""What is found out from references: which special values they take, and which of them are demanded of a kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.torch_versions import NEEDS_E4M3

from kernelwright.judge.oracle.right.compare import check
from kernelwright.judge.oracle.special_values import ValueKind, draw_special, special_expectations, special_values
from kernelwright.judge.oracle.special_values.planting import Placement, SpecialValues
from kernelwright.tasks import Chosen, Family, Task, cast, custom, integers, normal, tensor, uniform
from kernelwright.tasks.backward import derive_backward
from kernelwright.tasks.catalogue import catalogue
from kernelwright.tasks.model import Workload
from kernelwright.tasks.resolve import resolve

INF = float("inf")
FIXED = (8192, 8192)


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make(reference: Callable[..., Any], inputs: dict[str, Any], **more: Any) -> Task:
    sizes = {"rows": (2, 40), "cols": (2, 40)}
    return Task(reference, inputs, public=[{"rows": 8, "cols": 8}], hidden=sizes, **{"name": "made", **more})


X = {"x": tensor("rows", "cols")}
MASKED = make(
    lambda x, mask: torch.softmax(x.masked_fill(mask, -INF), -1),
    {**X, "mask": tensor("rows", "cols", draw=integers(0, 2), dtype="bool")},
)
EMBEDDING = make(
    lambda table, index: F.embedding(index, table),
    {"table": tensor("rows", "cols"), "index": tensor("cols", draw=integers(0, "rows"), dtype="int64")},
)


def names(task: Task, kind: ValueKind | None = None) -> set[str]:
    return {special.name for special in special_values(task) if kind in (None, special.kind)}


def named(task: Task, name: str) -> SpecialValues:
    return next(special for special in special_values(task) if special.name == name)


def exponent(task: Task, name: str) -> int:
    return named(task, name).scales[0].exponent


# What is demanded of kernels for built-in tasks. A change of any line changes what is right.
TOGETHER = "nan and infinities together"
FOUND = {
    "rmsnorm": {
        ValueKind.nan: {f"{what} in {name}" for what in ("nan", TOGETHER) for name in ("x", "weight")},
        ValueKind.signs: {f"{what} everywhere" for what in ("x 1", "x -1", "weight 1", "weight -1")}
        | {"weight of random signs"},
        ValueKind.subnormals: {"x subnormal", "weight subnormal"},
        ValueKind.integers: set(),
        ValueKind.masks: set(),
    },
    "softmax": {
        ValueKind.infinities: {"inf in x", "-inf in x", "-inf in whole rows of x"},
        ValueKind.zeros: {"x 0 everywhere", "x -0 everywhere", "zeros of either sign in x"},
        ValueKind.ties: {"ties in x", "equal rows in x"},
        ValueKind.constant_rows: {"constant rows in x", "rows of other forms in x"},
        ValueKind.magnitudes: {"x times a large power of two", "x times a small power of two"},
    },
    "cross_entropy": {
        ValueKind.integers: {
            "target -100 everywhere",
            "target -100 but in one place",
            "target -100 in some places",
            "target at its least everywhere",
            "target at its most everywhere",
            "target repeated",
            "target in order or equal but in one place",
            "target at either end",
        }
    },
    "linear_relu": {  # operands of a product are not infinite
        ValueKind.infinities: {"inf in bias", "-inf in bias", "-inf in whole rows of bias"},
        ValueKind.nan: {"nan in x", "nan in weight", "nan in bias", f"{TOGETHER} in bias"},
    },
    "unet_conv2d": {ValueKind.infinities: {"inf in bias", "-inf in bias", "-inf in whole rows of bias"}},
    "argmax": {ValueKind.nan: set(), ValueKind.ties: {"ties in x", "equal rows in x"}},
    "maxpool2d": {ValueKind.nan: {"nan in x", f"{TOGETHER} in x"}},
    "maxpool2d:backward": {
        ValueKind.nan: {"nan in grad_out", f"{TOGETHER} in grad_out"}
    },  # a NaN in x only chooses a place
    "adamw": {  # squares are drawn positive: neither a NaN nor -1, which gives one, is demanded of them
        ValueKind.nan: {f"{what} in {name}" for what in ("nan", TOGETHER) for name in ("param", "grad", "exp_avg")},
        ValueKind.subnormals: {"param subnormal", "grad subnormal", "exp_avg subnormal"},
    },
}


@pytest.mark.parametrize("name", FOUND)
def test_what_is_found_in_built_in_tasks(name: str) -> None:
    task = resolve(name)
    assert {kind: names(task, kind) for kind in FOUND[name]} == FOUND[name]


def test_zero_squares_are_demanded_of_adamw_because_the_reference_stays_finite() -> None:
    assert "exp_avg_sq 0 everywhere" in names(resolve("adamw"))


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [("rmsnorm", 24, 32), ("softmax", 100, 120), ("cross_entropy", 100, 120), ("maxpool2d", 100, 120)],
)
def test_scales_reach_far_beyond_half_precision_and_stay_below_overflow(name: str, least: int, most: int) -> None:
    tensor_name = "logits" if name == "cross_entropy" else "x"
    assert least <= exponent(resolve(name), f"{tensor_name} times a large power of two") <= most


@pytest.mark.parametrize("name", [info.name for info in catalogue()])
def test_every_built_in_task_has_values_of_most_kinds_with_names_of_their_own(name: str) -> None:
    found = special_values(resolve(name))
    assert len({special.name for special in found}) == len(found)
    assert len({special.kind for special in found}) >= 6
    kinds = {special.kind for special in found}
    assert {special.kind for special in found[: len(kinds)]} == kinds  # every kind comes early


def test_masks_are_found() -> None:
    assert names(MASKED, ValueKind.masks) == {
        *(f"mask {word} {where}" for word in ("true", "false") for where in ("everywhere", "in whole rows")),
        "mask of one kind but for one place, or up to one place",
    }


def test_indices_stay_in_their_range() -> None:
    assert names(EMBEDDING, ValueKind.integers) == {
        "index at its least everywhere",
        "index at its most everywhere",
        "index repeated",
        "index in order or equal but in one place",
        "index at either end",
    }


def test_a_number_that_indexing_would_accept_but_the_reference_never_names_is_not_demanded() -> None:
    """x[-1] is the last row, and -1 is in the reference as an axis: a kernel need not know either."""
    task = make(lambda table, index: table[index].sum(-1), {**EMBEDDING.inputs})
    assert not any("-1" in name for name in names(task, ValueKind.integers))


def test_a_number_that_the_reference_compares_with_is_found() -> None:
    def padded(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return table[index.clamp(min=0)] * (index != -7).unsqueeze(-1)

    task = make(padded, {**EMBEDDING.inputs})
    assert {"index -7 everywhere", "index -7 in some places"} <= names(task)


def test_a_reference_that_branches_on_its_data_and_refuses_some_of_it() -> None:
    def branching(x: torch.Tensor) -> torch.Tensor:
        if not bool(torch.isfinite(x).all()):
            raise ValueError("only finite values")
        return x.exp() if float(x.max()) > 0 else x * 2

    found = special_values(make(branching, X))
    assert found and not {ValueKind.nan, ValueKind.infinities} & {special.kind for special in found}


def test_a_reference_that_refuses_everything_has_no_special_values() -> None:
    def refusing(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("never")

    assert special_values(make(refusing, X)) == ()


def test_declared_bounds_are_kept() -> None:
    task = make(lambda x, p: x * p.log(), {**X, "p": tensor("cols", draw=uniform(0.5, 2.0))})
    found = {special.name: special for special in special_values(task) if special.tensor == "p"}
    assert set(found) == {"p 0.5 everywhere", "p 2 everywhere", "constant rows in p", "ties in p"}
    for special in found.values():
        drawn = draw_special(task, Workload((("rows", 9), ("cols", 9))), special, Family.NORMAL, torch.Generator())["p"]
        assert isinstance(drawn, torch.Tensor) and float(drawn.min()) >= 0.5 and float(drawn.max()) <= 2.0


def positive(generator: torch.Generator, shape: tuple[int, ...], dtype: torch.dtype, _: Any) -> torch.Tensor:
    return torch.rand(shape, generator=generator).add_(1.0).to(dtype)


def test_a_custom_draw_says_what_is_declared_by_what_it_draws() -> None:
    task = make(lambda x, p: x / p, {**X, "p": tensor("cols", draw=custom(positive))})
    planted = [special for special in special_values(task) if special.tensor == "p"]
    assert all(1.0 <= special.value <= 2.0 for special in planted) and planted  # zero would give infinities


def test_flushed_subnormals_must_not_matter() -> None:
    """x / |x| is 1 for a subnormal number and NaN for the zero that fast arithmetic makes of it."""
    assert not names(make(lambda x: x / x.abs(), X), ValueKind.subnormals)
    assert names(make(lambda x: x * 3, X), ValueKind.subnormals)


def test_ties_are_not_demanded_where_their_order_is_not_said() -> None:
    task = make(lambda x: torch.sort(x, -1).indices, X)
    assert names(task, ValueKind.ties) == {"equal rows in x"} and not names(task, ValueKind.constant_rows)
    values = make(lambda x: torch.sort(x, -1).values, X)
    assert {"ties in x", "equal rows in x"} <= names(values, ValueKind.ties)
    quantile = make(lambda x: torch.quantile(x, 0.3, dim=-1), X)  # computes whole numbers of its own
    assert {"nan in x", "ties in x", "x times a large power of two"} <= names(quantile)
    chosen = make(lambda x: torch.argmax(x, -1), X, comparators={"out": Chosen("x")})
    assert ValueKind.ties in {special.kind for special in special_values(chosen)}


def test_what_has_no_whole_number_is_not_planted_where_values_become_whole_numbers() -> None:
    task = make(lambda x: x.round().to(torch.int32), X)
    assert not names(task, ValueKind.nan) and not names(task, ValueKind.infinities)
    assert exponent(task, "x times a large power of two") < 24


def test_opting_out_of_a_kind() -> None:
    task = make(lambda x: torch.softmax(x, -1), X, unchecked=("nan", "infinities"))
    assert not {ValueKind.nan, ValueKind.infinities} & {special.kind for special in special_values(task)}
    assert derive_backward(task).unchecked == ("nan", "infinities")


def test_fixed_sizes_do_not_hide_a_task() -> None:
    task = Task(lambda x: x * 2, X, public=[{"rows": 8192, "cols": 8192}], hidden={"rows": FIXED, "cols": FIXED})
    assert ValueKind.nan in {special.kind for special in special_values(task)}


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_every_dtype_has_scales_of_its_own(dtype: str) -> None:
    task = make(lambda x, w: x * w, {**X, "w": tensor("cols", draw=normal(1.0, 0.2))}, dtypes=("float32", dtype))
    special = named(task, "x times a large power of two")
    assert special.dtypes[-1] == dtype
    largest = {"float64": 1024, "float32": 128, "float16": 16, "bfloat16": 128}[dtype]
    assert largest // 2 <= special.scales[-1].exponent < largest
    workload = Workload((("rows", 30), ("cols", 30)), dtype)
    drawn = draw_special(task, workload, special, Family.NORMAL, torch.Generator().manual_seed(1))["x"]
    assert isinstance(drawn, torch.Tensor) and bool(torch.isfinite(drawn).all())
    assert float(drawn.abs().max()) > 2.0 ** (largest // 2)


def test_a_seed_decides_what_is_planted_and_where() -> None:
    task, workload = MASKED, Workload((("rows", 9), ("cols", 9)))

    def drawn(seed: int) -> torch.Tensor:
        value = draw_special(
            task, workload, named(task, "nan in x"), Family.NORMAL, torch.Generator().manual_seed(seed)
        )
        assert isinstance(value["x"], torch.Tensor)
        return value["x"].isnan()

    assert torch.equal(drawn(1), drawn(1)) and not torch.equal(drawn(1), drawn(2))


def test_saved_tensors_follow_from_what_was_planted() -> None:
    task, workload = resolve("linear_relu:backward"), Workload((("rows", 5), ("features", 6), ("units", 7)))
    special = named(task, "x -1 everywhere")
    inputs = draw_special(task, workload, special, Family.NORMAL, torch.Generator().manual_seed(1))
    x, weight, bias, saved = (inputs[name] for name in ("x", "weight", "bias", "saved_out"))
    assert isinstance(x, torch.Tensor) and isinstance(weight, torch.Tensor) and bool((x == -1).all())
    torch.testing.assert_close(saved, torch.relu(x @ weight.T + bias))


def test_nan_is_not_planted_where_it_decides_a_comparison() -> None:
    """What follows from `nan > 0` depends on how a kernel writes it."""
    assert names(resolve("linear_relu:backward"), ValueKind.nan) == {"nan in grad_out"}
    assert names(make(lambda x, y: torch.where(x > 0, y, -y), {**X, "y": tensor("rows", "cols")}), ValueKind.nan) == {
        "nan in y",
        f"{TOGETHER} in y",
    }


def test_magnitudes_stay_where_squares_in_float32_are_finite() -> None:
    """On a CPU a standard deviation has its squares in float64."""
    task = make(lambda x: x.std(-1), X)
    special = named(task, "x times a large power of two")
    workload = Workload((("rows", 3), ("cols", 40)))
    inputs = draw_special(task, workload, special, Family.NORMAL, torch.Generator().manual_seed(1))
    assert isinstance(inputs["x"], torch.Tensor)
    assert bool(torch.isfinite(inputs["x"].square().sum()))


def test_constants_stay_as_they_were_prepared() -> None:
    task = make(lambda x, w: x * w, {**X, "w": tensor("cols")}, constant=("w",))
    assert not any(special.tensor == "w" for special in special_values(task))
    workload, given = Workload((("rows", 3), ("cols", 3))), {"w": torch.ones(3)}
    special = named(task, "nan in x")
    inputs = draw_special(task, workload, special, Family.NORMAL, torch.Generator().manual_seed(1), constants=given)
    assert inputs["w"] is given["w"]


@pytest.mark.parametrize("placement", Placement)
def test_a_placement_plants_in_a_tensor_of_any_rank(placement: Placement) -> None:
    for dims in ((), ("cols",), ("rows", "cols"), (2, "rows", "cols")):
        draw = integers(0, 5) if placement in (Placement.least, Placement.most, Placement.ends) else None
        task = make(lambda x: x + 1, {"x": tensor(*dims, draw=draw), "y": tensor("rows", "cols")} | {})
        special = SpecialValues("made", ValueKind.signs, "x", placement, 1.0, ("float32",))
        drawn = draw_special(
            task, Workload((("rows", 3), ("cols", 4))), special, Family.NORMAL, torch.Generator().manual_seed(1)
        )["x"]
        assert isinstance(drawn, torch.Tensor) and drawn.dim() == len(dims)


def test_inputs_are_zero_together_too() -> None:
    """A gradient of zero beside a moment of zero divides zero by zero in a kernel that is right for each alone."""
    several = [special for special in special_values(resolve("adamw")) if special.also]
    together = next(special for special in several if special.placement is Placement.everywhere)
    assert {together.tensor, *together.also} == {"param", "grad", "exp_avg", "exp_avg_sq"}
    drawn = draw_special(
        resolve("adamw"), Workload((("elements", 5),)), together, Family.NORMAL, torch.Generator().manual_seed(1)
    )
    assert all(not value.any() for value in drawn.values() if isinstance(value, torch.Tensor))


def test_a_mask_that_is_drawn_by_a_function_is_all_true_too() -> None:
    def some(generator: torch.Generator, shape: tuple[int, ...], dtype: torch.dtype, sizes: object) -> torch.Tensor:
        keep = torch.rand(shape, generator=generator) < 0.5
        keep[..., 0] = True
        return keep

    inputs = {**X, "keep": tensor("rows", "cols", draw=custom(some), dtype="bool")}
    task = make(lambda x, keep: torch.softmax(x.masked_fill(~keep, -torch.inf), -1), inputs)
    found = names(task, ValueKind.masks)
    assert {"keep true everywhere", "keep true in whole rows"} <= found and "keep false in whole rows" not in found


def test_infinities_in_products_with_zero_are_not_demanded() -> None:
    """A kernel may skip what a mask makes zero; where the mask keeps it, the infinity must come out."""
    task = make(
        lambda x, keep: (x * keep).sum(-1), {**X, "keep": tensor("rows", "cols", draw=integers(0, 2), dtype="bool")}
    )
    workload = Workload((("rows", 2), ("cols", 3)))
    special = named(task, "inf in x")
    x = torch.tensor([[1.0, torch.inf, 2.0], [torch.inf, 3.0, 4.0]])
    keep = torch.tensor([[True, False, True], [True, True, True]])
    expected = special_expectations(task, {"x": x, "keep": keep}, workload, special)["out"]
    assert check(expected, torch.tensor([3.0, torch.inf]), 0) is None
    assert check(expected, torch.tensor([3.0, 7.0]), 0) is not None


def test_few_values_stand_at_the_ends_of_rows_too() -> None:
    task = make(lambda x: x * 2, X)
    special, ends, last = named(task, "nan in x"), 0, 0
    for number in range(20):
        generator = torch.Generator().manual_seed(number)
        drawn = draw_special(task, Workload((("rows", 40), ("cols", 100))), special, Family.NORMAL, generator)["x"]
        assert isinstance(drawn, torch.Tensor)
        ends += bool(drawn[:, -1].isnan().any())
        last += bool(drawn[-1].isnan().any())
    assert min(ends, last) >= 5


def test_values_meet_each_other_in_several_inputs() -> None:
    task = make(lambda x, y: x / y, {**X, "y": tensor("rows", "cols")})
    found = {special.name: special for special in special_values(task)}
    crossed, same = found["zeros and infinities here and there in x, y"], found["x, y equal to each other"]
    workload = Workload((("rows", 30), ("cols", 40)))
    inputs = draw_special(task, workload, crossed, Family.NORMAL, torch.Generator().manual_seed(1))
    x, y = inputs["x"], inputs["y"]
    assert isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor)
    assert bool(((x == 0) & (y == 0)).any()) and bool((x.isinf() & y.isinf()).any())
    expected = special_expectations(task, inputs, workload, crossed)["out"]
    assert check(expected, x / y, 0) is None
    assert check(expected, torch.where((x == 0) & (y == 0), 0.0, x / y), 0) is not None
    assert check(expected, torch.where(x.isinf() & y.isinf(), 1.0, x / y), 0) is not None
    drawn = draw_special(task, workload, same, Family.NORMAL, torch.Generator().manual_seed(1))
    assert torch.equal(drawn["x"], drawn["y"]) and drawn["x"] is not drawn["y"]  # type: ignore[arg-type]


def test_rows_have_forms_that_are_hardly_ever_drawn() -> None:
    task, workload = make(lambda x: x * 2, X), Workload((("rows", 60), ("cols", 9)))
    special = named(task, "rows of other forms in x")
    x = draw_special(task, workload, special, Family.NORMAL, torch.Generator().manual_seed(1))["x"]
    assert isinstance(x, torch.Tensor)
    ordered = (x == x.sort(dim=1).values).all(1)
    single = (x == x[:, 4:5]).sum(1) == 8
    for seen in ((x < 0).all(1), (x > 0).all(1), ordered, single, (x == 0).sum(1) == 8):
        assert bool(seen.any()) and not bool(seen.all())


def test_a_number_that_values_are_compared_with_is_planted() -> None:
    task = make(lambda x: (x > 0.75).sum(-1), X)
    assert "x 0.75 in some places" in names(task, ValueKind.ties)
    assert not any("0.75" in name for name in names(make(lambda x: x * 0.75, X)))


def test_whole_numbers_are_at_their_ends_together() -> None:
    """Only there is a sum of products as large as it can be."""
    task = make(
        lambda a, b: (a.to(torch.int32) * b.to(torch.int32)).sum(-1),
        {
            "a": tensor("rows", "cols", draw=integers(-128, 128), dtype="int8"),
            "b": tensor("rows", "cols", draw=integers(0, 16), dtype="int8"),
        },
    )
    special = named(task, "a, b at either end")
    assert special.heavy
    sizes = Workload((("rows", 40), ("cols", 40)))
    drawn = draw_special(task, sizes, special, Family.NORMAL, torch.Generator().manual_seed(1))
    a, b = drawn["a"], drawn["b"]
    assert isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)
    assert set(a.unique().tolist()) == {-128, 127} and set(b.unique().tolist()) == {0, 15}
    assert any(bool((x == -128).all() and (y == 15).all()) for x, y in zip(a, b, strict=True))


def quantised(dtype: torch.dtype) -> Task:
    return make(lambda x, scale: cast(x / scale, dtype), {**X, "scale": tensor(1, draw=uniform(0.5, 1.0))})


LADDER = "x at every power of two of a narrow format"


@pytest.mark.parametrize(
    "dtype", [torch.float8_e5m2, pytest.param(torch.float8_e4m3fn, marks=NEEDS_E4M3), torch.float16]
)
def test_results_of_a_narrow_format_go_past_its_largest_number(dtype: torch.dtype) -> None:
    task = quantised(dtype)
    sizes, generator = Workload((("rows", 40), ("cols", 40))), torch.Generator().manual_seed(1)
    inputs = draw_special(task, sizes, named(task, LADDER), Family.NORMAL, generator)
    expected = special_expectations(task, inputs, sizes, named(task, LADDER))["out"]
    x, scale = inputs["x"], inputs["scale"]
    assert isinstance(x, torch.Tensor) and isinstance(scale, torch.Tensor)
    largest = torch.finfo(dtype).max
    assert float((x / scale).abs().max()) > 4 * largest
    assert check(expected, (x / scale).to(dtype), 0) is None
    if dtype is not torch.float8_e4m3fn:
        assert check(expected, (x / scale).clamp(-largest, largest).to(dtype), 0) is not None


def test_inputs_of_a_narrow_format_have_every_exponent_of_it() -> None:
    task = make(lambda x: cast(x, torch.float32) * 2, {"x": tensor("rows", "cols", dtype="float8_e5m2")})
    sizes, generator = Workload((("rows", 200), ("cols", 40))), torch.Generator().manual_seed(1)
    x = draw_special(task, sizes, named(task, LADDER), Family.NORMAL, generator)["x"]
    assert isinstance(x, torch.Tensor)
    assert set(range(0x58, 0x7C)) <= set(x.view(torch.uint8).unique().tolist())


def test_no_ladder_where_a_kernel_would_overflow_in_float32() -> None:
    """And none where no format is narrow."""
    task = make(lambda x: cast((x**8).sum(-1), torch.float16), X)
    assert LADDER not in names(task) and LADDER not in names(make(lambda x: x * 2, X))
