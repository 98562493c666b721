"""The list of built-in tasks: what their files declare, kept so that showing it again needs no torch."""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
import sys
from functools import cache
from pathlib import Path
from statistics import median

import pytest
from typer.testing import CliRunner

from kernelwright.cli.main import COMMANDS, assembled
from kernelwright.insight.lint.finding import Severity
from kernelwright.insight.lint.run import range_findings
from kernelwright.tasks import Chosen, TaskError, normal
from kernelwright.tasks import catalogue as module
from kernelwright.tasks.backward import derive_backward
from kernelwright.tasks.catalogue import SUITES, ArgumentInfo, TaskInfo, catalogue, describe, of_suite, suite
from kernelwright.tasks.drawing import signature
from kernelwright.tasks.hidden import hidden_workloads, work
from kernelwright.tasks.model import Signature, Task, Workload
from kernelwright.tasks.reference import torch_dtype
from kernelwright.tasks.resolve import builtin_names, declared

from .samples import small_task

LISTED_WITHOUT_TORCH = """
import sys
from kernelwright.cli.main import COMMANDS, assembled

app = assembled(COMMANDS)
try:
    app(["tasks", "list"])
except SystemExit as ended:
    assert not ended.code
assert "torch" not in sys.modules
"""


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path))


def test_every_built_in_is_there_with_its_gradient_where_it_has_one() -> None:
    names = [info.name for info in catalogue()]
    assert set(builtin_names()) <= set(names)
    assert "rmsnorm:backward" in names and "adamw:backward" not in names and "argmax:backward" not in names


def test_what_was_kept_is_what_the_files_declare() -> None:
    catalogue()
    kept = {info.name: info for info in catalogue()}
    for ref in ("cross_entropy", "linear_relu:backward", "adamw"):
        assert kept[ref] == describe(declared(ref))


def test_the_second_listing_needs_no_torch() -> None:
    catalogue()
    subprocess.run([sys.executable, "-c", LISTED_WITHOUT_TORCH], check=True, timeout=60, stdout=subprocess.DEVNULL)


def test_a_damaged_file_is_made_again(tmp_path: Path) -> None:
    before = catalogue()
    (kept,) = (tmp_path / "cache" / "catalogue").iterdir()
    kept.write_text('[{"name": "half of')
    assert catalogue() == before
    assert module.KEPT.validate_json(kept.read_bytes()) == before


def test_other_sources_give_another_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text("one")
    monkeypatch.setattr(module, "PACKAGE", tmp_path)
    before = module._digest()
    (tmp_path / "task.py").write_text("other")
    assert module._digest() != before


def test_arguments_are_described_in_order() -> None:
    assert describe(small_task(constant=("weight",))).arguments == (
        ArgumentInfo("x", "input", ("rows", "cols"), "the workload's", "input family", gradient=True),
        ArgumentInfo("weight", "constant", ("cols",), "the workload's", str(normal(1, 0.2)), gradient=True),
        ArgumentInfo("factor", "scalar", value=2.0),
    )


def test_what_changes_in_place_is_said_to() -> None:
    info = describe(small_task(inout=("x",)))
    assert [argument.role for argument in info.arguments] == ["inout", "input", "scalar"]


def test_the_rest_is_told_as_well() -> None:
    info = describe(small_task(comparators={"out": Chosen("x")}, doc="What it does."))
    assert (info.name, info.doc, info.direction) == ("scaled", "What it does.", "forward")
    assert info.public == ("rows=8 cols=16", "rows=16 cols=8")
    assert info.hidden == (("rows", 4, 40), ("cols", 4, 40))
    assert info.comparators == (("out", "Chosen(source='x', dim=-1, keepdim=False)"),)
    assert info.families[0] == "normal" and info.dtypes == ("float32",) and info.outputs == ("out",)


def test_a_backward_is_described_by_what_it_follows() -> None:
    info = describe(derive_backward(small_task(saved={"kept": lambda x, w, f: x + 1})))
    assert info.arguments[-2] == ArgumentInfo("kept", "input", draw="computed by the forward pass")
    assert info.arguments[-1] == ArgumentInfo("grad_out", "input", ("shape of out",), "that of out", "input family")


def test_a_description_is_plain_data() -> None:
    text = json.dumps(dataclasses.asdict(describe(small_task())))
    assert json.loads(text)["arguments"][2]["value"] == 2.0


app = assembled(COMMANDS)

DOCS = Path(__file__).parents[2] / "docs" / "tasks.md"
ROBUST = SUITES["robust"]
MOST_BYTES = 4 << 30  # of one trial's tensors; a float64 reference under probes takes several times as much

# Input and output of robust-kbench's public workloads; leading axes that only count rows are one axis in `rmsnorm`.
PUBLISHED: dict[str, list[tuple[tuple[int, ...], tuple[int, ...]]]] = {
    "layernorm3d": [((1, 64, 256, 256),) * 2, ((32, 64, 256, 256),) * 2],
    "rmsnorm": [((16 * 1024, 4096),) * 2],
    "cross_entropy": [((64, 10), ())],
    "linear": [((64, 128), (64, 10))],
    "linear_relu": [((64, 1600), (64, 128)), ((64, 128), (64, 10))],
    "maxpool2d": [((64, 64, 28, 28), (64, 64, 14, 14))],
    "conv_relu_pool": [((64, 1, 28, 28), (64, 32, 13, 13))],
    "unet_linear": [((64, 256, 128), (64, 256, 128))],
    "unet_conv2d": [((8, 64, 32, 32), (8, 64, 32, 32))],
    "llama_ffw": [((2, 128, 4096),) * 2],
    "resnet_block": [((32, 64, 224, 224),) * 2],
}


@cache
def on_gpu(ref: str) -> Task:
    return declared(ref).on("cuda")


@cache
def seen(ref: str, workload: Workload) -> Signature:
    return signature(on_gpu(ref), workload)


def test_it_has_every_operation_in_both_directions() -> None:
    assert tuple(ref for name in ROBUST[::2] for ref in (name, f"{name}:backward")) == ROBUST
    assert set(ROBUST[::2]) == set(PUBLISHED)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_gpu_gets_the_published_workloads_and_a_wider_one(name: str) -> None:
    shapes = []
    for workload in on_gpu(name).public_workloads():
        tensors = seen(name, workload).tensors
        shapes.append((tensors[0].shape, tensors[-1].shape))
    assert set(PUBLISHED[name]) < set(shapes)


@pytest.mark.parametrize("name", [name for name in PUBLISHED if name != "cross_entropy"])
def test_a_cpu_gets_smaller_ones(name: str) -> None:
    task = declared(name)
    assert max(work(task, sizes) for sizes in task.public) < max(work(task, s) for s in on_gpu(name).public)


@pytest.mark.parametrize("ref", ROBUST)
def test_the_tensors_of_a_trial_fit_a_gpu_many_times(ref: str) -> None:
    task = on_gpu(ref)
    for workload in (*task.public_workloads(), *hidden_workloads(task, b"key", count=4)):
        tensors = seen(ref, workload).tensors
        assert sum(math.prod(t.shape) * torch_dtype(t.dtype).itemsize for t in tensors) < MOST_BYTES


@pytest.mark.parametrize("name", PUBLISHED)
def test_hidden_workloads_of_a_gpu_fit(name: str) -> None:
    task = on_gpu(name)
    assert not [finding for finding in range_findings(task) if finding.severity is Severity.error]
    usual = median(work(task, sizes) for sizes in task.public)
    pool = hidden_workloads(task, b"key")
    assert len(set(pool)) == 16
    for workload in pool:
        assert 0.5 <= work(task, workload.size_map) / usual <= 1.5


def test_an_unknown_suite_is_answered_in_one_line() -> None:
    with pytest.raises(TaskError, match="'robst' is not a suite: choose from robust"):
        suite("robst")


def test_a_suite_is_listed_with_its_workloads_on_both_devices() -> None:
    runner = CliRunner(env={"COLUMNS": "200"})
    shown = runner.invoke(app, ["tasks", "list", "--suite", "robust"]).stdout
    assert "rows=16384 cols=4096" in shown and "rows=1024 cols=2048" in shown and "softmax" not in shown
    report = json.loads(runner.invoke(app, ["tasks", "list", "--suite", "robust", "--json"]).stdout)
    assert tuple(task["name"] for task in report["tasks"]) == ROBUST
    assert report["tasks"][2]["cuda_public"][0] == "rows=16384 cols=4096"


def table() -> str:
    """The table of docs/tasks.md; print it with `python -m tests.tasks.test_suites`."""
    lines = ["| task | public workloads on a CPU | on a GPU |", "|---|---|---|"]
    for info in of_suite("robust")[::2]:
        lines.append(f"| `{info.name}` ({_names(info)}) | {_sizes(info.public)} | {_sizes(info.cuda_public)} |")
    return "\n".join(lines)


def _names(info: TaskInfo) -> str:
    return " × ".join(part.partition("=")[0] for part in info.public[0].split())


def _sizes(labels: tuple[str, ...]) -> str:
    return ", ".join("×".join(part.partition("=")[2] for part in label.split()) for label in labels)


def test_the_table_of_the_docs_is_right() -> None:
    assert table() in DOCS.read_text(), "replace it by what `python -m tests.tasks.test_suites` prints"


if __name__ == "__main__":
    print(table())
