"""The driver: does what the scheduler decided and journals what came of it. It only decides when the budget is spent.

What was planned and not done, whether just now or before a crash, is pending in the state and is done first. So a
fresh start, normal operation and recovery are the same loop: plan, submit what is pending, wait for the first that is
completed, journal it. Requests and judgings are futures alike.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from itertools import islice

from kernelwright import stopping
from kernelwright.contracts import Candidate
from kernelwright.errors import DeadlineExceeded
from kernelwright.judge.settings import HIDDEN_PER_EVALUATION, MOST_UPCOMING, ProgressCallback, ignore_progress
from kernelwright.judge.verdict import AuthorVerdict, Outcome, Verdict, author_view
from kernelwright.proposers.model import Proposal, Proposer, Refusal, Refuse, Request, Reviewer, Unanswered
from kernelwright.search.core.best import Decision, after_review
from kernelwright.search.core.budget import Spent
from kernelwright.search.core.events import (
    Abandoned,
    Action,
    Ask,
    Evaluate,
    Evaluated,
    Event,
    FinalHeld,
    HoldFinal,
    Planned,
    Reviewed,
    Stop,
    Stopped,
    StopReason,
    Sweep,
)
from kernelwright.search.core.lessons import lessons
from kernelwright.search.core.scheduler import Policy, decide, request_seed
from kernelwright.search.core.score import estimate
from kernelwright.search.core.state import State, key
from kernelwright.search.judging import Counted, JudgeClient, Judged, JudgeSettings, hold_final, judge_quickly
from kernelwright.search.pool import JudgePool
from kernelwright.search.run import Run
from kernelwright.search.take import refusal, refused, sweep, take

PATIENCE = 1.0  # seconds between looks at the budget while nothing is completed


class Driver:
    def __init__(
        self,
        run: Run,
        proposer: Proposer,
        judges: JudgePool,
        policy: Policy,
        settings: JudgeSettings | None = None,
        *,
        clock: Callable[[], float] = time.time,
        progress: ProgressCallback = ignore_progress,
        reviewer: Reviewer | None = None,
    ) -> None:
        self._run, self._proposer, self._judges, self._policy = run, proposer, judges, policy
        self._settings, self._clock, self._progress = settings or JudgeSettings(), clock, progress
        self._reviewer = reviewer
        self._asked: dict[int, Future[None]] = {}  # by request
        self._judgings: dict[str, Future[tuple[Event, ...]]] = {}  # by the action's key
        self._unanswered: dict[int, str] = {}  # requests that were not answered in time
        self._over = False

    @property
    def state(self) -> State:
        return self._run.state

    def go(self) -> State:
        """Until the run stops. Whatever raises leaves a journal that a later driver goes on with."""
        try:
            while self.state.stopped is None:
                stopping.raise_if_requested()
                self._step()
        except KeyboardInterrupt as interrupt:
            self._stop(StopReason.interrupted, str(interrupt) or stopping.BY_HAND)
        finally:
            with self._run.lock:
                self._over = True
        return self.state

    def settle(self, seconds: float) -> None:
        """Waits a little for requests that end because their run did: what they cost is still to be journalled."""
        wait(list(self._asked.values()), seconds)

    def _step(self) -> None:
        self._collect()
        with self._run.lock:
            used_up = self.state.budget.exceeded(self._spent())
            if used_up is not None and not self._judgings:
                self._stop(StopReason.budget, used_up)
                return
            if used_up is None and not self._plan():
                return
            pending = tuple(self.state.pending.values())
        for action in pending if used_up is None else ():  # what is in flight when the budget is spent may end
            if isinstance(action, Ask | Sweep):
                self._begin(action)
            elif key(action) not in self._judgings:
                self._judgings[key(action)] = self._judges.submit(self._job(action))
        if not self._judgings and self._given_up(pending):
            self._stop(StopReason.unanswered, "; ".join(self._unanswered.values()))
        else:
            self._judges.first_completed([*self._judgings.values(), *self._asked.values()], PATIENCE)

    def _collect(self) -> None:
        """What was completed is journalled at once. What failed is raised, after all that did not."""
        failures: list[BaseException] = []
        for name, future in [(name, future) for name, future in self._judgings.items() if future.done()]:
            del self._judgings[name]
            error = future.exception()
            if error is not None:
                failures.append(error)
            else:
                self._run.append(*future.result())
        for request, asked in [(request, asked) for request, asked in self._asked.items() if asked.done()]:
            del self._asked[request]
            if (error := asked.exception()) is not None:
                failures.append(error)
        if failures:
            raise failures[0]

    def _plan(self) -> bool:
        """Decides what to do now, if anything can be decided; False: the run is over."""
        if not self._may_plan():
            return True
        actions = decide(self.state, self._policy)
        stop = next((action for action in actions if isinstance(action, Stop)), None)
        if stop is not None:
            self._stop(stop.reason, stop.detail)
            return False
        if not actions and not self.state.pending:
            raise RuntimeError(
                f"the scheduler planned nothing with the policy {self._policy.name}, and nothing is pending"
            )
        if actions:
            self._run.append(Planned(at=self._clock(), actions=actions))
        self._plan_ahead()
        return True

    def _plan_ahead(self) -> None:
        """Further requests, as long as the run lets several be open and the policy has some."""
        while self.state.run.open_requests > 1:
            actions = decide(self.state, self._policy)
            if not actions or any(isinstance(action, Stop) for action in actions):
                return
            self._run.append(Planned(at=self._clock(), actions=actions))

    def _may_plan(self) -> bool:
        """In lockstep only when everything planned is done: what ends first must not change what is decided."""
        if self.state.run.lockstep:
            return not self.state.pending
        return len(self.state.judgings) < self.state.run.judges

    def _stop(self, reason: StopReason, detail: str) -> None:
        self._run.append(Stopped(at=self._clock(), reason=reason, detail=detail))

    def _spent(self) -> Spent:
        spent = self.state.spent
        return replace(spent, wall=spent.wall + max(0.0, self._run.seconds - self.state.last_after))

    # --- the proposer's side: a thread for each request, so that no judge need wait -----------------------------------

    def _begin(self, action: Ask | Sweep) -> None:
        with self._run.lock:
            if action.request in self._asked or action.request in self._unanswered:
                return
        future: Future[None] = Future()
        self._asked[action.request] = future
        threading.Thread(target=self._ask, args=[action, future], name="proposer", daemon=True).start()

    def _ask(self, action: Ask | Sweep, future: Future[None]) -> None:
        """An answer is journalled here: it may have cost money, and the main thread may be judging."""
        begin = time.monotonic()
        try:
            events = self._events(action, begin)
            with self._run.lock:
                if not self._over:
                    self._run.append(*events(self._clock()))
                self._unanswered.clear()  # an answer came: requests that were given up are asked once more
        except Unanswered as silence:
            with self._run.lock:
                self._unanswered[action.request] = str(silence)
        except BaseException as error:  # raised again by the main thread, which can tell the user
            future.set_exception(error)
            return
        future.set_result(None)

    def _events(self, action: Ask | Sweep, begin: float) -> Callable[[float], tuple[Event, ...]]:
        dropped: list[tuple[str, str, str, float]] = []

        def drop(name: str, why: str, member: str = "", usd: float = 0.0) -> None:
            dropped.append((name, why, member, usd))

        def all_dropped(at: float) -> list[Event]:
            return [refused(action.request, *one, at) for one in dropped]

        try:
            proposals = self._propose(action, drop)
        except Unanswered:
            raise
        except Refusal as caught:
            error = caught
            return lambda at: (*all_dropped(at), *refusal(action.request, error, at, time.monotonic() - begin))
        island = action.island if isinstance(action, Ask) else self.state.entries[action.number].island
        return lambda at: (
            *all_dropped(at),
            *take(self.state, action.request, island, proposals, at, time.monotonic() - begin),
        )

    def _propose(self, action: Ask | Sweep, drop: Refuse) -> Sequence[Proposal]:
        with self._run.lock:
            entries = self.state.entries
            if isinstance(action, Sweep):
                return sweep(entries[action.number], action.seed)
            request = Request(
                operator=action.operator,
                count=action.count,
                seed=action.seed,
                parents=tuple(entries[number].parent for number in action.parents),
                inspirations=tuple(entries[number].parent for number in action.inspirations),
                known=self.state.by_id.keys(),
                number=action.request,
                lessons=lessons(self.state),
                refuse=drop,
            )
        return self._proposer.propose(request)[: action.count]

    def _given_up(self, pending: tuple[Action, ...]) -> bool:
        """Whether all that is left to wait for are answers that did not come in time. A later run asks again."""
        requests = [action.request for action in pending if isinstance(action, Ask | Sweep)]
        return bool(requests) and all(request in self._unanswered for request in requests)

    # --- the judges' side ---------------------------------------------------------------------------------------------

    def _job(self, action: Action) -> Callable[[JudgeClient], tuple[Event, ...]]:
        """One action as a job for a judge: the events that come of it. What it needs of the state is read now."""
        assert isinstance(action, Evaluate | HoldFinal)
        if isinstance(action, Evaluate):
            upcoming = self._upcoming()
            return lambda judge: self._evaluate(judge, action, upcoming)
        successor = None if action.best is None else self.state.successor(without=action.best)
        return lambda judge: self._hold_final(judge, action, successor)

    def _upcoming(self) -> tuple[Candidate, ...]:
        """What is likely to be evaluated next: the queue's first, without what is being judged."""
        pending = {one.number for one in self.state.pending.values() if isinstance(one, Evaluate)}
        numbers = (number for number in self.state.queue if number not in pending)
        return tuple(self.state.entries[number].proposal.candidate for number in islice(numbers, MOST_UPCOMING))

    def _evaluate(self, judge: JudgeClient, action: Evaluate, upcoming: Sequence[Candidate]) -> tuple[Event, ...]:
        candidate = self.state.entries[action.number].proposal.candidate
        begin = time.monotonic()
        settings = self._settings.until(self._seconds_left())
        try:
            judge.expect(self.state.run.task, upcoming, settings.quick)
            judged = judge_quickly(judge, self.state.run.task, candidate, settings, self._progress)
        except DeadlineExceeded as error:
            return (self._abandoned(action.number, error, begin),)
        return (
            Evaluated(
                at=self._clock(),
                number=action.number,
                verdict=for_journal(judged.verdict),
                estimate=estimate(judged.verdict),
                certificates=judged.certificates,
                judgings=judged.judgings,
                seconds=time.monotonic() - begin,
            ),
        )

    def _hold_final(self, judge: JudgeClient, action: HoldFinal, successor: int | None) -> tuple[Event, ...]:
        entries = self.state.entries
        challenger = entries[action.challenger].proposal.candidate
        best = None if action.best is None else entries[action.best].proposal.candidate
        begin, counted = time.monotonic(), Counted(judge)

        def affords(judgings: int) -> bool:
            spent, more = self._spent(), counted.judgings + judgings - 1
            return self.state.budget.exceeded(replace(spent, evaluations=spent.evaluations + more)) is None

        settings = self._settings.within(self._seconds_left(), self._workloads(action))
        try:
            final = hold_final(
                counted, self.state.run.task, challenger, best, settings, self._progress, affords, successor
            )
        except DeadlineExceeded as error:
            return (self._abandoned(action.challenger, error, begin, counted.judgings),)
        review = self._reviewed(action.challenger, final.decision)
        decision = after_review(final.decision, review)
        held = FinalHeld(
            at=self._clock(),
            challenger=action.challenger,
            best=action.best,
            verdict=for_journal(final.challenger.verdict),
            estimate=estimate(final.challenger.verdict),
            score=decision.score,
            best_score=decision.best_score,
            best_rejected=_rejected(final.best),
            ratio=decision.ratio,
            estimate_refuted=decision.estimate_refuted,
            won=decision.won,
            why=decision.why,
            certificates=final.challenger.certificates,
            judgings=counted.judgings,
            seconds=time.monotonic() - begin,
        )
        return (held,) if review is None or review is entries[action.challenger].review else (review, held)

    def _seconds_left(self) -> float:
        with self._run.lock:
            return self.state.budget.seconds_left(self._spent())

    def _workloads(self, action: HoldFinal) -> int:
        """How many are judged in a final: public and hidden ones, for each of its sides."""
        verdict = self.state.entries[action.challenger].verdict
        assert verdict is not None  # by which it was chosen
        return (len(verdict.workloads) + HIDDEN_PER_EVALUATION) * (1 if action.best is None else 2)

    def _reviewed(self, number: int, decision: Decision) -> Reviewed | None:
        """What models think of a challenger that the judge accepted, asked once. They can only withhold a claim."""
        entry = self.state.entries[number]
        if self._reviewer is None or decision.score is None:
            return None
        if entry.review is not None and entry.review.votes:
            return entry.review
        self._progress("asking for a review of the challenger")
        found = self._reviewer.review(entry.proposal.candidate, request_seed(self.state.run.seed, -number))
        return Reviewed(at=self._clock(), number=number, votes=found.votes, against=found.against, reason=found.reason)

    def _abandoned(self, number: int, error: DeadlineExceeded, begin: float, judgings: int = 1) -> Abandoned:
        """A judging that the end of the budget cut short says nothing of its candidate."""
        seconds = time.monotonic() - begin
        short = self._seconds_left() <= 0 and seconds < self._settings.deadline
        return Abandoned(
            at=self._clock(),
            number=number,
            why="the budget ran out before its judging finished" if short else str(error),
            out_of_time=short,
            judgings=judgings,
            seconds=seconds,
        )


def _rejected(best: Judged | None) -> str:
    """Why the best is not the best any more."""
    if best is None or best.verdict.verdict is not Outcome.rejected:
        return ""
    return f"rejected when judged again: {best.verdict.reason}"


def for_journal(verdict: Verdict) -> AuthorVerdict:
    """What an author may see, without every single time, which the certificate has."""
    seen = author_view(verdict)
    return seen.model_copy(
        update={"workloads": tuple(result.model_copy(update={"raw_seconds": {}}) for result in seen.workloads)}
    )
