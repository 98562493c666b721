"""Replays a run whose prompts differ a little: the same answers in the same order, whatever was measured meanwhile.

Prompts tell of measured times, which no two machines share. Every call of a run has a seed of its own, which depends
on the run's seed and the number of the request alone. So an answer is found by its exact prompt or else by its seed.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from kernelwright.llm.config import EnsembleConfig, Member
from kernelwright.llm.ensemble import Ensemble
from kernelwright.llm.model import FailureKind
from kernelwright.llm.purse import Purse
from kernelwright.llm.recording import Recording, Replayer
from kernelwright.llm.wire import Brought, Request

_Key = tuple[int, int, int]


class SeedReplayer(Replayer):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._by_seed: dict[_Key, Brought] = {}
        for path in sorted(folder.glob("*.json")):
            try:
                found = Recording.model_validate_json(path.read_bytes())
            except (OSError, ValidationError):  # the exact lookup says what is wrong with it, if it is asked for
                continue
            self._by_seed[_key(found.request)] = found.brought

    def send(self, member: Member, request: Request) -> Brought:
        brought = super().send(member, request)
        if brought.failure is not FailureKind.not_recorded:
            return brought
        return self._by_seed.get(_key(request), brought)


def _key(request: Request) -> _Key:
    return request.seed, request.attempt, len(request.turns)


def replayed(config: EnsembleConfig, folder: Path) -> Ensemble:
    """An ensemble that answers from recordings, with no pauses and no money."""
    return Ensemble(config, SeedReplayer(folder), Purse(None), patient=False)
