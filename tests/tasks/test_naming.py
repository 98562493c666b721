"""A task's name, taken apart and put together by one parser for every process."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.tasks.dims import TaskError
from kernelwright.tasks.naming import TaskName, parse, portable
from kernelwright.tasks.resolve import resolve

names = st.sampled_from(["rmsnorm", "./my.py", "a/b@c/task.py", "odd:name.py", "/tmp/a:b/task.py"])
sizes = st.dictionaries(st.sampled_from(["rows", "cols", "n"]), st.integers(0, 10**6), max_size=3)


@given(name=names, backward=st.booleans(), sizes=sizes)
def test_what_is_written_reads_back_the_same(name: str, backward: bool, sizes: dict[str, int]) -> None:
    named = TaskName(name, backward, sizes)
    assert parse(str(named)) == named


@given(name=names, backward=st.booleans(), sizes=sizes)
def test_another_process_finds_the_same_task(name: str, backward: bool, sizes: dict[str, int]) -> None:
    found = parse(portable(str(TaskName(name, backward, sizes))))
    assert (found.backward, found.sizes) == (backward, sizes)
    assert found.name == (str(Path(name).absolute()) if name != "rmsnorm" else name)


def test_a_folder_may_have_the_signs_in_its_name() -> None:
    assert parse("/tmp/a@b/task.py") == TaskName("/tmp/a@b/task.py")
    assert parse("/tmp/a:b/task.py") == TaskName("/tmp/a:b/task.py")


def test_another_process_finds_a_file_with_its_sizes() -> None:
    here = Path.cwd()
    assert portable("my.py@n=3") == f"{here}/my.py@n=3"
    assert portable("my.py:backward@n=3") == f"{here}/my.py:backward@n=3"
    assert portable("odd:name.py") == f"{here}/odd:name.py"
    assert portable("rmsnorm@rows=3") == "rmsnorm@rows=3"


def test_a_direction_that_no_task_has_is_said_wherever_the_name_is_read() -> None:
    with pytest.raises(TaskError, match="a task has no 'sideways'"):
        portable("rmsnorm:sideways")


@pytest.mark.parametrize("odd", ["t\udcff", "\x1b[31mred", "two\nlines", "t\ud800"])
def test_a_name_that_cannot_be_printed_is_refused_in_a_line_that_can(odd: str) -> None:
    for find in (parse, portable, resolve):
        with pytest.raises(TaskError, match="cannot be printed: rename the file") as caught:
            find(f"./{odd}.py")
        assert str(caught.value).isprintable()


def test_a_folder_that_cannot_be_printed_is_refused_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "two\nlines"
    folder.mkdir()
    (folder / "mine.py").write_text("")
    monkeypatch.chdir(folder)
    for find in (portable, resolve):
        with pytest.raises(TaskError, match="cannot be printed"):
            find("./mine.py")
