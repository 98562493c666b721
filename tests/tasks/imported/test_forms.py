"""Tasks in the forms of other benchmarks become tasks: their settings, sizes, numbers, results, and what they allow."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kernelwright.tasks.backward import derive_backward
from kernelwright.tasks.declarations import FamilyDraw, IntegerDraw, NormalDraw, TensorInput
from kernelwright.tasks.dims import TaskError
from kernelwright.tasks.drawing import draw_inputs
from kernelwright.tasks.imported.confined.settings_file import listed_settings
from kernelwright.tasks.imported.confined.tape import Untraceable
from kernelwright.tasks.imported.forms import bundle_of, main_file, tasks_in
from kernelwright.tasks.model import Task
from kernelwright.tasks.reference import Argument, run_reference
from kernelwright.tasks.validate import smallest_workload, validate
from tests.tasks.imported.other_forms import config, definition, gpu_mode, robust
from tests.tasks.imported.problems import SCALED, opened_here, traced_here, written


def drawn(task: Task) -> dict[str, Argument]:
    return draw_inputs(task, smallest_workload(task), task.families[0], torch.Generator().manual_seed(1))


def tensor(task: Task, name: str) -> TensorInput:
    found = task.inputs[name]
    assert isinstance(found, TensorInput)
    return found


# --- robust-kbench ---------------------------------------------------------------------------------------------------


def test_every_setting_of_a_config_is_a_public_workload(tmp_path: Path) -> None:
    options = config(
        {"input": {"batch": 1}, "init": {"init_method": "random"}, "shared": {"features": 16}},
        input=[{"batch": 6}, {"batch": 32}],
        init=[{"init_method": "random"}, {"init_method": "standard"}],
        shared=[{"features": 16}, {"features": 24}],
    )
    task = opened_here(robust(tmp_path / "norm", options))
    assert task.name == "norm"
    assert (
        list(task.inputs) == ["x", "weight", "bias", "eps"] and task.inputs["eps"] == 1e-5
    )  # as the function has them
    sizes = [
        {"batch": batch, "features": features} for batch, features in ((1, 16), (6, 16), (6, 24), (32, 16), (32, 24))
    ]
    assert list(task.public) == sizes
    assert tensor(task, "weight").dims == ("features",)
    assert tensor(task, "weight").draw == NormalDraw(0.0, 1.0)  # of the setting that says more than ones
    inputs = drawn(task)
    x, weight, bias = (inputs[name].double() for name in ("x", "weight", "bias"))  # type: ignore[union-attr]
    right = torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, 1e-5)
    torch.testing.assert_close(run_reference(task, inputs, torch.float64)["out"], right)
    validate(task)


def test_the_shape_of_a_parameter_varies_only_where_the_settings_say_so(tmp_path: Path) -> None:
    task = opened_here(robust(tmp_path / "norm", config({"input": {"batch": 4}}, input=[{"batch": 9}])))
    assert list(task.public) == [{"batch": 4}, {"batch": 9}] and tensor(task, "x").dims == ("batch", 8)


def test_a_setting_that_computes_something_else_is_opened_by_its_number(tmp_path: Path) -> None:
    folder = robust(tmp_path / "norm", config({"init": {"eps": 0.5}}, init=[{"eps": 0.25}]))
    task = opened_here(folder)
    assert task.inputs["eps"] == 0.5 and any("@setting=2 opens one" in note for note in task.notes)
    assert opened_here(folder, setting=2).inputs["eps"] == 0.25
    with pytest.raises(Untraceable, match="it has 2 settings: there is no setting 3"):
        opened_here(folder, setting=3)


def test_each_direction_has_files_of_its_own(tmp_path: Path) -> None:
    folder = robust(tmp_path / "norm", config({"input": {"batch": 4}}))
    assert opened_here(folder, backward=True).public == [
        {"batch": 4}
    ]  # those of the forward, where there are no others
    robust(folder, config({"input": {"batch": 7}}), direction="backward")
    gradient = derive_backward(opened_here(folder, backward=True))
    assert list(gradient.public) == [{"batch": 7}, {"batch": 4}]
    assert gradient.outputs == ("grad_x", "grad_weight", "grad_bias")
    assert opened_here(folder).public == [{"batch": 4}]


def test_a_module_that_does_more_than_its_function_is_taken_whole(tmp_path: Path) -> None:
    folder = robust(tmp_path / "norm", config(), returned="fn(x, self.weight, self.bias, self.eps).relu()")
    task = opened_here(folder)
    assert list(task.inputs) == ["x", "weight", "bias"]
    assert bool((run_reference(task, drawn(task))["out"] >= 0).all())


def test_a_setting_that_fails_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    task = opened_here(robust(tmp_path / "norm", config(init=[{"strange": 1}])))
    assert any("Some of its settings fail" in note for note in task.notes)
    with pytest.raises(TypeError, match="strange"):
        opened_here(robust(tmp_path / "all", config({"init": {"strange": 1}}, init=[{"strange": 1}])))


# --- definitions -----------------------------------------------------------------------------------------------------


def test_axes_workloads_and_casts_of_a_definition(tmp_path: Path) -> None:
    allowed = {"max_atol": 0.25, "max_rtol": 0.5, "required_matched_ratio": 0.75, "max_error_cap": 2.0}
    factor = {"type": "scalar", "value": 2.5}
    folder = definition(
        tmp_path / "scaled",
        """
        assert x.shape[1] == 2 * half.shape[1] == 8
        wide = x.to(torch.float32) * factor
        return (wide[:, :4] + half.float()).to(torch.bfloat16)
        """,
        {"x": (["n", "width"], "bfloat16"), "half": (["n", "short"], "bfloat16"), "factor": (None, "float32")},
        axes={"n": None, "width": 8, "short": "width // 2"},
        workloads=[
            {"axes": {"n": 1}, "inputs": {"factor": factor}, "tolerance": allowed},
            {"definition": "scaled", "workload": {"axes": {"n": 20}, "inputs": {"factor": factor}}},
            {"axes": {"n": 30}, "inputs": {"factor": {"type": "scalar", "value": 3.5}}},
        ],
    )
    task = opened_here(folder, setting=1)
    assert {"n": 1} in task.public and task.hidden["n"][1] > 1  # though torch takes 1 for fixed
    assert "errors up to 0.25 + 0.5 of the value in 75.00%" in " ".join(task.notes) and "above 2" in task.doc
    task = opened_here(folder)
    assert list(task.public) == [{"n": 1}, {"n": 20}] and task.outputs == ("y",) and task.dtypes == ("bfloat16",)
    assert task.inputs["factor"] == 2.5 and tensor(task, "half").dims == ("n", 4)
    inputs = drawn(task)
    x, half = (inputs[name].double() for name in ("x", "half"))  # type: ignore[union-attr]
    wide = run_reference(task, inputs, torch.float64)["y"]
    assert torch.equal(wide, x[:, :4] * 2.5 + half)  # no cast narrows the answer
    assert run_reference(task, inputs)["y"].dtype is torch.bfloat16
    assert derive_backward(task).outputs == ("grad_x", "grad_half")


def test_an_axis_that_follows_from_others(tmp_path: Path) -> None:
    folder = definition(
        tmp_path / "pairs",
        "return x.sum() + y.sum()",
        {"x": (["n", "m"], "float32"), "y": (["both"], "float32")},
        axes={"n": None, "m": None, "both": "n * m + 1"},
        workloads=[{"axes": {"n": 4, "m": 5}, "inputs": {}}],
    )
    assert tensor(opened_here(folder), "y").dims == ("(n * m + 1)",)


def test_index_tensors_stay_within_what_they_index(tmp_path: Path) -> None:
    folder = definition(
        tmp_path / "lookup",
        "return table[index]",
        {"table": (["rows", "cols"], "float16"), "index": (["n"], "int64")},
        axes={"rows": None, "cols": None, "n": None},
        workloads=[{"axes": {"rows": 40, "cols": 6, "n": 10}, "inputs": {"table": {"type": "custom"}}}],
        top="""
def make(sizes, device):
    table = torch.randn(sizes["rows"], sizes["cols"], dtype=torch.float16, device=device)
    return {"table": table, "index": torch.randint(0, sizes["rows"], (sizes["n"],), device=device)}
""",
        custom_inputs_entrypoint="make",
    )
    task = opened_here(folder)
    assert tensor(task, "index").draw == IntegerDraw(0, "rows") and isinstance(tensor(task, "table").draw, FamilyDraw)
    assert run_reference(task, drawn(task))["y"].shape[1] == smallest_workload(task).size_map["cols"]


def test_a_definition_may_have_8_bit_floats_with_scales(tmp_path: Path) -> None:
    folder = definition(
        tmp_path / "scaled",
        "return ((x.float() @ w.float().T) * sx * sw).to(torch.bfloat16)",
        {
            "x": (["n", "depth"], "float8_e4m3fn"),
            "w": (["depth", "depth"], "float8_e4m3fn"),
            "sx": (["n", "one"], "float32"),
            "sw": (["one"], "float32"),
        },
        axes={"n": None, "depth": 16, "one": 1},
        workloads=[{"axes": {"n": n}, "inputs": {}} for n in (8, 24)],
    )
    task = opened_here(folder)
    inputs = drawn(task)
    x, w, sx, sw = (inputs[name] for name in ("x", "w", "sx", "sw"))
    assert x.dtype == torch.float8_e4m3fn  # type: ignore[union-attr]
    right = (x.double() @ w.double().T) * sx.double() * sw.double()  # type: ignore[union-attr]
    torch.testing.assert_close(run_reference(task, inputs, torch.float64)["y"], right)
    assert run_reference(task, inputs)["y"].dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("body", "dtype", "given", "said"),
    [
        ("return x * 2", "float8_e4m3fnuz", {"type": "random"}, "x is float8_e4m3fnuz, which a task cannot have"),
        ("return x * 2", "float8_e5m2", {"type": "random"}, "torch does not compute in 8-bit floats"),
        ("return x * 2", "int32", {"type": "safetensors", "path": "../../key"}, "takes the values of x from a file"),
        (
            "return x * x[0].item()",
            "float32",
            {"type": "random"},
            "it uses the operator aten.item.default",
        ),
    ],
)
def test_what_a_definition_may_not_have_is_said_in_a_line(
    tmp_path: Path, body: str, dtype: str, given: object, said: str
) -> None:
    workloads = [{"axes": {"n": 16}, "inputs": {"x": given}}]
    folder = definition(tmp_path / "odd", body, {"x": (["n"], dtype)}, axes={"n": None}, workloads=workloads)
    with pytest.raises((Untraceable, TaskError), match=said) as caught:
        opened_here(folder)
    assert len(str(caught.value).splitlines()) == 1


# --- GPU MODE --------------------------------------------------------------------------------------------------------

LISTED = """
# a comment
files:
  - {"name": "reference.py", "source": "reference.py"}
description: |
  tests:
  - not a setting
tests:
  - {"size": 8, "seed": 1}
benchmarks:
  - {size: 32, seed: 2}   # in another style
  - size: 64
    seed: 3
"""


def test_a_tuple_of_inputs_with_memory_for_the_result(tmp_path: Path) -> None:
    folder = gpu_mode(
        tmp_path / "add",
        """
        def ref_kernel(data: input_t) -> output_t:
            left, right, output = data
            output[...] = left + right
            return output

        def generate_input(size: int, seed: int) -> input_t:
            gen = torch.Generator(device="cuda")
            gen.manual_seed(seed)
            made = [torch.randn(size, 3, device="cuda", dtype=torch.float16, generator=gen) for _ in range(2)]
            return (*made, torch.empty_like(made[0]))
        """,
        LISTED,
    )
    task = opened_here(folder)
    assert list(task.inputs) == ["left", "right"] and [one["size"] for one in task.public] == [32, 64]
    inputs = drawn(task)
    assert torch.equal(run_reference(task, inputs)["out"], inputs["left"] + inputs["right"])  # type: ignore[operator]
    assert any("Memory for a result" in note for note in task.notes)
    validate(task)


def test_dicts_of_inputs_and_of_results(tmp_path: Path) -> None:
    folder = gpu_mode(
        tmp_path / "named",
        """
        def ref_kernel(data):
            return {"sum": data["x"] + data["more"]["y"], "twice": [data["x"] * 2]}

        def generate_input(size, seed):
            return {"x": torch.randn(size, 4), "more": {"y": torch.randn(size, 4)}, "count": 3}
        """,
        "tests:\n  - {'size': 16, 'seed': 1}\n",
    )
    task = opened_here(folder)
    assert list(task.inputs) == ["x", "more_y"] and task.outputs == ("out0", "out1")
    inputs = drawn(task)
    assert torch.equal(run_reference(task, inputs)["out1"], inputs["x"] * 2)  # type: ignore[operator]


def test_settings_are_a_strict_part_of_yaml() -> None:
    assert listed_settings(LISTED.encode(), ("tests",)) == [{"size": 8, "seed": 1}]
    found = listed_settings(b"tests:\n- {a: [1, 2.5, x], 'b': {c: true, d: null}, e: -1e-3}\n", ("tests",))
    assert found == [{"a": [1, 2.5, "x"], "b": {"c": True, "d": None}, "e": -1e-3}]


@pytest.mark.parametrize(
    "text",
    [
        "tests:\n  - !!python/object/apply:os.system ['id']\n",
        "tests:\n  - &a {size: 1}\n",
        "tests:\n  - *a\n",
        "tests:\n  - {<<: *a}\n",
        "tests:\n  - {size: 1, size: 2}\n",
        "tests:\n  - {size: 1\n",
        "tests:\n  - {size: 1}}\n",
        "tests:\n  - [[[[[[1]]]]]]\n",
        "tests:\n  - {a: [[[[[[1]]]]]]}\n",
        "tests:\n  size: 1\n",
        "tests:\n  - {1: 2}\n",
        "tests:\n  - |\n    {size: 1}\n",
        "benchmark:\n  - {size: 1}\n",
        "tests:\n" + "x" * 3000,
        "\x00",
        "- {size: 1}\n" * 20_001,
    ],
)
def test_what_is_not_plain_is_refused(text: str) -> None:
    with pytest.raises(Untraceable, match=r"task\.yml"):
        listed_settings(text.encode(), ("tests",))


# --- files -----------------------------------------------------------------------------------------------------------


def test_a_folder_is_listed_whatever_the_form_of_what_it_holds(tmp_path: Path) -> None:
    robust(tmp_path / "b_norm", config())
    definition(tmp_path / "c_defined", "return x", {"x": (["n"], "float32")}, axes={"n": None})
    (tmp_path / "definitions").mkdir()
    (tmp_path / "definitions" / "one.json").write_text((tmp_path / "c_defined" / "definition.json").read_text())
    (tmp_path / "definitions" / "settings.json").write_text("{}")
    gpu_mode(tmp_path / "d_listed", "def ref_kernel(data): return data", LISTED)
    written(tmp_path, SCALED, "a_problem.py")
    found = [str(path.relative_to(tmp_path)) for path in tasks_in(tmp_path)]
    assert found == ["a_problem.py", "b_norm", "c_defined", "d_listed", "definitions/one.json"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(TaskError, match="holds no task in a form that is known"):
        tasks_in(tmp_path / "empty")


def test_workloads_of_a_definition_lie_beside_it_or_in_the_tree_of_a_trace(tmp_path: Path) -> None:
    made = definition(tmp_path / "made", "return x + 1", {"x": (["n"], "float32")}, axes={"n": None})
    for folder in ("definitions/gemm", "workloads/gemm"):
        (tmp_path / folder).mkdir(parents=True)
    path = tmp_path / "definitions" / "gemm" / "one.json"
    path.write_text((made / "definition.json").read_text())
    (tmp_path / "workloads" / "gemm" / "one.jsonl").write_text('{"workload": {"axes": {"n": 48}, "inputs": {}}}\n')
    task = opened_here(path)
    assert task.name == "one" and list(task.public) == [{"n": 48}]
    assert len(task.files) == 2


def test_files_of_a_task_are_found_beside_it_and_nowhere_else(tmp_path: Path) -> None:
    folder = robust(tmp_path / "norm", config())
    assert main_file(folder) == folder / "func_forward.py"
    (folder / "config_forward.json").unlink()
    with pytest.raises(TaskError, match=r"there is no config_forward.json beside it"):
        bundle_of(folder)
    secret = tmp_path / "secret"
    secret.write_text("{}")
    (folder / "config_forward.json").symlink_to(secret)
    with pytest.raises(TaskError, match="a link to a file outside of its folder"):
        bundle_of(folder)
    (folder / "config_forward.json").unlink()
    (folder / "config_forward.json").write_text(" " * (5 << 20))
    with pytest.raises(TaskError, match="has more than 4 MiB"):
        bundle_of(folder)
    (tmp_path / "other.json").write_text("[" * 100_000)
    with pytest.raises(TaskError, match="is not a definition"):
        bundle_of(tmp_path / "other.json")


def test_two_settings_of_one_file_are_kept_apart_in_the_cache(tmp_path: Path) -> None:
    folder = robust(tmp_path / "norm", config())
    one, other, gradient = (bundle_of(folder, setting=number) for number in (None, 1, 2))
    assert one is not None and other is not None and gradient is not None
    assert len({one.digest(), other.digest(), gradient.digest()}) == 3


def test_a_trace_names_its_settings(tmp_path: Path) -> None:
    found = traced_here(robust(tmp_path / "norm", config({"input": {"batch": 5}}, input=[{"batch": 6}])))
    assert [(one.number, one.sizes) for one in found.settings] == [(1, {"batch": 5}), (2, {"batch": 6})]
