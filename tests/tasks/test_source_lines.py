"""Messages name the author's own line, wherever the code went in between."""

from __future__ import annotations

import linecache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from kernelwright.api import written_task
from kernelwright.tasks import TaskError
from kernelwright.tasks.capture import captured
from kernelwright.tasks.loading import load_task, located
from kernelwright.tasks.source_lines import PACKAGE, SourceLine, line_of, read_map, write_map
from tests.tasks.imported.test_forms import opened_here

HERE = __file__


def halved(x: torch.Tensor) -> torch.Tensor:
    return x.chunk(2, dim=-1)[0]


def gated(x: torch.Tensor) -> torch.Tensor:
    kept = halved(x)
    return nn.functional.silu(kept)


def frame(file: str, line: int, text: str) -> str:
    return f'  File "{file}", line {line}, in forward\n    {text}\n'


def test_the_innermost_line_outside_of_torch_and_of_us_is_the_authors() -> None:
    torchs = str(Path(torch.__file__).parent / "nn" / "functional.py")
    trace = frame("/a/outer.py", 1, "f(x)") + frame("/a/inner.py", 7, "silu(x)") + frame(torchs, 9, "return")
    assert line_of(trace + frame(f"{PACKAGE}/api.py", 3, "call()")) == SourceLine("/a/inner.py", 7, "silu(x)")
    assert line_of(frame(torchs, 9, "return")) is None and line_of(None) is None


def test_what_called_the_function_is_not_its_line() -> None:
    trace = frame("/a/script.py", 30, "optimize(f, x)") + frame(f"{PACKAGE}/tasks/exporting.py", 5, "self.inner()")
    assert line_of(trace) is None
    assert line_of(trace + frame("/a/f.py", 2, "x * 2")) == SourceLine("/a/f.py", 2, "x * 2")


def test_a_layer_of_torch_stands_for_itself() -> None:
    folder = Path(torch.__file__).parent / "nn"
    layer, caller = (str(folder / "modules" / name) for name in ("linear.py", "module.py"))
    trace = frame(layer, 12, "F.linear(x)") + frame(str(folder / "functional.py"), 3, "return")
    assert line_of(frame(caller, 1, "forward()") + trace) == SourceLine(layer, 12, "F.linear(x)")
    assert SourceLine(layer, 12, "F.linear(x)").place == "torch/nn/modules/linear.py:12"


def test_a_captured_file_has_a_map_to_the_functions_lines_also_inside_of_what_it_calls() -> None:
    found = captured(gated, (torch.randn(6, 8),))
    lines = {found.text.splitlines()[number - 1].split(" = ")[0].strip(): one for number, one in found.lines.items()}
    assert lines["chunk"].text == "return x.chunk(2, dim=-1)[0]" and lines["chunk"].file == HERE
    assert lines["silu"].text == linecache.getline(HERE, lines["silu"].line).strip()
    assert HERE not in found.text  # the task stays the same when lines move


def test_the_map_lies_beside_the_file_and_is_read_with_it(tmp_path: Path) -> None:
    with written_task(gated, (torch.randn(6, 8),), tmp_path) as made:
        task = load_task(made.path)
        assert [one.text for one in task.lines[str(made.path)].values()][-1] == "return nn.functional.silu(kept)"


def test_errors_in_a_captured_file_name_the_functions_line(tmp_path: Path) -> None:
    file = tmp_path / "task.py"
    write_map(file, {4: SourceLine("/a/gate.py", 12, "return silu(x)")})
    assert str(located(str(file), 4, "it raised")) == "/a/gate.py:12: it raised (return silu(x))"
    assert str(located(str(file), 5, "it raised")) == f"{file}:5: it raised"


@pytest.mark.parametrize("content", ["{", "[]", '{"a": 1}', '{"1": ["x"]}'])
def test_a_map_that_is_broken_says_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / "task.lines.json").write_text(content)
    assert read_map(tmp_path / "task.py") == {}


def drops(x: torch.Tensor) -> torch.Tensor:
    return nn.functional.dropout(x * 2, 0.5)


@pytest.mark.parametrize(
    ("function", "example", "said"),
    [
        (drops, torch.randn(4, 6), f"(at {HERE}:{drops.__code__.co_firstlineno + 1}: return nn.functional.dropout"),
        (nn.BatchNorm1d(8), torch.randn(16, 8), "'running_mean' (at torch/nn/modules/batchnorm.py:"),
    ],
)
def test_a_refusal_to_capture_names_the_line(function: Any, example: torch.Tensor, said: str) -> None:
    with pytest.raises(TaskError) as caught:
        captured(function, (example,))
    assert said.replace(f"{Path.cwd()}/", "") in str(caught.value)


PROBLEM = """
import torch

def helper(x):
    return torch.{call}

class Model(torch.nn.Module):
    def forward(self, x):
        y = x * 2
        return helper(y)

def get_inputs():
    return [torch.randn(8, 6)]

def get_init_inputs():
    return []
"""


def test_an_imported_problem_names_lines_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "problem.py"
    file.write_text(PROBLEM.format(call="cumsum(x, 1)"))
    task = opened_here(file)
    ((_, lines),) = task.lines.items()
    assert [(one.file, one.line, one.text) for one in lines.values()] == [
        (str(file), 9, "y = x * 2"),
        (str(file), 5, "return torch.cumsum(x, 1)"),
    ]
    file.write_text(PROBLEM.format(call="linalg.qr(x)[0]"))
    with pytest.raises(TaskError, match=r"linalg_qr.* \(at .*problem\.py:5: return torch\.linalg\.qr"):
        opened_here(file)
