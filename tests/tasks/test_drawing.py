"""Arguments and signatures follow from the declaration and the workload."""

from __future__ import annotations

import pytest
import torch

from kernelwright.tasks import Family, TaskError, custom, integers, tensor
from kernelwright.tasks.drawing import draw_inputs, row_major, signature
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
