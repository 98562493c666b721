"""Where a server listens, and which callers share one."""

from __future__ import annotations

import fcntl
import hashlib
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kernelwright.devices.names import CPU, Device
from kernelwright.paths import state_dir

# What a process inherits and what changes its verdicts or times. Callers that differ in it do not share a server.
VARIABLES = (
    *("CXX", "PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "CUDA_VISIBLE_DEVICES", "CUDA_HOME"),
    *("CUDA_PATH", "CUTLASS_PATH", "KERNELWRIGHT_JUDGE_MEMORY"),
    *("OMP_NUM_THREADS", "OMP_PROC_BIND", "TORCHINDUCTOR_CACHE_DIR", "XDG_CACHE_HOME", "TMPDIR"),
)


@dataclass(frozen=True)
class Address:
    """`device` is what a server that is started there works on."""

    folder: Path
    name: str
    device: Device = CPU

    @property
    def socket(self) -> Path:
        return self.folder / f"{self.name}.socket"

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    @property
    def lock(self) -> Path:
        """Held while one is started; it says which process that was."""
        return self.folder / f"{self.name}.lock"


def folder() -> Path:
    return state_dir("server")


def address(device: Device = CPU) -> Address:
    """The one for a device and a caller with this environment and these cores."""
    parts = [f"{name}={os.environ.get(name)}" for name in VARIABLES]
    parts.append(f"device={device}")
    parts.append(f"cores={sorted(os.sched_getaffinity(0))}")
    return Address(folder(), hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12], device)


def private_address(device: Device = CPU) -> Address:
    """An address that only this process uses."""
    return Address(folder(), f"own-{os.getpid()}-{device.kind}{device.index}", device)


def addresses() -> list[Address]:
    return [Address(path.parent, path.stem) for path in sorted(folder().glob("*.socket"))]


@contextmanager
def _reachable(path: Path) -> Iterator[str]:
    """A short name for a socket: its own path may be longer than a socket's address can be."""
    handle = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{handle}/{path.name}"
    finally:
        os.close(handle)


def listen(path: Path) -> socket.socket:
    """Takes the place of a socket that is no longer listened on. The caller holds `starting`."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    path.unlink(missing_ok=True)
    with _reachable(path) as name:
        listener.bind(name)
    path.chmod(0o600)
    listener.listen(32)
    return listener


def connect(path: Path) -> socket.socket | None:
    """A connection, or None where nothing listens."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        with _reachable(path) as name:
            connection.connect(name)
    except (FileNotFoundError, ConnectionRefusedError):
        connection.close()
        return None
    return connection


def same_user(connection: socket.socket) -> bool:
    """Whether the other end belongs to us. The directory's mode says so too; one check is not enough for a key."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, uid, _ = struct.unpack("3i", raw)
    return bool(uid == os.getuid())


@contextmanager
def starting(where: Address) -> Iterator[None]:
    """Held while a server is looked for and started, so that two callers do not start two."""
    handle = os.open(where.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def started(where: Address) -> int | None:
    """The process that was started to listen there, if it is still there: a number alone may be another's by now."""
    try:
        pid = int(where.lock.read_text(encoding="ascii"))
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return None
    return pid if where.name.encode() in words else None
