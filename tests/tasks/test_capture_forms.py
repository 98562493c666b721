"""Functions as people write them: arguments by name, masks, labels, changes in place, and results of any form."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from kernelwright.api import written_task
from kernelwright.export.standalone.calls import in_form
from kernelwright.export.standalone.manifest import ManifestError, checked_form
from kernelwright.tasks import TaskError
from kernelwright.tasks.capture import captured
from kernelwright.tasks.drawing import draw_inputs
from kernelwright.tasks.example_draws import draw_text, labels, mask_rows
from kernelwright.tasks.model import Task
from kernelwright.tasks.reference import run_reference

Pair = namedtuple("Pair", ["scaled", "norm"])
X = torch.randn(6, 8)


def task_of(function: Callable[..., Any], example: Any, folder: Path, **keywords: Any) -> Task:
    with written_task(function, example, folder, "made", keywords) as made:
        return made.about.task


def scaled(x: torch.Tensor, *, weight: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def test_arguments_by_name_become_parameters_in_the_functions_order(tmp_path: Path) -> None:
    task = task_of(scaled, (X,), tmp_path, eps=1e-6, weight=torch.randn(8))
    assert [(one.name, one.number, one.default) for one in task.call] == [
        ("x", None, None),
        ("weight", None, None),
        ("eps", 1e-6, 1e-5),
    ]


@pytest.mark.parametrize(
    ("function", "form"),
    [
        (lambda x: x * 2, None),
        (lambda x: (x * 2, x + 1), None),
        (lambda x: {"a": x * 2, "b": (x + 1, None)}, True),
        (lambda x: [x * 2, x + 1], True),
        (lambda x: Pair(x * 2, x.norm(dim=-1)), True),
        (lambda x: (x, x + 1, 3), True),
    ],
)
def test_results_come_back_in_the_functions_own_form(
    function: Callable[..., Any], form: bool | None, tmp_path: Path
) -> None:
    task = task_of(function, X, tmp_path)
    assert (task.form is not None) == bool(form)
    expected = function(X)
    if task.form is not None:
        outputs = [*run_reference(task, {next(iter(task.inputs)): X}).values()]
        checked_form(task.form, len(outputs), 1)
        found = in_form(task.form, outputs, (X,))
        assert str(found) == str(expected) and type(found).__name__ == type(expected).__name__


def test_changes_in_place_are_results(tmp_path: Path) -> None:
    def step(p: torch.Tensor, g: torch.Tensor, lr: float = 0.1) -> torch.Tensor:
        p[:, :4].mul_(0.5)
        p.sub_(g, alpha=lr)
        return p

    task = task_of(step, (X.clone(), torch.randn(6, 8)), tmp_path)
    assert task.inout == ("p",) and task.outputs == () and task.form == {"argument": 0}


def test_a_tensor_that_is_given_twice_is_two_arguments(tmp_path: Path) -> None:
    def gate(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        return a.sigmoid() * b + c

    other = torch.randn(3, 6, 8)
    for example in ((X, X, X), (X, X.view(-1).view(6, 8), X.T.T)):
        task = task_of(gate, example, tmp_path)
        assert list(task.inputs) == ["a", "b", "c"]
        found = run_reference(task, dict(zip("abc", other, strict=True)))["out"]
        torch.testing.assert_close(found, gate(*other))


def test_a_parameter_that_is_given_as_an_argument_is_not_the_parameter(tmp_path: Path) -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(6, 8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sigmoid() * self.weight.sum(0)

    module = Scaled()
    task = task_of(module, (module.weight,), tmp_path)
    assert [(one.name, one.held) for one in task.call] == [("x", ""), ("p_inner_weight", "weight")]


def test_arguments_are_called_as_the_author_calls_them_where_the_name_is_free(tmp_path: Path) -> None:
    def gate(scores: torch.Tensor, out: torch.Tensor, torch_: torch.Tensor, mul: torch.Tensor, grad_out: torch.Tensor):  # type: ignore[no-untyped-def]
        return scores * out * torch_ * mul * grad_out

    task = task_of(gate, (X,) * 5, tmp_path)
    assert list(task.inputs) == ["scores", "given_1", "torch_", "given_3", "given_4"]
    assert [one.name for one in task.call] == ["scores", "out", "torch_", "mul", "grad_out"]


def split(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    q, k, v = x.chunk(3, dim=-1)
    return q, k, v


def part_and_whole(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x * 2
    return y, y.t(), x[:, :4], x


@pytest.mark.parametrize("function", [split, part_and_whole, lambda x: x.t(), lambda x: x.view(-1)])
def test_results_that_are_views_are_new_tensors_with_the_same_values(
    function: Callable[..., Any], tmp_path: Path
) -> None:
    x = torch.randn(8, 12)
    task = task_of(function, x, tmp_path)
    computed = [*run_reference(task, {next(iter(task.inputs)): x}).values()]
    assert all(one.untyped_storage()._cdata != x.untyped_storage()._cdata for one in computed)
    found = computed if task.form is None else in_form(task.form, computed, (x,))
    expected = function(x)
    expected = expected if isinstance(expected, tuple) else (expected,)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


def test_a_view_of_an_argument_that_is_changed_is_refused() -> None:
    def step(p: torch.Tensor) -> torch.Tensor:
        p.mul_(2)
        return p[:, :4]

    with pytest.raises(TaskError, match="it returns a view of 'p', which it changes in place: return a copy"):
        captured(step, (X.clone(),))


@pytest.mark.parametrize("function", [lambda x: torch.topk(x, 3), lambda x: torch.max(x * 2, dim=1)])
def test_what_an_operator_of_torch_returns_keeps_its_class(function: Callable[..., Any], tmp_path: Path) -> None:
    task = task_of(function, X, tmp_path)
    computed = [*run_reference(task, {next(iter(task.inputs)): X}).values()]
    assert task.form is not None and checked_form(task.form, 2, 1)
    found, expected = in_form(task.form, computed, (X,)), function(X)
    assert type(found) is type(expected)
    assert torch.equal(found.values, expected.values) and torch.equal(found.indices, expected.indices)


@pytest.mark.parametrize("name", ["pytree_register_structseq", "topk", "nothing"])
def test_a_form_of_others_makes_nothing_but_tuples(name: str) -> None:
    form = {"named": [f"torch.return_types.{name}", [["first", {"output": 0}]]]}
    assert in_form(checked_form(form, 1, 1) or {}, ["computed"], ()) == ("computed",)


def test_a_refusal_names_all_that_stands_in_the_way_by_the_authors_names() -> None:
    def noisy(scores: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
        return F.dropout(scores) + torch.rand_like(scores) + factors.abs()

    with pytest.raises(TaskError) as caught:
        captured(noisy, (X, X.to(torch.complex64)))
    complaints = str(caught.value).split("; ")
    assert [one.partition(" (")[0].partition(":")[0] for one in complaints] == [
        "factors is complex64", "it uses dropout, which draws random numbers", "it draws random numbers",
    ]  # fmt: skip


def test_a_function_that_takes_no_negative_numbers_gets_those_of_its_example(tmp_path: Path) -> None:
    task = task_of(lambda x, v: x / v.sqrt(), (X, torch.rand(6, 8)), tmp_path)
    assert task.inputs["v"].draw.low >= 0  # type: ignore[union-attr]


def test_masks_leave_something_in_each_row_and_begin_as_the_examples_do(tmp_path: Path) -> None:
    mask = torch.ones(2, 8, dtype=torch.bool)
    task = task_of(
        lambda s, m: s.masked_fill(~m[:, None], -torch.inf).softmax(-1), (torch.randn(2, 3, 8), mask), tmp_path
    )
    generator = torch.Generator().manual_seed(1)
    drawn = draw_inputs(task, task.public_workloads()[0], task.families[0], generator)["m"]
    assert isinstance(drawn, torch.Tensor) and bool(drawn[:, 0].all()) and not bool(drawn.all(-1).any())


@pytest.mark.parametrize("shape", [(64, 1), (64, 2), (5, 7, 9), (4,), ()])
@pytest.mark.parametrize("first", [None, True, False])
def test_a_drawn_mask_has_both_values_where_it_has_room(shape: tuple[int, ...], first: bool | None) -> None:
    drawn = mask_rows(first).function(torch.Generator().manual_seed(3), shape, torch.int64, {})
    assert drawn.shape == shape and drawn.dtype is torch.int64 and set(drawn.unique().tolist()) <= {0, 1}
    if shape and shape[-1] > 1:
        assert bool((drawn.amax(-1) == 1).all() and (drawn.amin(-1) == 0).all())
    if shape and first is not None:
        assert bool((drawn[..., 0] == int(first)).all())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (torch.tensor([[True, True], [True, False]]), "mask_rows(True)"),
        (torch.tensor([[1, 0], [0, 1]]), "mask_rows()"),
        (torch.tensor([3, -100, 7]), "labels(3, 8, -100)"),
        (torch.tensor([-2, -1, 3]), "integers(-2, 4)"),
        (torch.tensor([9, 9]), "integers(1, 10)"),
        (torch.tensor([2, 5]), "integers(2, 6)"),
    ],
)
def test_how_whole_numbers_are_drawn_follows_from_the_example(value: torch.Tensor, text: str) -> None:
    assert draw_text(value) == text


def test_labels_are_ignored_here_and_there_and_never_all() -> None:
    drawn = labels(0, 5, -100).function(torch.Generator().manual_seed(1), (400,), torch.int64, {})
    assert 10 < int((drawn == -100).sum()) < 120 and int(drawn[0]) >= 0
    assert set(drawn.tolist()) == {-100, 0, 1, 2, 3, 4}


def test_sizes_that_agree_are_one_and_those_that_cannot_vary_are_fixed() -> None:
    def loss(logits: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), wanted.view(-1), ignore_index=-100)

    text = captured(loss, (torch.randn(3, 6, 9), torch.randint(2, 9, (3, 6)))).text
    assert "tensor('n0', 'n1', 'n2')" in text and "tensor('n0', 'n1', draw=integers" in text
    table = torch.randn(1, 8)
    fixed = captured(lambda x: x.reshape(x.shape[0], 4, -1).sum(1) + table[0], (torch.randn(5, 32),)).text
    assert "hidden={'n0': (2, 20)" in fixed


def test_blocks_without_gradients_and_views_of_what_a_kernel_laid_out_are_taken(tmp_path: Path) -> None:
    class Rotary(nn.Module):
        @torch.no_grad()
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x.cos(), x.sin()

    def attended(q: torch.Tensor) -> torch.Tensor:
        y = F.scaled_dot_product_attention(q, q, q, is_causal=True)
        return y.transpose(1, 2).contiguous().view(q.shape[0], q.shape[2], -1)

    assert task_of(Rotary(), X, tmp_path).outputs == ("out0", "out1")
    assert "aten.view" not in captured(attended, torch.randn(2, 4, 6, 8)).text


@pytest.mark.parametrize(
    ("function", "example", "said"),
    [
        (lambda b: b["x"] * 2, ({"x": X},), "the example input number 1 is a dict: a task takes tensors and numbers"),
        (nn.Linear(8, 8).requires_grad_(False), (X, X), "the example inputs are not the arguments of Linear"),
        (lambda x: (x, slice(0, 1)), (X,), "torch.export cannot write"),
    ],
)
def test_what_has_no_form_is_refused_in_a_line(function: Any, example: Any, said: str) -> None:
    with pytest.raises(TaskError) as caught:
        captured(function, example)
    assert said in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "form",
    [
        {"output": 2},
        {"output": -1},
        {"argument": True},
        {"tuple": 3},
        {"named": ["a b", []]},
        {"named": ["torch.return_types.a.b", []]},
        {"named": [3, []]},
        {"dict": [[None, {"none": True}]]},
        {"call": "x"},
        {},
        [],
    ],
)
def test_a_form_of_others_is_looked_at_before_it_is_used(form: Any) -> None:
    with pytest.raises(ManifestError):
        checked_form(form, 2, 1)
