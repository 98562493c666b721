"""Recordings of attempts: a folder (or an archive of one) with a file for each, named by what was asked, and replays.

A file holds what was asked and what came back, failures and their retries too, so that a replay takes the same course.
Keys and headers are never written. The same attempt asked again (after a crash) replaces its file, since the later
answer is the one that the run went on with.
"""

from __future__ import annotations

import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import partial
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from kernelwright.archives import is_archive, read_archive
from kernelwright.llm.attempts import AttemptRequest, AttemptResult, Transport
from kernelwright.llm.config import EnsembleError, Member
from kernelwright.llm.model import FailureKind, Match
from kernelwright.paths import write_whole

VERSION = 1


class Recording(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int = VERSION
    stage: str = ""  # of the ask; this and the order are for a replay that has no more to go by
    order: float = 0.0  # larger is later: the time of recording
    request: AttemptRequest
    brought: AttemptResult

    @property
    def replayed(self) -> AttemptResult:
        """As a replay brings it: it is not paid for again."""
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

    def send(self, member: Member, request: AttemptRequest) -> AttemptResult:
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

    def send(self, member: Member, request: AttemptRequest) -> AttemptResult:
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


def _path(folder: Path, request: AttemptRequest) -> Path:
    return folder / f"{request.key}.json"


def _unkept(folder: Path, error: OSError) -> str:
    return f"{folder}: recordings cannot be kept there ({error.strerror})"


def _missing(detail: str) -> AttemptResult:
    return AttemptResult(failure=FailureKind.not_recorded, detail=detail)


_QUOTED = re.compile(r"^(`{3,})[^`\n]*\n(.*?)^\1[ ]*$", re.MULTILINE | re.DOTALL)


class NearestReplayer(Replayer):
    """`used`: keys of recordings that were answered with before, so that a run that goes on takes the ones after."""

    def __init__(self, folder: Path, used: Iterable[str] = ()) -> None:
        super().__init__(folder)
        self._used = set(used)
        self._lock = threading.Lock()
        self._places: dict[Hashable, list[Recording]] = defaultdict(list)
        for recording in _in_order(self._files.values()):
            for place in _places(recording.request, recording.stage):
                self._places[place].append(recording)

    def send(self, member: Member, request: AttemptRequest) -> AttemptResult:
        with self._lock:
            brought = super().send(member, request)
            if brought.failure is not FailureKind.not_recorded:
                return self._taken(request.key, brought, Match.request)
            for place in _places(request, request.stage):
                match, *_ = place
                for recording in self._places.get(place, ()):
                    if match is Match.call or recording.request.key not in self._used:
                        return self._taken(recording.request.key, recording.replayed, match)
            return brought

    def _taken(self, key: str, brought: AttemptResult, match: Match) -> AttemptResult:
        self._used.add(key)
        return brought.model_copy(update={"recording": key, "match": match})


def _in_order(files: Iterable[Callable[[], bytes]]) -> list[Recording]:
    """In the order in which they were recorded."""
    found = []
    for read in files:
        try:
            found.append(Recording.model_validate_json(read()))
        except (OSError, ValidationError):  # the exact lookup says what is wrong with it, if it is asked for
            continue
    return sorted(found, key=lambda recording: recording.order)


def _places(request: AttemptRequest, stage: str) -> Iterator[tuple[Match, *tuple[Hashable, ...]]]:
    """Where a recording may be found, the nearest first. Without a stage only the call identifies it."""
    turn = (request.attempt, len(request.turns))
    yield Match.call, request.seed, *turn
    if not stage:
        return
    asked = (stage, request.provider, request.model, *turn)
    quoted = tuple(match[2] for match in _QUOTED.finditer(request.turns[0].text))
    if quoted:
        yield Match.material, *asked, quoted
    if request.answer_schema is None:
        yield Match.order, *asked
