"""What a driver does when something is late, wrong or stopped."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kernelwright import stopping
from kernelwright.contracts import Candidate
from kernelwright.errors import CannotDecide, DeadlineExceeded
from kernelwright.judge.settings import Settings
from kernelwright.judge.verdict import Outcome, Reason, SpeedStatus, Verdict
from kernelwright.proposers.model import Honesty, Proposal, Proposer, Refusal, Request, Unanswered
from kernelwright.search.core.events import (
    Abandoned,
    Ask,
    Evaluated,
    Event,
    FinalHeld,
    Planned,
    Prepared,
    Proposed,
    Refused,
    Reviewed,
    StopReason,
)
from kernelwright.search.core.policies import policy_named, policy_of
from kernelwright.search.core.state import Standing, State
from kernelwright.search.directory import Directory
from kernelwright.search.driver import Driver
from kernelwright.search.journal import read
from kernelwright.search.pool import JudgePool
from kernelwright.search.run import Run, create, look, take_up
from kernelwright.search.summary import summary
from tests.search import toy


def drive(folder: Path, budget: str, proposer: Proposer | None = None, judge: toy.ToyJudge | None = None) -> State:
    run = take_up(folder, budget, time.time())
    try:
        return _driver(run, proposer, judge).go()
    finally:
        run.close()


def _driver(run: Run, proposer: Proposer | None, judge: toy.ToyJudge | None) -> Driver:
    return Driver(run, proposer or toy.ToyProposer(), JudgePool([judge or toy.ToyJudge()]), policy_of(run.state.run))


class Answers:
    """A proposer made of a function."""

    name = "answers"

    def __init__(self, answer: object) -> None:
        self._answer = answer

    def propose(self, request: Request) -> Sequence[Proposal]:
        return self._answer(request)  # type: ignore[operator, no-any-return]


def test_a_judging_that_is_late_is_given_up_and_the_search_goes_on(tmp_path: Path) -> None:
    late = 2

    def asked(candidate: Candidate, settings: Settings) -> None:
        if len(judge.calls) == late:
            raise DeadlineExceeded("the evaluation did not end within 600 s")

    judge = toy.ToyJudge(asked=asked)
    state = drive(create(tmp_path, toy.started()), "20evals", judge=judge)
    (event,) = (event for event in read(tmp_path / "toy-1") if isinstance(event, Abandoned))
    assert "did not end within" in event.why and state.entries[event.number].standing is Standing.abandoned
    assert state.best is not None and state.best != event.number


def test_ctrl_c_stops_cleanly_and_the_run_goes_on_later(tmp_path: Path) -> None:
    def asked(candidate: Candidate, settings: Settings) -> None:
        if len(judge.calls) == 9:
            raise KeyboardInterrupt

    judge = toy.ToyJudge(asked=asked)
    folder = create(tmp_path, toy.started())
    state = drive(folder, "40evals", judge=judge)
    assert state.stopped is not None and state.stopped.reason is StopReason.interrupted
    after = drive(folder, "40evals")
    assert toy.essence(after) == toy.essence(toy.search(tmp_path / "unbroken", budget="40evals"))


class Finalized:
    """Python drops what a finalizer raises, the exception of a signal that arrives in it too."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_whose_exception_is_dropped_still_stops_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(candidate: Candidate, settings: Settings) -> None:
        if len(judge.calls) == 9:
            Finalized()

    judge = toy.ToyJudge(asked=asked)
    monkeypatch.setattr(stopping, "_requested", None)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    stopping.listen()
    try:
        state = drive(create(tmp_path, toy.started()), "40evals", judge=judge)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert state.stopped is not None and state.stopped.reason is StopReason.interrupted
    assert state.stopped.detail == "by SIGTERM" and len(judge.calls) == 9


def test_a_judge_that_cannot_work_ends_the_run_and_loses_nothing(tmp_path: Path) -> None:
    def asked(candidate: Candidate, settings: Settings) -> None:
        if len(judge.calls) == 5:
            raise CannotDecide("no room on the disk")

    judge = toy.ToyJudge(asked=asked)
    folder = create(tmp_path, toy.started())
    with pytest.raises(CannotDecide, match="no room on the disk"):
        drive(folder, "40evals", judge=judge)
    assert look(folder).evaluated == 4 and look(folder).stopped is None
    assert toy.essence(drive(folder, "40evals")) == toy.essence(toy.search(tmp_path / "unbroken", budget="40evals"))


def test_a_proposer_that_fails_is_not_silent(tmp_path: Path) -> None:
    def broken(request: Request) -> Sequence[Proposal]:
        raise ZeroDivisionError("a bug in a proposer")

    with pytest.raises(ZeroDivisionError, match="a bug in a proposer"):
        drive(create(tmp_path, toy.started()), "40evals", Answers(broken))


def test_refusals_are_in_the_journal_and_end_a_search_that_gets_nothing_else(tmp_path: Path) -> None:
    def garbled(request: Request) -> Sequence[Proposal]:
        raise Refusal("0001.answer.md: has no block of code")

    state = drive(create(tmp_path, toy.started()), "40evals", Answers(garbled))
    assert state.stopped is not None and state.stopped.reason is StopReason.exhausted
    refused = [event for event in read(tmp_path / "toy-1") if isinstance(event, Refused)]
    assert refused and all(event.why == "0001.answer.md: has no block of code" for event in refused)


def test_more_than_was_asked_for_is_not_taken(tmp_path: Path) -> None:
    def genes(request: Request) -> Sequence[Proposal]:
        numbers = range(1000)
        return [Proposal(toy.candidate_of(tuple(int(d) for d in f"{n:08o}")), "flood") for n in numbers]

    state = drive(create(tmp_path, toy.started()), "3evals", Answers(genes))
    assert len(state.entries) == 4


def test_a_proposer_is_told_what_was_tried(tmp_path: Path) -> None:
    """So that one that always begins with its best ideas gets past them."""

    def in_order(request: Request) -> Sequence[Proposal]:
        all_of_them = (toy.candidate_of(tuple(int(digit) for digit in f"{n:08o}")) for n in range(1000))
        fresh = (candidate for candidate in all_of_them if candidate.id not in request.known)
        return [Proposal(next(fresh), "in order") for _ in range(request.count)]

    state = drive(create(tmp_path, toy.started()), "30evals", Answers(in_order))
    assert state.refused == 0 and state.stopped is not None and state.stopped.reason is StopReason.budget


def test_a_slow_proposer_does_not_keep_the_device_waiting(tmp_path: Path) -> None:
    """Not in lockstep, evaluations go on while an answer is awaited, and the answer is taken when it comes."""
    gate = threading.Event()

    def slow(request: Request) -> Sequence[Proposal]:
        found = toy.ToyProposer().propose(request)
        if len(asked) and not gate.wait(20):
            raise AssertionError("the device waited for the proposer")
        asked.append(request)
        return found

    asked: list[Request] = []

    def judged(candidate: Candidate, settings: Settings) -> None:
        if len(judge.calls) == 3:
            gate.set()

    judge = toy.ToyJudge(asked=judged)
    state = drive(create(tmp_path, toy.started(lockstep=False)), "12evals", Answers(slow), judge)
    assert state.stopped is not None and state.stopped.reason is StopReason.budget
    kinds = [type(event) for event in read(tmp_path / "toy-1")]
    first_evaluated = kinds.index(Evaluated)
    assert Proposed in kinds[first_evaluated:] and Planned in kinds


def test_finals_are_held_while_a_person_is_waited_for(tmp_path: Path) -> None:
    """An answer that is faster need not wait for the next one to be called the best."""
    called_best = threading.Event()

    def slow(request: Request) -> Sequence[Proposal]:
        if asked and not called_best.wait(20):
            raise AssertionError("the final waited for the proposer")
        asked.append(request)
        return toy.ToyProposer().propose(request)

    asked: list[Request] = []

    def seen(event: Event, state: State) -> None:
        if state.best is not None:
            called_best.set()

    run = take_up(create(tmp_path, toy.started(lockstep=False)), "30evals", time.time())
    run.watch(seen)
    try:
        state = _driver(run, Answers(slow), None).go()
    finally:
        run.close()
    assert len(asked) > 1 and state.best is not None


def test_finals_take_no_longer_on_a_noisy_machine_than_there_is_time(tmp_path: Path) -> None:
    efforts: list[float] = []

    def asked(candidate: Candidate, settings: Settings) -> None:
        if not settings.public_only:
            efforts.append(settings.effort.seconds)

    drive(create(tmp_path, toy.started()), "20evals,250s", judge=toy.ToyJudge(asked=asked))
    first, *others = efforts  # two public and three hidden workloads, and later those of the reigning best
    assert 34 < first <= 35 and others and all(15 < effort <= 20 for effort in others)


class Slow(toy.ToyJudge):
    """Takes so long for a final, and honours deadlines as a real judge does."""

    final_seconds = 30.0

    def judge(self, task: str, candidate: Candidate, settings: Settings, progress: Any, deadline: float) -> Verdict:
        if not settings.public_only and self.final_seconds > deadline:
            time.sleep(deadline)
            raise DeadlineExceeded(f"the evaluation did not end within {deadline:g} s")
        return super().judge(task, candidate, settings, progress, deadline)


def test_a_final_that_does_not_end_in_time_is_left_and_may_be_held_later(tmp_path: Path) -> None:
    begin = time.monotonic()
    folder = create(tmp_path, toy.started(lockstep=False))
    state = drive(folder, "40evals,5s", judge=Slow())
    assert time.monotonic() - begin < 9
    assert state.stopped is not None and state.stopped.reason is StopReason.budget and state.best is None
    (left,) = (event for event in read(folder) if isinstance(event, Abandoned))
    assert left.out_of_time and "the budget ran out" in left.why
    assert state.entries[left.number].standing is Standing.accepted and state.times.finals > 1
    later = drive(folder, "40evals,60s")
    assert later.best is not None and later.entries[left.number].final.finals


def test_preparation_counts_as_time_of_the_run(tmp_path: Path) -> None:
    run = take_up(create(tmp_path, toy.started()), "40evals,30m", time.time(), time.monotonic() - 100)
    run.append(Prepared(at=time.time(), seconds=run.seconds))
    try:
        state = _driver(run, None, None).go()
    finally:
        run.close()
    assert 100 <= state.spent.wall < 130 and 100 <= state.times.preparation < 110
    assert "preparation 10" in summary(state) and look(run.folder) == state


def test_a_budget_that_preparation_used_up_ends_the_run_at_once(tmp_path: Path) -> None:
    run = take_up(create(tmp_path, toy.started()), "40evals,90s", time.time(), time.monotonic() - 100)
    try:
        state = _driver(run, None, None).go()
    finally:
        run.close()
    assert state.stopped is not None and state.stopped.detail == "90s of wall time" and not state.entries


def test_an_answer_that_comes_late_is_taken_while_others_come(tmp_path: Path) -> None:
    """Several requests are open; one was given up, and its answer comes while the others are answered."""
    tries: list[int] = []

    def late(request: Request) -> Sequence[Proposal]:
        tries.append(request.number)
        if request.number == 1 and tries.count(1) == 1:
            raise Unanswered("nobody answered")
        time.sleep(0.02)
        return toy.ToyProposer().propose(request)

    started = toy.started(lockstep=False).model_copy(update={"open_requests": 2})
    state = drive(create(tmp_path, started), "12evals", Answers(late))
    assert tries.count(1) == 2 and all(entry.request for entry in state.entries.values())
    assert 1 in {entry.request for entry in state.entries.values()}
    assert state.stopped is not None and state.stopped.reason is StopReason.budget


def test_wall_time_runs_out_while_a_person_is_waited_for(tmp_path: Path) -> None:
    def never(request: Request) -> Sequence[Proposal]:
        time.sleep(30)
        return []

    begin = time.monotonic()
    state = drive(create(tmp_path, toy.started(lockstep=False)), "0.3s", Answers(never))
    assert time.monotonic() - begin < 10
    assert state.stopped is not None and state.stopped.reason is StopReason.budget
    assert state.pending  # asked again when the run goes on


def test_a_clock_that_is_set_forward_ends_no_run(tmp_path: Path) -> None:
    asked: list[float] = []

    def clock() -> float:
        asked.append(time.time() + (7200 if len(asked) > 20 else 0))
        return asked[-1]

    run = take_up(create(tmp_path, toy.started()), "60evals,30m", time.time())
    try:
        state = Driver(run, toy.ToyProposer(), JudgePool([toy.ToyJudge()]), policy_named("greedy"), clock=clock).go()
    finally:
        run.close()
    assert state.spent.wall < 1800 and state.spent.evaluations > 40 and asked[-1] - asked[0] > 7000
    assert state.spent.wall == look(run.folder).spent.wall


def test_who_answers_late_finds_the_request_still_open(tmp_path: Path) -> None:
    def nobody(request: Request) -> Sequence[Proposal]:
        raise Unanswered(f"{request.number:04d}.md: no answer within 3 s")

    folder = create(tmp_path, toy.started(lockstep=False, open_requests=2))
    state = drive(folder, "9evals", Answers(nobody))
    assert state.stopped is not None and state.stopped.reason is StopReason.unanswered
    assert "0001.md: no answer within 3 s" in state.stopped.detail and state.refused == 0
    assert [action.request for action in state.pending.values() if isinstance(action, Ask)] == [1, 2]
    state = drive(folder, "9evals")
    assert state.evaluated and state.stopped is not None and state.stopped.reason is StopReason.budget


def test_expired_answers_of_before_do_not_end_a_run_that_goes_on(tmp_path: Path) -> None:
    def empty(request: Request) -> Sequence[Proposal]:
        raise Refusal("no source")

    folder = create(tmp_path, toy.started())
    state = drive(folder, "9evals", Answers(empty))
    assert state.stopped is not None and state.stopped.reason is StopReason.exhausted
    assert drive(folder, "9evals").evaluated


SLOW, FAST = toy.candidate_of((1,) * 8), toy.candidate_of((5,) * 8)


def _begun_with_the_slow_one(tmp_path: Path) -> Path:
    return create(tmp_path, toy.started(), [Proposal(SLOW, "start")])


def _the_fast_one(request: Request) -> Sequence[Proposal]:
    return [] if FAST.id in request.known else [Proposal(FAST, "given")]


def test_a_reigning_best_that_is_found_wrong_is_best_no_more_whoever_comes_next(tmp_path: Path) -> None:
    class Doubting(toy.ToyJudge):
        def judge(self, task: str, candidate: Candidate, settings: Settings, *rest: Any) -> Verdict:
            found = super().judge(task, candidate, settings, *rest)
            wrong = candidate.id == SLOW.id and settings.hidden_of
            return found.model_copy(update={"verdict": Outcome.rejected, "reason": Reason.wrong}) if wrong else found

    class Suspicious:
        def review(self, candidate: Candidate, seed: int) -> Honesty:
            against = 0 if candidate.id == SLOW.id else 3
            return Honesty(3, against, "too fast")

    folder = _begun_with_the_slow_one(tmp_path)
    run = take_up(folder, "30evals", time.time())
    directory = Directory(folder)
    directory.restore(run.state)
    run.watch(directory)
    driver = Driver(run, Answers(_the_fast_one), JudgePool([Doubting()]), policy_named("greedy"), reviewer=Suspicious())
    try:
        state = driver.go()
    finally:
        run.close()
    entry = state.entries[state.by_id[SLOW.id]]
    assert state.best is None and entry.standing is Standing.rejected and entry.score is None
    assert not (folder / "best").exists() and entry.number not in [number for _, number in state.fastest]


def test_a_challenger_does_not_pay_for_a_reigning_best_that_is_late(tmp_path: Path) -> None:
    late: list[str] = []

    def asked(candidate: Candidate, settings: Settings) -> None:
        if settings.hidden_of and not late:
            late.append(candidate.id)
            raise DeadlineExceeded("the evaluation did not end within 600 s")

    judge = toy.ToyJudge(asked=asked)
    state = drive(_begun_with_the_slow_one(tmp_path), "30evals", Answers(_the_fast_one), judge)
    assert late and state.best == state.by_id[FAST.id]
    assert state.spent.evaluations == len(judge.calls)


class FirstIsWrong(toy.ToyJudge):
    """The first candidate seems to be much faster than all others until its final."""

    def judge(self, task: str, candidate: Candidate, settings: Settings, *rest: Any) -> Verdict:
        found = super().judge(task, candidate, settings, *rest)
        if candidate.id != self.calls[0][0]:
            return found
        outcome = Outcome.accepted if settings.public_only else Outcome.rejected
        return toy.verdict_of(candidate, [("a", 50.0, False), ("b", 50.0, False)], outcome=outcome)


def test_who_turns_out_to_be_wrong_holds_no_record(tmp_path: Path) -> None:
    """Else everything after it would bring nothing faster, and the run would stop on a plateau."""
    state = toy.search(tmp_path, budget="300evals", judge=FirstIsWrong(), plateau=20)
    assert state.evaluated > 40 and state.entries[1].standing is Standing.rejected
    assert state.best_estimate < 50


def test_a_run_that_stopped_on_a_plateau_can_go_on(tmp_path: Path) -> None:
    state = toy.search(tmp_path, budget="1000evals", plateau=20)
    assert state.stopped is not None and state.stopped.reason is StopReason.plateau
    assert toy.resume(tmp_path / "toy-1", "1000evals").evaluated >= state.evaluated + 20


def test_a_review_is_written_down_once_and_time_counts_once(tmp_path: Path) -> None:
    now = [2000.0]

    def clock() -> float:
        now[0] += 1.0
        return now[0]

    class Unsure(toy.ToyJudge):
        """Finals tell nothing, so that they are held again."""

        def judge(self, task: str, candidate: Candidate, settings: Settings, *rest: Any) -> Verdict:
            found = super().judge(task, candidate, settings, *rest)
            noisy = tuple(result.model_copy(update={"speed": SpeedStatus.noisy}) for result in found.workloads)
            return found.model_copy(update={"workloads": noisy}) if settings.hidden_of else found

    class Trusting:
        def review(self, candidate: Candidate, seed: int) -> Honesty:
            return Honesty(3, 0, "")

    run = take_up(_begun_with_the_slow_one(tmp_path), "40evals", now[0])
    driver = Driver(
        run, Answers(_the_fast_one), JudgePool([Unsure()]), policy_named("greedy"), reviewer=Trusting(), clock=clock
    )
    try:
        state = driver.go()
    finally:
        run.close()
    events = list(read(run.folder))
    reviewed = [event.number for event in events if isinstance(event, Reviewed)]
    finals = [event.challenger for event in events if isinstance(event, FinalHeld)]
    assert len(finals) > len(set(finals)) and sorted(reviewed) == sorted(set(reviewed))
    assert [event.at for event in events[2:]] == sorted(event.at for event in events[2:])
    assert state.spent.wall <= now[0] - 2000.0


@pytest.mark.parametrize("evaluations", [3, 4, 5, 8, 13, 20])
def test_finals_stay_within_the_budget(tmp_path: Path, evaluations: int) -> None:
    """However often noise has them repeated."""

    class Patchy(toy.ToyJudge):
        def judge(self, task: str, candidate: Candidate, settings: Settings, *rest: Any) -> Verdict:
            found = super().judge(task, candidate, settings, *rest)
            last = found.workloads[-1].model_copy(update={"speed": SpeedStatus.noisy})
            repeated = not settings.public_only and len(self.calls) % 3
            return found.model_copy(update={"workloads": (*found.workloads[:-1], last)}) if repeated else found

    judge = Patchy()
    state = drive(create(tmp_path, toy.started()), f"{evaluations}evals", judge=judge)
    assert state.spent.evaluations == len(judge.calls) <= evaluations


@pytest.mark.parametrize("evaluations", range(1, 9))
def test_finals_of_starts_stay_within_the_budget(tmp_path: Path, evaluations: int) -> None:
    starts = [Proposal(toy.candidate_of((number,) * 8), "start") for number in (1, 2, 4)]
    judge = toy.ToyJudge()
    state = drive(create(tmp_path, toy.started(), starts), f"{evaluations}evals", judge=judge)
    assert state.spent.evaluations == len(judge.calls) <= evaluations
    assert state.stopped is not None and state.stopped.reason is StopReason.budget


def test_declared_tunables_are_swept(tmp_path: Path) -> None:
    source = f"// tunable: BLOCK = 1, 2, 3\n{toy.source_of((5,) * 8)}"

    def one(request: Request) -> Sequence[Proposal]:
        return [Proposal(Candidate("cpp", source, "mine"), "toy")]

    state = drive(create(tmp_path, toy.started()), "40evals", Answers(one))
    origins = [entry.proposal.origin for entry in state.entries.values()]
    assert origins == ["toy", "tunables of 1", "tunables of 1"] and state.evaluated == 3
    assert state.stopped is not None and state.stopped.reason is StopReason.exhausted


def test_a_start_is_the_first_best_and_what_follows_is_measured_against_it(tmp_path: Path) -> None:
    start = Proposal(toy.candidate_of((0, 7, 0, 7, 0, 7, 0, 6)), "start")
    folder = create(tmp_path, toy.started(), [start])
    state = drive(folder, "80evals")
    assert state.starts == (1,) and state.entries[1].final.finals == 1 and state.entries[1].score is not None
    assert state.best is not None and state.best != 1


def test_runs_are_numbered(tmp_path: Path) -> None:
    folders = [create(tmp_path, toy.started(task_name="rmsnorm:backward")) for _ in range(3)]
    assert [folder.name for folder in folders] == [f"rmsnorm-backward-{n}" for n in (1, 2, 3)]
