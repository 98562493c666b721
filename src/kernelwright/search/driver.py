"""The driver: does what was decided and writes down what came of it. It decides nothing but when money is out.

What was planned and not done, whether just now or before a crash, is pending in the state and is done first. So a
fresh start, normal operation and recovery are the same loop.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from kernelwright import stopping
from kernelwright.errors import DeadlinePassed, KernelwrightError
from kernelwright.judge.settings import HIDDEN_PER_JUDGING, Progress, quiet
from kernelwright.judge.verdict import AuthorVerdict, Outcome, Verdict, author_view
from kernelwright.proposers.model import Proposal, Proposer, Refusal, Refuse, Request, Reviewer, Unanswered
from kernelwright.search import contest as contests
from kernelwright.search.actions import Action, Ask, Contest, Evaluate, Stop, StopReason, Sweep
from kernelwright.search.budget import Spent
from kernelwright.search.events import Abandoned, Contested, Evaluated, Event, Planned, Reviewed, Stopped
from kernelwright.search.judging import Counted, JudgeClient, Judged, Terms, judge_quickly
from kernelwright.search.lessons import lessons
from kernelwright.search.policy import Policy, decide, request_seed
from kernelwright.search.run import Run
from kernelwright.search.score import provisional
from kernelwright.search.state import State
from kernelwright.search.take import refusal, refused, sweep, take

PATIENCE = 1.0  # seconds between looks at the budget while only the proposer is at work


class Driver:
    def __init__(
        self,
        run: Run,
        proposer: Proposer,
        judge: JudgeClient,
        policy: Policy,
        terms: Terms | None = None,
        *,
        clock: Callable[[], float] = time.time,
        progress: Progress = quiet,
        reviewer: Reviewer | None = None,
    ) -> None:
        self._run, self._proposer, self._judge, self._policy = run, proposer, judge, policy
        self._terms, self._clock, self._progress = terms or Terms(), clock, progress
        self._reviewer = reviewer
        self._answered = threading.Condition(run.lock)
        self._asked: set[int] = set()  # the requests that a thread is at work on, each
        self._unanswered: dict[int, str] = {}  # those that nobody has answered in time
        self._failure: BaseException | None = None
        self._over = False

    @property
    def state(self) -> State:
        return self._run.state

    def go(self) -> State:
        """Until the run stops. Whatever raises leaves a journal that a later driver goes on with."""
        try:
            while self.state.stopped is None:
                if (wish := stopping.wished()) is not None:
                    raise KeyboardInterrupt(wish)
                self._step()
        except KeyboardInterrupt as interrupt:
            self._stop(StopReason.interrupted, str(interrupt) or stopping.BY_HAND)
        finally:
            with self._run.lock:
                self._over = True
        return self.state

    def settle(self, seconds: float) -> None:
        """Waits a little for requests that end because their run did: what they cost is still to be written down."""
        with self._answered:
            self._answered.wait_for(lambda: not self._asked, seconds)

    def _step(self) -> None:
        with self._run.lock:
            if self._failure is not None:
                raise self._failure
            spent = self._spent()
            used_up = self.state.budget.exceeded(spent)
            if used_up is not None:
                self._stop(StopReason.budget, used_up)
                return
            if self._may_plan():
                actions = decide(self.state, self._policy)
                stop = next((action for action in actions if isinstance(action, Stop)), None)
                if stop is not None:
                    self._stop(stop.reason, stop.detail)
                    return
                if not actions and not self.state.pending:
                    raise RuntimeError(f"the policy {self._policy.name} decided nothing, and nothing is pending")
                if actions:
                    self._run.append(Planned(at=self._clock(), actions=actions))
                self._plan_ahead()
            pending = tuple(self.state.pending.values())
        for action in pending:
            if isinstance(action, Ask | Sweep):
                self._begin(action)
        device = next((action for action in pending if isinstance(action, Evaluate | Contest)), None)
        if device is None and self._given_up(pending):
            self._stop(StopReason.unanswered, "; ".join(self._unanswered.values()))
        elif device is None:
            self._wait(pending)
        elif isinstance(device, Evaluate):
            self._evaluate(device)
        else:
            self._contest(device)

    def _plan_ahead(self) -> None:
        """Further requests, as long as the run lets several be open and the policy has some."""
        while self.state.run.ahead > 1:
            actions = decide(self.state, self._policy)
            if not actions or any(isinstance(action, Stop) for action in actions):
                return
            self._run.append(Planned(at=self._clock(), actions=actions))

    def _may_plan(self) -> bool:
        """In lockstep only when everything planned is done, so that chance and timing do not change what is decided."""
        return not self.state.pending if self.state.run.lockstep else not self.state.judging

    def _stop(self, reason: StopReason, detail: str) -> None:
        self._run.append(Stopped(at=self._clock(), reason=reason, detail=detail))

    def _spent(self) -> Spent:
        spent = self.state.spent
        return replace(spent, wall=spent.wall + max(0.0, self._run.seconds - self.state.last_after))

    # --- the proposer's side: a thread of its own, so that the device need not wait --------------------------------

    def _begin(self, action: Ask | Sweep) -> None:
        with self._run.lock:
            if action.request in self._asked or action.request in self._unanswered:
                return
            self._asked.add(action.request)
        threading.Thread(target=self._ask, args=[action], name="proposer", daemon=True).start()

    def _ask(self, action: Ask | Sweep) -> None:
        begin = time.monotonic()
        try:
            events = self._events(action, begin)
            with self._answered:
                if not self._over:
                    self._run.append(*events(self._clock()))
                self._unanswered.clear()  # somebody is there: what was given up is asked for once more
        except Unanswered as silence:
            with self._answered:
                self._unanswered[action.request] = str(silence)
        except BaseException as error:  # raised again by the main thread, which can tell the user
            self._failure = error
        finally:
            with self._answered:
                self._asked.discard(action.request)
                self._answered.notify_all()

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

    def _wait(self, pending: tuple[Action, ...]) -> None:
        """Until an answer comes, unless one came since `pending` was looked at."""
        with self._answered:
            if self._asked and tuple(self.state.pending.values()) == pending:
                self._answered.wait(PATIENCE)

    # --- the device's side --------------------------------------------------------------------------------------------

    def _evaluate(self, action: Evaluate) -> None:
        candidate = self.state.entries[action.number].proposal.candidate
        begin = time.monotonic()
        try:
            judged = judge_quickly(self._judge, self.state.run.task, candidate, self._terms, self._progress)
        except DeadlinePassed as error:
            self._abandon(action.number, error, begin)
            return
        self._run.append(
            Evaluated(
                at=self._clock(),
                number=action.number,
                verdict=for_journal(judged.verdict),
                provisional=provisional(judged.verdict),
                certificates=judged.certificates,
                judgings=judged.judgings,
                seconds=time.monotonic() - begin,
            )
        )

    def _contest(self, action: Contest) -> None:
        entries = self.state.entries
        challenger = entries[action.challenger].proposal.candidate
        incumbent = None if action.incumbent is None else entries[action.incumbent].proposal.candidate
        begin = time.monotonic()
        judge = Counted(self._judge)
        left, workloads = self.state.budget.seconds_left(self._spent()), self._workloads(action)
        terms = self._terms.within(left, workloads)
        beyond = terms.final.effort.seconds * workloads - left
        if beyond > 1:
            self._progress(f"final: may take up to {beyond:.0f} s beyond the budget")

        def affords(judgings: int) -> bool:
            spent, more = self._spent(), judge.judgings + judgings - 1
            return self.state.budget.exceeded(replace(spent, evaluations=spent.evaluations + more)) is None

        heir = None if action.incumbent is None else self.state.heir(without=action.incumbent)
        try:
            final = contests.contest(
                judge, self.state.run.task, challenger, incumbent, terms, self._progress, affords, heir
            )
        except DeadlinePassed as error:
            self._abandon(action.challenger, error, begin, judge.judgings)
            return
        decision, review = final.decision, self._reviewed(action.challenger, final.decision)
        if review is not None and review.suspected and decision.won:
            why = f"needs a human look: {review.against} of {review.votes} reviewers suspect that it cheats"
            decision = replace(decision, won=False, why=f"{why}: {review.reason}")
        self._run.append(
            *(() if review is None or review is entries[action.challenger].review else (review,)),
            Contested(
                at=self._clock(),
                challenger=action.challenger,
                incumbent=action.incumbent,
                verdict=for_journal(final.challenger.verdict),
                provisional=provisional(final.challenger.verdict),
                score=decision.score,
                incumbent_score=decision.incumbent_score,
                incumbent_lost=_lost(final.incumbent),
                ratio=decision.ratio,
                lucky=decision.lucky,
                won=decision.won,
                why=decision.why,
                certificates=final.challenger.certificates,
                judgings=judge.judgings,
                seconds=time.monotonic() - begin,
            ),
        )

    def _workloads(self, action: Contest) -> int:
        """How many are judged in a final: public and hidden ones, for each of its sides."""
        verdict = self.state.entries[action.challenger].verdict
        assert verdict is not None  # by which it was chosen
        return (len(verdict.workloads) + HIDDEN_PER_JUDGING) * (1 if action.incumbent is None else 2)

    def _reviewed(self, number: int, decision: contests.Decision) -> Reviewed | None:
        """What models think of a finalist that the judge accepted, asked once. They can only withhold a claim."""
        entry = self.state.entries[number]
        if self._reviewer is None or decision.score is None:
            return None
        if entry.review is not None and entry.review.votes:
            return entry.review
        self._progress("asking for a review of the finalist")
        found = self._reviewer.review(entry.proposal.candidate, request_seed(self.state.run.seed, -number))
        return Reviewed(at=self._clock(), number=number, votes=found.votes, against=found.against, reason=found.reason)

    def _abandon(self, number: int, error: KernelwrightError, begin: float, judgings: int = 1) -> None:
        self._run.append(
            Abandoned(
                at=self._clock(),
                number=number,
                why=str(error),
                judgings=judgings,
                seconds=time.monotonic() - begin,
            )
        )


def _lost(incumbent: Judged | None) -> str:
    """Why the reigning best is none any more."""
    if incumbent is None or incumbent.verdict.verdict is not Outcome.rejected:
        return ""
    return f"rejected when judged again: {incumbent.verdict.reason}"


def for_journal(verdict: Verdict) -> AuthorVerdict:
    """What an author may see, without every single time, which the certificate has."""
    seen = author_view(verdict)
    return seen.model_copy(
        update={"workloads": tuple(result.model_copy(update={"raw_seconds": {}}) for result in seen.workloads)}
    )
