"""Ctrl-C ends a command even if Python drops the exception of the signal."""

from __future__ import annotations

import subprocess
import sys

DROPPED = """
import signal, time
from kernelwright import stopping

class Finalized:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent in the background has it ignored
stopping.listen()
del_me = Finalized()
del del_me
print("dropped", flush=True)
try:
    time.sleep(60)
except KeyboardInterrupt as interrupt:
    print(interrupt)
"""


def test_a_dropped_interrupt_is_raised_again() -> None:
    done = subprocess.run([sys.executable, "-c", DROPPED], capture_output=True, text=True, timeout=50, check=False)
    assert (done.stdout.split("\n"), done.stderr) == (["dropped", "by hand", ""], "")
