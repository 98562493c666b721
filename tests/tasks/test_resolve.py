"""One name for a task everywhere, and one clear line where it names none."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.tasks import TaskError
from kernelwright.tasks.hidden import hidden_workloads
from kernelwright.tasks.reference import run_reference
from kernelwright.tasks.resolve import TaskName, absolute_reference, builtin_names, parse, resolve

from .samples import GOOD_FILE

WriteTask = Callable[[str], str]


def error_of(ref: str) -> str:
    with pytest.raises(TaskError) as error:
        resolve(ref)
    message = str(error.value)
    assert "\n" not in message
    return message


def test_a_file_is_a_task_named_after_it(write_task: WriteTask) -> None:
    task = resolve(write_task(GOOD_FILE))
    assert (task.name, task.doc, task.direction) == ("my_task", "Twice x.", "forward")
    assert run_reference(task, {"x": torch.ones(2)})["out"].tolist() == [2, 2]


def test_a_relative_path_works_and_is_shown_as_typed(write_task: WriteTask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(write_task(GOOD_FILE)).parent)
    assert resolve("./my_task.py").name == resolve("my_task.py").name == "my_task"
    assert error_of("./none.py") == "none.py: there is no such file: check the path"


def test_the_backward_of_a_file(write_task: WriteTask) -> None:
    task = resolve(write_task(GOOD_FILE) + ":backward")
    assert task.name == "my_task:backward" and task.outputs == ("grad_x",)


def test_a_file_with_postponed_annotations_and_dataclasses_loads(write_task: WriteTask) -> None:
    extra = "from __future__ import annotations\nfrom dataclasses import dataclass\n"
    extra += "@dataclass\nclass A:\n    b: int\n"
    assert resolve(write_task(extra + GOOD_FILE)).outputs == ("out",)


def test_a_file_does_not_inherit_how_ours_are_compiled(write_task: WriteTask) -> None:
    """Annotations are values in a file that does not postpone them."""
    source = GOOD_FILE.replace("double(x)", "double(x: 1 + 1)")
    assert resolve(write_task(source)).reference.__annotations__ == {"x": 2}


FAULTY: list[tuple[str, str]] = [
    ("def f(:\n", "my_task.py:1: the file is not valid Python: SyntaxError"),
    ("\x00", "the file is not valid Python"),
    ("x = 1\nimport no_such_module\n", "my_task.py:2: an import failed (install it, or remove the import)"),
    ("\n\n1 / 0\n", "my_task.py:3: ZeroDivisionError: division by zero"),
    ("import sys\nsys.exit()\n", "my_task.py:2: SystemExit"),
    ("x = 1\n", "my_task.py: the file defines no task: end it with `task = Task(...)`"),
    ("task = 3\n", "my_task.py: `task` is a int: end the file with"),
    (GOOD_FILE.replace('{"n": 64}', '{"m": 64}'), "my_task.py:12: public workload {'m': 64} does not give"),
    (GOOD_FILE.replace("2 * x", "x.nothing()"), "my_task.py:9: the reference raised: AttributeError"),
    (
        GOOD_FILE.replace("2 * x", "helper(x)") + "\n\ndef helper(x):\n    raise KeyError(x.ndim)\n",
        "my_task.py:21: the reference raised: KeyError: 1",
    ),
    (GOOD_FILE.replace("2 * x", "x.mul_(2)"), "my_task.py:8: the reference changes 'x'"),
    (GOOD_FILE.replace("2 * x", "x.float() * 2"), "my_task.py:9: the reference raised: the reference casts"),
]


@pytest.mark.parametrize(("source", "message"), FAULTY, ids=[message for _, message in FAULTY])
def test_a_faulty_file_is_named_with_its_line(write_task: WriteTask, source: str, message: str) -> None:
    assert message in error_of(write_task(source))


def test_a_directory_is_no_task(tmp_path: Path) -> None:
    assert error_of(f"{tmp_path}/").endswith("this is a directory: name the task's file in it")


def test_close_names_are_suggested() -> None:
    assert "did you mean rmsnorm" in error_of("rmsnrom")
    assert "did you mean softmax" in error_of("softmx:backward")
    assert "there are adamw, argmax" in error_of("zzz")
    assert "is not a built-in task" in error_of("")


def test_another_direction_is_refused() -> None:
    assert "write rmsnorm:backward" in error_of("rmsnorm:forwards")


def test_tasks_without_backward_say_so() -> None:
    assert "argmax has no backward: none of its outputs is differentiable" in error_of("argmax:backward")
    assert "adamw has no backward: it changes param, exp_avg, exp_avg_sq in place" in error_of("adamw:backward")


def test_a_built_in_wins_over_a_file_of_the_same_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "softmax").write_text("not python (")
    monkeypatch.chdir(tmp_path)
    assert resolve("softmax").name == "softmax"


def test_light_processes_do_not_pay_for_torch() -> None:
    """The values, the list of built-ins and the answer to a misspelt name need no torch."""
    script = (
        "import sys\n"
        "import kernelwright.tasks, kernelwright.tasks.hidden, kernelwright.tasks.catalogue\n"
        "from kernelwright.tasks.resolve import builtin_names, resolve\n"
        "assert 'rmsnorm' in builtin_names()\n"
        "try: resolve('rmsnrom')\n"
        "except kernelwright.tasks.TaskError: pass\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_the_built_ins_are_the_files_of_the_folder() -> None:
    assert builtin_names() == (
        "adamw",
        "argmax",
        "conv_relu_pool",
        "cross_entropy",
        "layernorm",
        "layernorm3d",
        "linear",
        "linear_relu",
        "llama_ffw",
        "maxpool2d",
        "resnet_block",
        "rmsnorm",
        "softmax",
        "unet_conv2d",
        "unet_linear",
    )


def test_the_worked_example_of_the_docs_works(write_task: WriteTask) -> None:
    docs = Path(__file__).parents[2] / "docs" / "tasks.md"
    source = docs.read_text().split("```python\n")[1].split("```")[0]
    assert resolve(write_task(source) + ":backward").outputs == ("grad_x", "grad_scale")


names = st.sampled_from(["rmsnorm", "./my.py", "a/b@c/task.py", "odd:name.py", "/tmp/a:b/task.py"])
sizes = st.dictionaries(st.sampled_from(["rows", "cols", "n"]), st.integers(0, 10**6), max_size=3)


@given(name=names, backward=st.booleans(), sizes=sizes)
def test_what_is_written_reads_back_the_same(name: str, backward: bool, sizes: dict[str, int]) -> None:
    named = TaskName(name, backward, sizes)
    assert parse(str(named)) == named


@given(name=names, backward=st.booleans(), sizes=sizes)
def test_another_process_finds_the_same_task(name: str, backward: bool, sizes: dict[str, int]) -> None:
    found = parse(absolute_reference(str(TaskName(name, backward, sizes))))
    assert (found.backward, found.sizes) == (backward, sizes)
    assert found.name == (str(Path(name).absolute()) if name != "rmsnorm" else name)


def test_a_folder_may_have_the_signs_in_its_name() -> None:
    assert parse("/tmp/a@b/task.py") == TaskName("/tmp/a@b/task.py")
    assert parse("/tmp/a:b/task.py") == TaskName("/tmp/a:b/task.py")


def test_another_process_finds_a_file_with_its_sizes() -> None:
    here = Path.cwd()
    assert absolute_reference("my.py@n=3") == f"{here}/my.py@n=3"
    assert absolute_reference("my.py:backward@n=3") == f"{here}/my.py:backward@n=3"
    assert absolute_reference("odd:name.py") == f"{here}/odd:name.py"
    assert absolute_reference("rmsnorm@rows=3") == "rmsnorm@rows=3"


def test_a_direction_that_no_task_has_is_said_wherever_the_name_is_read() -> None:
    with pytest.raises(TaskError, match="a task has no 'sideways'"):
        absolute_reference("rmsnorm:sideways")


@pytest.mark.parametrize("odd", ["t\udcff", "\x1b[31mred", "two\nlines", "t\ud800"])
def test_a_name_that_cannot_be_printed_is_refused_in_a_line_that_can(odd: str) -> None:
    for find in (parse, absolute_reference, resolve):
        with pytest.raises(TaskError, match="cannot be printed: rename the file") as caught:
            find(f"./{odd}.py")
        assert str(caught.value).isprintable()


def test_a_folder_that_cannot_be_printed_is_refused_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "two\nlines"
    folder.mkdir()
    (folder / "mine.py").write_text("")
    monkeypatch.chdir(folder)
    for find in (absolute_reference, resolve):
        with pytest.raises(TaskError, match="cannot be printed"):
            find("./mine.py")


def test_one_public_workload_and_hidden_ones_around_it() -> None:
    task = resolve("rmsnorm@rows=300,cols=1000")
    assert [workload.label for workload in task.public_workloads()] == ["rows=300 cols=1000"]
    assert task.name == "rmsnorm@rows=300,cols=1000"
    for workload in hidden_workloads(task, b"key"):
        assert 500 <= workload.size_map["cols"] <= 2000


def test_a_gradient_and_the_sizes_of_a_gpu() -> None:
    task = resolve("cross_entropy:backward@rows=64", "cuda")
    assert [dict(sizes) for sizes in task.public] == [{"rows": 64, "classes": 10}]
    assert task.hidden["rows"] == (32, 128)


def test_hidden_sizes_are_around_a_size_that_lies_outside_of_the_tasks_ranges() -> None:
    task = resolve("layernorm3d@batch=1", "cuda")
    assert task.public[0]["batch"] == 1
    assert task.hidden["batch"] == (1, 2)
    small = resolve("softmax@rows=64,cols=100")
    assert dict(small.hidden) == {"rows": (32, 128), "cols": (50, 200)}


def test_sizes_that_no_memory_holds_are_refused_in_a_line() -> None:
    with pytest.raises(TaskError, match="rows=99999999999"):
        resolve("softmax@rows=99999999999,cols=9999999999999")


@pytest.mark.parametrize(
    ("ref", "told"),
    [
        ("rmsnorm@rows", "'rows' is not a size"),
        ("rmsnorm@rows=3,rows=4", "the size rows is given twice"),
        ("rmsnorm@rows=3:backward", "rmsnorm:backward@rows=64"),
        ("rmsnorm@rows=-3", "is not a size"),
        ("rmsnorm@", "is not a size"),
        ("rmsnorm@depth=3", "has no size 'depth': choose from rows, cols"),
        ("rmsnrm@rows=3", "did you mean rmsnorm"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(ref: str, told: str) -> None:
    with pytest.raises(TaskError, match=told):
        resolve(ref)
