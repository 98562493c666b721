"""Output of processes that are not trusted: taken within bounds, and made fit to be shown."""

from __future__ import annotations

import fcntl
import os
import re
import threading
from functools import cache

LOG_BYTES = 1 << 16
REPORT_BYTES = 16 << 20
LONGEST_LINE = 2000  # a source decides how long a line gets, and a reader needs no more of it

# Bounded: the text is a candidate's to choose, and from every slash of it a path might begin.
_FOLDERS = r"(?:/(?:[^\s/]{1,255}/){0,32})?"


def shown_lines(text: str, files: tuple[str, ...]) -> list[str]:
    """The lines that are not blank, short, and without the sandbox's folder before the names of these files."""
    placed = _placed(files)
    return [placed.sub(r"\1", line[:LONGEST_LINE].rstrip()) for line in text.splitlines() if line.strip()]


@cache
def _placed(files: tuple[str, ...]) -> re.Pattern[str]:
    """One of these files in a place of a source: before a line number or a comma, in whatever folder."""
    return re.compile(rf"{_FOLDERS}({'|'.join(map(re.escape, files))})(?=[:,])")


class Log:
    """Where a hostile process writes its output: of fixed size, so that it can fill nothing."""

    def __init__(self, capacity: int = LOG_BYTES) -> None:
        self.fd = os.memfd_create("log", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, capacity)
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
        self._capacity = capacity

    def text(self) -> str:
        """What was written, with control characters taken out: it may be shown on a terminal."""
        raw = os.pread(self.fd, self._capacity, 0).rstrip(b"\0")
        return "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in raw.decode("utf-8", "replace"))

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class ToolReport:
    """What a tool reports on a pipe that this process drains: nothing that was read can be rewritten.

    Of a report that is longer than the bound, beginning and end are kept: the summary stands at the end.
    """

    def __init__(self, bound: int = REPORT_BYTES) -> None:
        self._reader, self.fd = os.pipe2(os.O_CLOEXEC)
        self._half = bound // 2
        self._head, self._tail = bytearray(), bytearray()
        self.cut = False
        self._thread = threading.Thread(target=self._drain, name="report", daemon=True)
        self._thread.start()

    @property
    def path(self) -> str:
        """How the process that inherits the descriptor opens it."""
        return f"/proc/self/fd/{self.fd}"

    def started(self) -> None:
        """The process has its copy of the descriptor: the end of the pipe is now the end of the process."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _drain(self) -> None:
        with os.fdopen(self._reader, "rb", buffering=0) as pipe:
            while part := pipe.read(1 << 16):
                room = self._half - len(self._head)
                self._head += part[:room]
                self._tail += part[max(room, 0) :]
                if len(self._tail) > 2 * self._half:
                    self._shorten()
        self._shorten()

    def _shorten(self) -> None:
        if len(self._tail) > self._half:
            self.cut = True
            del self._tail[: len(self._tail) - self._half]

    def text(self, seconds: float = 5.0) -> str:
        """The whole report, once the process has ended; empty where some process still holds the pipe."""
        self.started()
        self._thread.join(seconds)
        if self._thread.is_alive():
            return ""
        between = b"\n" if self.cut else b""
        return bytes(self._head + between + self._tail).decode("utf-8", "replace")

    def close(self) -> None:
        self.started()
