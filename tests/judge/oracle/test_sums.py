"""No part of a sum can be left out, and every honest way to add up passes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from kernelwright.judge.oracle.right.compare import check
from kernelwright.judge.oracle.right.sums import lost_in_running_sums, lost_in_sum
from kernelwright.judge.oracle.right.tolerance import expectations
from kernelwright.tasks import Task, tensor
from kernelwright.tasks.backward import derive_backward
from kernelwright.tasks.declarations import FAMILIES
from kernelwright.tasks.drawing import draw_inputs
from kernelwright.tasks.reference import Argument, run_reference

SENTINEL = 0x7FF17FF2
UNIT = 2.0**-24
Tensor = torch.Tensor
Kernel = Callable[[dict[str, Any]], dict[str, Tensor]]


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make(reference: Callable[..., Any], *dims: tuple[Any, ...]) -> Task:
    inputs = {name: tensor(*shape) for name, shape in zip("xyz", dims, strict=False)}
    return Task(reference=reference, inputs=inputs, public=[{}], hidden={}, name="t")


def rejected(task: Task, kernel: Kernel, seed: int = 0) -> list[bool]:
    """One trial of each family: whether the kernel's results were rejected."""
    (workload,) = task.public_workloads()
    found = []
    for family in FAMILIES:
        inputs = draw_inputs(task, workload, family, torch.Generator().manual_seed(seed))
        expected = expectations(task, inputs, workload)
        results = kernel(dict(inputs))
        found.append(any(check(expected[n], r.contiguous(), SENTINEL) is not None for n, r in results.items()))
    return found


def sequential(terms: Tensor) -> Tensor:
    """Over the last axis. torch's own cumsum adds in double."""
    return torch.from_numpy(np.cumsum(terms.numpy(), -1, dtype=np.float32)[..., -1].copy())


# --- what one accumulator loses -----------------------------------------------------------------------------

TERMS: dict[str, Callable[[tuple[int, int]], Tensor]] = {
    "both signs": lambda shape: torch.randn(shape),
    "far from zero": lambda shape: torch.randn(shape) + 4,
    "squares": lambda shape: torch.randn(shape).square(),
    "equal": lambda shape: torch.full(shape, 0.1),
    "tiny beside one": lambda shape: torch.cat((torch.ones(shape[0], 1), torch.rand(shape)[:, 1:] * 1e-8), 1),
    "tiny before one": lambda shape: torch.cat((torch.rand(shape)[:, 1:] * 1e-8, torch.ones(shape[0], 1)), 1),
}


@pytest.mark.parametrize("name", TERMS)
@pytest.mark.parametrize("shape", [(64, 300), (16, 4096), (4, 65536), (3000, 1000)])
def test_the_loss_is_near_what_a_sequential_sum_loses(name: str, shape: tuple[int, int]) -> None:
    torch.manual_seed(1)
    terms = TERMS[name](shape)
    before = terms.clone()
    loss = lost_in_sum(terms, UNIT).double()
    assert torch.equal(terms, before)
    exact = terms.double().sum(-1)
    errors = [(sequential(way).double() - exact).abs() for way in (terms, terms.flip(-1))]
    worst = torch.maximum(*errors)
    assert bool((worst <= 3 * loss).all())
    assert float((worst.square().mean() / loss.square().mean()).sqrt()) > 0.1


@pytest.mark.parametrize(
    "name", [name for name in TERMS if name != "tiny before one"]
)  # nothing to lose until the last
@pytest.mark.parametrize("shape", [(64, 300), (16, 4096), (4, 65536), (700, 3000)])
def test_the_loss_of_running_sums_is_near_what_sequential_ones_lose(name: str, shape: tuple[int, int]) -> None:
    torch.manual_seed(1)
    terms = TERMS[name](shape)
    loss = lost_in_running_sums(terms, UNIT).double()
    got = torch.from_numpy(np.cumsum(terms.numpy(), -1, dtype=np.float32)).double()
    errors = (got - terms.double().cumsum(-1)).abs()
    assert loss.shape == terms.shape
    assert bool((errors <= 3 * loss).all())
    assert float((errors.square().mean() / loss.square().mean()).sqrt()) > 0.1


def test_the_loss_of_a_long_row_grows_no_further_than_several_accumulators_lose() -> None:
    torch.manual_seed(1)
    squares = torch.randn(1, 1 << 22).square()
    loss = float(lost_in_sum(squares, UNIT)) / float(squares.double().sum())
    assert loss < 2e-3
    assert float((sequential(squares).double() - squares.double().sum()).abs() / squares.double().sum()) > 3e-3


def test_a_finer_precision_loses_less_in_proportion() -> None:
    terms = torch.rand(5, 4096, dtype=torch.float64)
    fine, coarse = lost_in_sum(terms, 2.0**-53), lost_in_sum(terms, UNIT)
    torch.testing.assert_close(fine * 2.0**29, coarse)


# --- leaving terms out --------------------------------------------------------------------------------------

REFERENCES: dict[str, Callable[[Tensor], Tensor]] = {
    "mean": lambda x: x.mean(),
    "mean of squares": lambda x: x.square().mean(),
    "variance": lambda x: x.var(),
    "norm": lambda x: x.norm(),
    "logsumexp": lambda x: x.flatten().logsumexp(0),
    "softmax mean": lambda x: torch.softmax(x, 0).square().mean(),
}


def rescaled(name: str, kept: float) -> Callable[[Tensor], Tensor]:
    """What the reference gives on a part of the terms, corrected for their number."""
    if name == "norm":
        return lambda x: x.norm() / math.sqrt(kept)
    if name == "logsumexp":
        return lambda x: x.flatten().logsumexp(0) - math.log(kept)
    if name == "softmax mean":
        return lambda x: torch.softmax(x, 0).square().mean() * kept * kept
    return REFERENCES[name]


PARTS_KEPT: dict[str, Callable[[Tensor], Tensor]] = {
    "one row in 64": lambda x: x[::64],
    "three rows in 4": lambda x: x[torch.arange(len(x)) % 4 != 3],
    "63 rows in 64": lambda x: x[torch.arange(len(x)) % 64 != 63],
}


@pytest.mark.parametrize("part", PARTS_KEPT)
@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("rows", [64, 4096, pytest.param(262_144, marks=pytest.mark.slow)])
def test_a_part_of_a_long_reduction_is_not_enough(name: str, part: str, rows: int) -> None:
    task = make(REFERENCES[name], (rows, 16))
    kept = PARTS_KEPT[part]

    def sampled(inputs: dict[str, Any]) -> dict[str, Tensor]:
        some = kept(inputs["x"]).double()
        return {"out": rescaled(name, len(some) / rows)(some).float()}

    def whole(inputs: dict[str, Any]) -> dict[str, Tensor]:
        return run_reference(task, inputs)

    assert any(rejected(task, sampled))
    assert not any(rejected(task, whole))


@pytest.mark.parametrize("name", ["mean of squares", "mean"])
def test_nor_is_it_of_four_million_terms(name: str) -> None:
    task = make(REFERENCES[name], (262_144, 16))
    sampled = PARTS_KEPT["63 rows in 64"]
    assert any(rejected(task, lambda inputs: {"out": REFERENCES[name](sampled(inputs["x"]).double()).float()}))


@pytest.mark.parametrize("part", ["one row in 64", "three rows in 4", "63 rows in 64"])
@pytest.mark.parametrize(
    ("reference", "dims"),
    [
        (F.mse_loss, ((8192, 32), (8192, 32))),
        (lambda x: F.adaptive_avg_pool2d(x.t().reshape(1, 32, 128, 64), 1), ((8192, 32),)),
        (lambda x: x.sum(0), ((8192, 32),)),
        (lambda x: x.cumsum(0)[-1], ((8192, 32),)),
    ],
    ids=["mse", "pool", "sum", "cumsum"],
)
def test_other_reductions_need_all_terms(reference: Callable[..., Tensor], dims: Any, part: str) -> None:
    task = make(reference, *dims)

    def sampled(inputs: dict[str, Any]) -> dict[str, Tensor]:
        rows = torch.arange(8192)
        keep = {"one row in 64": rows % 64 == 0, "three rows in 4": rows % 4 != 3, "63 rows in 64": rows % 64 != 63}[
            part
        ]
        share = float(keep.double().mean())
        some = {n: torch.where(keep[:, None], v.double(), 0.0) for n, v in inputs.items()}
        return {"out": (reference(*some.values()) / share).float()}

    assert any(rejected(task, sampled))
    assert not any(rejected(task, lambda inputs: run_reference(task, inputs)))


@pytest.mark.parametrize("value", [0.1, 0.1234567, -0.23661232, 1.0, 3.7e4])
@pytest.mark.parametrize("dim", [0, 1])
def test_running_sums_of_constant_rows_may_be_sequential_and_may_leave_nothing_out(value: float, dim: int) -> None:
    """One accumulator rounds all terms of such a row in the same direction, and torch's own adds in double."""
    shape = (2000, 18) if dim == 0 else (18, 2000)
    task = make(lambda x: x.cumsum(dim), shape)
    (workload,) = task.public_workloads()
    x = torch.full(shape, value)
    expected = expectations(task, {"x": x}, workload)["out"]
    sequential_sums = torch.from_numpy(np.cumsum(x.numpy(), dim, dtype=np.float32).copy())
    assert check(expected, sequential_sums, SENTINEL) is None
    kept = (torch.arange(2000) % 64 != 63).view((-1, 1) if dim == 0 else (1, -1))
    shortened = torch.where(kept, x.double(), 0.0).cumsum(dim)
    assert check(expected, shortened.float().contiguous(), SENTINEL) is not None


@pytest.mark.parametrize("part", [4, 64])
def test_gradients_of_a_norms_parameters_need_all_rows(part: int) -> None:
    forward = make(lambda x, y, z: F.layer_norm(x, (48,), y, z), (4096, 48), (48,), (48,))
    task = derive_backward(forward)

    def sampled(inputs: dict[str, Argument]) -> dict[str, Tensor]:
        results = run_reference(task, inputs)
        keep = torch.arange(4096) % part != 0
        fewer = {n: v[keep] if isinstance(v, Tensor) and v.dim() > 1 else v for n, v in inputs.items()}
        again = run_reference(task, fewer)
        return {n: v if n == "grad_x" else again[n] * (part / (part - 1)) for n, v in results.items()}

    assert any(rejected(task, sampled))
    assert not any(rejected(task, lambda inputs: run_reference(task, inputs)))


# --- honest ways to add up ----------------------------------------------------------------------------------


def lanes(terms: Tensor) -> Tensor:
    """32 running sums, then a tree."""
    return sequential(terms.unflatten(-1, (-1, 32)).transpose(-1, -2)).sum(-1)


def split(terms: Tensor) -> Tensor:
    return sequential(torch.stack([sequential(part) for part in terms.tensor_split(8, -1)], -1))


HONEST = {"sequential": sequential, "reversed": lambda t: sequential(t.flip(-1)), "lanes": lanes, "split": split}


@pytest.mark.parametrize("way", HONEST)
@pytest.mark.parametrize("cols", [4096, 65536])
def test_honest_sums_pass(way: str, cols: int) -> None:
    add = HONEST[way]

    def softmax(x: Tensor) -> Tensor:
        powers = torch.exp(x - x.amax(-1, keepdim=True))
        return powers / add(powers).unsqueeze(-1)

    def variance(x: Tensor) -> Tensor:
        centred = x - (add(x) / cols).unsqueeze(-1)
        return add(centred * centred) / (cols - 1)

    def shifted_variance(x: Tensor) -> Tensor:
        moved = x - x[:, :1]
        return (add(moved * moved) - add(moved).square() / cols) / (cols - 1)

    kernels: list[tuple[Callable[..., Any], Callable[[Tensor], Tensor]]] = [
        (lambda x: x.sum(-1), add),
        (lambda x: x.square().mean(-1), lambda x: add(x * x) / cols),
        (lambda x: torch.softmax(x, -1), softmax),
        (lambda x: x.var(-1), variance),
        (lambda x: x.norm(dim=-1), lambda x: add(x * x).sqrt()),
    ]
    if way in ("lanes", "split"):
        kernels.append((lambda x: x.var(-1), shifted_variance))
    for reference, kernel in kernels:
        task = make(reference, (4 if cols > 10_000 else 64, cols))
        assert not any(rejected(task, lambda inputs, kernel=kernel: {"out": kernel(inputs["x"])}))  # type: ignore[misc]


def test_welford_passes() -> None:
    def welford(x: Tensor) -> Tensor:
        mean, squares = torch.zeros(len(x)), torch.zeros(len(x))
        for number, value in enumerate(x.unbind(-1), 1):
            moved = value - mean
            mean = mean + moved / number
            squares = squares + moved * (value - mean)
        return squares / (x.shape[-1] - 1)

    task = make(lambda x: x.var(-1), (64, 4096))
    assert not any(rejected(task, lambda inputs: {"out": welford(inputs["x"])}))
