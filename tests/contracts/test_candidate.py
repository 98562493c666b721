"""Reading a source: whatever is not source is refused in one line that names the file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kernelwright.contracts.candidate import MAX_BYTES, CandidateError, read_candidate
from kernelwright.contracts.registry import read_source


def test_a_source_is_read(tmp_path: Path) -> None:
    path = tmp_path / "k.cpp"
    path.write_text("void kernel() {}")
    assert read_candidate(path, "cpp").source == "void kernel() {}"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x7fELF\x02\x01\x01\xff\xfe", "not UTF-8"),
        (b"int x;\0", "NUL"),
        (b"  \n", "is empty"),
        (b"x" * (MAX_BYTES + 1), "at most"),
    ],
)
def test_what_is_no_source_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "k.cpp"
    path.write_bytes(content)
    with pytest.raises(CandidateError, match=message) as caught:
        read_candidate(path, "cpp")
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_huge_file_is_not_read_at_all(tmp_path: Path) -> None:
    path = tmp_path / "k.cpp"
    with path.open("wb") as file:
        file.truncate(100 << 20)
    with pytest.raises(CandidateError, match="104,857,600"):
        read_candidate(path, "cpp")


def test_missing_files_directories_and_devices_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CandidateError, match="no such file"):
        read_candidate(tmp_path / "none.cpp", "cpp")
    with pytest.raises(CandidateError, match="is a directory"):
        read_candidate(tmp_path, "cpp")
    with pytest.raises(CandidateError, match="not a regular file"):
        read_candidate(Path("/dev/zero"), "cpp")


def test_a_source_shows_its_contract(tmp_path: Path) -> None:
    kernel, plan = "__global__ void f() {}\n", "def plan():\n    pass\n"
    folder = tmp_path / "two_files"
    folder.mkdir()
    (folder / "kernel.cu").write_text(kernel)
    (folder / "plan.py").write_text(plan)
    one = tmp_path / "one.cu"
    one.write_text(f"{kernel}\n/* plan.py\n{plan}*/\n")
    host = tmp_path / "host.cpp"
    host.write_text("void kernel() {}\n")
    assert [read_source(path).contract for path in (folder, one, host)] == ["cuda", "cuda", "cpp"]
    assert read_source(folder).id == read_source(one).id
    assert read_source(one, "cpp").contract == "cpp"
    with pytest.raises(CandidateError, match="is a directory"):
        read_source(tmp_path)
    with pytest.raises(CandidateError, match="has no plan"):
        read_source(host, "cuda")
    with pytest.raises(CandidateError, match="unknown contract"):
        read_source(host, "fortran")


ODD_NAMES = [
    (b"b\xff", r"b\xff"),
    (b"\x1b[31mred", r"\x1b[31mred"),
    (b"two\nlines", r"two\nlines"),
    ("tâche ✓".encode(), "tâche ✓"),
]


@pytest.mark.parametrize(("raw", "shown"), ODD_NAMES)
@pytest.mark.parametrize(("suffix", "source"), [(b".cpp", "void kernel() {}"), (b".cu", "/* plan.py\npass\n*/")])
def test_a_candidates_name_can_be_printed_whatever_its_file_is_called(
    tmp_path: Path, raw: bytes, shown: str, suffix: bytes, source: str
) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + raw + suffix))
    path.write_text(source)
    name = read_source(path).name
    assert name == shown + suffix.decode()
    assert json.dumps(name, ensure_ascii=False).encode("utf-8") and name.isprintable()


def test_a_directorys_name_can_be_printed_and_so_can_what_is_wrong_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "two\nlines"
    folder.mkdir()
    (folder / "plan.py").write_text("pass")
    with pytest.raises(CandidateError, match=r"two\\nlines/kernel.cu: no such file"):
        read_source(folder, "cuda")
    (folder / "kernel.cu").write_text("__global__ void f() {}")
    assert read_source(folder).name == r"two\nlines"
