"""A caller can leave a judging that takes too long, and then ask for the next."""

from __future__ import annotations

import threading
import time

import pytest
from tests.search import toy

from kernelwright.errors import DeadlinePassed
from kernelwright.judge.channel import Channel, ChannelClosed, pair
from kernelwright.judge.service import client
from kernelwright.judge.service.client import WarmJudge
from kernelwright.judge.settings import Settings
from kernelwright.search.judging import Remote

CANDIDATE = toy.candidate_of((5,) * 8)


class Oracles:
    """Each new connection is answered by the next of these: a function of the channel and the first message."""

    def __init__(self, *answers: object) -> None:
        self._answers = list(answers)
        self.left = threading.Event()

    def connect(self, where: object) -> Channel:
        ours, theirs = pair()
        answer = self._answers.pop(0)
        threading.Thread(target=self._serve, args=[Channel(theirs), answer], daemon=True).start()
        return ours

    def _serve(self, channel: Channel, answer: object) -> None:
        try:
            message, _ = channel.receive()
            answer(channel, message)  # type: ignore[operator]
        except ChannelClosed:
            self.left.set()


def _talks_for_ever(channel: Channel, message: object) -> None:
    while True:
        channel.send({"progress": "trial"})
        time.sleep(0.01)


def _answers(channel: Channel, message: dict[str, object]) -> None:
    verdict = toy.verdict_of(CANDIDATE, [("a", 2.0, False)])
    channel.send({"progress": str(message["wanted"]["public_only"])})  # type: ignore[index]
    channel.send({"verdict": verdict.model_dump(mode="json"), "done": True})


def test_a_judging_that_never_ends_is_left_and_the_next_is_asked_afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    oracles = Oracles(_talks_for_ever, _answers)
    monkeypatch.setattr(client, "_find_or_start", oracles.connect)
    with WarmJudge(Settings()) as judge:
        said: list[str] = []
        begin = time.monotonic()
        with pytest.raises(DeadlinePassed, match=r"did not end within 0\.2 s"):
            judge.judge("toy", CANDIDATE, said.append, deadline=0.2)
        assert time.monotonic() - begin < 5 and said
        assert oracles.left.wait(5)  # the oracle notices that its caller is gone
        said.clear()
        verdict = Remote(judge).judge("toy", CANDIDATE, Settings(public_only=True), said.append, 5.0)
        assert verdict.candidate == CANDIDATE.id and said == ["True"]
