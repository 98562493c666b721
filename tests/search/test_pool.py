"""Judges side by side: the same decisions as one, in the time of the slowest, and nothing is lost by a kill."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import Future
from pathlib import Path

import pytest

from kernelwright.contracts import Candidate
from kernelwright.errors import CannotDecide
from kernelwright.judge.settings import Settings
from kernelwright.search.core.events import Action, Evaluate, Evaluated, FinalHeld, HoldFinal, Planned
from kernelwright.search.core.state import fold
from kernelwright.search.journal import read
from kernelwright.search.pool import JudgePool
from kernelwright.search.run import create, look
from tests.search import toy
from tests.search.test_driver import kill


def decisions(folder: Path) -> list[tuple[Action, ...]]:
    """All that was decided, in order. Candidates and the best follow from it."""
    return [event.actions for event in read(folder) if isinstance(event, Planned)]


def test_the_first_that_is_completed_comes_first() -> None:
    pool = JudgePool([toy.ToyJudge(), toy.ToyJudge()])
    gate = threading.Event()
    slow = pool.submit(lambda judge: gate.wait(20))
    fast: Future[str] = pool.submit(lambda judge: "fast")
    pool.first_completed([slow, fast], 20)
    assert fast.result(20) == "fast" and not slow.done()
    gate.set()
    assert slow.result(20) is True


def test_a_job_waits_for_a_free_judge_and_has_it_alone() -> None:
    judges = [toy.ToyJudge(), toy.ToyJudge()]
    pool, busy, most = JudgePool(judges), [0], [0]
    lock = threading.Lock()

    def job(judge: object) -> int:
        with lock:
            busy[0] += 1
            most[0] = max(most[0], busy[0])
        time.sleep(0.01)
        with lock:
            busy[0] -= 1
        return next(index for index, one in enumerate(judges) if one is judge)

    done = [future.result(20) for future in [pool.submit(job) for _ in range(8)]]
    assert most[0] == 2 and set(done) == {0, 1}


def test_a_pool_of_one_works_in_the_thread_that_waits() -> None:
    pool = JudgePool([toy.ToyJudge()])
    future = pool.submit(lambda judge: threading.current_thread())
    assert not future.done()
    pool.first_completed([future], 20)
    assert future.result() is threading.main_thread()


@pytest.mark.parametrize("policy", ["greedy", "islands"])
@pytest.mark.parametrize("latencies", [(0.0, 0.003, 0.006), (0.006, 0.0, 0.003), (0.002,) * 5])
def test_several_judges_decide_the_same_as_one(tmp_path: Path, policy: str, latencies: tuple[float, ...]) -> None:
    """The same requests, evaluations and finals in the same order, and so the same candidates and the same best."""
    one = toy.search(tmp_path / "one", policy=policy, judges=3)
    judges = [toy.ToyJudge(seconds=seconds) for seconds in latencies]
    several = toy.search(tmp_path / "several", policy=policy, judge=judges, judges=3)
    assert decisions(tmp_path / "several" / "toy-1") == decisions(tmp_path / "one" / "toy-1")
    assert toy.essence(several) == toy.essence(one) and several.best is not None
    assert several == fold(read(tmp_path / "several" / "toy-1"))
    assert sum(len(judge.calls) > 0 for judge in judges) >= 2


def test_they_work_at_the_same_time(tmp_path: Path) -> None:
    latency = 0.05
    state = toy.search(tmp_path, judge=[toy.ToyJudge(seconds=latency) for _ in range(4)], judges=4, budget="60evals")
    assert state.spent.device > 1.8 * state.spent.wall


def test_a_final_and_the_best_that_it_challenges_are_judged_by_one_judge(tmp_path: Path) -> None:
    judges = [toy.ToyJudge(seconds=0.002) for _ in range(3)]
    toy.search(tmp_path, judge=judges, judges=3)
    finals = [event for event in read(tmp_path / "toy-1") if isinstance(event, FinalHeld) and event.ratio is not None]
    state = look(tmp_path / "toy-1")
    assert finals
    for final in finals:
        assert final.best is not None
        pair = {state.entries[number].proposal.candidate.id for number in (final.challenger, final.best)}
        full = [{name for name, public_only in judge.calls if not public_only} for judge in judges]
        assert any(pair <= names for names in full)


def test_a_round_has_one_final_at_most_and_no_more_than_the_run_has_judges(tmp_path: Path) -> None:
    toy.search(tmp_path, judges=4)
    for actions in decisions(tmp_path / "toy-1"):
        judgings = [action for action in actions if isinstance(action, Evaluate | HoldFinal)]
        assert len(judgings) <= 4 and sum(isinstance(action, HoldFinal) for action in judgings) <= 1


def test_a_judge_that_fails_ends_the_run_and_what_others_have_completed_is_kept(tmp_path: Path) -> None:
    ready = threading.Event()

    def fails(candidate: Candidate, settings: Settings) -> None:
        ready.wait(20)
        raise CannotDecide("no room on the disk")

    def judged(candidate: Candidate, settings: Settings) -> None:
        threading.Timer(0.2, ready.set).start()

    folder = create(tmp_path, toy.started(judges=2))
    with pytest.raises(CannotDecide, match="no room on the disk"):
        toy.resume(folder, "40evals", [toy.ToyJudge(asked=fails), toy.ToyJudge(asked=judged)])
    state = look(folder)
    assert state.evaluated == 1 and state.stopped is None and len(state.judgings) == 1
    unbroken = toy.search(tmp_path / "unbroken", budget="40evals", judges=2)
    assert toy.essence(toy.resume(folder, "40evals")) == toy.essence(unbroken)


def test_kills_with_several_judgings_in_flight_lose_nothing(tmp_path: Path) -> None:
    """Each judging in flight is planned in the journal, and is done again."""
    unbroken = toy.search(tmp_path / "unbroken", policy="islands", budget="80evals", judges=3)
    folder = create(tmp_path / "killed", toy.started("islands", judges=3))
    draw, in_flight = random.Random(7), []
    for _ in range(4):
        kill(folder, "80evals", draw, latencies="0.02,0.03,0.05")
        in_flight.append(len(look(folder).judgings))
    state = toy.resume(folder, "80evals", [toy.ToyJudge(seconds=0.001) for _ in range(3)])
    assert max(in_flight) > 1, in_flight
    assert toy.essence(state) == toy.essence(unbroken)
    assert decisions(folder) == decisions(tmp_path / "unbroken" / "toy-1")
    numbers = [event.number for event in read(folder) if isinstance(event, Evaluated)]
    assert len(numbers) == len(set(numbers))


def test_without_lockstep_a_judge_that_is_free_is_given_work_while_others_judge(tmp_path: Path) -> None:
    slow = threading.Event()
    seen: list[int] = []

    def asked(candidate: Candidate, settings: Settings) -> None:
        if not slow.is_set() and not seen:
            seen.append(1)
            assert slow.wait(20)

    def others(candidate: Candidate, settings: Settings) -> None:
        seen.append(1)
        if len(seen) > 4:
            slow.set()

    judges = [toy.ToyJudge(asked=asked), toy.ToyJudge(asked=others)]
    state = toy.search(tmp_path, judge=judges, judges=2, lockstep=False, budget="12evals")
    assert slow.is_set() and state.evaluated > 4
