"""The state of a search: a fold of its journal, one event at a time, each in the same time however long the run.

Nothing in here looks at a clock, a file or a process. The same events always give the same state. Events of an answer
and of judgings that went on side by side may come in any order: in lockstep the state after all of them is the same.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from kernelwright.judge.verdict import AuthorVerdict, IntervalValue, Outcome
from kernelwright.llm.model import CallRecord, FailureKind
from kernelwright.proposers.model import Operator, Parent, Proposal
from kernelwright.search.core import budget as budgets
from kernelwright.search.core.archive import Archive, Descriptor, Elite, descriptor, is_swept
from kernelwright.search.core.best import FinalRecord, after_final, who_is_best
from kernelwright.search.core.budget import Budget, Spent, TimeSpent
from kernelwright.search.core.events import (
    Abandoned,
    Action,
    Adopted,
    Answered,
    Ask,
    Continued,
    Evaluate,
    Evaluated,
    Event,
    FinalHeld,
    HoldFinal,
    ModelCalled,
    Planned,
    Prepared,
    Proposed,
    Refused,
    Reviewed,
    Started,
    Stop,
    Stopped,
    Sweep,
)

REFUSALS = 5  # how many of the last are kept
RANKED = 64  # how many of the fastest are kept in order
IMPROVEMENT = 1.01  # by how much the fastest must be beaten for a search to count as moving
NO_ANSWER = (FailureKind.unavailable, FailureKind.timed_out)
NOT_SENT = (FailureKind.over_budget, FailureKind.not_recorded)  # all else, a refusal too, is an answer
ENOUGH_CALLS = 4  # in a row, each of them several attempts, after which no model is there


@dataclass(frozen=True)
class Reach:
    """Whether models answer, since the run was last begun or resumed. `missed` counts each member's calls since its
    last answer."""

    answered: bool = False
    missed: Mapping[str, int] = field(default_factory=dict)
    why: str = ""

    def after(self, call: CallRecord) -> Reach:
        if call.outcome in NOT_SENT:
            return self
        if call.outcome not in NO_ANSWER:
            return Reach(True, {name: count for name, count in self.missed.items() if name != call.member}, self.why)
        missed = {**self.missed, call.member: self.missed.get(call.member, 0) + 1}
        return Reach(self.answered, missed, f"{call.member}: {call.detail}")

    def silence(self, members: Iterable[str]) -> str:
        """Why no member answers any more; empty while one may."""
        silent = sum(self.missed.values()) >= ENOUGH_CALLS and all(name in self.missed for name in members)
        return self.why if silent else ""


class Standing(StrEnum):
    queued = "queued"
    accepted = "accepted"
    rejected = "rejected"
    undecided = "undecided"
    abandoned = "abandoned"


@dataclass
class Entry:
    """A candidate of the run, and what is known of it so far."""

    number: int
    proposal: Proposal
    island: int
    request: int | None
    niche: Descriptor
    chosen: str = ""  # why its parents were chosen
    standing: Standing = Standing.queued
    verdict: AuthorVerdict | None = None
    quick: float | None = None  # the median of its quick judging
    estimate: float | None = None  # that, or of its last final, which has more trials: its rank, and a best's bar
    final: FinalRecord = field(default_factory=FinalRecord)
    children: int = 0
    swept: bool = False
    repair_asked: bool = False
    depth: int = 0  # how many repairs in a row made it
    why: str = ""
    review: Reviewed | None = None
    certificates: tuple[str, ...] = ()  # of its finals; a quick judging has one only in old journals

    @property
    def score(self) -> float | None:
        return self.final.score

    @property
    def ratio(self) -> IntervalValue | None:
        return self.final.ratio

    @property
    def parent(self) -> Parent:
        assert self.verdict is not None
        return Parent(self.proposal, self.verdict, self.score)


@dataclass
class State:
    started: Started | None = None
    budget: Budget = field(default_factory=Budget)
    spent: Spent = field(default_factory=Spent)
    times: TimeSpent = field(default_factory=TimeSpent)
    entries: dict[int, Entry] = field(default_factory=dict)
    by_id: dict[str, int] = field(default_factory=dict)
    by_fingerprint: dict[str, int] = field(default_factory=dict)
    queue: dict[int, None] = field(default_factory=dict)
    pending: dict[str, Action] = field(default_factory=dict)
    archive: Archive = field(default_factory=Archive)
    fastest: list[tuple[float, int]] = field(default_factory=list)  # (-estimate, number) of the RANKED fastest
    best: int | None = None
    finalists: dict[int, None] = field(default_factory=dict)
    starts: tuple[int, ...] = ()
    requests: int = 0
    refused: int = 0  # proposals that cost no evaluation
    duplicates: int = 0  # of them, those that are the same program as an earlier candidate
    refusals: deque[Refused] = field(default_factory=lambda: deque(maxlen=REFUSALS))  # those that people are told of
    unproductive: int = 0  # answers in a row that brought nothing new
    evaluated: int = 0
    moved_at: int = 0  # how many had been evaluated when the search last moved
    final_at: int = 0  # how many had been evaluated when the last final was planned
    finals_planned: dict[int, int] = field(default_factory=dict)  # the same, of the finals that are pending
    best_estimate: float = 0.0  # of what was accepted: what has to be beaten for a search to move
    best_estimate_of: int | None = None
    unsettled: dict[int, None] = field(default_factory=dict)  # judged, and not yet compared with the best estimate
    stopped: Stopped | None = None
    last_at: float = 0.0
    last_after: float = 0.0
    final_seconds: float = 0.0  # for a judging of the longest final so far
    sessions: int = 0
    over: str = ""  # why it is no use to ask the proposer again
    calls: int = 0
    tokens: int = 0
    unpriced: int = 0  # calls whose price is not known
    reach: Reach = field(default_factory=Reach)

    @property
    def run(self) -> Started:
        assert self.started is not None
        return self.started

    @property
    def accepted(self) -> list[int]:
        """All candidates that are right and timed, in the order in which they came."""
        return [number for number, entry in self.entries.items() if entry.estimate is not None]

    @property
    def leader(self) -> int | None:
        """The fastest by estimate, which claims nothing."""
        return self.fastest[0][1] if self.fastest else None

    @property
    def asking(self) -> bool:
        return any(isinstance(action, Ask | Sweep) for action in self.pending.values())

    @property
    def sweeping(self) -> bool:
        return any(isinstance(action, Sweep) for action in self.pending.values())

    @property
    def asks(self) -> int:
        """Requests that wait for the proposer's answer."""
        return sum(isinstance(action, Ask) for action in self.pending.values())

    @property
    def judgings(self) -> tuple[Evaluate | HoldFinal, ...]:
        """Those that were planned and have not ended, in the order of the plan."""
        return tuple(action for action in self.pending.values() if isinstance(action, Evaluate | HoldFinal))

    def apply(self, event: Event) -> None:
        if isinstance(event, Started | Continued):
            self.last_after = 0.0
        else:
            by_the_clock = event.at - self.last_at  # all that old journals have
            self.spent = _later(self.spent, by_the_clock if event.after is None else event.after - self.last_after)
            self.last_after = self.last_after if event.after is None else event.after
        self.last_at = event.at
        match event:
            case Started():
                self.started = event
                self.budget = _limit(event.budget)
            case Adopted():
                self._adopted(event)
            case Continued():
                self.budget = _limit(event.budget)
                if self.stopped is not None:  # a crash changes nothing
                    self.unproductive, self.moved_at = 0, self.evaluated
                self.stopped = None
                self.over = ""
                self.reach = Reach()
                self.sessions += 1
            case Prepared():
                self.times = replace(self.times, preparation=self.times.preparation + event.seconds)
            case Planned():
                self._planned(event)
            case Proposed():
                self._proposed(event)
            case Refused():
                self.refused += 1
                self.duplicates += event.duplicate_of is not None
                if event.told:
                    self.refusals.append(event)
            case Answered():
                self.unproductive = 0 if event.taken else self.unproductive + 1
                self.over = event.over
                self.times = replace(self.times, proposing=self.times.proposing + event.seconds)
                self._done(f"request {event.request}")
            case Evaluated():
                self._evaluated(event)
            case Abandoned():
                self._abandoned(event)
            case FinalHeld():
                self._final_held(event)
            case ModelCalled():
                self._called(event)
            case Reviewed():
                self.entries[event.number].review = event
            case Stopped():
                self.stopped = event

    def _adopted(self, event: Adopted) -> None:
        """Candidates and estimates stay, which claim nothing. What finals showed elsewhere is not believed here."""
        self.started = self.run.model_copy(update={"task": event.task})
        self.best, self.finalists, self.finals_planned = None, {}, {}
        self.pending = {name: one for name, one in self.pending.items() if not isinstance(one, HoldFinal)}
        for entry in self.entries.values():
            entry.final, entry.certificates, entry.review = FinalRecord(), (), None

    def _planned(self, event: Planned) -> None:
        for action in event.actions:
            if isinstance(action, Stop):
                continue
            self.pending[key(action)] = action
            if isinstance(action, Ask | Sweep):
                self.requests = action.request
            if isinstance(action, Ask):
                for number in action.parents:
                    self.entries[number].children += 1
                    self.entries[number].repair_asked |= action.operator is Operator.repair
            elif isinstance(action, Sweep):
                self.entries[action.number].swept = True
            elif isinstance(action, Evaluate):
                self.queue.pop(action.number, None)
            elif isinstance(action, HoldFinal):
                self.finals_planned[action.challenger] = self.evaluated

    def _proposed(self, event: Proposed) -> None:
        proposal = event.proposal
        niche = descriptor(proposal, None, self._family(proposal))
        entry = Entry(event.number, proposal, event.island, event.request, niche)
        entry.depth = self._depth(event.request)
        asked = self.pending.get(f"request {event.request}")
        entry.chosen = asked.why if isinstance(asked, Ask) else ""
        self.entries[event.number] = entry
        self.by_id[proposal.candidate.id] = event.number
        self.by_fingerprint[event.fingerprint] = event.number
        self.queue[event.number] = None
        if event.request is None:
            self.starts += (event.number,)

    def _family(self, proposal: Proposal) -> str:
        """Of what was swept, where a sweep made it: other values of tunables make no niche."""
        parent = self.by_id.get(proposal.parents[0]) if is_swept(proposal) and proposal.parents else None
        return "" if parent is None else self.entries[parent].niche.family

    def _depth(self, request: int | None) -> int:
        asked = self.pending.get(f"request {request}")
        if not isinstance(asked, Ask) or asked.operator is not Operator.repair:
            return 0
        return 1 + max((self.entries[number].depth for number in asked.parents), default=0)

    def _evaluated(self, event: Evaluated) -> None:
        entry = self.entries[event.number]
        self.evaluated += 1
        entry.quick = event.estimate
        self._judged(entry, event.verdict, event.estimate, event.certificates)
        self._paid(event.judgings, event.seconds)
        self._judging_done(f"evaluate {event.number}")

    def _abandoned(self, event: Abandoned) -> None:
        entry = self.entries[event.number]
        final = f"final {event.number}" in self.pending
        entry.why = event.why
        if event.out_of_time:  # which says nothing of the candidate
            if not final:
                self.queue[event.number] = None
        else:
            entry.standing = Standing.abandoned
            entry.final = replace(entry.final, open=False, finals=entry.final.finals + 1)
            self.evaluated += 1
            self._rank(entry, None)
        self._paid(event.judgings, event.seconds, final=final)
        self.finals_planned.pop(event.number, None)
        self._done(f"evaluate {event.number}")
        self._judging_done(f"final {event.number}")

    def _final_held(self, event: FinalHeld) -> None:
        entry = self.entries[event.challenger]
        entry.why = event.why
        planned_at = self.finals_planned.pop(event.challenger, self.evaluated)
        self.final_at = max(self.final_at, planned_at)
        self._judged(entry, event.verdict, event.estimate, event.certificates)
        self.finalists[event.challenger] = None
        records = {number: self.entries[number].final for number in self.finalists}
        for number, record in after_final(records, event, planned_at).items():
            self.entries[number].final = record
        if event.best is not None and event.best_rejected:
            wrong = self.entries[event.best]
            wrong.standing, wrong.why = Standing.rejected, event.best_rejected
            self._rank(wrong, None)
        if event.won or event.best_rejected:
            self.best = self.successor()
        self.final_seconds = max(self.final_seconds, event.seconds / max(1, event.judgings))
        self._paid(event.judgings, event.seconds, final=True)
        self._judging_done(f"final {event.challenger}")

    def successor(self, without: int | None = None) -> int | None:
        """Who is best, or would be without this one."""
        return who_is_best({number: self.entries[number].final for number in self.finalists}, without)

    def _judged(
        self, entry: Entry, verdict: AuthorVerdict, estimate: float | None, certificates: tuple[str, ...]
    ) -> None:
        self._rank(entry, None)
        entry.verdict, entry.standing = verdict, Standing(verdict.verdict.value)
        entry.niche = descriptor(entry.proposal, verdict, entry.niche.family)
        entry.certificates += certificates
        self._rank(entry, estimate if verdict.verdict is Outcome.accepted else None)

    def _rank(self, entry: Entry, estimate: float | None) -> None:
        """A candidate's place in the ranking and in the archive; it loses both when it turns out to be wrong."""
        if entry.estimate is not None:
            place = bisect.bisect_left(self.fastest, (-entry.estimate, entry.number))
            if place < len(self.fastest) and self.fastest[place][1] == entry.number:
                del self.fastest[place]
            self.archive.drop(entry.island, entry.niche, Elite(entry.number, entry.estimate))
        entry.estimate = estimate
        self.unsettled[entry.number] = None
        if estimate is not None:
            bisect.insort(self.fastest, (-estimate, entry.number))
            del self.fastest[RANKED:]
            self.archive.add(entry.island, entry.niche, Elite(entry.number, estimate))

    def _judging_done(self, name: str) -> None:
        """In lockstep estimates are compared once the judgings of a round have all ended, in the order of candidates:
        which of them ended first must not change what is decided."""
        self._done(name)
        if self.run.lockstep and self.judgings:
            return
        for number in sorted(self.unsettled):
            entry = self.entries[number]
            if entry.estimate is None:
                self._lose_best_estimate(entry)
            elif entry.estimate > self.best_estimate * IMPROVEMENT:
                self.best_estimate, self.best_estimate_of = entry.estimate, number
                self.moved_at = self.evaluated
        self.unsettled.clear()

    def _lose_best_estimate(self, entry: Entry) -> None:
        """The estimate of a candidate that turned out to be wrong is not one that others have to beat."""
        if entry.number == self.best_estimate_of:
            self.best_estimate = -self.fastest[0][0] if self.fastest else 0.0
            self.best_estimate_of, self.moved_at = self.leader, self.evaluated

    def _paid(self, judgings: int, seconds: float, *, final: bool = False) -> None:
        spent, times = self.spent, self.times
        self.times = (
            replace(times, finals=times.finals + seconds) if final else replace(times, judging=times.judging + seconds)
        )
        self.spent = replace(spent, evaluations=spent.evaluations + judgings, device=spent.device + seconds)

    def _called(self, event: ModelCalled) -> None:
        call = event.call
        self.calls += 1
        self.tokens += call.usage.input_tokens + call.usage.output_tokens
        self.unpriced += call.usd is None
        self.reach = self.reach.after(call)
        self.spent = replace(self.spent, usd=self.spent.usd + (call.usd or 0.0))

    def _done(self, name: str) -> None:
        self.pending.pop(name, None)


def _limit(budget: str) -> Budget:
    return budgets.parse(budget) if budget else Budget()


def _later(spent: Spent, seconds: float) -> Spent:
    """A clock that was set back takes nothing off."""
    return replace(spent, wall=spent.wall + max(0.0, seconds))


def key(action: Action) -> str:
    match action:
        case Ask() | Sweep():
            return f"request {action.request}"
        case Evaluate():
            return f"evaluate {action.number}"
        case HoldFinal():
            return f"final {action.challenger}"
        case Stop():
            return "stop"


def fold(events: Iterable[Event]) -> State:
    state = State()
    for event in events:
        state.apply(event)
    return state
