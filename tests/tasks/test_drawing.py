"""Arguments and signatures follow from the declaration and the workload."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.tasks import Family, TaskError, custom, integers, normal, of_family, tensor, uniform
from kernelwright.tasks.declarations import FAMILIES, Draw
from kernelwright.tasks.drawing import draw_inputs, realise, row_major, signature
from kernelwright.tasks.model import ScalarSpec, Task, TensorSpec, Workload

from .samples import small_task

WORKLOAD = Workload((("rows", 6), ("cols", 10)))


def inputs_of(task: Task, workload: Workload = WORKLOAD, seed: int = 1) -> dict[str, torch.Tensor]:
    return draw_inputs(task, workload, Family.NORMAL, torch.Generator().manual_seed(seed))  # type: ignore[return-value]


def test_inputs_come_in_declared_order_with_scalars_as_they_are() -> None:
    inputs = inputs_of(small_task())
    assert list(inputs) == ["x", "weight", "factor"]
    assert inputs["x"].shape == (6, 10) and inputs["weight"].shape == (10,)
    assert inputs["factor"] == 2.0


def test_inputs_take_the_workloads_dtype_or_their_own() -> None:
    task = small_task(
        inputs={"x": tensor("rows", "cols"), "i": tensor("rows", draw=integers(0, "cols"), dtype="int32")},
        dtypes=("bfloat16",),
    )
    inputs = inputs_of(task, Workload(WORKLOAD.sizes, "bfloat16"))
    assert inputs["x"].dtype == torch.bfloat16 and inputs["i"].dtype == torch.int32


def test_every_input_is_drawn_afresh_and_decided_by_the_generator() -> None:
    first, again, other = (inputs_of(small_task(), seed=seed) for seed in (1, 1, 2))
    for name in ("x", "weight"):
        assert torch.equal(first[name], again[name]) and not torch.equal(first[name], other[name])


def test_a_draw_that_raises_is_blamed_on_the_task() -> None:
    def broken(*_: object) -> torch.Tensor:
        raise RuntimeError("no luck\nand more")

    task = small_task(inputs={"x": tensor("rows", "cols", draw=custom(broken))})
    with pytest.raises(TaskError) as error:
        inputs_of(task)
    assert str(error.value) == "scaled: drawing 'x' for rows=6 cols=10 raised: RuntimeError: no luck"
    with pytest.raises(TaskError, match="for a hidden workload raised"):
        inputs_of(task, Workload(WORKLOAD.sizes, hidden=True))


def test_a_signature_lists_inputs_as_declared_and_then_outputs() -> None:
    assert signature(small_task(constant=("weight",)), WORKLOAD).arguments == (
        TensorSpec("x", "float32", (6, 10), (10, 1), "input"),
        TensorSpec("weight", "float32", (10,), (1,), "constant"),
        ScalarSpec("factor", 2.0),
        TensorSpec("out", "float32", (6, 10), (10, 1), "output"),
    )


def test_a_signature_finds_shapes_and_dtypes_of_outputs() -> None:
    def top(x: torch.Tensor, weight: torch.Tensor, factor: float) -> tuple[torch.Tensor, torch.Tensor]:
        return tuple(x.max(dim=0))  # type: ignore[return-value]

    specs = signature(small_task(reference=top, outputs=("values", "indices")), WORKLOAD).outputs
    assert [(s.name, s.dtype, s.shape) for s in specs] == [
        ("values", "float32", (10,)),
        ("indices", "int64", (10,)),
    ]


def test_outputs_are_row_major_even_where_the_reference_returns_a_transpose() -> None:
    task = small_task(reference=lambda x, weight, factor: (x * weight).T)
    assert signature(task, WORKLOAD).outputs[0].strides == (6, 1)


def test_a_task_in_place_has_inout_arguments_and_may_return_nothing() -> None:
    def step(x: torch.Tensor, weight: torch.Tensor, factor: float) -> None:
        x.add_(weight, alpha=factor)

    task = small_task(reference=step, inout=("x",), outputs=())
    assert [(t.name, t.role) for t in signature(task, WORKLOAD).tensors] == [
        ("x", "inout"),
        ("weight", "input"),
    ]


def test_a_reference_that_looks_at_its_data_is_run_on_data() -> None:
    def branching(x: torch.Tensor, weight: torch.Tensor, factor: float) -> torch.Tensor:
        return x.sum(0) if float(x[0, 0]) > 1e9 else x * weight

    assert signature(small_task(reference=branching), WORKLOAD).outputs[0].shape == (6, 10)


@pytest.mark.parametrize(
    ("outputs", "returned"),
    [(("a", "b"), lambda x, w, f: x + 1), (("a",), lambda x, w, f: (x, x)), (("a",), lambda x, w, f: None)],
)
def test_the_number_of_outputs_must_be_the_declared_one(outputs: tuple[str, ...], returned: object) -> None:
    with pytest.raises(TaskError, match=r"value\(s\) but outputs="):
        signature(small_task(reference=returned, outputs=outputs), WORKLOAD)


def test_row_major_strides_are_those_of_torch() -> None:
    for shape in [(), (3,), (2, 3, 4), (3, 1, 4), (1, 1)]:
        assert row_major(shape) == torch.empty(shape).stride()


SHAPE = (256, 300)


def drawn(draw: Draw, family: Family = Family.NORMAL, shape: tuple[int, ...] = SHAPE, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return realise(draw, family, shape, torch.float32, {"classes": 5}, generator)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_finite_varied_and_without_zeros(family: Family) -> None:
    x = drawn(of_family(), family)
    assert x.shape == SHAPE and x.dtype == torch.float32 and x.is_contiguous()
    assert bool(x.isfinite().all())
    assert bool((x != 0).all())
    assert x.unique().numel() > 0.95 * x.numel()
    assert bool((x.std(dim=1) > 0).all())


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("shape", [(), (1,), (700,), (3, 5, 7, 11)])
def test_a_family_takes_any_shape(family: Family, shape: tuple[int, ...]) -> None:
    x = drawn(of_family(), family, shape)
    assert x.shape == shape and bool(x.isfinite().all())


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_survives_half_precision(family: Family) -> None:
    generator = torch.Generator().manual_seed(1)
    x = realise(of_family(), family, (1000, 1000), torch.float16, {}, generator)
    assert x.dtype == torch.float16 and bool(x.isfinite().all())


def test_families_differ_as_they_should() -> None:
    x = {family: drawn(of_family(), family) for family in FAMILIES}
    assert abs(float(x[Family.NORMAL].mean())) < 0.02
    assert 0.98 < float(x[Family.NORMAL].std()) < 1.02
    assert 3.9 < float(x[Family.SHIFTED].mean()) < 4.1
    assert 0.0009 < float(x[Family.SMALL].std()) < 0.0011
    heavy = x[Family.HEAVY_TAIL]
    assert float(heavy.abs().max()) > 20 > 10 * float(heavy.abs().median())
    spikes = x[Family.SPIKES].abs()
    assert 0.005 < float((spikes > 15).float().mean()) < 0.03
    assert bool(((spikes > 15) | (spikes < 0.2)).all())
    scales = x[Family.WIDE].std(dim=1)
    assert float(scales.max() / scales.min()) > 1000


def test_heavy_tails_are_those_of_student_t_with_three_degrees_of_freedom() -> None:
    """Quantiles of |t| at 50%, 95% and 99.9% are 0.765, 3.18 and 12.9."""
    x = drawn(of_family(), Family.HEAVY_TAIL, (500_000,)).abs()
    found = torch.quantile(x, torch.tensor([0.5, 0.95, 0.999])).tolist()
    assert found == pytest.approx([0.765, 3.18, 12.9], rel=0.1)


def test_the_same_generator_gives_the_same_values_and_another_seed_others() -> None:
    assert torch.equal(drawn(of_family(), seed=3), drawn(of_family(), seed=3))
    assert not torch.equal(drawn(of_family(), seed=3), drawn(of_family(), seed=4))


@pytest.mark.parametrize("family", FAMILIES)
def test_an_explicit_draw_ignores_the_family(family: Family) -> None:
    x = drawn(normal(10, 0.5), family)
    assert 9.98 < float(x.mean()) < 10.02 and 0.48 < float(x.std()) < 0.52


def test_uniform_stays_inside_its_bounds_and_reaches_them() -> None:
    x = drawn(uniform(2, 3))
    assert 2 <= float(x.min()) < 2.001 and 2.999 < float(x.max()) <= 3


def test_integers_use_sizes_and_exclude_the_high_bound() -> None:
    x = drawn(integers(0, "classes"))
    assert x.unique().tolist() == [0, 1, 2, 3, 4]


@settings(max_examples=30)
@given(st.integers(-50, 50), st.integers(1, 30), st.integers(0, 1000))
def test_integers_lie_between_any_bounds(low: int, span: int, seed: int) -> None:
    x = drawn(integers(low, low + span), shape=(64,), seed=seed)
    assert bool(((x >= low) & (x < low + span)).all())


def test_a_custom_draw_gets_what_it_needs() -> None:
    def rising(
        generator: torch.Generator, shape: tuple[int, ...], dtype: torch.dtype, sizes: dict[str, int]
    ) -> torch.Tensor:
        steps = torch.rand(shape, generator=generator, dtype=dtype)
        return (steps + sizes["classes"]).cumsum(-1)

    x = drawn(custom(rising), shape=(4, 9))
    assert bool((x.diff(dim=-1) >= 5).all())


@pytest.mark.parametrize("wrong", [lambda *_: torch.zeros(3), lambda *_: None, lambda g, s, d, z: torch.ones(s).int()])
def test_a_custom_draw_must_return_what_was_asked_for(wrong: object) -> None:
    with pytest.raises(TaskError, match="a custom draw returned"):
        drawn(custom(wrong))  # type: ignore[arg-type]


def test_every_trial_has_rows_of_other_families() -> None:
    """So that looking at a sample of the input does not tell which shortcut is harmless."""
    shape = (2048, 64)
    generator = torch.Generator().manual_seed(3)
    families = tuple(Family)
    drawn = realise(of_family(), Family.SMALL, shape, torch.float32, {}, generator, families)
    unusual = (drawn.abs().amax(-1) > 0.05).sum()
    assert 8 <= unusual <= 4 * (len(families) - 1) + 16
    alone = realise(of_family(), Family.SMALL, shape, torch.float32, {}, generator, (Family.SMALL,))
    assert float(alone.abs().max()) < 0.05


def test_a_tensor_of_very_many_rows_has_rows_of_every_other_family_too() -> None:
    """There they are drawn without shuffling all rows."""
    generator = torch.Generator().manual_seed(3)
    x = realise(of_family(), Family.SMALL, (1 << 15, 64), torch.float32, {}, generator, FAMILIES)
    scales = x.abs().median(1).values
    strange = int((scales > 0.01).sum())
    assert 14 <= strange <= 20  # four of each of five, some of the wide ones as small as the rest
