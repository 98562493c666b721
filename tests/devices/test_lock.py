"""The lock of a device: whoever measures is alone; whoever would disturb a measurement waits."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from kernelwright.devices import lock

HOLD = """
from kernelwright.devices import lock
import time
with lock.{how}('{device}'):
    print('held', flush=True)
    time.sleep({seconds})
"""


def hold(how: str, device: str, seconds: float) -> subprocess.Popen[str]:
    code = HOLD.format(how=how, device=device, seconds=seconds)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


def seconds_to_get(how: str, device: str) -> float:
    begin = time.monotonic()
    with getattr(lock, how)(device):
        return time.monotonic() - begin


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
    with hold(held, device, 0.6):
        waited = seconds_to_get(wanted, device)
    assert (waited > 0.2) == waits
    lock.lock_path(device).unlink()


def test_a_killed_holder_leaves_no_lock() -> None:
    process = hold("measuring", "test-killed", 60)
    process.kill()
    process.wait()
    assert seconds_to_get("measuring", "test-killed") < 5
    lock.lock_path("test-killed").unlink()


def test_a_second_lock_of_ones_own_is_an_error_and_not_a_deadlock() -> None:
    with lock.measuring("test-own"), pytest.raises(RuntimeError, match="must not build"), lock.working("test-own"):
        pass
    with lock.working("test-own"), pytest.raises(RuntimeError, match="must not build"), lock.working("test-own"):
        pass
    lock.lock_path("test-own").unlink()


GREEDY = """
from kernelwright.devices import lock
import time
end = time.monotonic() + 3
print('held', flush=True)
while time.monotonic() < end:
    with lock.measuring('test-turns'):
        time.sleep(0.05)
"""


def test_who_takes_it_again_and_again_starves_nobody() -> None:
    process = subprocess.Popen([sys.executable, "-c", GREEDY], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    waits = [seconds_to_get("measuring", "test-turns") for _ in range(5)]
    assert process.poll() is None and max(waits) < 1.5
    process.kill()
    process.wait()
    lock.lock_path("test-turns").unlink()
