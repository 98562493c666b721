"""The lock of a device: whoever measures is alone; whoever would disturb a measurement waits."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kernelwright.devices import lock
from kernelwright.errors import CannotDecide, KernelwrightError

pytestmark = pytest.mark.timed

HOLD = """
from kernelwright.devices import lock
import sys
with lock.{how}('{device}'):
    print('held', flush=True)
    sys.stdin.read()
"""
LONG_ENOUGH = 60.0  # for what happens at once, on any machine


def started(code: str, *arguments: str) -> subprocess.Popen[str]:
    """A process that has said that it holds the lock, and goes on until its input is closed."""
    command = [sys.executable, "-c", code, *arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


def hold(how: str, device: str) -> subprocess.Popen[str]:
    return started(HOLD.format(how=how, device=device))


def getting(how: str, device: str) -> threading.Event:
    """Set once another thread of ours has had the lock."""
    had = threading.Event()

    def get() -> None:
        with getattr(lock, how)(device):
            had.set()

    threading.Thread(target=get, daemon=True).start()
    return had


@pytest.mark.parametrize(
    ("held", "wanted", "waits"),
    [
        ("measuring", "measuring", True),
        ("measuring", "working", True),
        ("working", "measuring", True),
        ("working", "working", False),
    ],
)
def test_who_waits_for_whom(held: str, wanted: str, waits: bool) -> None:
    device = f"test-{held}-{wanted}"
    with hold(held, device) as process:
        had = getting(wanted, device)
        assert had.wait(0.2 if waits else LONG_ENOUGH) != waits
        process.communicate()  # which closes its input
        assert had.wait(LONG_ENOUGH)
    lock.lock_path(device).unlink()


def test_a_killed_holder_leaves_no_lock() -> None:
    process = hold("measuring", "test-killed")
    process.kill()
    process.wait()
    assert getting("measuring", "test-killed").wait(LONG_ENOUGH)
    lock.lock_path("test-killed").unlink()


def test_a_second_lock_of_ones_own_is_an_error_and_not_a_deadlock() -> None:
    with lock.measuring("test-own"), pytest.raises(RuntimeError, match="must not build"), lock.working("test-own"):
        pass
    with lock.working("test-own"), pytest.raises(RuntimeError, match="must not build"), lock.working("test-own"):
        pass
    lock.lock_path("test-own").unlink()


GREEDY = """
from kernelwright.devices import lock
import sys, time
print('held', flush=True)
with open(sys.argv[1], 'ab', buffering=0) as turns:
    while True:
        with lock.measuring('test-turns'):
            turns.write(b'.')
            time.sleep(0.02)
"""


def test_who_takes_it_again_and_again_starves_nobody(tmp_path: Path) -> None:
    """Counted in turns of the other, because seconds depend on the machine."""
    turns = tmp_path / "turns"
    turns.touch()
    with started(GREEDY, str(turns)) as process:
        try:
            waits = []
            for _ in range(5):
                before = turns.stat().st_size
                assert getting("measuring", "test-turns").wait(LONG_ENOUGH)
                waits.append(turns.stat().st_size - before)
            assert process.poll() is None and max(waits) < 30
        finally:
            process.kill()
    lock.lock_path("test-turns").unlink()


@pytest.mark.parametrize(("held", "wanted"), [("measuring", "working"), ("working", "measuring")])
def test_a_waiter_gives_up_and_names_the_owner(held: str, wanted: str) -> None:
    device = f"test-late-{held}"
    with hold(held, device) as process:
        begin = time.monotonic()
        with (
            pytest.raises(
                CannotDecide, match=rf"waited 0\.2 s for the lock of {device}, .*process {process.pid} \(.*python"
            ),
            getattr(lock, wanted)(device, 0.2),
        ):
            pass
        assert 0.2 <= time.monotonic() - begin < LONG_ENOUGH
        process.communicate()
    with getattr(lock, wanted)(device, LONG_ENOUGH):  # nothing of the attempt is left behind
        pass
    lock.lock_path(device).unlink()


def test_how_long_a_waiter_waits_is_configurable(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lock.wait_seconds() == lock.WAIT_SECONDS == 900.0
    monkeypatch.setenv(lock.WAIT_VARIABLE, "2.5")
    assert lock.wait_seconds() == 2.5
    for bad in ("soon", "-1", "nan"):
        monkeypatch.setenv(lock.WAIT_VARIABLE, bad)
        with pytest.raises(KernelwrightError, match=bad):
            lock.wait_seconds()
