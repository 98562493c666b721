"""Several callers at one server: what those hear who wait, and that a deadline begins with the judging.

Socket, server and client are the real ones; only the judge is a toy.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from tests.search import toy

from kernelwright.contracts import Candidate
from kernelwright.contracts.candidate import MAX_BYTES
from kernelwright.errors import DeadlineExceeded
from kernelwright.isolation.channel import Channel
from kernelwright.judge.server import address, client, server
from kernelwright.judge.server.client import ServerJudge
from kernelwright.judge.server.protocol import JudgeRequest, OpenRequest, ServerReply
from kernelwright.judge.settings import MOST_UPCOMING, Settings
from kernelwright.judge.verdict import Verdict

CANDIDATE = toy.candidate_of((5,) * 8)
PATIENCE = 30.0


class ToyServer(server.Server):
    """Judges a task when it is told to; `tasks` are those that were begun."""

    def __init__(self, where: address.Address) -> None:
        super().__init__(where, address.listen(where.socket), idle_limit=PATIENCE)
        self.tasks: list[str] = []
        self.may_end: dict[str, threading.Event] = {}

    def _answer(self, request: OpenRequest | JudgeRequest, progress: Callable[[str], None]) -> ServerReply:
        self.tasks.append(request.task)
        while not self.may_end.setdefault(request.task, threading.Event()).wait(0.02):
            progress("at work")
        return ServerReply(verdict=toy.verdict_of(CANDIDATE, [("a", 2.0, False)]), done=True)

    def let(self, task: str) -> None:
        self.may_end.setdefault(task, threading.Event()).set()


@pytest.fixture
def toy_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ToyServer]:
    monkeypatch.setattr(server, "ANNOUNCE_SECONDS", 0.02)
    monkeypatch.setattr(client, "_find_or_start", _connected)
    where = address.Address(tmp_path, "toy")
    monkeypatch.setattr(address, "address", lambda device: where)
    one = ToyServer(where)
    working = threading.Thread(target=one.run, daemon=True)
    working.start()
    yield one
    for task in "abcd":
        one.let(task)
    one.stop()
    working.join(PATIENCE)
    assert not working.is_alive()


def _connected(where: address.Address) -> Channel:
    found = client._greeted(where.socket)
    assert found is not None
    return found[0]


class Asking:
    """A caller in a thread of its own."""

    def __init__(self, task: str, deadline: float | None = None, leave_at: float | None = None) -> None:
        self._leave_at = leave_at
        self.said: list[str] = []
        self.came: object = None
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._ask, args=[task, deadline], daemon=True)
        self._thread.start()

    def _ask(self, task: str, deadline: float | None) -> None:
        with ServerJudge(Settings(), leave_at=self._leave_at) as judge:
            try:
                self.came = judge.judge(task, CANDIDATE, self._hear, deadline=deadline)
            except DeadlineExceeded as error:
                self.came = error

    def _hear(self, text: str) -> None:
        with self._changed:
            self.said.append(text)
            self._changed.notify_all()

    def hears(self, text: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: text in self.said, PATIENCE), self.said

    def outcome(self) -> object:
        self._thread.join(PATIENCE)
        return self.came


def test_who_waits_is_told_of_the_judging_under_way_too(toy_server: ToyServer) -> None:
    first = Asking("a")
    first.hears("at work")
    second = Asking("b")
    second.hears("waiting for 1 other evaluation")
    third = Asking("c")
    third.hears("waiting for 2 other evaluations")
    toy_server.let("a")
    third.hears("waiting for 1 other evaluation")
    toy_server.let("b")
    third.hears("at work")
    assert set(first.said) == {"at work"}
    assert third.said[:3] == ["waiting for 2 other evaluations", "waiting for 1 other evaluation", "at work"]


def test_a_deadline_begins_when_the_judging_does(toy_server: ToyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "SILENCE_SECONDS", 1.0)  # which is not passed, since the first gets on
    Asking("a").hears("at work")
    waiting = Asking("b", deadline=1.0)
    waiting.hears("waiting for 1 other evaluation")
    waiting._thread.join(1.5)
    assert waiting.came is None and toy_server.tasks == ["a"]
    toy_server.let("b")
    toy_server.let("a")
    assert not isinstance(waiting.outcome(), DeadlineExceeded | None)
    too_long = Asking("c", deadline=0.3)
    assert isinstance(too_long.outcome(), DeadlineExceeded)


def test_who_waits_for_others_gives_up_at_the_end_of_its_time(toy_server: ToyServer) -> None:
    Asking("a").hears("at work")
    begin = time.monotonic()
    late = Asking("b", deadline=PATIENCE, leave_at=begin + 0.5)
    outcome = late.outcome()
    assert isinstance(outcome, DeadlineExceeded) and "its turn" in str(outcome)
    assert 0.5 <= time.monotonic() - begin < PATIENCE and toy_server.tasks == ["a"]
    in_time = Asking("c", leave_at=time.monotonic() + PATIENCE)
    in_time.hears("waiting for 2 other evaluations")
    toy_server.let("a")
    toy_server.let("c")
    assert not isinstance(in_time.outcome(), DeadlineExceeded | None)


def test_who_leaves_the_queue_is_not_judged(toy_server: ToyServer) -> None:
    Asking("a").hears("at work")
    leaver = ServerJudge(Settings())
    with pytest.raises(ZeroDivisionError), leaver:
        leaver.judge("b", CANDIDATE, lambda _: 1 // 0, deadline=PATIENCE)  # type: ignore[arg-type, return-value]
    last = Asking("c")
    last.hears("waiting for 2 other evaluations")
    toy_server.let("a")
    last.hears("at work")
    assert toy_server.tasks == ["a", "c"]


class RecordingJudge:
    """Keeps what it is told to expect, and judges once the server has another caller, or at once."""

    def __init__(self) -> None:
        self.expected: list[tuple[str, tuple[str, ...]]] = []
        self.judged: list[str] = []
        self.may_judge = threading.Event()

    def demand(self, settings: Settings) -> None: ...

    def close(self) -> None: ...

    def expect(self, task: str, candidates: Sequence[Candidate], settings: Settings) -> None:
        self.expected.append((task, tuple(one.source for one in candidates)))

    def judge(self, task: str, candidate: Candidate, progress: object, settings: Settings) -> Verdict:
        self.judged.append(candidate.source)
        assert self.may_judge.wait(PATIENCE)
        return toy.verdict_of(CANDIDATE, [("a", 2.0, False)])


@pytest.fixture
def told(toy_server: ToyServer, monkeypatch: pytest.MonkeyPatch) -> RecordingJudge:
    judge = RecordingJudge()
    monkeypatch.setattr(ToyServer, "_answer", server.Server._answer)
    monkeypatch.setattr(toy_server, "_judge", lambda settings: judge)
    return judge


def candidates(*sources: str) -> list[Candidate]:
    return [Candidate("cpp", source) for source in sources]


def test_a_judge_hears_what_comes_after_a_candidate_from_its_caller_and_from_those_who_wait(
    toy_server: ToyServer, told: RecordingJudge
) -> None:
    first, second, third, waiting = candidates("one", "two", "three", "waiting")

    def ask(task: str, candidate: Candidate, *later: Candidate) -> None:
        with ServerJudge(Settings()) as judge:
            judge.expect(task, later)
            judge.judge(task, candidate)

    begun = threading.Thread(target=ask, args=["a", first, second, third])
    begun.start()
    while not told.judged:
        threading.Event().wait(0.01)
    behind = [threading.Thread(target=ask, args=["b", *their]) for their in ([waiting, second], [third])]
    for number, one in enumerate(behind, 1):
        one.start()
        while toy_server._queue.qsize() < number:
            threading.Event().wait(0.01)
    told.may_judge.set()
    for one in (begun, *behind):
        one.join(PATIENCE)
    assert told.judged == ["one", "waiting", "three"]
    assert told.expected == [("a", ("two", "three")), ("b", ("two",)), ("b", ("three",)), ("b", ())]


def test_word_of_what_comes_is_of_one_task_and_small(toy_server: ToyServer, told: RecordingJudge) -> None:
    told.may_judge.set()
    with ServerJudge(Settings()) as judge:
        for later in (candidates(*map(str, range(20))), candidates("small", "x" * (MAX_BYTES - 5), "next")):
            judge.expect("a", later)
            judge.judge("a", CANDIDATE)
        judge.expect("a", later)
        judge.judge("b", CANDIDATE)
        judge.judge("a", CANDIDATE)
    assert [len(sources) for _, sources in told.expected] == [MOST_UPCOMING, 2, 0, 0]
