"""The server: shared by commands, fair to callers, sound after crashes, and gone when it should be."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from kernelwright.contracts import Candidate
from kernelwright.devices import nvidia
from kernelwright.devices.names import CPU, Device
from kernelwright.errors import DeadlineExceeded, KernelwrightError
from kernelwright.judge.oracle_client import ANSWER_SECONDS
from kernelwright.judge.server import address, client
from kernelwright.judge.server.client import ServerJudge, statuses, stop_all
from kernelwright.judge.server.protocol import RequestedSettings
from kernelwright.judge.server.server import IDLE_VARIABLE
from kernelwright.judge.settings import Settings
from kernelwright.judge.timing.measure import Sampling
from kernelwright.judge.verdict import Outcome, Reason, Verdict

pytestmark = pytest.mark.timed

TASK = '''
"""Some multiple of the input."""
from kernelwright.tasks import Task, tensor

def reference(x):
    return x * FACTOR

task = Task(reference, inputs={"x": tensor("n")}, public=[{"n": 1000}], hidden={"n": (100, 3000)})
'''
SOURCE = """
#include <kernelwright.h>
#include <stdlib.h>
void kernel(kw::Tensor<const float, 1> x, kw::Tensor<float, 1> out) {
  for (long i = 0; i < x.numel(); ++i) out.data[i] = BODY;
}
"""
QUICK = Settings(baselines=(), effort=Sampling(4, 4), safety=False)


def source(body: str = "2 * x.data[i]") -> Candidate:
    return Candidate("cpp", SOURCE.replace("BODY", body), "kernel.cpp")


@pytest.fixture
def task(tmp_path: Path) -> Path:
    path = tmp_path / "multiple.py"
    path.write_text(TASK.replace("FACTOR", "2"))
    return path


@pytest.fixture(scope="module", autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A home whose path is longer than a socket's address can be."""
    old = os.environ["KERNELWRIGHT_HOME"]
    os.environ["KERNELWRIGHT_HOME"] = str(tmp_path_factory.mktemp("h" * 100))
    yield
    stop_all()
    os.environ["KERNELWRIGHT_HOME"] = old


def judged(task: Path, candidate: Candidate) -> Verdict:
    with ServerJudge(QUICK) as judge:
        return judge.judge(str(task), candidate)


def the_one() -> int:
    (status,) = statuses()
    return status.pid


def children(pid: int) -> list[int]:
    found = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError):  # a thread that has ended since
            found += map(int, (thread / "children").read_text().split())
    return found


def until(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def test_commands_share_one_server(task: Path) -> None:
    assert judged(task, source()).verdict is Outcome.accepted
    pid, before = the_one(), statuses()[0].judged
    assert judged(task, source("x.data[i]")).reason in (Reason.wrong, Reason.imprecise)
    assert the_one() == pid and statuses()[0].judged == before + 1
    assert str(task) in statuses()[0].tasks


def test_a_certificate_comes_with_the_verdict_where_it_is_asked_for(task: Path) -> None:
    with ServerJudge(QUICK) as judge:
        assert judge.judge(str(task), source(), settings=replace(QUICK, certify=True)).certificate
        assert judge.judge(str(task), source()).certificate is None


def test_a_bad_task_is_told_and_costs_nobody_anything(task: Path) -> None:
    with ServerJudge(QUICK) as judge, pytest.raises(KernelwrightError, match="not a built-in task"):
        judge.open("no_such_task")
    bad = task.with_name("bad.py")
    bad.write_text("task = 3")
    with ServerJudge(QUICK) as judge, pytest.raises(KernelwrightError, match=r"bad\.py"):
        judge.open(str(bad))
    assert judged(task, source()).verdict is Outcome.accepted


def test_a_candidate_that_crashes_is_rejected_and_the_next_one_is_judged(task: Path) -> None:
    judged(task, source())
    pid = the_one()
    assert judged(task, source("*(volatile float *)8")).reason is Reason.crashed
    assert judged(task, source()).verdict is Outcome.accepted and the_one() == pid


def test_an_edited_task_is_noticed(task: Path) -> None:
    assert judged(task, source()).verdict is Outcome.accepted
    task.write_text(TASK.replace("FACTOR", "3"))
    assert judged(task, source()).verdict is Outcome.rejected
    assert judged(task, source("3 * x.data[i]")).verdict is Outcome.accepted


def test_when_the_oracles_process_dies_another_takes_its_place(task: Path) -> None:
    judged(task, source())
    pid, before = the_one(), statuses()[0].restarts
    for child in children(pid):
        os.kill(child, signal.SIGKILL)
    assert judged(task, source()).verdict is Outcome.accepted
    assert the_one() == pid and statuses()[0].restarts == before + 1


def test_when_it_is_killed_the_caller_starts_another(task: Path) -> None:
    with ServerJudge(QUICK) as judge:
        judge.open(str(task))
        pid = the_one()
        family = children(pid)
        os.kill(pid, signal.SIGKILL)
        assert judge.judge(str(task), source()).verdict is Outcome.accepted
        assert the_one() != pid
        assert until(lambda: not any(Path(f"/proc/{child}").exists() for child in family))


def test_a_judge_of_another_version_is_replaced(task: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged(task, source())
    pid = the_one()
    monkeypatch.setattr(client, "code_stamp", lambda: "another")
    assert judged(task, source()).verdict is Outcome.accepted
    assert until(lambda: not client._exists(pid))
    assert the_one() != pid


def test_callers_are_served_in_turn(task: Path) -> None:
    """Three candidates each, sent at the same time: nobody waits for all of the other's."""
    order: list[str] = []
    both = threading.Barrier(2, timeout=60)

    def call(name: str) -> None:
        with ServerJudge(QUICK) as judge:
            judge.open(str(task))
            both.wait()
            for number in range(3):
                judge.judge(str(task), source(f"2 * x.data[i] + 0 * {number}"))
                order.append(name)

    judged(task, source())
    callers = [threading.Thread(target=call, args=[name]) for name in "ab"]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert sorted(order) == list("aaabbb")
    assert not any("".join(order).startswith(three) or "".join(order).endswith(three) for three in ("aaa", "bbb"))


def test_a_caller_that_leaves_costs_the_others_nothing(task: Path) -> None:
    leaver = ServerJudge(QUICK)

    class LeftError(Exception):
        pass

    def leave(_: str) -> None:
        raise LeftError

    with pytest.raises(LeftError), leaver:
        leaver.judge(str(task), source("2 * x.data[i] + 0 * 77"), leave)
    assert judged(task, source()).verdict is Outcome.accepted
    assert until(lambda: statuses()[0].callers == 1)


def test_an_evaluation_whose_caller_has_left_keeps_no_other_waiting(task: Path) -> None:
    judged(task, source())
    pid, before = the_one(), statuses()[0].restarts
    endless = task.with_name("endless.py")
    endless.write_text(TASK.replace("return", "import time; time.sleep(3600); return").replace("FACTOR", "2"))
    with ServerJudge(QUICK) as judge, pytest.raises(DeadlineExceeded):
        judge.open(str(endless), deadline=0.5)
    begin = time.monotonic()
    assert judged(task, source()).verdict is Outcome.accepted
    assert time.monotonic() - begin < 0.5 * ANSWER_SECONDS  # after which an oracle is ended in any case
    assert the_one() == pid and statuses()[0].restarts == before + 1


def test_its_socket_and_directory_are_private(task: Path) -> None:
    judged(task, source())
    (where,) = address.addresses()
    assert where.socket.stat().st_mode & 0o777 == 0o600
    assert where.folder.stat().st_mode & 0o777 == 0o700


def test_a_device_has_a_server_of_its_own(task: Path) -> None:
    gpu = Device("cuda", 1)
    assert len({address.address(device).name for device in (CPU, Device("cuda", 0), gpu)}) == 3
    judged(task, source())
    assert statuses()[0].device == "cpu"
    wanted = RequestedSettings.of(replace(QUICK, device=gpu))
    with ServerJudge(QUICK) as judge, pytest.raises(KernelwrightError, match="is on cpu, not on cuda:1"):
        judge._wanted = wanted
        judge.open(str(task))


def test_it_ends_when_told_and_leaves_nothing(task: Path) -> None:
    judged(task, source())
    pid = the_one()
    family = children(pid)
    assert stop_all() == 1 and statuses() == [] and address.addresses() == []
    assert until(lambda: not any(client._exists(process) for process in [pid, *family]))


def test_it_ends_when_idle(task: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_all()
    monkeypatch.setenv(IDLE_VARIABLE, "1")
    with ServerJudge(QUICK) as judge:
        judge.judge(str(task), source())
        pid = the_one()  # which stays as long as somebody is connected
    assert until(lambda: not client._exists(pid))
    assert address.addresses() == []


@pytest.mark.skipif(not nvidia.absence(), reason="there is a GPU")
def test_a_server_on_a_device_that_is_not_there_says_so(task: Path) -> None:
    with ServerJudge(replace(QUICK, device=Device("cuda", 0))) as judge:
        with pytest.raises(KernelwrightError, match="cuda:0 cannot be used: no NVIDIA") as caught:
            judge.open(str(task))
        assert caught.value.exit_code == 2
        assert "cuda:0" in [status.device for status in statuses()]
    stop_all()
