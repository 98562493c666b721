"""Recordings of attempts: a folder (or an archive of one) with a file for each, named by what was asked.

A file holds what was asked and what came back, failures and their retries too, so that a replay takes the same way.
Keys and headers never come so far. The same attempt asked again (after a crash) replaces its file, since the later
answer is the one that the run went on with.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from kernelwright.archives import is_archive, read_archive
from kernelwright.llm.config import EnsembleError, Member
from kernelwright.llm.model import FailureKind
from kernelwright.llm.wire import Brought, Request, Transport
from kernelwright.paths import write_whole

VERSION = 1


class Recording(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int = VERSION
    stage: str = ""  # of the ask; this and the order are for a replay that has no more to go by
    order: float = 0.0  # larger is later: the time of recording
    request: Request
    brought: Brought

    @property
    def replayed(self) -> Brought:
        """As a replay brings it: nobody is paid for it again."""
        return self.brought.model_copy(update={"usd": 0.0, "recorded_usd": self.brought.usd})


class Recorder:
    """Hands on what the other transport brings, and keeps it. Where it cannot, it says so: the answer has its price."""

    def __init__(self, inner: Transport, folder: Path) -> None:
        self._inner = inner
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EnsembleError(_unkept(folder, error)) from None

    def send(self, member: Member, request: Request) -> Brought:
        brought = self._inner.send(member, request)
        kept = Recording(stage=request.stage, order=time.time(), request=request, brought=brought)
        content = kept.model_dump_json(indent=1)
        try:
            write_whole(_path(self._folder, request), f"{content}\n".encode())
        except OSError as error:
            return brought.model_copy(update={"not_kept": _unkept(self._folder, error)})
        return brought

    def close(self) -> None:
        self._inner.close()


class Replayer:
    """Answers from recordings alone. It needs no key, no client library and no network."""

    def __init__(self, folder: Path) -> None:
        self._files = recordings(folder)

    def send(self, member: Member, request: Request) -> Brought:
        name = _path(Path(), request).name
        read = self._files.get(name)
        if read is None:
            return _missing(f"{name}: was not recorded")
        try:
            recording = Recording.model_validate_json(read())
        except (OSError, ValidationError) as error:
            return _missing(f"{name}: cannot be read ({type(error).__name__})")
        if recording.version != VERSION or recording.request.key != request.key:
            return _missing(f"{name}: is a recording of something else")
        return recording.replayed

    def close(self) -> None:
        pass


def recordings(where: Path) -> dict[str, Callable[[], bytes]]:
    """How to read each recording of a folder or an archive, by its file's name."""
    found: dict[str, Callable[[], bytes]]
    if is_archive(where):
        files = read_archive(where).files
        found = {name: partial(files.__getitem__, name) for name in sorted(files) if name.endswith(".json")}
    elif where.is_dir():
        found = {path.name: path.read_bytes for path in sorted(where.glob("*.json"))}
    else:
        raise EnsembleError(f"{where}: is not a folder or an archive of recordings")
    if not found:
        raise EnsembleError(f"{where}: has no recordings in it; a run with --record makes some")
    return found


def _path(folder: Path, request: Request) -> Path:
    return folder / f"{request.key}.json"


def _unkept(folder: Path, error: OSError) -> str:
    return f"{folder}: recordings cannot be kept there ({error.strerror})"


def _missing(detail: str) -> Brought:
    return Brought(failure=FailureKind.not_recorded, detail=detail)
