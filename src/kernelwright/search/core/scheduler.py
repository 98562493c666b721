"""The scheduler: when to ask, evaluate, hold a final and stop. What to ask for is the policy's.

All of it is a pure function of the state. Random numbers come from the run's seed and the number of the request.
At most `run.judges` judgings are planned at a time. In lockstep the next ones are planned when all of the last have
ended, so that neither how many of them a pool carries out side by side nor which ends first changes what is decided.
"""

from __future__ import annotations

import hashlib
import itertools
import random
from dataclasses import replace
from typing import Protocol

from kernelwright.contracts.tunables import TunableError, declared
from kernelwright.judge.settings import HIDDEN_PER_EVALUATION
from kernelwright.proposers.model import Operator
from kernelwright.search.core.archive import is_swept
from kernelwright.search.core.events import Action, Ask, Evaluate, HoldFinal, ParameterValue, Stop, StopReason, Sweep
from kernelwright.search.core.score import beats_bound, fraction_of_bound
from kernelwright.search.core.state import IMPROVEMENT, Standing, State

BATCH = 4  # proposals asked for at a time
UNPRODUCTIVE = 6  # answers in a row without anything new, after which nothing is left
FINAL_EVERY = 8  # evaluations between finals, unless the search has nothing else to do
CLOSING = 0.9  # the part of a time budget after which only finals are begun
RESERVE = 6  # evaluations kept for finals at the end
RESERVE_PART = 0.5  # or this part of them, where there are few: noise may have a final repeated; of time, too
AT_BOUND = 0.97
INSPIRATIONS = 5  # right kernels that are shown beside the parents
REPAIR_EVERY = 3  # requests, once something is right
RECENT = 12  # candidates after which a rejected one is left alone
USUAL_SECONDS = 20.0  # for a workload of a final on a slightly noisy CPU: what is kept for one
LEAST_FINAL_SECONDS = 2.0  # for each side of a final: with less time left none is begun
REFUTED = 3  # finals that refuted an estimate, after which no candidate with a lower estimate has one


class Policy(Protocol):
    """What to ask for. Parents come from `state.accepted` (all that are right and timed), `state.fastest` (the 64
    fastest) or `state.archive` (the elite of each niche): `Greedy` takes the second, `Islands` the third."""

    @property
    def name(self) -> str: ...

    @property
    def parameters(self) -> dict[str, ParameterValue]: ...

    def ask(self, state: State) -> Ask:
        """What to ask the proposer next, and why. Its number, its size and its seed come from `ask_for`."""


def decide(state: State, policy: Policy) -> tuple[Action, ...]:
    """What to do now: something for each judge that is free, and one request for the proposer."""
    ending = closing(state)
    free = state.run.judges - len(state.judgings)
    judgings = _for_judges(state, ending, free) if free > 0 else ()
    if not judgings and not state.judgings and ending is not None:
        return (Stop(reason=ending[0], detail=ending[1]),)
    asked = None if ending is not None else _for_proposer(state, policy)
    return (*(() if asked is None else (asked,)), *judgings)


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
    if state.unproductive >= UNPRODUCTIVE and not state.queue and not state.asking and _unswept(state) is None:
        return StopReason.exhausted, f"{state.unproductive} answers in a row brought nothing new"
    return None


def _reached(state: State) -> float | None:
    """The best's part of the bound's speed. A bound that it beats is not one: there may be more to gain."""
    best = state.entries[state.best].verdict if state.best is not None else None
    if best is None or beats_bound(best, state.run.bounds):
        return None
    return fraction_of_bound(best, state.run.bounds)


def _silence(state: State) -> str:
    """Why models are not asked again. Those that did answer are asked until nothing new comes any more."""
    if state.run.ensemble is None or state.queue or _unswept(state) is not None:
        return ""
    if state.reach.answered and state.unproductive < UNPRODUCTIVE:
        return ""
    return state.reach.silence(member.name for member in state.run.ensemble.members)


def _only_finals(state: State) -> str:
    """Why what is left of the budget goes to finals alone, or is too little for anything. While no candidate is there
    to have a final, nothing is kept for one."""
    if not state.fastest:
        return ""
    spent, limit = state.spent, state.budget
    left = limit.evaluations_left(spent)
    timed = replace(limit, evaluations=None).used(spent) >= CLOSING or limit.keeps_time(
        spent, final_seconds(state), RESERVE_PART
    )
    if next_challenger(state) is not None:
        reserve = max(1.0, min(RESERVE, RESERVE_PART * (limit.evaluations or 0)))
        return f"{limit}: the rest was kept for finals" if timed or left <= reserve else ""
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
    verdict = state.entries[state.fastest[0][1]].verdict if state.fastest else None
    public = len(verdict.workloads) if verdict is not None else 1
    return _price(state) * (public + HIDDEN_PER_EVALUATION) * USUAL_SECONDS


def _for_judges(state: State, ending: tuple[StopReason, str] | None, free: int) -> tuple[Evaluate | HoldFinal, ...]:
    """At most one final at a time: the next one may have to challenge another best."""
    if state.budget.exceeded(state.spent) is not None:
        return ()
    final = _final(state, ending)
    evaluations: tuple[Evaluate, ...] = ()
    if ending is None or _starts_waiting(state):
        most = free - (final is not None)
        if free > 1 and state.budget.evaluations is not None:  # what is in flight is as good as spent
            flying = len(state.judgings) + (0 if final is None else _price(state))
            most = min(most, max(1, int(state.budget.evaluations_left(state.spent)) - flying))
        evaluations = tuple(Evaluate(number=number) for number in itertools.islice(state.queue, most))
    return (*(() if final is None else (final,)), *evaluations)


def _final(state: State, ending: tuple[StopReason, str] | None) -> HoldFinal | None:
    if not _affordable(state) or any(isinstance(action, HoldFinal) for action in state.judgings):
        return None
    start = _start_without_final(state)
    if start is not None:
        return HoldFinal(challenger=start, best=state.best)
    due = ending is not None or state.evaluated - state.final_at >= FINAL_EVERY
    challenger = next_challenger(state, again=ending is not None)
    if challenger is not None and (due or _idle(state, challenger)):
        return HoldFinal(challenger=challenger, best=state.best)
    return None


def _affordable(state: State) -> bool:
    """Whether evaluations are left for it, and time: half of what the longest final took, before any as much as a
    quick judging."""
    quick = state.times.judging / max(1, state.evaluated)
    least = max(LEAST_FINAL_SECONDS, state.final_seconds / 2 if state.final_seconds else quick)
    if state.budget.seconds_left(state.spent) < _price(state) * least:
        return False
    return state.budget.evaluations_left(state.spent) >= _price(state)


def _idle(state: State, challenger: int) -> bool:
    """Whether the device has nothing else to do than a final: no answer brings anything new, or the next takes long.
    While an answer is waited for, finals are for what is clearly faster: the budget is for answers."""
    if state.queue or state.sweeping or _unswept(state) is not None:
        return False
    if not state.asking:
        return state.unproductive > 0
    if state.run.lockstep:
        return False
    best = state.entries[state.best].estimate if state.best is not None else None
    return best is None or (state.entries[challenger].estimate or 0.0) > best * IMPROVEMENT


def next_challenger(state: State, *, again: bool = True) -> int | None:
    """The fastest by estimate that may be faster than the best and could have a final.

    After a few finals that refuted an estimate, candidates with a lower one are left alone. `again`: a final that was
    left undecided may be repeated at once; else something is evaluated first, for the machine to calm down.
    """
    best = state.entries[state.best].estimate if state.best is not None else None
    refuted = 0
    for _, number in state.fastest:
        entry = state.entries[number]
        if number == state.best or refuted >= REFUTED or (best is not None and (entry.estimate or 0.0) <= best):
            return None
        final = entry.final
        if final.may_have_another and (again or final.finals == 0 or state.evaluated > final.last_at):
            return number
        refuted += final.estimate_refuted
    return None


def _start_without_final(state: State) -> int | None:
    """What the user began with has a final at once, so that there is something to be faster than."""
    for number in state.starts:
        entry = state.entries[number]
        if entry.estimate is not None and entry.final.finals == 0 and number != state.best:
            return number
    return None


def _starts_unjudged(state: State) -> bool:
    return any(state.entries[number].standing is Standing.queued for number in state.starts)


def _starts_waiting(state: State) -> bool:
    return any(number in state.queue for number in state.starts)


def _for_proposer(state: State, policy: Policy) -> Action | None:
    if not _could_be_judged(state):
        return None
    unswept = _unswept(state)
    if unswept is not None and not state.sweeping:
        number = state.requests + 1
        return Sweep(request=number, number=unswept, seed=request_seed(state.run.seed, number))
    if state.sweeping or state.asks >= state.run.open_requests:
        return None
    enough = (1 if state.run.proposals_per_generation else BATCH) * state.run.judges
    if len(state.queue) >= enough or state.unproductive >= UNPRODUCTIVE or state.over:
        return None
    if state.run.repairs and _starts_unjudged(state):
        return None  # what the user began with is the first parent
    broken = repairable(state)
    if broken is not None:
        island, why = state.entries[broken].island, f"{broken:04d} was rejected and may be repaired"
        return ask_for(state, Operator.repair, (broken,), inspirations(state)[-1:], island, why)
    return policy.ask(state)


def _could_be_judged(state: State) -> bool:
    """Whether an evaluation is left for an answer: what is judged now and what waits come before it."""
    finals = sum(isinstance(action, HoldFinal) for action in state.judgings)
    before = len(state.queue) + len(state.judgings) - finals + finals * _price(state)
    return state.budget.evaluations_left(state.spent) > before


def repairable(state: State) -> int | None:
    """A rejected candidate that is worth a repair: any while nothing is right, and after that now and then.

    The latest comes first. One that is itself the last repair in a row that is allowed is given up.
    """
    run = state.run
    if not run.repairs or (state.fastest and state.requests % REPAIR_EVERY):
        return None
    for number in reversed(state.entries):
        entry = state.entries[number]
        most = 1 if state.fastest else run.repairs
        if entry.standing is Standing.rejected and not entry.repair_asked and entry.depth < most:
            return number if _recent(state, number) else None
    return None


def _recent(state: State, number: int) -> bool:
    return len(state.entries) - number < RECENT


def inspirations(state: State, without: tuple[int, ...] = ()) -> tuple[int, ...]:
    """The fastest so far, slowest first: what a proposer may learn from. Of a sweep only the fastest is shown."""
    seen = {_swept_from(state, number) for number in without}
    found: list[int] = []
    for _, number in state.fastest:
        family = _swept_from(state, number)
        if family not in seen and len(found) < INSPIRATIONS:
            seen.add(family)
            found.append(number)
    return tuple(reversed(found))


def _swept_from(state: State, number: int) -> int:
    """The candidate whose tunables gave this one; itself where none did."""
    proposal = state.entries[number].proposal
    return state.by_id.get(proposal.parents[0], number) if is_swept(proposal) and proposal.parents else number


def _unswept(state: State) -> int | None:
    """The fastest, if it declares tunables that were not swept. What a sweep made is not swept again."""
    leader = state.leader
    if leader is None:
        return None
    entry = state.entries[leader]
    if entry.swept or is_swept(entry.proposal):
        return None
    try:
        return leader if declared(entry.proposal.candidate) else None
    except TunableError:
        return None


def ask_for(
    state: State,
    operator: Operator,
    parents: tuple[int, ...] = (),
    inspired_by: tuple[int, ...] = (),
    island: int = 0,
    why: str = "",
) -> Ask:
    """The next question to the proposer, with the number, the size and the seed that it has in this run."""
    number = state.requests + 1
    return Ask(
        request=number,
        operator=operator,
        count=state.run.judged_per_generation or BATCH,
        seed=request_seed(state.run.seed, number),
        parents=parents,
        inspirations=inspired_by,
        island=island,
        why=why,
    )


def request_seed(seed: int, number: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed} {number}".encode()).digest()[:6], "big")


def random_for(state: State) -> random.Random:
    """The generator for the next request, and for no other."""
    return random.Random(request_seed(state.run.seed, state.requests + 1) ^ 1)
