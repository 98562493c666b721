"""One lock per device, shared by all processes of the host.

Whoever measures holds it alone. Whoever would disturb a measurement (building, drawing inputs, compiling a
baseline) holds it together with others. Advisory file locks end with their process, so a crash leaves none behind.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
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


@contextmanager
def _held(device: str, how: int) -> Iterator[None]:
    if device in _measured:  # a second lock of our own would wait for the first for ever
        raise RuntimeError(f"this process is measuring on {device} and must not build, draw or measure beside that")
    handle = os.open(lock_path(device), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, how)
        if how == fcntl.LOCK_EX:
            _measured.add(device)
        yield
    finally:
        if how == fcntl.LOCK_EX:
            _measured.discard(device)
        os.close(handle)


def measuring(device: str = "cpu") -> AbstractContextManager[None]:
    """Exclusive: nothing of ours builds, draws or compiles on this device meanwhile."""
    return _held(device, fcntl.LOCK_EX)


def working(device: str = "cpu") -> AbstractContextManager[None]:
    """Shared: work that must not run beside a measurement."""
    return _held(device, fcntl.LOCK_SH)
