"""A run whose machine has no room left, on the disk or in memory: one line, nothing half-written, and it goes on."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.contracts import Candidate
from kernelwright.errors import DiskFull, JudgeOutOfMemory, KernelwrightError
from kernelwright.judge.settings import ProgressCallback, Settings
from kernelwright.judge.verdict import Verdict
from kernelwright.proposers.model import Proposal
from kernelwright.search.core.events import Continued, StopReason
from kernelwright.search.core.policies import policy_named
from kernelwright.search.directory import SUMMARY, Directory
from kernelwright.search.driver import Driver
from kernelwright.search.journal import Journal, JournalFullError, read
from kernelwright.search.pool import JudgePool
from kernelwright.search.run import create, look, take_up
from kernelwright.search.session import _close_journal
from kernelwright.search.summary import is_proved
from tests.search import toy

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(place)], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a small file system is not allowed here")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


@needs_root
def test_a_journal_on_a_full_disk_keeps_what_it_has_and_goes_on(small_disk: Path) -> None:
    journal = Journal(small_disk)
    journal.append([toy.started()])
    written = 1
    with pytest.raises(JournalFullError, match="free some space, and continue with --resume") as full:
        while True:
            journal.append([Continued(at=1.0, budget=f"{written}evals" + " " * 8192)])
            written += 1
    assert full.value.exit_code == 3 and "\n" not in str(full.value)
    assert len(list(read(small_disk))) == written
    journal.close()
    assert len(list(read(small_disk))) == written
    subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
    again = Journal(small_disk)
    again.append([Continued(at=2.0, budget="7evals")])
    assert len(list(again.events())) == written + 1
    again.close()


@needs_root
def test_a_full_disk_leaves_no_half_of_a_file(small_disk: Path) -> None:
    """The journal is elsewhere and has everything; the directory is made again from it when there is room."""
    start = Proposal(toy.candidate_of((0, 1, 2, 3, 3, 2, 1, 0)), "start")
    folder = create(small_disk.parent / "runs", toy.started(), [start])
    place = Directory(small_disk)
    (small_disk / "filler").write_bytes(b"x" * (504 << 10))
    with pytest.raises(DiskFull, match="No space left on device; fix that, and continue with --resume") as full:
        place.restore(look(folder))
    assert full.value.exit_code == 3
    left = [path for path in small_disk.rglob(".*") if path.is_file()]
    assert left == []
    (small_disk / "filler").unlink()
    place.restore(look(folder))
    assert (small_disk / SUMMARY).read_text()


class EndingJudge(toy.ToyJudge):
    """Judges once; then the memory ends."""

    def __init__(self) -> None:
        super().__init__()
        self.judged = 0

    def expect(self, *_: object) -> None:
        """There is nothing to build."""

    def judge(
        self, task: str, candidate: Candidate, settings: Settings, progress: ProgressCallback, deadline: float
    ) -> Verdict:
        self.judged += 1
        if self.judged > 1:
            raise JudgeOutOfMemory("toy: the judge ran out of memory on this machine (4.0 GiB)")
        return super().judge(task, candidate, settings, progress, deadline)


def test_a_run_whose_judge_runs_out_of_memory_says_so_and_goes_on(tmp_path: Path) -> None:
    start = Proposal(toy.candidate_of((0, 1, 2, 3, 3, 2, 1, 0)), "start")
    folder = create(tmp_path, toy.started(), [start])
    run = take_up(folder, "50evals", time.time())
    directory = Directory(folder)
    directory.restore(run.state)
    run.watch(directory)
    with pytest.raises(KernelwrightError) as ended:
        Driver(run, toy.ToyProposer(), JudgePool([EndingJudge()]), policy_named("greedy")).go()
    assert ended.value.exit_code == 3
    _close_journal(run, ended.value)
    run.close()
    state = look(folder)
    assert state.stopped is not None and state.stopped.reason is StopReason.failed
    assert "this machine could not go on (toy: the judge ran out of memory" in (folder / SUMMARY).read_text()
    run = take_up(folder, "50evals", time.time())
    state = Driver(run, toy.ToyProposer(), JudgePool([toy.ToyJudge()]), policy_named("greedy")).go()
    run.close()
    assert state.stopped is not None and state.stopped.reason is not StopReason.failed
    assert state.best is not None
    assert not is_proved(state)  # a toy's certificates prove nothing, and `optimize --resume` ends with exit code 1
