"""A command in a pseudo-terminal: what a person sees, and the keys that a person presses."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).parents[2]
CTRL_C = b"\x03"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Terminal:
    def __init__(self, command: Sequence[str]) -> None:
        self._ours, theirs = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}

        def log_in() -> None:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # tests in the background of a shell ignore it
            os.login_tty(theirs)

        self.process = subprocess.Popen(command, cwd=ROOT, env=environment, preexec_fn=log_in)
        os.close(theirs)
        self.raw = b""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._ours)

    def press(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def read_until(self, text: str, seconds: float = 120.0) -> None:
        until = time.monotonic() + seconds
        while text not in self.seen:
            assert self._more(until), f"{text!r} was not printed, but:\n{self.seen}"

    def read_to_the_end(self, seconds: float = 120.0) -> int:
        """What it exits with."""
        until = time.monotonic() + seconds
        while self._more(until):
            pass
        return self.process.wait(max(0.1, until - time.monotonic()))

    @property
    def seen(self) -> str:
        return _COLOURS.sub("", self.raw.decode("utf-8", "replace").replace("\r\n", "\n"))

    def _more(self, until: float) -> bool:
        ready, _, _ = select.select([self._ours], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            return False
        try:
            part = os.read(self._ours, 1 << 16)
        except OSError:  # the last process that had the terminal is gone
            return False
        self.raw += part
        return bool(part)
