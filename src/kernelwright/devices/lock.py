"""One lock per device, shared by all processes of the host.

Whoever measures holds it alone. Whoever would disturb a measurement (building, drawing inputs, compiling a
baseline) holds it together with others. Advisory file locks end with their process, so a crash leaves none behind.

Whoever wants it first passes a turnstile, another lock that is held only while waiting. Without it, a process that
measures one candidate after another would take the lock again before those who wait have woken up.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path


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
def _held(device: str, how: int) -> Iterator[None]:
    held: set[str] = _mine.__dict__.setdefault("held", set())
    if device in _measured or device in held:  # a second lock of our own would wait for the first for ever
        raise RuntimeError(f"this process holds {device} already and must not build, draw or measure beside that")
    handle = _opened(device)
    try:
        turnstile = _opened(f"{device}.turnstile")
        try:
            fcntl.flock(turnstile, fcntl.LOCK_EX)
            fcntl.flock(handle, how)
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


def _opened(name: str) -> int:
    return os.open(lock_path(name), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)


def measuring(device: str = "cpu") -> AbstractContextManager[None]:
    """Exclusive: nothing of ours builds, draws or compiles on this device meanwhile."""
    return _held(device, fcntl.LOCK_EX)


def working(device: str = "cpu") -> AbstractContextManager[None]:
    """Shared: work that must not run beside a measurement."""
    return _held(device, fcntl.LOCK_SH)
