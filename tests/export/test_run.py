"""From a run to a function and to a package, as a user does it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import kernelwright
from kernelwright.cli.main import assembled
from kernelwright.errors import KernelwrightError
from tests.export import making


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The forward's and the backward's."""
    folder = tmp_path_factory.mktemp("runs")
    reference = making.task_file(folder)
    forward = making.run_of(reference, making.source("rmsnorm", "simd.cpp"), folder / "f")
    return forward, making.run_of(f"{reference}:backward", making.source("rmsnorm_backward", "simd.cpp"), folder / "b")


def test_a_run_is_loaded_with_its_backward(runs: tuple[Path, Path]) -> None:
    kernel = kernelwright.load(*runs)
    x, weight = torch.randn(64, 256, requires_grad=True), torch.nn.Parameter(torch.randn(256))
    kernel(x, weight, 1e-6).sum().backward()
    assert kernel.counts == {"kernel": 1} and x.grad is not None and weight.grad is not None


def test_what_optimize_found_is_loaded_with_the_function_for_the_rest(runs: tuple[Path, Path]) -> None:
    def function(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
        return torch.full_like(x, 7.0)  # so that it shows who answered

    found = kernelwright.Optimized(runs[0], "rmsnorm", "", function=function)
    kernel = found.load()
    x, weight = torch.randn(64, 256), torch.randn(256)
    assert kernel(x, weight).mean() != 7
    with pytest.warns(UserWarning, match="so the reference is used"):
        assert kernel(x.double(), weight.double()).mean() == 7


def test_the_command_writes_a_package(runs: tuple[Path, Path], tmp_path: Path) -> None:
    output = tmp_path / "out"
    done = CliRunner().invoke(
        assembled(["export", "runs"]), ["export", *map(str, runs), "-o", str(output), "--name", "rms", "--json"]
    )
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["operation"] == "rmsnorm" and [one["direction"] for one in report["kernels"]] == [
        "forward",
        "backward",
    ]
    assert Path(report["wheel"]).is_file() and (output / "rms" / "kernel.json").is_file()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--name", "Not A Name"], "cannot be a package's name"),
        (["--layout", "conda"], "is not known"),
    ],
)
def test_bad_input_gets_one_line(runs: tuple[Path, Path], tmp_path: Path, arguments: list[str], said: str) -> None:
    with pytest.raises(KernelwrightError, match=said):
        CliRunner().invoke(
            assembled(["export", "runs"]),
            ["export", str(runs[0]), "-o", str(tmp_path / "out"), *arguments],
            catch_exceptions=False,
        )
    assert not list(tmp_path.iterdir()), "nothing is left behind"


def test_a_folder_with_something_in_it_is_not_written_into(runs: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(KernelwrightError, match="already exists"):
        kernelwright.Optimized(runs[0], "rmsnorm", "").export(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_backward_alone_and_two_tasks_are_refused(runs: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(KernelwrightError, match="a backward alone cannot be called"):
        kernelwright.load(runs[1])
    other = making.run_of("softmax", making.source("softmax", "online.cpp"), tmp_path)
    with pytest.raises(KernelwrightError, match="are different tasks"):
        kernelwright.load(runs[0], other)


def test_a_run_of_another_installation_is_not_loaded(runs: tuple[Path, Path], tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(runs[0], copy)
    (copy / "journal.origin").write_text("0" * 64)
    with pytest.raises(KernelwrightError, match="another installation started this run"):
        kernelwright.load(copy)
