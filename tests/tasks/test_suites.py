"""The suite `robust`: complete, in both directions, at the published workloads, and documented as it is."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from statistics import median

import pytest
from typer.testing import CliRunner

from kernelwright.cli.main import COMMANDS, assembled
from kernelwright.insight.lint.finding import Severity
from kernelwright.insight.lint.ranges import range_findings
from kernelwright.tasks import TaskError
from kernelwright.tasks.catalogue import of_suite
from kernelwright.tasks.describe import TaskInfo
from kernelwright.tasks.drawing import signature
from kernelwright.tasks.hidden import hidden_workloads, work
from kernelwright.tasks.model import Signature, Task, Workload
from kernelwright.tasks.reference import torch_dtype
from kernelwright.tasks.resolve import declared
from kernelwright.tasks.suites import SUITES, suite

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
    with pytest.raises(TaskError, match="'robst' is no suite: there is robust"):
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
