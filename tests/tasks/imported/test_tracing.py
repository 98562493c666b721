"""Problems of every honest kind become tasks: what they compute, how their arguments are drawn, where they hold."""

from __future__ import annotations

import inspect
import math
from pathlib import Path

import pytest
import torch

from kernelwright.tasks import Chosen
from kernelwright.tasks.backward import derive_backward
from kernelwright.tasks.declarations import CustomDraw, FamilyDraw, IntegerDraw, NormalDraw, TensorInput, UniformDraw
from kernelwright.tasks.dims import TaskError
from kernelwright.tasks.drawing import draw_inputs, signature
from kernelwright.tasks.imported.confined.tape import Untraceable
from kernelwright.tasks.model import Task, Workload
from kernelwright.tasks.reference import run_reference
from kernelwright.tasks.validate import smallest_workload, validate
from tests.tasks.imported.problems import SCALED, formed, opened_here, traced_here, written


def drawn(task: Task, name: str, workload: Workload | None = None) -> torch.Tensor:
    where = workload or smallest_workload(task)
    value = draw_inputs(task, where, task.families[0], torch.Generator().manual_seed(3))[name]
    assert isinstance(value, torch.Tensor)
    return value


def declared(task: Task, name: str) -> TensorInput:
    found = task.inputs[name]
    assert isinstance(found, TensorInput)
    return found


def test_a_module_becomes_a_task_of_its_inputs_and_parameters(tmp_path: Path) -> None:
    task = opened_here(written(tmp_path, SCALED))
    assert list(task.inputs) == ["x", "scale", "linear_weight", "linear_bias", "offset"]
    assert task.public == [{"batch": 64}]
    assert declared(task, "x").dims == ("batch", 48)
    assert isinstance(declared(task, "x").draw, FamilyDraw)
    weight = declared(task, "linear_weight").draw
    assert isinstance(weight, UniformDraw)
    assert (weight.low, weight.high) == pytest.approx((-1 / math.sqrt(48), 1 / math.sqrt(48)))
    assert declared(task, "scale").draw == UniformDraw(0.5, 1.5)
    assert declared(task, "offset").draw == UniformDraw(-0.1, 0.1)
    assert "device" not in inspect.getsource(inspect.unwrap(task.reference))  # nothing in it is made of nothing
    validate(task)


def test_the_reference_computes_what_the_module_does_in_any_precision(tmp_path: Path) -> None:
    task = opened_here(written(tmp_path, SCALED))
    inputs = draw_inputs(task, task.public_workloads()[0], task.families[0], torch.Generator().manual_seed(1))
    x, scale, weight, bias, offset = (value.double() for value in inputs.values())  # type: ignore[union-attr]
    right = torch.relu(x @ weight.T + bias) * scale + offset
    torch.testing.assert_close(run_reference(task, inputs, torch.float64)["out"], right)
    torch.testing.assert_close(run_reference(task, inputs)["out"].double(), right, rtol=1e-4, atol=1e-5)


def test_a_cast_in_the_code_does_not_narrow_the_answer(tmp_path: Path) -> None:
    task = opened_here(
        formed(tmp_path, "return (x.float() + torch.zeros(x.shape[0], 1)).cumsum(-1)", "torch.rand(32, 16)")
    )
    inputs = draw_inputs(task, task.public_workloads()[0], task.families[0], torch.Generator().manual_seed(1))
    wide = run_reference(task, inputs, torch.float64)["out"]
    assert wide.dtype is torch.float64
    assert torch.equal(wide, inputs["x"].double().cumsum(-1))  # type: ignore[union-attr]


def test_the_backward_is_derived(tmp_path: Path) -> None:
    gradient = derive_backward(opened_here(written(tmp_path, SCALED)))
    assert gradient.traced
    assert "grad_linear_weight" in gradient.outputs
    assert signature(gradient, gradient.public_workloads()[0]).outputs[0].shape == (64, 48)


def test_a_size_bears_the_name_that_the_author_gives_it(tmp_path: Path) -> None:
    path = formed(
        tmp_path,
        "return a @ b",
        "left, torch.rand(K, M)",
        given="a, b",
        top="N, K, M = 32, 24, 40",
        before="left = torch.rand(N, K)",
    )
    assert opened_here(path).public == [{"N": 32, "K": 24, "M": 40}]


def test_gigabytes_cost_nothing(tmp_path: Path) -> None:
    path = formed(
        tmp_path,
        "return F.softmax(self.big(x), -1)",
        "torch.rand(1 << 14, 1 << 16)",
        init="self.big = nn.Linear(1 << 16, 1 << 16)",
    )
    task = opened_here(path)
    assert signature(task, task.public_workloads()[0]).outputs[0].shape == (1 << 14, 1 << 16)
    assert task.hidden["n0"][1] == 1 << 14  # upward there is no room, downward there is
    assert task.hidden["n0"][0] < 1 << 13


@pytest.mark.parametrize(
    ("made", "check"),
    [
        ("torch.tril(torch.rand(16, 16))", lambda v: torch.equal(v, v.tril()) and bool((v != 0).any())),
        ("torch.rand(16, 16).softmax(-1)", lambda v: torch.allclose(v.sum(-1), torch.ones(v.shape[0]))),
        ("torch.randint(0, 2, (16, 16)).float() * 2 - 1", lambda v: set(v.unique().tolist()) == {-1.0, 1.0}),
        ("m + m.T", lambda v: v.shape[0] == v.shape[1] and torch.equal(v, v.T)),
    ],
)
def test_structure_that_a_kernel_may_rely_on_is_kept(tmp_path: Path, made: str, check: object) -> None:
    task = opened_here(formed(tmp_path, "return x * 2", made, before="m = torch.rand(16, 16)"))
    assert isinstance(declared(task, "x").draw, CustomDraw)
    for workload in (smallest_workload(task), *task.public_workloads()):
        assert check(drawn(task, "x", workload))  # type: ignore[operator]


def test_whole_numbers_and_masks_keep_their_range(tmp_path: Path) -> None:
    path = formed(
        tmp_path,
        "return F.cross_entropy(x, target) + mask.sum()",
        "torch.rand(64, classes), torch.randint(0, classes, (64,)), torch.randint(0, 2, (64, 3)).bool()",
        given="x, target, mask",
        top="classes = 10",
    )
    task = opened_here(path)
    assert declared(task, "target").draw == IntegerDraw(0, "classes")  # it follows the size
    assert declared(task, "mask").draw == IntegerDraw(0, 2)
    assert int(drawn(task, "target").max()) < smallest_workload(task).size_map["classes"]


def test_parameters_keep_the_distribution_that_the_code_gives_them(tmp_path: Path) -> None:
    init = (
        "self.a = nn.Parameter(torch.randn(16) * 0.02); self.b = nn.Parameter(torch.empty(16)); "
        "nn.init.trunc_normal_(self.b, std=0.5, a=-0.5, b=0.5)"
    )
    task = opened_here(formed(tmp_path, "return x * self.a + self.b", "torch.rand(32, 16)", init=init))
    assert declared(task, "a").draw == NormalDraw(0.0, 0.02)
    values = drawn(task, "b")
    assert isinstance(declared(task, "b").draw, CustomDraw)
    assert float(values.abs().max()) <= 0.5 and float(values.std()) > 0.1


def test_a_table_that_is_computed_from_nothing_is_part_of_the_operation(tmp_path: Path) -> None:
    init = (
        "self.register_buffer('mask', torch.tril(torch.ones(16, 16))); "
        "self.steps = [t.item() for t in torch.linspace(0, 1, 3)]"
    )
    task = opened_here(
        formed(
            tmp_path,
            "return x.masked_fill(self.mask == 0, 0.0) * self.steps[1] + torch.tensor([1.0])",
            "torch.rand(8, 16, 16)",
            init=init,
        )
    )
    assert list(task.inputs) == ["x"]
    inputs = draw_inputs(task, smallest_workload(task), task.families[0], torch.Generator().manual_seed(1))
    assert torch.equal(run_reference(task, inputs)["out"], inputs["x"].tril() * 0.5 + 1)  # type: ignore[union-attr]


def test_values_outside_the_domain_of_the_reference_are_not_drawn(tmp_path: Path) -> None:
    task = opened_here(formed(tmp_path, "return torch.log(x + 0.1)", "torch.rand(64, 32)"))
    assert declared(task, "x").draw == UniformDraw(0.0, 1.0)


def test_training_mode_without_chance_and_without_running_statistics(tmp_path: Path) -> None:
    init = "self.norm = nn.BatchNorm1d(16); self.drop = nn.Dropout(0.3)"
    path = formed(
        tmp_path, "return F.dropout(self.drop(self.norm(x)), 0.2, self.training)", "torch.rand(32, 16)", init=init
    )
    task = opened_here(path)
    assert traced_here(path).notes == ["batch_statistics", "dropout"]
    assert "Dropout" in task.doc and len(task.notes) == 2
    inputs = draw_inputs(task, smallest_workload(task), task.families[0], torch.Generator().manual_seed(1))
    x, weight, bias = inputs.values()
    right = torch.nn.functional.batch_norm(x, None, None, weight, bias, training=True)  # type: ignore[arg-type]
    torch.testing.assert_close(run_reference(task, inputs)["out"], right)
    validate(task)


def test_inputs_in_lists_scalars_none_and_several_results(tmp_path: Path) -> None:
    path = formed(
        tmp_path,
        "return (pair[0] * scale, [pair[1] + y, y], None if mask is None else mask)",
        "[torch.rand(32, 8), torch.rand(32, 8)], torch.rand(32, 8), 2.5, None",
        given="pair, y, scale, mask=None",
    )
    task = opened_here(path)
    assert list(task.inputs) == ["pair_0", "pair_1", "y"]
    assert task.outputs == ("out0", "out1", "out2")
    inputs = draw_inputs(task, smallest_workload(task), task.families[0], torch.Generator().manual_seed(1))
    results = run_reference(task, inputs)
    assert torch.equal(results["out0"], inputs["pair_0"] * 2.5)  # type: ignore[operator]
    validate(task)  # the input that is returned is copied


def test_an_input_that_is_changed_in_place_or_strided(tmp_path: Path) -> None:
    task = opened_here(formed(tmp_path, "x.mul_(2); return x + 1", "torch.rand(16, 32).t()"))
    assert any("copied first" in note for note in task.notes)
    assert any("contiguous" in note for note in task.notes)
    validate(task)


def test_a_size_that_follows_another(tmp_path: Path) -> None:
    task = opened_here(
        formed(
            tmp_path,
            "return F.interpolate(x, scale_factor=2.0) + y",
            "torch.rand(4, 3, 16), torch.rand(4, 3, 32)",
            given="x, y",
        )
    )
    assert declared(task, "y").dims[-1] in ("2*n1", "2*n0", "2*n2")


def test_a_slice_with_an_open_end(tmp_path: Path) -> None:
    task = opened_here(formed(tmp_path, "return x[:, 1:] * 2", "torch.rand(32, 16)"))
    inputs = draw_inputs(task, smallest_workload(task), task.families[0], torch.Generator().manual_seed(1))
    assert torch.equal(run_reference(task, inputs)["out"], inputs["x"][:, 1:] * 2)  # type: ignore[index]


def test_indices_are_compared_by_the_value_they_choose(tmp_path: Path) -> None:
    task = opened_here(formed(tmp_path, "return torch.argmax(x, dim=1)", "torch.rand(32, 16)"))
    assert task.comparators == {"out": Chosen("x", 1, False)}
    task = opened_here(formed(tmp_path, "return torch.max(x, dim=1, keepdim=True)[1]", "torch.rand(32, 16)"))
    assert task.comparators == {"out": Chosen("x", 1, True)}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"body": "return x if x.sum() > 0 else -x", "inputs": "torch.rand(8, 8)"},
            "depends on the values of a tensor",
        ),
        ({"body": "return x + torch.bernoulli(x)", "inputs": "torch.rand(8, 8)"}, "draws random numbers by bernoulli"),
        ({"body": "return x.shape[0]", "inputs": "torch.rand(8, 8)"}, "something other than tensors"),
        ({"body": "return x", "inputs": "3"}, "returns no tensor"),
        ({"body": "return x", "inputs": "torch.rand(4, 4, dtype=torch.complex64)"}, "complex64"),
        (
            {
                "body": "return x + self.p",
                "inputs": "torch.rand(8, 4)",
                "init": "self.p = nn.Parameter(torch.rand(8, 4))",
            },
            "all its sizes are fixed",
        ),
    ],
)
def test_what_cannot_be_taken_is_said_in_a_line(tmp_path: Path, options: dict[str, str], said: str) -> None:
    with pytest.raises((Untraceable, TaskError), match=said) as caught:
        opened_here(formed(tmp_path, **options))
    assert len(str(caught.value).splitlines()) == 1
