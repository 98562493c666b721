"""What the scheduler and the policies decide in which state: pure functions, looked at without a driver."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from kernelwright.errors import KernelwrightError
from kernelwright.judge.verdict import IntervalValue, KernelUse, Outcome
from kernelwright.proposers.model import MEMBER, Operator, Proposal
from kernelwright.search.core.archive import CAPACITY, Archive, Descriptor, Elite, descriptor
from kernelwright.search.core.events import (
    Answered,
    Ask,
    Continued,
    Evaluate,
    Event,
    HoldFinal,
    Planned,
    Proposed,
    Refused,
    Started,
    Stop,
    Stopped,
    StopReason,
    Sweep,
)
from kernelwright.search.core.policies import POLICIES, Greedy, Islands, RandomPolicy, policy_named, policy_of, weights
from kernelwright.search.core.scheduler import BATCH, FINAL_EVERY, UNPRODUCTIVE, Policy, closing, decide
from kernelwright.search.core.state import State, fold
from kernelwright.search.driver import for_journal
from kernelwright.search.summary import summary, why_stopped
from tests.search import toy
from tests.search.toy import barren, evaluated, final, numbered_genes, proposed, state_with


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_it_begins_by_asking_for_something_new(policy: Policy) -> None:
    (ask,) = decide(state_with(), policy)
    new = Operator.sample if policy.name == "random" else Operator.fresh
    assert isinstance(ask, Ask) and ask.operator is new and ask.request == 1


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_the_same_state_gives_the_same_decision_and_another_seed_another(
    policy: Policy,
) -> None:
    def asked(seed: int) -> list[object]:
        return [decide(state_with(*[1.0 + n / 10 for n in range(count)], seed=seed), policy) for count in range(5, 8)]

    assert asked(1) == asked(1) and asked(1) != asked(2)


def test_device_and_proposer_work_side_by_side() -> None:
    ask, evaluate = decide(state_with(1.0, waiting=1), Greedy())
    assert isinstance(ask, Ask) and evaluate == Evaluate(number=2)


def test_a_full_queue_is_worked_off_before_more_is_asked_for() -> None:
    assert decide(state_with(1.0, waiting=BATCH + 1), Greedy()) == (Evaluate(number=2),)


def test_finals_come_now_and_then_and_the_fastest_first() -> None:
    speeds = [1.0 + n / 10 for n in range(FINAL_EVERY)]
    assert HoldFinal(challenger=FINAL_EVERY, best=None) in decide(state_with(*speeds, waiting=1), Greedy())
    assert not any(isinstance(a, HoldFinal) for a in decide(state_with(*speeds[:-1], waiting=1), Greedy()))


def test_a_final_is_only_for_who_may_be_faster_than_the_best() -> None:
    speeds = [1.0] * (FINAL_EVERY - 1) + [2.0]
    best = final(FINAL_EVERY, 2.0, won=True)
    state = state_with(*speeds, events=(best, *(barren(n) for n in range(1, 9))))
    assert decide(state, Greedy()) == (
        Stop(reason=StopReason.exhausted, detail=f"{8} answers in a row brought nothing new"),
    )


def test_a_final_that_noise_left_undecided_is_repeated_once() -> None:
    ending = tuple(barren(n) for n in range(UNPRODUCTIVE))
    once = final(1, None, won=False)
    assert decide(state_with(2.0, events=(once, *ending)), Greedy()) == (HoldFinal(challenger=1, best=None),)
    (stop,) = decide(state_with(2.0, events=(once, once, *ending)), Greedy())
    assert isinstance(stop, Stop) and stop.reason is StopReason.exhausted
    decided = final(1, 2.0, won=False)
    assert isinstance(decide(state_with(2.0, events=(decided, *ending)), Greedy())[0], Stop)


def test_a_final_in_which_only_the_reigning_best_was_noisy_is_repeated_too() -> None:
    best, noisy = final(1, 1.0, won=True), final(2, 2.0, won=False, best=1)
    ending = tuple(barren(n) for n in range(UNPRODUCTIVE))
    assert HoldFinal(challenger=2, best=1) in decide(state_with(1.0, 2.0, events=(best, noisy, *ending)), Greedy())


def test_a_final_that_told_nothing_is_repeated_later_and_not_at_once() -> None:
    ask = Ask(request=1, operator=Operator.fresh, count=1, seed=1)
    events: tuple[Event, ...] = (final(1, None, won=False), Planned(at=1000.0, actions=(ask,)))
    calm = state_with(2.0, events=events, lockstep=False)
    assert decide(calm, Greedy()) == ()
    calm.apply(proposed(2, numbered_genes(2), 1000.0))
    calm.apply(Planned(at=1000.0, actions=(Evaluate(number=2),)))
    calm.apply(evaluated(2, numbered_genes(2), 1.0))
    assert decide(calm, Greedy()) == (HoldFinal(challenger=1, best=None),)


def test_while_somebody_is_waited_for_finals_are_for_what_is_clearly_faster() -> None:
    ask = Ask(request=1, operator=Operator.fresh, count=1, seed=1)
    events: tuple[Event, ...] = (final(1, 2.0, won=True), Planned(at=1000.0, actions=(ask,)))
    for faster, held in ((2.01, False), (2.1, True)):
        found = decide(state_with(2.0, faster, events=events, lockstep=False), Greedy())
        assert (HoldFinal(challenger=2, best=1) in found) is held


def test_a_best_whose_quick_time_was_luck_keeps_nobody_from_a_final() -> None:
    """Its bar is what its final showed, which has more trials."""
    ending = tuple(barren(n) for n in range(UNPRODUCTIVE))
    state = state_with(2.3, 2.2, events=(final(1, 2.0, won=True), *ending))
    assert state.entries[1].quick == 2.3 and state.leader == 2
    assert HoldFinal(challenger=2, best=1) in decide(state, Greedy())


def test_the_summary_tells_quick_values_from_those_of_finals() -> None:
    text = summary(state_with(2.3, 2.2, events=(final(1, 2.0, won=True),)))
    assert "| 0001 | 2.300 | 2.000 | 2.000 |" in text and "| 0002 | 2.200 |  |  |" in text


def test_those_that_lost_on_hidden_workloads_keep_nobody_from_a_final() -> None:
    """Only finals that showed a time to be luck say that who seemed slower needs none."""
    ending = tuple(barren(n) for n in range(UNPRODUCTIVE))
    for lucky in (True, False):
        slower = {"ratio": IntervalValue(low=0.8, mid=0.9, high=1.0), "estimate_refuted": lucky}
        finals = [final(n, 5.0, won=False, best=1).model_copy(update=slower) for n in (2, 3, 4)]
        state = state_with(1.0, 5.0, 5.0, 5.0, 2.0, events=(final(1, 1.0, won=True), *finals, *ending))
        assert (HoldFinal(challenger=5, best=1) in decide(state, Greedy())) is not lucky


def test_what_the_user_began_with_is_contested_first() -> None:
    start = proposed(1, numbered_genes(1), 1000.0, request=None)
    history: list[Event] = [toy.started(), Continued(at=1000.0, budget="99evals"), start]
    assert Evaluate(number=1) in decide(fold(history), Greedy())
    assert HoldFinal(challenger=1, best=None) in decide(
        fold([*history, evaluated(1, numbered_genes(1), 0.5)]), Greedy()
    )


def test_it_stops_at_the_bound_and_says_so() -> None:
    best = final(1, 2.0, won=True)
    (stop,) = decide(state_with(2.0, events=(best,), bounds={"a": 0.49e-3}), Greedy())
    assert isinstance(stop, Stop) and stop.reason is StopReason.at_the_bound
    assert not any(isinstance(a, Stop) for a in decide(state_with(2.0, events=(best,), bounds={"a": 0.3e-3}), Greedy()))
    # an estimate does not stop anything
    assert not any(isinstance(a, Stop) for a in decide(state_with(2.0, bounds={"a": 0.49e-3}), Greedy()))


@pytest.mark.parametrize(("bound", "stops"), [(0.48e-3, False), (0.49e-3, True), (0.52e-3, True), (0.57e-3, False)])
def test_a_bound_that_is_clearly_beaten_stops_nothing(bound: float, *, stops: bool) -> None:
    state = state_with(2.0, events=(final(1, 2.0, won=True),), bounds={"a": bound})  # 0.5 ms
    assert any(isinstance(action, Stop) for action in decide(state, Greedy())) is stops


def test_a_search_that_beats_its_bound_stops_for_other_reasons() -> None:
    best = final(1, 2.0, won=True)
    state = state_with(2.0, *[1.0] * 10, plateau=10, events=(best,), bounds={"a": 0.57e-3})
    (stop,) = decide(state, Greedy())
    assert isinstance(stop, Stop) and stop.reason is StopReason.plateau


def test_it_stops_on_a_plateau_once_the_finals_are_over() -> None:
    state = state_with(2.0, *[1.0] * 10, plateau=10, waiting=2)
    assert decide(state, Greedy()) == (HoldFinal(challenger=1, best=None),)
    state.apply(final(1, 2.0, won=True))
    (stop,) = decide(state, Greedy())
    assert isinstance(stop, Stop) and stop.reason is StopReason.plateau


def test_the_end_of_a_budget_is_kept_for_finals() -> None:
    assert decide(state_with(1.0, 2.0, 3.0, budget="4evals", waiting=3), Greedy()) == (
        HoldFinal(challenger=3, best=None),
    )
    assert decide(state_with(1.0, 2.0, budget="2evals", waiting=3), Greedy()) == (
        Stop(reason=StopReason.budget, detail="2 evaluations"),
    )
    assert Evaluate(number=2) in decide(state_with(1.0, budget="40evals", waiting=3), Greedy())


def test_a_run_that_stops_within_its_budget_says_what_was_kept_and_what_was_used() -> None:
    state = later(state_with(1.0, budget="6evals,60s", waiting=3), 31)
    (final,) = decide(state, Greedy())
    assert isinstance(final, HoldFinal)
    ending = closing(state)
    assert ending == (StopReason.budget, "6evals,1m: the rest was kept for finals")
    state.apply(Stopped(at=state.last_at, reason=ending[0], detail=ending[1]))
    assert why_stopped(state) == (
        "it stopped within its budget (6evals,1m: the rest was kept for finals); used: 1 evaluation, 31 s, for quick "
        "judgings of 1 candidate and no final"
    )


def later(state: State, seconds: float) -> State:
    """So long after the run began."""
    state.apply(Refused(at=1000.0 + seconds, request=1, name="", why=""))
    return state


def test_time_is_kept_for_the_first_final_as_long_as_noise_may_make_it() -> None:
    for budget, seconds, held in (("60s", 29, False), ("60s", 31, True), ("10m", 518, False), ("10m", 522, True)):
        found = decide(later(state_with(1.0, waiting=1, budget=budget), seconds), Greedy())
        assert (HoldFinal(challenger=1, best=None) in found) is held  # of a public and three hidden workloads


def test_what_finals_took_is_kept_for_the_next() -> None:
    best = final(1, 3.0, won=True).model_copy(update={"seconds": 10.0})  # so that both sides of one take 20 s
    for seconds, stops in ((39, False), (41, True)):
        state = later(state_with(3.0, 1.0, waiting=1, budget="60s", events=(best,)), seconds)
        (first, *_) = decide(state, Greedy())
        assert isinstance(first, Stop) is stops
    assert isinstance(first, Stop) and "too short for another candidate and its final" in first.detail


def test_what_is_kept_for_finals_that_nobody_needs_is_spent() -> None:
    best = final(1, 3.0, won=True)  # which took an evaluation more
    assert Evaluate(number=3) in decide(state_with(3.0, 1.0, budget="6evals", waiting=3, events=(best,)), Greedy())
    (stop,) = decide(state_with(3.0, 1.0, budget="5evals", waiting=3, events=(best,)), Greedy())
    assert isinstance(stop, Stop) and "does not suffice for another candidate and its final" in stop.detail


def test_nothing_is_kept_for_finals_while_nobody_is_there_to_have_one() -> None:
    (ask,) = decide(state_with(budget="1evals"), Greedy())
    assert isinstance(ask, Ask)
    assert Evaluate(number=1) in decide(state_with(waiting=1, budget="1evals,40s"), Greedy())
    (stop,) = decide(state_with(1.5, waiting=1, budget="1evals"), Greedy())
    assert stop == Stop(reason=StopReason.budget, detail="1 evaluation")


@pytest.mark.parametrize(
    ("budget", "waiting", "asks"), [("1evals", 1, False), ("2evals", 2, False), ("2evals", 1, True)]
)
def test_nothing_is_asked_for_that_could_not_be_judged(budget: str, waiting: int, asks: bool) -> None:
    actions = decide(state_with(waiting=waiting, budget=budget, lockstep=False), Greedy())
    assert Evaluate(number=1) in actions and any(isinstance(one, Ask) for one in actions) is asks
    judging = Planned(at=1000.0, actions=(Evaluate(number=1),))
    state = state_with(waiting=waiting, budget=budget, lockstep=False, events=(judging,))
    assert any(isinstance(one, Ask) for one in decide(state, Greedy())) is asks


def test_tunables_of_the_fastest_are_swept_once() -> None:
    source = f"// tunable: BLOCK = 1, 2\n{toy.source_of(numbered_genes(1))}"
    event = proposed(1, numbered_genes(1), 1000.0)
    state = fold(
        [
            toy.started(),
            Continued(at=1000.0, budget="99evals"),
            Proposed(**(event.model_dump() | {"source": source})),
            evaluated(1, numbered_genes(1), 2.0),
        ]
    )
    sweep = decide(state, Greedy())[0]
    assert isinstance(sweep, Sweep) and sweep.number == 1
    state.apply(Planned(at=1000.0, actions=(sweep,)))
    state.apply(Answered(at=1000.0, request=sweep.request, taken=1, seconds=0))
    assert not any(isinstance(action, Sweep) for action in decide(state, Greedy()))


def test_random_sampling_never_has_a_parent() -> None:
    ask = RandomPolicy().ask(state_with(1.0, 2.0, 3.0))
    assert ask.operator is Operator.sample and ask.parents == ()


def test_greedy_varies_the_fastest_most() -> None:
    asked = Counter()
    for seed in range(200):
        state = state_with(1.0, 3.0, 2.0, seed=seed)
        state.requests = 10
        ask = Greedy().ask(state)
        asked[ask.operator] += 1
        assert ask.operator is Operator.fresh or ask.parents[0] == 2
    assert asked[Operator.mutate] > asked[Operator.crossover] > 0 and asked[Operator.fresh] > 0


def test_fast_parents_weigh_more_and_used_ones_less() -> None:
    slow, middle, fast = weights([1.0, 2.0, 4.0], [0, 0, 0])
    assert slow < middle < fast
    assert weights([1.0, 2.0, 4.0], [0, 0, 9])[2] == pytest.approx(fast / 10)
    assert weights([2.0], [0]) == weights([2.0, 2.0], [0, 0])[:1]


def test_islands_keep_to_their_own_but_mix_now_and_then() -> None:
    foreign = 0
    for requests in range(60):
        state = state_with(1.0, 2.0, 3.0, seed=requests)
        state.archive = Archive()
        for island in range(3):
            state.archive.add(island, niche("n"), Elite(island + 1, island + 1.0))
        state.requests = requests
        ask = Islands().ask(state)
        assert ask.island == requests % 3
        assert ask.operator is Operator.fresh or ask.parents[0] == ask.island + 1
        foreign += any(parent != ask.island + 1 for parent in ask.parents)
    assert 3 <= foreign <= 15


def niche(family: str) -> Descriptor:
    return Descriptor(family, (), ())


def test_an_archive_keeps_the_fastest_of_each_niche_and_not_too_many() -> None:
    archive = Archive()
    for number, value in ((1, 1.0), (2, 2.0), (3, 1.5)):
        archive.add(0, niche("a"), Elite(number, value))
    assert [elite.number for elite in archive.of(0)] == [2]
    for number in range(100):
        archive.add(1, niche(f"n{number}"), Elite(number, float(number)))
    assert len(archive.of(1)) == CAPACITY and archive.of(1)[-1].value == 100 - CAPACITY


def test_a_displaced_elite_returns_when_the_one_that_displaced_it_is_found_wrong() -> None:
    state = state_with(1.0, 2.0, 1.5)
    assert [elite.number for elite in state.archive] == [2]
    wrong = toy.verdict_of(toy.candidate_of(numbered_genes(2)), [], outcome=Outcome.rejected)
    state.apply(final(2, None, won=False).model_copy(update={"verdict": for_journal(wrong), "estimate": None}))
    assert [elite.number for elite in state.archive] == [3]


def test_a_niche_is_what_the_proposal_says_and_what_the_verdict_shows() -> None:
    def of(origin: str, source: str = "int a;", **genes: int | str) -> Descriptor:
        return descriptor(Proposal(toy.Candidate("cpp", source), origin, genes), None)

    assert of("files 003") == of("files 004") != of("templates rows")
    assert of("t", width=4) == of("t", width=8)
    assert of("t", passes="one") != of("t", passes="two")
    assert of("t", "#pragma omp simd") != of("t", "int b;") == of("t", "int c;")
    one = toy.verdict_of(toy.candidate_of(numbered_genes(1)), [("a", 1.0, False)])
    use = KernelUse(
        kernel="k",
        registers=1,
        spill_stores=0,
        spill_loads=0,
        static_shared=0,
        dynamic_shared=0,
        threads=1,
        blocks_per_sm=1,
        occupancy=1.0,
    )
    two = one.model_copy(update={"workloads": (one.workloads[0].model_copy(update={"kernels": (use, use)}),)})
    proposal = Proposal(toy.candidate_of(numbered_genes(1)), "t")
    assert descriptor(proposal, for_journal(one)) != descriptor(proposal, for_journal(two))
    assert descriptor(proposal, for_journal(two)).kernels == 2


def test_neither_a_models_name_nor_a_swept_value_makes_a_niche() -> None:
    source = f"// tunable: MODE = fast, slow\n{toy.source_of(numbered_genes(1))}"
    by = [Proposal(toy.Candidate("cpp", source), "llm evolve", {MEMBER: name, "MODE": name}) for name in ("a", "b")]
    assert descriptor(by[0], None) == descriptor(by[1], None)
    events: list[Event] = [toy.started(), Continued(at=1000.0, budget="99evals")]
    parent = proposed(1, numbered_genes(1), 1000.0)
    child = proposed(2, numbered_genes(2), 1000.0).model_copy(
        update={"origin": "tunables of 1", "parents": (parent.proposal.candidate.id,)}
    )
    state = fold([*events, parent, child])
    assert state.entries[1].niche.family == state.entries[2].niche.family


def test_why_a_parent_was_chosen_goes_into_the_journal_and_to_its_child() -> None:
    state = state_with(1.0, 3.0, 2.0)
    state.requests = 10
    asked = {policy: POLICIES[policy].ask(state) for policy in POLICIES}
    assert all(ask.why for ask in asked.values())
    ask = Ask(request=1, operator=Operator.mutate, count=1, seed=1, parents=(2,), why="the fastest by estimate")
    child = proposed(4, numbered_genes(4), 1000.0).model_copy(update={"request": 1})
    for event in (Planned(at=1000.0, actions=(ask,)), child):
        state.apply(event)
    assert state.entries[4].chosen == "the fastest by estimate" and state.entries[3].chosen == ""


@pytest.mark.parametrize("island", range(3))
def test_islands_say_with_which_probability_a_parent_was_drawn(island: int) -> None:
    state = state_with(1.0, 2.0, 4.0, seed=5)
    for number in (1, 2, 3):
        state.archive.add(island, niche(str(number)), Elite(number, float(number)))
    state.requests = 30 + island
    ask = Islands(fresh=0.0, crossover=0.0, migrate=10**6).ask(state)
    number = ask.parents[0]
    assert re.fullmatch(rf"{number:04d} drawn from \d with probability 0\.\d\d: about \d\.\d\d×, 0 children", ask.why)


def test_a_policy_has_parameters_that_its_journal_keeps() -> None:
    policy = policy_named("islands:islands=4,migrate=12,fresh=0.5")
    assert policy == Islands(islands=4, migrate=12, fresh=0.5)
    run = toy.started(policy="islands", policy_parameters=policy.parameters)
    kept = Started.model_validate_json(run.model_dump_json())
    assert policy_of(kept) == policy and policy_of(toy.started(policy="islands")) == Islands()
    assert type(policy_of(kept).parameters["islands"]) is int


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("islands:lakes=3", "the policy islands has no parameter 'lakes': it has islands, migrate, fresh, crossover"),
        ("random:seed=3", "the policy random has no parameter 'seed': it has none"),
        ("islands:islands=0", "islands is 0, and must be a whole number from 1"),
        ("islands:islands=two", "islands is two, and must be a whole number from 1"),
        ("greedy:fresh=1.5", "fresh is 1.5, and must be a number from 0 to 1"),
        ("greedy:fresh", "'fresh' is not a parameter"),
        ("greedy:fresh=0.1,fresh=0.2", "gives fresh twice"),
    ],
)
def test_a_parameter_that_is_not_known_or_makes_no_sense_is_refused_in_a_line(text: str, said: str) -> None:
    with pytest.raises(KernelwrightError) as caught:
        policy_named(text)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_an_unknown_policy_is_refused_in_a_line() -> None:
    with pytest.raises(KernelwrightError, match="unknown policy 'lucky': choose from greedy, islands, random"):
        policy_named("lucky")
