"""The archives of kernels, certificates and runs beside the results: one for each table."""

from __future__ import annotations

import atexit
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from benchmarks.shared.record import RESULTS

from kernelwright.archives import is_archive, pack, read_archive, unpack, write_archive

ANSWERED = RESULTS / "answered.tar.xz"


def optimized(device: str, results: Path = RESULTS) -> Path:
    """Of the best kernels on one kind of device, or on one machine: a folder for each task, with its source and
    certificates."""
    return results / f"optimized_{device}.tar.xz"


def folder_of(ref: str) -> str:
    """The folder of a task in an archive."""
    return ref.replace(":", "_")


def unpacked(path: Path) -> Path:
    """What an archive holds, in a directory that lasts as long as the process; one that is a directory as it is."""
    if path.is_dir():
        return path
    return _unpacked(path, path.stat().st_mtime_ns) if is_archive(path) else _temporary()


@lru_cache
def _unpacked(path: Path, _changed: int) -> Path:
    folder = _temporary()
    unpack(read_archive(path).files, folder)
    return folder


def _temporary() -> Path:
    made = tempfile.TemporaryDirectory(prefix="kernelwright-kept-")
    atexit.register(made.cleanup)
    return Path(made.name)


@contextmanager
def changing(path: Path) -> Iterator[Path]:
    """What an archive holds, in a directory; what is there at the end becomes the archive, at once and whole."""
    with tempfile.TemporaryDirectory(prefix="kernelwright-kept-") as name:
        folder = Path(name)
        if is_archive(path):
            unpack(read_archive(path).files, folder)
        yield folder
        write_archive(path, pack(folder))
