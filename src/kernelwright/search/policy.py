"""What every policy shares: when to ask, evaluate, contest and stop. What to ask for is the policy's own.

All of it is a pure function of the state. Chance comes from the run's seed and the number of the request.
"""

from __future__ import annotations

import hashlib
import random
from dataclasses import replace
from typing import Protocol

from kernelwright.contracts.tunables import TunableError, declared
from kernelwright.judge.settings import HIDDEN_PER_JUDGING
from kernelwright.proposers.model import Operator
from kernelwright.search.actions import Action, Ask, Contest, Evaluate, Stop, StopReason, Sweep
from kernelwright.search.judging import LEAST_SECONDS
from kernelwright.search.score import beats_bound, fraction_of_bound
from kernelwright.search.state import IMPROVEMENT, Entry, Standing, State

BATCH = 4  # proposals asked for at a time
BARREN = 6  # answers without anything new after which nothing is left
STALE = 2  # and after which a policy asks for something fresh
CONTEST_EVERY = 8  # evaluations between finals, unless the search has nothing else to do
CONTESTS_PER_CANDIDATE = 2  # a second one where noise left the first undecided
CLOSING = 0.9  # the part of a time budget after which only finals are begun
RESERVE = 6  # evaluations kept for finals at the end
RESERVE_PART = 0.5  # or this part of them, where there are few: noise may have a final repeated; of time, too
AT_BOUND = 0.97
INSPIRATIONS = 5  # right kernels that are shown beside the parents
REPAIR_EVERY = 3  # requests, once something is right
RECENT = 12  # candidates after which a rejected one is left alone
TAIL = 3  # finals that showed a time to be luck, after which nobody who seemed slower has one


class Policy(Protocol):
    @property
    def name(self) -> str: ...

    def ask(self, state: State) -> Ask:
        """What to ask the proposer next. Its number, its size and its seed come from `request`."""


def decide(state: State, policy: Policy) -> tuple[Action, ...]:
    """What to do now: at most one thing for the device and one for the proposer."""
    ending = closing(state)
    device: Action | None = None if state.judging else _for_device(state, ending)
    if device is None and ending is not None and not state.judging:
        return (Stop(reason=ending[0], detail=ending[1]),)
    thinking = None if ending is not None else _for_proposer(state, policy)
    return tuple(action for action in (thinking, device) if action is not None)


def closing(state: State) -> tuple[StopReason, str] | None:
    """Why nothing new is begun any more; what is left are the finals."""
    run, spent, limit = state.run, state.spent, state.budget
    reached = _reached(state)
    if reached is not None and reached >= AT_BOUND:
        return StopReason.at_the_bound, f"{reached:.0%} of the bound's speed on every public workload"
    if limit.used(spent) >= 1:
        return StopReason.budget, limit.exceeded(spent) or ""
    if state.over and not state.queue:
        return StopReason.budget, state.over
    kept = _only_finals(state)
    if kept:
        return StopReason.budget, kept
    silence = _silence(state)
    if silence:
        return StopReason.unanswered, silence
    if state.evaluated - state.moved_at >= run.plateau and not _unswept(state):
        return StopReason.plateau, f"{run.plateau} evaluations in a row brought nothing faster"
    if state.barren >= BARREN and not state.queue and not state.asking and _unswept(state) is None:
        return StopReason.exhausted, f"{state.barren} answers in a row brought nothing new"
    return None


def _reached(state: State) -> float | None:
    """The best's part of the bound's speed. A bound that it beats is none: there may be more to gain."""
    best = state.entries[state.best].verdict if state.best is not None else None
    if best is None or beats_bound(best, state.run.bounds):
        return None
    return fraction_of_bound(best, state.run.bounds)


def _silence(state: State) -> str:
    """Why it is no use to ask models again. Those that did answer are asked until nothing new comes any more."""
    if state.run.ensemble is None or state.queue or _unswept(state) is not None:
        return ""
    if state.reach.answered and state.barren < BARREN:
        return ""
    return state.reach.silence(member.name for member in state.run.ensemble.members)


def _only_finals(state: State) -> str:
    """Why what is left of the budget goes to finals alone, or is too little for anything. While nobody is there to have
    a final, nothing is kept for one."""
    if not state.ranking:
        return ""
    spent, limit = state.spent, state.budget
    left = limit.evaluations_left(spent)
    timed = replace(limit, evaluations=None).used(spent) >= CLOSING or limit.keeps_time(
        spent, final_seconds(state), RESERVE_PART
    )
    if contender(state) is not None:
        reserve = max(1.0, min(RESERVE, RESERVE_PART * (limit.evaluations or 0)))
        return str(limit) if timed or left <= reserve else ""
    if left <= _price(state):
        return f"{limit}: what is left does not suffice for another candidate and its final"
    return f"{limit}: what is left is too short for another candidate and its final" if timed else ""


def _price(state: State) -> int:
    """Evaluations that a final takes at least."""
    return 1 if state.best is None else 2


def final_seconds(state: State) -> float:
    """How long the next final may take: as long as the longest so far, and before any as long as noise may make it."""
    if state.final_seconds:
        return _price(state) * state.final_seconds
    verdict = state.entries[state.ranking[0][1]].verdict if state.ranking else None
    public = len(verdict.workloads) if verdict is not None else 1
    return _price(state) * (public + HIDDEN_PER_JUDGING) * LEAST_SECONDS


def _for_device(state: State, ending: tuple[StopReason, str] | None) -> Action | None:
    if state.budget.exceeded(state.spent) is not None:
        return None
    due = ending is not None or state.evaluated - state.contested_at >= CONTEST_EVERY
    start = _uncontested_start(state)
    if start is not None and _affordable(state):
        return Contest(challenger=start, incumbent=state.best)
    challenger = contender(state, again=ending is not None)
    if challenger is not None and (due or _idle(state, challenger)) and _affordable(state):
        return Contest(challenger=challenger, incumbent=state.best)
    if ending is None or _starts_waiting(state):
        for number in state.queue:
            return Evaluate(number=number)
    return None


def _affordable(state: State) -> bool:
    return state.budget.evaluations_left(state.spent) >= _price(state)


def _idle(state: State, challenger: int) -> bool:
    """Whether the device has nothing else to do than a final: no answer brings anything, or whoever answers takes their
    time. While they do, finals are for what is clearly faster: the budget is for answers."""
    if state.queue or state.sweeping or _unswept(state) is not None:
        return False
    if not state.asking:
        return state.barren > 0
    if state.run.lockstep:
        return False
    best = state.entries[state.best].provisional if state.best is not None else None
    return best is None or (state.entries[challenger].provisional or 0.0) > best * IMPROVEMENT


def contender(state: State, *, again: bool = True) -> int | None:
    """The fastest that may be faster than the reigning best, as far as is known, and could have a final.

    After a few whose times were luck, those that seemed slower still are left alone. `again`: a final that
    told nothing may be repeated at once; else something is evaluated first, for the machine to calm down.
    """
    best = state.entries[state.best].provisional if state.best is not None else None
    lucky = 0
    for _, number in state.ranking:
        entry = state.entries[number]
        if number == state.best or lucky >= TAIL or (best is not None and (entry.provisional or 0.0) <= best):
            return None
        if _may_contest(entry) and (again or entry.contests == 0 or state.evaluated > entry.contested_at):
            return number
        lucky += entry.lucky
    return None


def _may_contest(entry: Entry) -> bool:
    return entry.open and entry.contests < CONTESTS_PER_CANDIDATE


def _uncontested_start(state: State) -> int | None:
    """What the user began with is contested at once, so that there is something to be faster than."""
    for number in state.starts:
        entry = state.entries[number]
        if entry.provisional is not None and entry.contests == 0 and number != state.best:
            return number
    return None


def _starts_unjudged(state: State) -> bool:
    return any(state.entries[number].standing is Standing.queued for number in state.starts)


def _starts_waiting(state: State) -> bool:
    return any(number in state.queue for number in state.starts)


def _for_proposer(state: State, policy: Policy) -> Action | None:
    unswept = _unswept(state)
    if unswept is not None and not state.sweeping:
        number = state.requests + 1
        return Sweep(request=number, number=unswept, seed=request_seed(state.run.seed, number))
    if state.sweeping or state.asks >= state.run.ahead:
        return None
    if len(state.queue) >= (1 if state.run.generation else BATCH) or state.barren >= BARREN or state.over:
        return None
    if state.run.repairs and _starts_unjudged(state):
        return None  # what the user began with is the first parent
    broken = repairable(state)
    if broken is not None:
        return request(state, Operator.repair, (broken,), inspired(state)[-1:], island=state.entries[broken].island)
    return policy.ask(state)


def repairable(state: State) -> int | None:
    """A rejected candidate that is worth a repair: any while nothing is right, and after that now and then.

    The latest comes first. One that is itself the last repair in a row that is allowed is given up.
    """
    run = state.run
    if not run.repairs or (state.ranking and state.requests % REPAIR_EVERY):
        return None
    for number in reversed(state.entries):
        entry = state.entries[number]
        most = 1 if state.ranking else run.repairs
        if entry.standing is Standing.rejected and not entry.mended and entry.depth < most:
            return number if _recent(state, number) else None
    return None


def _recent(state: State, number: int) -> bool:
    return len(state.entries) - number < RECENT


def inspired(state: State, without: tuple[int, ...] = ()) -> tuple[int, ...]:
    """The fastest so far, slowest first: what a proposer may learn from. Of a sweep only the fastest is shown."""
    seen = {_swept_from(state, number) for number in without}
    found: list[int] = []
    for _, number in state.ranking:
        family = _swept_from(state, number)
        if family not in seen and len(found) < INSPIRATIONS:
            seen.add(family)
            found.append(number)
    return tuple(reversed(found))


def _swept_from(state: State, number: int) -> int:
    """The candidate whose tunables gave this one; itself where none did."""
    proposal = state.entries[number].proposal
    swept = proposal.origin.startswith(SWEPT) and proposal.parents
    return state.by_id.get(proposal.parents[0], number) if swept else number


def _unswept(state: State) -> int | None:
    """The fastest, if it declares tunables that nobody has swept. What a sweep made is not swept again."""
    leader = state.leader
    if leader is None:
        return None
    entry = state.entries[leader]
    if entry.swept or entry.proposal.origin.startswith(SWEPT):
        return None
    try:
        return leader if declared(entry.proposal.candidate) else None
    except TunableError:
        return None


SWEPT = "tunables"


def request(
    state: State,
    operator: Operator,
    parents: tuple[int, ...] = (),
    inspirations: tuple[int, ...] = (),
    island: int = 0,
) -> Ask:
    number = state.requests + 1
    return Ask(
        request=number,
        operator=operator,
        count=state.run.measure or BATCH,
        seed=request_seed(state.run.seed, number),
        parents=parents,
        inspirations=inspirations,
        island=island,
    )


def request_seed(seed: int, number: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed} {number}".encode()).digest()[:6], "big")


def chance(state: State) -> random.Random:
    """For the next request, and for no other."""
    return random.Random(request_seed(state.run.seed, state.requests + 1) ^ 1)
