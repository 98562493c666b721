"""One lock per device, shared by all processes of the host.

A process that measures holds it alone. Processes that would disturb a measurement (building, drawing inputs, compiling
a baseline) hold it together. Advisory file locks end with their process, so a crash leaves none behind.

A process that wants it first passes a turnstile, another lock that is held only while waiting. Without it, a process
that measures one candidate after another would take the lock again before those who wait have woken up.

A waiter gives up after a stated time, in one line that names the owner.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from kernelwright.errors import CannotDecide, KernelwrightError

WAIT_SECONDS = 900.0
WAIT_VARIABLE = "KERNELWRIGHT_LOCK_SECONDS"
LOOK_SECONDS = 0.002  # between two tries, at first
MOST_LOOK_SECONDS = 0.05
MOST_NAMED = 3
_COMMAND = 120


def lock_path(device: str) -> Path:
    """World-writable on purpose: processes of different users measure on the same device."""
    folder = Path(tempfile.gettempdir()) / "kernelwright-locks"
    folder.mkdir(mode=0o777, exist_ok=True)
    path = folder / device
    if not path.exists():
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666))
            path.chmod(0o666)
            folder.chmod(0o1777)
        except (FileExistsError, PermissionError):
            pass
    return path


_measured: set[str] = set()
_mine = threading.local()


@contextmanager
def _held(device: str, how: int, seconds: float | None) -> Iterator[None]:
    held: set[str] = _mine.__dict__.setdefault("held", set())
    if device in _measured or device in held:  # a second lock of our own would wait for the first for ever
        raise RuntimeError(f"this process holds {device} already and must not build, draw or measure beside that")
    limit = wait_seconds() if seconds is None else seconds
    until = time.monotonic() + limit
    handle = _opened(device)
    try:
        turnstile = _opened(f"{device}.turnstile")
        try:
            for lock, kind in ((turnstile, fcntl.LOCK_EX), (handle, how)):
                if not _taken(lock, kind, until):
                    raise CannotDecide(_gave_up(device, handle, limit))
        finally:
            os.close(turnstile)
        held.add(device)
        if how == fcntl.LOCK_EX:
            _measured.add(device)
        yield
    finally:
        if how == fcntl.LOCK_EX:
            _measured.discard(device)
        held.discard(device)
        os.close(handle)


def _taken(handle: int, how: int, until: float) -> bool:
    """False where the time is up. Waits in steps, since a lock that blocks cannot be given up by a thread."""
    pause = LOOK_SECONDS
    while True:
        try:
            fcntl.flock(handle, how | fcntl.LOCK_NB)
        except BlockingIOError:
            left = until - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(pause, left))
            pause = min(1.5 * pause, MOST_LOOK_SECONDS)
        else:
            return True


def wait_seconds() -> float:
    """How long a waiter waits where its caller does not say."""
    text = os.environ.get(WAIT_VARIABLE)
    if not text:
        return WAIT_SECONDS
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:
        raise KernelwrightError(f"{WAIT_VARIABLE}={text}: must be a number of seconds")
    return seconds


def _gave_up(device: str, handle: int, seconds: float) -> str:
    owners = [pid for pid in _owners(handle) if pid != os.getpid()]
    named = ", ".join(f"process {pid} ({_command(pid)})" for pid in owners[:MOST_NAMED])
    more = f" and {len(owners) - MOST_NAMED} more" if len(owners) > MOST_NAMED else ""
    holder = f"{named}{more}" if named else "a process that cannot be seen from here"
    return f"waited {seconds:g} s for the lock of {device}, which is held by {holder}; {WAIT_VARIABLE} allows more"


def _owners(handle: int) -> list[int]:
    """The processes that hold a lock on this file, from the kernel's list; those that merely wait are marked there."""
    state = os.fstat(handle)
    file = f"{os.major(state.st_dev):02x}:{os.minor(state.st_dev):02x}:{state.st_ino}"
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return []
    rows = [line.split() for line in lines]
    found = [int(row[4]) for row in rows if len(row) >= 8 and row[1] == "FLOCK" and row[5] == file]
    return sorted({pid for pid in found if pid > 0})


def _command(pid: int) -> str:
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return "gone"
    text = raw.replace(b"\0", b" ").decode("utf-8", "replace").strip()
    return "".join(c if c.isprintable() else "\ufffd" for c in text)[:_COMMAND] or "unnamed"


def _opened(name: str) -> int:
    return os.open(lock_path(name), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)


def measuring(device: str = "cpu", seconds: float | None = None) -> AbstractContextManager[None]:
    """Exclusive: nothing of ours builds, draws or compiles on this device meanwhile. Waits for so many seconds."""
    return _held(device, fcntl.LOCK_EX, seconds)


def working(device: str = "cpu", seconds: float | None = None) -> AbstractContextManager[None]:
    """Shared: work that must not run beside a measurement. Waits for so many seconds."""
    return _held(device, fcntl.LOCK_SH, seconds)
