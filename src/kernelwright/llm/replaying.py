"""Replays a run whose requests differ a little from what was recorded: each gets the nearest answer there is.

Prompts tell of measured times, which no two machines share, and what is measured decides who is asked next. So, after
the very request, an answer is found by the call (its seed depends on the run's seed and the number of the request
alone), then by the material: the sources that the prompt quotes, since measured figures stand outside of them. A
proposal may also be the next of its stage in the order of recording, because it is judged anew. An opinion may not: one
on another kernel says nothing of this one. Each way is written down with the call.
"""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from pathlib import Path

from pydantic import ValidationError

from kernelwright.llm.config import EnsembleConfig, Member
from kernelwright.llm.ensemble import Ensemble
from kernelwright.llm.model import FailureKind, Match
from kernelwright.llm.purse import Purse
from kernelwright.llm.recording import Recording, Replayer
from kernelwright.llm.wire import Brought, Request

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

    def send(self, member: Member, request: Request) -> Brought:
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

    def _taken(self, key: str, brought: Brought, match: Match) -> Brought:
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


def _places(request: Request, stage: str) -> Iterator[tuple[Match, *tuple[Hashable, ...]]]:
    """Where a recording may be found, the nearest first. Without a stage only the call can be told."""
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


def replayed(config: EnsembleConfig, folder: Path, used: Iterable[str] = ()) -> Ensemble:
    """An ensemble that answers from recordings, with no pauses and no money."""
    return Ensemble(config, NearestReplayer(folder, used), Purse(None), patient=False)
