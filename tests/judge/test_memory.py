"""The judge's memory: tasks of all sizes in a row within a limit, refusals up front, and what follows when it ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.errors import JudgeOutOfMemory, KernelwrightError
from kernelwright.isolation.channel import Message
from kernelwright.judge.oracle_client import OracleClient, close_descriptors

LIMIT_MIB = 640
ROWS = (16, 2048, 64, 4096, 16, 8192, 32, 1024, 6144, 128, 4096, 16)  # of 512 values: 32 KiB to 16 MiB a tensor
SOURCE = """import torch
from kernelwright.tasks import Task, tensor
def reference(x):
    {body}
task = Task(reference, inputs={{'x': tensor('rows', 'cols')}}, public=[{{'rows': {rows}, 'cols': 512}}],
            hidden={{'rows': (8, {most}), 'cols': (8, 512)}})
"""


def task_file(folder: Path, number: int, rows: int, body: str = "return torch.softmax(x, -1)") -> str:
    path = folder / f"task{number}.py"
    path.write_text(SOURCE.format(body=body, rows=rows, most=max(64, rows)))
    return str(path)


@pytest.fixture
def oracle(monkeypatch: pytest.MonkeyPatch) -> Iterator[OracleClient]:
    monkeypatch.setenv("KERNELWRIGHT_JUDGE_MEMORY", f"{LIMIT_MIB}M")
    client = OracleClient(b"k" * 32, 1)
    try:
        yield client
    finally:
        client.close()


def resident(client: OracleClient) -> int:
    return int(Path(f"/proc/{client.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def loaded(client: OracleClient, reference: str, trials: int = 4) -> Message:
    """A few trials of the first public workload, as a judging begins them."""
    task = client.open(reference)
    client.judging(errors=False)
    client.reserve(task, task.public, 1)
    _, descriptors = client.arena(task, task.public[0].workload)
    close_descriptors(descriptors)
    client.begin(task, task.public[0].workload, "runner")
    for _ in range(trials):
        client.load()
    return client.memory()


@pytest.mark.slow
def test_tasks_of_all_sizes_in_a_row_stay_within_the_limit(oracle: OracleClient, tmp_path: Path) -> None:
    loaded(oracle, task_file(tmp_path, 100, 8192))  # torch and the probes' tables are there from now on
    loaded(oracle, task_file(tmp_path, 101, 16))
    before = resident(oracle)
    for number, rows in enumerate(ROWS):
        held = loaded(oracle, task_file(tmp_path, number, rows))
        assert held["used"] <= held["limit"] == LIMIT_MIB << 20
    assert held["used"] < 32 << 20  # of the last task alone, which is small
    assert resident(oracle) - before < 64 << 20


def test_a_task_that_does_not_fit_is_refused_before_anything_is_computed(oracle: OracleClient, tmp_path: Path) -> None:
    large = oracle.open(task_file(tmp_path, 0, 1 << 20, "return x - x.mean()"))
    before = resident(oracle)
    with pytest.raises(
        KernelwrightError, match=r"task0 at rows=1048576 cols=512 needs .* GiB; this machine"
    ) as refused:
        oracle.reserve(large, large.public, 1)
    assert refused.value.exit_code == 3 and "\n" not in str(refused.value)
    assert resident(oracle) - before < 64 << 20
    assert loaded(oracle, task_file(tmp_path, 1, 64))["used"] > 0


def test_memory_that_ends_is_one_line_and_the_next_task_works(oracle: OracleClient, tmp_path: Path) -> None:
    """The reference itself asks for more than any machine has, once there are values."""
    greedy = "return x + (torch.zeros(1 << 50, dtype=x.dtype)[:1] if x.device.type == 'cpu' and x.shape[0] > 64 else 0)"
    with pytest.raises(JudgeOutOfMemory, match="memory") as ended:
        oracle.open(task_file(tmp_path, 1, 1024, greedy))
    assert ended.value.exit_code == 3 and "\n" not in str(ended.value)
    assert loaded(oracle, task_file(tmp_path, 2, 64))["used"] > 0


def test_what_a_judging_needs_is_more_than_it_takes(oracle: OracleClient, tmp_path: Path) -> None:
    """The estimate is an upper bound of what the oracle's process grows by."""
    loaded(oracle, task_file(tmp_path, 0, 64))
    for number, body in enumerate(("return torch.nn.functional.gelu(x)", "return x - x.mean(-1, keepdim=True)"), 1):
        task = oracle.open(task_file(tmp_path, number, 4096, body))
        needed = oracle.reserve(task, task.public, 0)
        Path(f"/proc/{oracle.pid}/clear_refs").write_text("5")  # the peak is counted from here
        before = resident(oracle)
        loaded(oracle, task.reference, trials=1)  # more pairs are kept where there is room, and counted
        status = Path(f"/proc/{oracle.pid}/status").read_text()
        peak = int(status.split("VmHWM:")[1].split()[0]) << 10
        assert peak - before <= needed
