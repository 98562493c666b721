"""A caller can leave a judging that takes too long, and then ask for the next. Waiting for others is not a judging."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.search import toy

from kernelwright.errors import CannotDecide, DeadlineExceeded
from kernelwright.isolation.channel import Channel, ChannelClosed, pair
from kernelwright.judge import oracle_client
from kernelwright.judge.server import address, client
from kernelwright.judge.server.client import ServerJudge
from kernelwright.judge.settings import Settings
from kernelwright.search.judging import OnDevice

pytestmark = pytest.mark.timed

CANDIDATE = toy.candidate_of((5,) * 8)


class Servers:
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
    channel.send({"ahead": 0})
    while True:
        channel.send({"progress": "trial"})
        time.sleep(0.01)


def _answers(channel: Channel, message: dict[str, object]) -> None:
    verdict = toy.verdict_of(CANDIDATE, [("a", 2.0, False)])
    channel.send({"ahead": 0})
    channel.send({"progress": str(message["wanted"]["public_only"])})  # type: ignore[index]
    channel.send({"verdict": verdict.model_dump(mode="json"), "done": True})


def test_a_judging_that_never_ends_is_left_and_the_next_is_asked_afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = Servers(_talks_for_ever, _answers)
    monkeypatch.setattr(client, "_find_or_start", servers.connect)
    with ServerJudge(Settings()) as judge:
        said: list[str] = []
        begin = time.monotonic()
        with pytest.raises(DeadlineExceeded, match=r"did not end within 0\.2 s"):
            judge.judge("toy", CANDIDATE, said.append, deadline=0.2)
        assert time.monotonic() - begin < 5 and said
        assert servers.left.wait(5)  # the server notices that its caller is gone
        said.clear()
        verdict = OnDevice(judge).judge("toy", CANDIDATE, Settings(public_only=True), said.append, 5.0)
        assert verdict.candidate == CANDIDATE.id and said == ["True"]


def _answers_late(channel: Channel, message: dict[str, object]) -> None:
    for ahead in (2, 2, 1, 1):
        channel.send({"ahead": ahead})
        time.sleep(0.1)
    _answers(channel, message)


def _hangs(channel: Channel, message: object) -> None:
    channel.send({"ahead": 1})
    channel.receive()  # until the caller leaves


def _dies(channel: Channel, message: object) -> None:
    channel.send({"ahead": 1})
    channel.close()


def test_waiting_for_others_is_told_and_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_find_or_start", Servers(_answers_late).connect)
    said: list[str] = []
    with ServerJudge(Settings()) as judge:
        verdict = judge.judge("toy", CANDIDATE, said.append, deadline=0.2)
    assert verdict.candidate == CANDIDATE.id
    assert said == ["waiting for 2 other evaluations", "waiting for 1 other evaluation", "False"]


def test_a_server_that_hangs_while_one_waits_is_left_without_a_word_against_the_candidate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    servers = Servers(_hangs)
    monkeypatch.setattr(client, "_find_or_start", servers.connect)
    monkeypatch.setattr(client, "SILENCE_SECONDS", 0.2)
    with ServerJudge(Settings()) as judge, pytest.raises(CannotDecide, match=r"was silent for 0\.2 s") as caught:
        judge.judge("toy", CANDIDATE, deadline=600.0)
    assert not isinstance(caught.value, DeadlineExceeded)
    assert servers.left.wait(5)


def test_a_server_that_dies_while_one_waits_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_find_or_start", Servers(_dies, _answers).connect)
    said: list[str] = []
    with ServerJudge(Settings()) as judge:
        assert judge.judge("toy", CANDIDATE, said.append, deadline=5.0).candidate == CANDIDATE.id
    assert said == ["waiting for 1 other evaluation", "the server is gone; starting another", "False"]


def test_who_waits_can_be_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = Servers(_hangs)
    monkeypatch.setattr(client, "_find_or_start", servers.connect)
    me, before = threading.get_ident(), signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with ServerJudge(Settings()) as judge, pytest.raises(KeyboardInterrupt):
            threading.Timer(0.2, signal.pthread_kill, [me, signal.SIGINT]).start()
            judge.judge("toy", CANDIDATE, deadline=600.0)
    finally:
        signal.signal(signal.SIGINT, before)
    assert servers.left.wait(5)


class OnlyTheFirst:
    """A server that hangs in a judging, with others that cannot be had before it is ended, or never."""

    def __init__(self, *, replaced: bool) -> None:
        self._servers = Servers(_takes_up_and_hangs, _answers)
        self._refusals = 1 if replaced else 1000
        self._first = True

    def connect(self, where: object) -> Channel:
        if not self._first and self._refusals:
            self._refusals -= 1
            raise CannotDecide("the server there does not answer")
        self._first = False
        return self._servers.connect(where)


def _takes_up_and_hangs(channel: Channel, message: object) -> None:
    channel.send({"ahead": 0})
    channel.receive()


def test_a_server_that_does_not_even_greet_is_ended_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_find_or_start", OnlyTheFirst(replaced=True).connect)
    where = address.address()
    command = [sys.executable, "-c", "import time; time.sleep(600)", where.name]
    with subprocess.Popen(command, start_new_session=True) as hanging, ServerJudge(Settings()) as judge:
        where.lock.write_text(str(hanging.pid))
        with pytest.raises(DeadlineExceeded):
            judge.judge("toy", CANDIDATE, deadline=0.2)
        assert hanging.wait(30) == -signal.SIGKILL
        assert judge.judge("toy", CANDIDATE, deadline=5.0).candidate == CANDIDATE.id


def test_a_deadline_is_told_even_if_no_other_server_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_find_or_start", OnlyTheFirst(replaced=False).connect)
    with ServerJudge(Settings()) as judge:
        with pytest.raises(DeadlineExceeded):
            judge.judge("toy", CANDIDATE, deadline=0.2)
        with pytest.raises(CannotDecide, match="does not answer"):
            judge.judge("toy", CANDIDATE, deadline=0.2)


def test_no_process_is_ended_for_having_the_number_of_a_server_that_is_gone() -> None:
    where = address.address()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        where.lock.write_text(str(other.pid))
        assert address.started(where) is None
        other.communicate(b"\n")
    where.lock.write_text("")
    assert address.started(where) is None


def test_an_oracle_that_does_not_answer_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference that never ends must not keep those waiting who ask for other tasks."""
    path = tmp_path / "endless.py"
    path.write_text(
        "import time\nfrom kernelwright.tasks import Task, tensor\n"
        "def reference(x):\n    time.sleep(3600)\n    return x\n"
        "task = Task(reference, inputs={'x': tensor('n')}, public=[{'n': 8}], hidden={'n': (4, 64)})\n"
    )
    monkeypatch.setattr(oracle_client, "ANSWER_SECONDS", 3.0)
    oracle = oracle_client.OracleClient(b"k" * 32, 1)
    try:
        with pytest.raises(oracle_client.OracleLost, match="did not open within 3 s, and was ended"):
            oracle.open(str(path))
    finally:
        oracle.close()
