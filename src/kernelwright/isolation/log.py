"""Output of processes that are not trusted: taken within bounds, and made fit to be shown."""

from __future__ import annotations

import array
import fcntl
import os
import re
import select
import socket
import termios
import threading
import time
from functools import cache

LOG_BYTES = 1 << 16
REPORT_BYTES = 16 << 20
DRAIN_SECONDS = 5.0
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
        return _shown(os.pread(self.fd, self._capacity, 0).rstrip(b"\0"))

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Kept:
    """What is kept of a stream within a bound: its beginning, its end, and between them what matches `telling`.

    A finding is therefore kept however much is written before and after it.
    """

    def __init__(self, bound: int, telling: re.Pattern[bytes] | None) -> None:
        self._half, self._telling = bound // 2, telling
        self._head, self._between, self._tail = bytearray(), bytearray(), bytearray()
        self.cut = False

    def add(self, part: bytes) -> None:
        room = self._half - len(self._head)
        self._head += part[:room]
        self._tail += part[max(room, 0) :]
        if len(self._tail) > 2 * self._half:
            self._shorten()

    def _shorten(self) -> None:
        """Looks through what goes. A match may reach into what stays; at its end, one line of it is looked at too."""
        excess = len(self._tail) - self._half
        if excess <= 0:
            return
        self.cut = True
        if self._telling is not None:
            seen = bytes(self._tail[: excess + 2 * LONGEST_LINE])
            for match in self._telling.finditer(seen):
                if match.start() < excess and len(self._between) < self._half:
                    self._between += b"\n" + match.group()
        del self._tail[:excess]

    def content(self) -> bytes:
        self._shorten()
        between = bytes(self._between) + b"\n" if self.cut else b""
        return bytes(self._head) + between + bytes(self._tail)


class DrainedLog:
    """Where a hostile process writes, on a socket that this process drains: nothing that was written can be rewritten,
    and unlike a pipe it cannot be opened again by name and read by another process."""

    def __init__(self, telling: re.Pattern[bytes], capacity: int = LOG_BYTES) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._theirs.shutdown(socket.SHUT_RD)
        self.fd = self._theirs.fileno()
        self._kept, self._lock = Kept(capacity, telling), threading.Lock()
        self._thread = threading.Thread(target=self._drain, name="log", daemon=True)
        self._thread.start()

    def _drain(self) -> None:
        waiting = select.poll()
        waiting.register(self._ours, select.POLLIN)
        while waiting.poll():
            with self._lock:
                part = self._ours.recv(1 << 16)
                if not part:
                    return
                self._kept.add(part)

    def text(self) -> str:
        """What was written so far, fit to be shown. All of it, where its process has ended or is stopped."""
        until = time.monotonic() + DRAIN_SECONDS
        while self.fd >= 0 and _unread(self._ours) and time.monotonic() < until:
            time.sleep(0.001)
        with self._lock:
            return _shown(self._kept.content())

    def close(self) -> None:
        if self.fd >= 0:
            self.fd = -1
            self._theirs.shutdown(socket.SHUT_RDWR)
            self._theirs.close()
            self._thread.join()
            self._ours.close()


def _unread(sock: socket.socket) -> int:
    count = array.array("i", [0])
    fcntl.ioctl(sock, termios.FIONREAD, count)
    return count[0]


def _shown(raw: bytes) -> str:
    return "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in raw.decode("utf-8", "replace"))


class ToolReport:
    """What a tool reports on a pipe that this process drains: nothing that was read can be rewritten.

    Of a report that is longer than the bound, beginning and end are kept, since the summary stands at the end, and what
    is `telling`.
    """

    def __init__(self, bound: int = REPORT_BYTES, telling: re.Pattern[bytes] | None = None) -> None:
        self._reader, self.fd = os.pipe2(os.O_CLOEXEC)
        self._kept = Kept(bound, telling)
        self._thread = threading.Thread(target=self._drain, name="report", daemon=True)
        self._thread.start()

    @property
    def cut(self) -> bool:
        """Whether it was longer than what is kept; to be asked after its text."""
        return self._kept.cut

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
                self._kept.add(part)

    def text(self, seconds: float = 5.0) -> str:
        """The whole report, once the process has ended; empty where some process still holds the pipe."""
        self.started()
        self._thread.join(seconds)
        if self._thread.is_alive():
            return ""
        return self._kept.content().decode("utf-8", "replace")

    def close(self) -> None:
        self.started()
