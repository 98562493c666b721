"""Who is best when the reigning best turns out to be wrong: whoever was proved before, and not merely who came next."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

from kernelwright.contracts import Candidate
from kernelwright.judge.settings import ProgressCallback, Settings
from kernelwright.judge.verdict import IntervalValue, Outcome, Verdict
from kernelwright.proposers.model import Proposal
from kernelwright.search.core.events import FinalHeld
from kernelwright.search.core.policies import policy_named
from kernelwright.search.core.state import Standing, State
from kernelwright.search.directory import Directory
from kernelwright.search.driver import Driver
from kernelwright.search.journal import read
from kernelwright.search.pool import JudgePool
from kernelwright.search.run import create, look, take_up
from tests.search import toy
from tests.search.toy import final, state_with

HONEST, CHEAT, NEXT = (toy.candidate_of((number,) * 8) for number in (1, 2, 3))


@dataclass(frozen=True)
class Doubting:
    """Knows these by their speed on public and hidden workloads, and finds the cheat when it reigns."""

    speeds: dict[str, tuple[float, float]]

    def expect(self, *_: object) -> None:
        """There is nothing to build."""

    def judge(
        self, task: str, candidate: Candidate, settings: Settings, progress: ProgressCallback, deadline: float
    ) -> Verdict:
        if candidate.id not in self.speeds:
            return toy.verdict_of(candidate, [], outcome=Outcome.rejected)
        public, hidden = self.speeds[candidate.id]
        rows = [("a", public, False), *([] if settings.public_only else [("c", hidden, True)])]
        wrong = candidate.id == CHEAT.id and settings.hidden_of
        return toy.verdict_of(candidate, rows, outcome=Outcome.rejected if wrong else Outcome.accepted)


def driven(tmp_path: Path, of_the_next: tuple[float, float]) -> tuple[Path, State]:
    speeds = {HONEST.id: (2.0, 2.0), CHEAT.id: (2.5, 2.5), NEXT.id: of_the_next}
    starts = [Proposal(candidate, "start") for candidate in (HONEST, CHEAT, NEXT)]
    folder = create(tmp_path, toy.started(plateau=5), starts)
    run = take_up(folder, "40evals", time.time())
    directory = Directory(folder)
    directory.restore(run.state)
    run.watch(directory)
    try:
        return folder, Driver(run, toy.ToyProposer(), JudgePool([Doubting(speeds)]), policy_named("greedy")).go()
    finally:
        run.close()


def test_who_was_proved_before_is_best_again_and_the_challenger_must_beat_that_one(tmp_path: Path) -> None:
    folder, state = driven(tmp_path, (3.0, 0.3))
    assert [state.entries[number].standing for number in (1, 2, 3)] == ["accepted", "rejected", "accepted"]
    assert state.best == 1 and state.entries[1].score == 2.0 * 0.98
    assert state == look(folder)
    assert json.loads((folder / "best" / "about.json").read_text())["number"] == 1
    assert "0001, proved before, is the best again" in _finals(folder)[-2].why
    assert (_finals(folder)[-1].challenger, _finals(folder)[-1].best) == (3, 1)


def test_a_challenger_that_is_faster_than_who_was_proved_before_wins_against_it(tmp_path: Path) -> None:
    folder, state = driven(tmp_path, (3.0, 3.0))
    assert state.best == 3 and _finals(folder)[-1].best == 1 and "times as fast" in state.entries[3].why


def _finals(folder: Path) -> list[FinalHeld]:
    return [event for event in read(folder) if isinstance(event, FinalHeld)]


def fell(challenger: int, best: int, score: float, *, won: bool = False) -> FinalHeld:
    return final(challenger, score, won=won, best=best).model_copy(update={"best_rejected": "wrong"})


def beat(challenger: int, score: float, best: int) -> FinalHeld:
    ratio = IntervalValue(low=1.1, mid=1.2, high=1.3)
    return final(challenger, score, won=True, best=best).model_copy(update={"ratio": ratio})


def test_who_was_beaten_side_by_side_is_no_heir_however_high_its_score_was() -> None:
    finals = (final(1, 2.1, won=True), beat(2, 2.0, 1), beat(3, 3.0, 2), fell(4, 3, 1.0))
    assert state_with(1.0, 2.0, 3.0, 4.0, events=finals).best == 2


def test_a_journal_that_crowned_whoever_came_next_reads_as_it_should_have_been() -> None:
    finals = (final(1, 1.96, won=True), beat(2, 2.4, 1), fell(3, 2, 0.93, won=True))
    assert state_with(1.0, 2.0, 3.0, events=finals).best == 1
    assert state_with(1.0, 2.0, events=(final(1, 1.96, won=True), fell(2, 1, 0.93, won=True))).best == 2


def test_who_lost_to_the_one_that_fell_may_have_a_final_again() -> None:
    slower = {"ratio": IntervalValue(low=0.8, mid=0.9, high=1.0), "estimate_refuted": True}
    lost = final(2, 2.0, won=False, best=1).model_copy(update=slower)
    state = state_with(2.5, 2.4, 3.0, events=(final(1, 2.5, won=True), lost))
    assert not state.entries[2].final.open
    state.apply(fell(3, 1, 3.0, won=True))
    assert state.best == 3 and state.entries[1].standing is Standing.rejected
    assert (
        state.entries[2].final.open
        and state.entries[2].final.finals == 0
        and not state.entries[2].final.estimate_refuted
    )


@dataclass(frozen=True)
class Incomplete:
    """Judges as the toy does, and cannot check the whole domain of one candidate, which is the fastest."""

    judgings: list[str]

    def expect(self, *_: object) -> None:
        """There is nothing to build."""

    def judge(
        self, task: str, candidate: Candidate, settings: Settings, progress: ProgressCallback, deadline: float
    ) -> Verdict:
        fastest = candidate.id == CHEAT.id
        rows = [("a", 3.0 if fastest else 2.0, False), *([] if settings.public_only else [("c", 2.0, True)])]
        if candidate.id not in (HONEST.id, CHEAT.id):
            return toy.verdict_of(candidate, rows, outcome=Outcome.rejected)
        if not settings.public_only:
            self.judgings.append(candidate.id)
        partial = toy.WHOLE_DOMAIN.model_copy(update={"missing": ("n at its most (9)",)})
        return toy.verdict_of(candidate, rows, domain=partial if fastest else toy.WHOLE_DOMAIN)


def test_a_candidate_of_partial_domain_has_one_final_and_is_never_best(tmp_path: Path) -> None:
    starts = [Proposal(candidate, "start") for candidate in (HONEST, CHEAT)]
    folder = create(tmp_path, toy.started(plateau=5), starts)
    run = take_up(folder, "30evals", time.time())
    judge = Incomplete([])
    try:
        state = Driver(run, toy.ToyProposer(), JudgePool([judge]), policy_named("greedy")).go()
    finally:
        run.close()
    assert state.best is not None and state.entries[state.best].proposal.candidate.id == HONEST.id
    assert judge.judgings.count(CHEAT.id) == 1
    refused = next(entry for entry in state.entries.values() if entry.proposal.candidate.id == CHEAT.id)
    assert not refused.final.won and "n at its most (9)" in refused.why
