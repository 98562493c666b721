"""The file of a benchmark: lines of JSON, appended by one process at a time, and read by any.

Every line is brought to the disk before anything that depends on it is done. A process that is killed in the middle
of a line leaves a part of one behind, which a reader does not see and the next writer cuts off.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from kernelwright.benchmark.results import VERSION, ResultLine, Results, ResultsError, fold, line_of
from kernelwright.errors import NO_SPACE, DiskFull
from kernelwright.judge.strangers.bounds import OutOfBoundsError, require_bounded

MAX_BYTES = 256 << 20


class ResultsFile:
    """The one writer of a results file. Its lock ends with the process, however it ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise ResultsError(f"{path}: {error.strerror}") from error
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            whole = _whole(path, _content(path))
            os.ftruncate(self._handle, len(whole))
        except BlockingIOError:
            os.close(self._handle)
            raise ResultsError(f"{path}: another command is at work on it; wait for it, or stop it") from None
        except ResultsError as error:
            os.close(self._handle)
            raise ResultsError(f"{error}; give --output another name") from None

    @property
    def empty(self) -> bool:
        return os.fstat(self._handle).st_size == 0

    def append(self, line: ResultLine) -> None:
        raw = line.model_dump_json().encode() + b"\n"
        before = os.fstat(self._handle).st_size
        try:
            written = os.write(self._handle, raw)
            if written < len(raw):
                raise OSError(next(iter(NO_SPACE)), "no space left on the device")
            os.fdatasync(self._handle)
        except OSError as error:
            os.ftruncate(self._handle, before)
            raise DiskFull(
                f"{self.path}: {error.strerror}; make room, and give the same command again: it goes on"
            ) from error

    def close(self) -> None:
        os.close(self._handle)


def read_results(path: Path) -> Results:
    """A file that may be growing, or a stranger's."""
    if not path.is_file():
        what = "is a directory" if path.is_dir() else "there is no such file"
        raise ResultsError(f"{path}: {what}; give a results file that `kernelwright bench` wrote")
    return fold(_lines(path), path.name)


def _lines(path: Path) -> Iterator[ResultLine]:
    for number, raw in enumerate(_whole(path, _content(path)).splitlines(), 1):
        try:
            line = line_of.validate_json(raw)
            require_bounded(line.model_dump(mode="json"))
            yield line
        except (ValidationError, OutOfBoundsError, RecursionError) as error:
            if number == 1:
                raise ResultsError(
                    f"{path}: is not a results file of version {VERSION} ({_first_words(error)})"
                ) from None
            raise ResultsError(f"{path}: line {number} cannot be understood ({_first_words(error)})") from None


def _content(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ResultsError(f"{path}: is larger than any results file")
        return path.read_bytes()
    except OSError as error:
        raise ResultsError(f"{path}: {error.strerror}") from error


def _whole(path: Path, content: bytes) -> bytes:
    """Without the part of a line at its end. A file with no whole line at all is not ours to cut."""
    whole = content[: content.rfind(b"\n") + 1]
    if content and not content.startswith(b"{"):
        raise ResultsError(f"{path}: is not a results file that `kernelwright bench` wrote")
    return whole


def _first_words(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}" if first["loc"] else str(first["msg"])
    return str(error)
