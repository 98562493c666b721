"""Bad input gets one clear line and exit code 2 or 3; nothing is left running and no cache is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.devices import nvidia
from kernelwright.judge.server.client import stop_all

GOOD = Path(__file__).parents[2] / "examples" / "rmsnorm.cpp"
CUDA = Path(__file__).parents[1] / "kernels_cuda" / "rmsnorm_vector"


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kernelwright.cli.main", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
        check=False,
    )


def one_line(result: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in result.stderr.splitlines() if line.startswith("kernelwright: ")]
    assert len(lines) == 1, result.stderr
    assert "Traceback" not in result.stderr
    return lines[0]


@pytest.fixture(scope="module")
def warm() -> Iterator[dict[str, str]]:
    """For commands that need a server and may share one, as a user's do."""
    yield {"KERNELWRIGHT_NO_SERVER": "0"}
    stop_all()


@pytest.fixture
def task_file(tmp_path: Path):  # type: ignore[no-untyped-def]
    def write(text: str) -> str:
        path = tmp_path / "my_task.py"
        path.write_text(text)
        return str(path)

    return write


def test_a_task_whose_name_would_write_to_the_terminal() -> None:
    result = run("judge", "./\x1b[31mred\nlines.py", str(GOOD), KERNELWRIGHT_NO_SERVER="1")
    assert result.returncode == 2
    assert "cannot be printed: rename the file" in one_line(result)
    assert "\x1b" not in result.stderr


def test_a_missing_source() -> None:
    result = run("judge", "rmsnorm", "nowhere.cpp")
    assert result.returncode == 2
    assert "nowhere.cpp" in one_line(result)


def test_a_source_that_is_a_directory(tmp_path: Path) -> None:
    result = run("judge", "rmsnorm", str(tmp_path))
    assert result.returncode == 2
    assert "directory" in one_line(result)


def test_a_source_that_is_no_kernel_by_its_name(tmp_path: Path) -> None:
    script = tmp_path / "opt.py"
    script.write_text("import kernelwright\n")
    result = run("judge", "rmsnorm", str(script))
    assert result.returncode == 2
    said = one_line(result)
    assert "opt.py: no contract takes this source: cpp takes a .cpp, .cc" in said and "give --contract NAME" in said
    assert "cuda takes a .cu file with its plan in a comment, or a folder with kernel.cu and plan.py" in said


def test_cuda_source_without_a_plan(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text("__global__ void f() {}\n")
    said = one_line(run("judge", "rmsnorm", str(source)))
    assert "k.cu: the source has no plan" in said and "'/* plan.py'" in said
    assert "`kernelwright contract cuda TASK --skeleton`" in said
    (tmp_path / "kernel.cu").write_text("__global__ void f() {}\n")
    said = one_line(run("judge", "rmsnorm", str(tmp_path)))
    assert "plan.py: no such file: a cuda candidate has kernel.cu and plan.py" in said and "--skeleton" in said


def test_cpp_is_not_for_check() -> None:
    result = run("check", "rmsnorm", str(GOOD))
    assert result.returncode == 2
    assert (
        "is a cpp candidate, and check takes cuda, extension, triton or modelnew: use `kernelwright judge`"
        in one_line(result)
    )


def test_an_unknown_contract_and_an_unknown_baseline() -> None:
    for option, word in (("--contract", "cpp"), ("--baseline", "eager")):
        result = run("judge", "rmsnorm", str(GOOD), option, "nonsense")
        assert result.returncode == 2
        assert word in one_line(result)


def test_a_device_that_is_unknown_or_does_not_fit() -> None:
    for device, word in (("gpu", "cpu, cuda or cuda:N"), ("cuda", "a cpp candidate runs on cpu")):
        result = run("judge", "rmsnorm", str(GOOD), "--device", device)
        assert result.returncode == 2
        assert word in one_line(result)
    result = run("judge", "rmsnorm", str(GOOD), str(CUDA))
    assert result.returncode == 2
    assert "rmsnorm.cpp and rmsnorm_vector run on different devices" in one_line(result)


@pytest.mark.skipif(not nvidia.absence(), reason="there is a GPU")
def test_a_cuda_candidate_without_a_gpu() -> None:
    for arguments in ([str(CUDA)], [str(CUDA), "--device", "cuda:1", "--no-server"]):
        result = run("judge", "rmsnorm", *arguments)
        assert result.returncode == 2
        assert "cannot be used: no NVIDIA" in one_line(result)
        assert "`kernelwright check` tests CUDA kernels without a GPU" in one_line(result)


def test_an_unknown_task_suggests_one() -> None:
    result = run("judge", "rmsnrom", str(GOOD))
    assert result.returncode == 2
    assert "rmsnorm" in one_line(result)


def test_a_task_with_a_syntax_error_names_file_and_line(task_file, warm: dict[str, str]) -> None:  # type: ignore[no-untyped-def]
    path = task_file("import torch\n\ndef reference(x:\n")
    result = run("judge", path, str(GOOD), **warm)
    assert result.returncode == 2
    assert "my_task.py" in one_line(result) and "3" in one_line(result)


def test_a_reference_that_raises_names_its_line(task_file, warm: dict[str, str]) -> None:  # type: ignore[no-untyped-def]
    path = task_file(
        "from kernelwright.tasks import Task, tensor\n"
        "def reference(x):\n"
        "    raise ValueError('no such luck')\n"
        "task = Task(reference, inputs={'x': tensor('n')}, public=[{'n': 8}], hidden={'n': (4, 64)})\n"
    )
    result = run("judge", path, str(GOOD), **warm)
    assert result.returncode == 2
    assert "no such luck" in one_line(result) and "my_task.py" in one_line(result)


def test_no_compiler_means_no_verdict(tmp_path: Path) -> None:
    result = run("judge", "rmsnorm", str(GOOD), CXX="no-such-compiler", KERNELWRIGHT_HOME=str(tmp_path))
    assert result.returncode == 3
    assert "g++" in one_line(result)


def test_an_isolation_level_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    result = run("judge", "rmsnorm", str(GOOD), "--isolation", "perfect")
    assert result.returncode == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)], check=True)
    try:
        result = run("judge", "rmsnorm", str(GOOD), KERNELWRIGHT_HOME=str(small))
        assert result.returncode == 3
        assert "No space left" in one_line(result)
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_ctrl_c_leaves_nothing_running(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "kernelwright.cli.main", "judge", "rmsnorm", str(GOOD), "--baseline", "eager"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "KERNELWRIGHT_MARK": str(tmp_path)},
        # Whoever runs the tests in the background may have it ignored, which children inherit.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stderr is not None
    said = [process.stderr.readline()]
    while not any(line.endswith("  building\n") for line in said[:-1]):  # until the candidate runs
        said.append(process.stderr.readline())
        assert said[-1], said
    os.killpg(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=120)
    assert process.returncode == 3
    assert "interrupted" in error and "Traceback" not in error
    deadline = time.monotonic() + 5
    while _marked(str(tmp_path)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert _marked(str(tmp_path)) == []


def test_a_home_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = run("tasks", "list", KERNELWRIGHT_HOME=str(tmp_path / "file" / "home"))
    assert result.returncode == 2
    assert "Not a directory" in one_line(result) and "KERNELWRIGHT_HOME" in one_line(result)


def _marked(mark: str) -> list[int]:
    """Processes that carry our mark in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if mark.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found
