"""What a benchmark is over, which part of it is drawn, and which files are candidates for which task."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.benchmark.samples import samples_of
from kernelwright.benchmark.suites import SuiteTask, chosen, suite_tasks
from kernelwright.errors import KernelwrightError

PROBLEM = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_inputs():
    return [torch.rand(4, 8)]
def get_init_inputs():
    return []
"""
TASKS = tuple(SuiteTask(name, name, "all") for name in "abcdefgh")


def names(tasks: tuple[SuiteTask, ...]) -> list[str]:
    return [task.name for task in tasks]


def test_a_suite_by_name() -> None:
    found = suite_tasks("robust")
    assert {"rmsnorm", "rmsnorm:backward"} <= set(names(found))
    assert {task.category for task in found} == {"forward", "backward"}
    assert "argmax" in names(suite_tasks("builtin"))


def test_a_folder_of_problem_files_by_level_in_natural_order(tmp_path: Path) -> None:
    for name in ("level1/2_ReLU.py", "level1/10_Sum.py", "level2/1_Both.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(PROBLEM)
    found = suite_tasks(str(tmp_path))
    assert names(found) == ["level1/2_ReLU", "level1/10_Sum", "level2/1_Both"]
    assert [task.category for task in found] == ["level1", "level1", "level2"]
    assert str(tmp_path) not in "".join(names(found))
    assert names(suite_tasks(str(tmp_path / "level2"))) == ["level2/1_Both"]


def test_a_list_of_tasks_with_categories_and_remarks(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PROBLEM)
    (tmp_path / "list.txt").write_text(
        "# ours\n[norms]\nrmsnorm@rows=64,cols=128\nrmsnorm:backward # both\n[own]\nmine.py\n"
    )
    found = suite_tasks(str(tmp_path / "list.txt"))
    assert names(found) == ["rmsnorm@rows=64,cols=128", "rmsnorm:backward", f"{tmp_path.name}/mine"]
    assert [task.category for task in found] == ["norms", "norms", "own"]
    assert Path(found[2].reference).is_absolute()


def test_one_task_is_a_suite() -> None:
    assert names(suite_tasks("softmax@rows=8,cols=8")) == ["softmax@rows=8,cols=8"]


@pytest.mark.parametrize("given_name", ["robuts", "nothing.py", "empty"])
def test_what_is_not_a_suite_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given_name: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(KernelwrightError, match=r"is not a suite|holds no task"):
        suite_tasks(given_name)


@pytest.mark.parametrize(
    ("content", "said"),
    [("rmsnrom\n", "rmsnrom: is not a built-in"), ("# none\n", "lists no task"), ("x.py\n", "no such file")],
)
def test_a_list_that_names_what_is_not_there_is_refused_before_anything_is_spent(
    tmp_path: Path, content: str, said: str
) -> None:
    (tmp_path / "list.txt").write_text(content)
    with pytest.raises(KernelwrightError, match=said):
        suite_tasks(str(tmp_path / "list.txt"))


@given(st.integers(1, 12), st.integers(0, 99), st.randoms())
def test_a_seed_draws_the_same_tasks_wherever_they_lie_and_in_the_suites_order(
    sample: int, seed: int, draw: object
) -> None:
    first = chosen(TASKS, sample=sample, seed=seed)
    assert len(first) == min(sample, len(TASKS))
    assert list(first) == [task for task in TASKS if task in first]
    moved = tuple(SuiteTask(task.name, f"/elsewhere/{task.name}", "all") for task in reversed(TASKS))
    assert set(names(chosen(moved, sample=sample, seed=seed))) == set(names(first))


def test_only_takes_those_with_a_text_in_their_names() -> None:
    tasks = (SuiteTask("level1/1_ReLU", "x", ""), SuiteTask("level1/2_Sum", "y", ""))
    assert names(chosen(tasks, ["ReLU"])) == ["level1/1_ReLU"]
    with pytest.raises(KernelwrightError, match="no task of the suite"):
        chosen(tasks, ["Softmax"])


def files(folder: Path, *paths: str) -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("void kernel() {}\n")


def test_candidates_by_name_of_file_and_folder(tmp_path: Path) -> None:
    files(
        tmp_path,
        "rmsnorm.cpp",
        "rmsnorm.10.cpp",
        "rmsnorm.9.cpp",
        "rmsnorm.txt",
        "rmsnorm_backward/a.cpp",
        "1_ReLU.cpp",
    )
    tasks = [SuiteTask(name, name, "") for name in ("rmsnorm", "rmsnorm:backward", "level1/1_ReLU", "softmax")]
    found = samples_of(tmp_path, tasks)
    assert [path.name for path in found["rmsnorm"]] == ["rmsnorm.9.cpp", "rmsnorm.10.cpp", "rmsnorm.cpp"]
    assert [path.name for path in found["rmsnorm:backward"]] == ["a.cpp"]
    assert [path.name for path in found["level1/1_ReLU"]] == ["1_ReLU.cpp"]
    assert found["softmax"] == ()


def test_what_is_meant_for_one_choice_of_sizes_comes_first(tmp_path: Path) -> None:
    files(tmp_path, "rmsnorm@rows=8.cpp", "rmsnorm.cpp", "level1/1_ReLU/a.cpp", "1_ReLU.cpp")
    sized, plain, deep = (SuiteTask(name, name, "") for name in ("rmsnorm@rows=8", "rmsnorm@rows=9", "level1/1_ReLU"))
    found = samples_of(tmp_path, [sized, plain, deep])
    assert [path.name for path in found[sized.name]] == ["rmsnorm@rows=8.cpp"]
    assert [path.name for path in found[plain.name]] == ["rmsnorm.cpp"]
    assert [str(path.relative_to(tmp_path)) for path in found[deep.name]] == ["level1/1_ReLU/a.cpp"]


def test_a_manifest_stands_for_the_folder(tmp_path: Path) -> None:
    files(tmp_path, "rmsnorm.cpp", "level_1_problem_19_sample_0.cpp", "level_1_problem_19_sample_1.cpp")
    (tmp_path / "candidates.toml").write_text(
        '"level1/19_ReLU" = ["level_1_problem_19_sample_0.cpp", "level_1_problem_19_sample_1.cpp"]\n'
    )
    tasks = [SuiteTask(name, name, "") for name in ("rmsnorm", "level1/19_ReLU")]
    assert [len(found) for found in samples_of(tmp_path, tasks).values()] == [0, 2]


@pytest.mark.parametrize("manifest", ["not toml", '"rmsnorm" = "one.cpp"\n', '"other" = ["one.cpp"]\n'])
def test_a_manifest_that_says_nothing_of_use_is_refused(tmp_path: Path, manifest: str) -> None:
    (tmp_path / "candidates.toml").write_text(manifest)
    with pytest.raises(KernelwrightError, match=r"candidates\.toml"):
        samples_of(tmp_path, [SuiteTask("rmsnorm", "rmsnorm", "")])


def test_a_folder_without_candidates_says_what_one_is_called(tmp_path: Path) -> None:
    with pytest.raises(KernelwrightError, match=r"one for level1/19_ReLU is called 19_ReLU\.cpp"):
        samples_of(tmp_path, [SuiteTask("level1/19_ReLU", "x", "")])
