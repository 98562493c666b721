"""The state of a search: a fold of its journal, one event at a time, each in the same time however long the run.

Nothing in here looks at a clock, a file or a process. The same events always give the same state, and events of an
answer and of an evaluation that went on side by side may come in either order.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from kernelwright.judge.verdict import AuthorVerdict, IntervalValue, Outcome
from kernelwright.proposers.model import Operator, Parent, Proposal
from kernelwright.search import budget as budgets
from kernelwright.search.actions import Action, Ask, Contest, Evaluate, Stop, Sweep
from kernelwright.search.archive import Archive, Kept, niche
from kernelwright.search.budget import Budget, Spent
from kernelwright.search.events import (
    Abandoned,
    Answered,
    Contested,
    Continued,
    Evaluated,
    Event,
    ModelCalled,
    Planned,
    Proposed,
    Refused,
    Reviewed,
    Started,
    Stopped,
)
from kernelwright.search.reach import Reach

REFUSALS = 5  # how many of the last are kept
RANKED = 64  # how many of the fastest are kept in order
IMPROVEMENT = 1.01  # by how much the fastest must be beaten for a search to count as moving


class Standing(StrEnum):
    queued = "queued"
    accepted = "accepted"
    rejected = "rejected"
    undecided = "undecided"
    abandoned = "abandoned"


@dataclass
class Entry:
    """A candidate of the run, and how it fared so far."""

    number: int
    proposal: Proposal
    island: int
    request: int | None
    niche: str
    standing: Standing = Standing.queued
    verdict: AuthorVerdict | None = None
    quick: float | None = None  # the median of its quick judging
    provisional: float | None = None  # that, or of its last final, which tells better: its rank, and a best's bar
    score: float | None = None
    ratio: IntervalValue | None = None  # over the best of before
    contests: int = 0
    contested_at: int = 0  # how many candidates had been evaluated by then
    open: bool = True  # whether a final may tell something new: it had none, or none that told
    lucky: bool = False  # its final did not confirm that it is faster than the best on public workloads
    crowned: bool = False  # it won a final, whether or not somebody was faster later
    lost_to: int | None = None  # who was best after its last final
    children: int = 0
    swept: bool = False
    mended: bool = False  # whether its repair was asked for
    depth: int = 0  # how many repairs in a row made it
    why: str = ""
    review: Reviewed | None = None
    certificates: tuple[str, ...] = ()  # of all its judgings
    proof: tuple[str, ...] = ()  # those of the final that it won

    @property
    def parent(self) -> Parent:
        assert self.verdict is not None
        return Parent(self.proposal, self.verdict, self.score)


@dataclass
class State:
    started: Started | None = None
    budget: Budget = field(default_factory=Budget)
    spent: Spent = field(default_factory=Spent)
    entries: dict[int, Entry] = field(default_factory=dict)
    by_id: dict[str, int] = field(default_factory=dict)
    by_fingerprint: dict[str, int] = field(default_factory=dict)
    queue: dict[int, None] = field(default_factory=dict)
    pending: dict[str, Action] = field(default_factory=dict)
    archive: Archive = field(default_factory=Archive)
    ranking: list[tuple[float, int]] = field(default_factory=list)  # less is faster: (-provisional, number)
    best: int | None = None
    starts: tuple[int, ...] = ()
    requests: int = 0
    refused: int = 0
    refusals: deque[Refused] = field(default_factory=lambda: deque(maxlen=REFUSALS))  # those that people are told of
    barren: int = 0  # answers in a row that brought nothing new
    evaluated: int = 0
    moved_at: int = 0  # how many had been evaluated when the search last moved
    contested_at: int = 0
    record: float = 0.0  # of what was accepted, and by whom
    record_of: int | None = None
    stopped: Stopped | None = None
    last_at: float = 0.0
    last_after: float = 0.0
    final_seconds: float = 0.0  # for a judging of the longest final so far
    sessions: int = 0
    over: str = ""  # why it is no use to ask the proposer again
    calls: int = 0
    tokens: int = 0
    unpriced: int = 0  # calls whose price nobody knows
    reach: Reach = field(default_factory=Reach)

    @property
    def run(self) -> Started:
        assert self.started is not None
        return self.started

    @property
    def leader(self) -> int | None:
        """The fastest by provisional value, which claims nothing."""
        return self.ranking[0][1] if self.ranking else None

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
    def judging(self) -> bool:
        return any(isinstance(action, Evaluate | Contest) for action in self.pending.values())

    def apply(self, event: Event) -> None:
        if isinstance(event, Started | Continued):
            self.last_after = 0.0
        else:
            by_the_clock = event.at - self.last_at  # all that journals of before have
            self.spent = _later(self.spent, by_the_clock if event.after is None else event.after - self.last_after)
            self.last_after = self.last_after if event.after is None else event.after
        self.last_at = event.at
        match event:
            case Started():
                self.started = event
                self.budget = _limit(event.budget)
            case Continued():
                self.budget = _limit(event.budget)
                if self.stopped is not None:  # a crash changes nothing
                    self.barren, self.moved_at = 0, self.evaluated
                self.stopped = None
                self.over = ""
                self.reach = Reach()
                self.sessions += 1
            case Planned():
                self._planned(event)
            case Proposed():
                self._proposed(event)
            case Refused():
                self.refused += 1
                if event.told:
                    self.refusals.append(event)
            case Answered():
                self.barren = 0 if event.taken else self.barren + 1
                self.over = event.over
                self._done(f"request {event.request}")
            case Evaluated():
                self._evaluated(event)
            case Abandoned():
                self._abandoned(event)
            case Contested():
                self._contested(event)
            case ModelCalled():
                self._called(event)
            case Reviewed():
                self.entries[event.number].review = event
            case Stopped():
                self.stopped = event

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
                    self.entries[number].mended |= action.operator is Operator.repair
            elif isinstance(action, Sweep):
                self.entries[action.number].swept = True
            elif isinstance(action, Evaluate):
                self.queue.pop(action.number, None)

    def _proposed(self, event: Proposed) -> None:
        proposal = event.proposal
        entry = Entry(event.number, proposal, event.island, event.request, niche(proposal))
        entry.depth = self._depth(event.request)
        self.entries[event.number] = entry
        self.by_id[proposal.candidate.id] = event.number
        self.by_fingerprint[event.fingerprint] = event.number
        self.queue[event.number] = None
        if event.request is None:
            self.starts += (event.number,)

    def _depth(self, request: int | None) -> int:
        asked = self.pending.get(f"request {request}")
        if not isinstance(asked, Ask) or asked.operator is not Operator.repair:
            return 0
        return 1 + max((self.entries[number].depth for number in asked.parents), default=0)

    def _evaluated(self, event: Evaluated) -> None:
        entry = self.entries[event.number]
        self.evaluated += 1
        entry.quick = event.provisional
        self._judged(entry, event.verdict, event.provisional, event.certificates)
        self._paid(event.judgings, event.seconds)
        self._done(f"evaluate {event.number}")

    def _abandoned(self, event: Abandoned) -> None:
        entry = self.entries[event.number]
        entry.standing, entry.why, entry.open = Standing.abandoned, event.why, False
        entry.contests += 1
        self.evaluated += 1
        self._rank(entry, None)
        self._paid(event.judgings, event.seconds)
        self._done(f"evaluate {event.number}")
        self._done(f"contest {event.number}")

    def _contested(self, event: Contested) -> None:
        entry = self.entries[event.challenger]
        entry.contests += not self._told_nothing(event)
        entry.why = event.why
        self.contested_at = entry.contested_at = self.evaluated
        self._judged(entry, event.verdict, event.provisional, event.certificates)
        entry.score, entry.ratio = event.score, event.ratio
        entry.open = event.undecided
        entry.lucky = event.lucky
        if event.won:
            entry.crowned, entry.proof = True, event.certificates
        if event.incumbent is not None and event.incumbent_lost:
            self._dethroned(self.entries[event.incumbent], event.incumbent_lost)
        elif event.won and event.incumbent is not None:
            self.entries[event.incumbent].lost_to = event.challenger
        elif event.incumbent is not None and not entry.open:
            entry.lost_to = event.incumbent
        if event.won or event.incumbent_lost:
            self.best = self.heir()
        self.final_seconds = max(self.final_seconds, event.seconds / max(1, event.judgings))
        self._paid(event.judgings, event.seconds)
        self._done(f"contest {event.challenger}")

    def _told_nothing(self, event: Contested) -> bool:
        """Whether the final ended with the reigning best, before the challenger met who is best instead."""
        return bool(event.incumbent_lost) and not event.won and event.score is not None

    def _dethroned(self, entry: Entry, why: str) -> None:
        """The reigning best turned out to be wrong: whoever comes next, it is best no more, and nobody's parent."""
        entry.standing, entry.why, entry.score, entry.open = Standing.rejected, why, None, False
        self._rank(entry, None)
        for other in self.entries.values():
            if other.lost_to == entry.number:
                other.lost_to = None
                self._reopened(other)

    def heir(self, without: int | None = None) -> int | None:
        """Who is best, or would be if this one were not: the highest score of those that won a final and still stand.

        Who lost to another that stands is left out: side by side tells more than two scores of different finals.
        """
        standing = {
            number: entry.score
            for number, entry in self.entries.items()
            if entry.crowned and entry.standing is Standing.accepted and entry.score is not None and number != without
        }
        unbeaten = [number for number in standing if self.entries[number].lost_to not in standing]
        return max(unbeaten, key=lambda number: (standing[number], -number), default=None)

    def _reopened(self, entry: Entry) -> None:
        """Its final told only that it is not faster than somebody who is out."""
        if not entry.crowned and entry.standing is Standing.accepted:
            entry.contests, entry.open, entry.lucky = 0, True, False

    def _judged(
        self, entry: Entry, verdict: AuthorVerdict, provisional: float | None, certificates: tuple[str, ...]
    ) -> None:
        entry.verdict, entry.standing = verdict, Standing(verdict.verdict.value)
        entry.certificates += certificates
        self._rank(entry, provisional if verdict.verdict is Outcome.accepted else None)

    def _rank(self, entry: Entry, provisional: float | None) -> None:
        """A candidate's place among parents; it loses both places when it turns out to be wrong."""
        if entry.provisional is not None:
            place = bisect.bisect_left(self.ranking, (-entry.provisional, entry.number))
            if place < len(self.ranking) and self.ranking[place][1] == entry.number:
                del self.ranking[place]
            self.archive.drop(entry.island, entry.niche, entry.number)
        entry.provisional = provisional
        if provisional is None:
            self._fell(entry)
            return
        bisect.insort(self.ranking, (-provisional, entry.number))
        del self.ranking[RANKED:]
        self.archive.add(entry.island, entry.niche, Kept(entry.number, provisional))
        if provisional > self.record * IMPROVEMENT:
            self.record, self.record_of, self.moved_at = provisional, entry.number, self.evaluated

    def _fell(self, entry: Entry) -> None:
        """Who turned out to be wrong holds no record that others would have to be faster than."""
        if entry.number == self.record_of:
            self.record = -self.ranking[0][0] if self.ranking else 0.0
            self.record_of, self.moved_at = self.leader, self.evaluated

    def _paid(self, judgings: int, seconds: float) -> None:
        spent = self.spent
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
        case Contest():
            return f"contest {action.challenger}"
        case Stop():
            return "stop"


def fold(events: Iterable[Event]) -> State:
    state = State()
    for event in events:
        state.apply(event)
    return state
