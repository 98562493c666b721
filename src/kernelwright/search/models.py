"""Models in a run: which are asked, with how much money, what their answers were worth, and what past runs teach."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kernelwright.devices.names import device_named
from kernelwright.errors import KernelwrightError
from kernelwright.judge.wording import shortened
from kernelwright.llm.ensemble import Ensemble, open_ensemble, replayed
from kernelwright.llm.model import CallRecord, Estimate, FailureKind, Match
from kernelwright.llm.recordings import recordings
from kernelwright.proposers.llm import upper_bounds
from kernelwright.proposers.llm.calibration import verifiers_in_use
from kernelwright.proposers.llm.checks import checks_for
from kernelwright.proposers.llm.context import PromptContext
from kernelwright.proposers.llm.labelled import Labelled, from_verdict
from kernelwright.proposers.llm.machine import shown_device
from kernelwright.proposers.llm.proposer import LlmProposer, ProposerTools
from kernelwright.proposers.llm.shown import shown_task
from kernelwright.proposers.model import Once, Operator, Request
from kernelwright.search.core import lessons
from kernelwright.search.core.budget import Budget
from kernelwright.search.core.events import Abandoned, Evaluated, Event, ModelCalled, Refused, Started
from kernelwright.search.core.scheduler import request_seed
from kernelwright.search.core.state import Entry, Standing, State
from kernelwright.search.journal import read
from kernelwright.search.run import Run, look
from kernelwright.search.take import paid
from kernelwright.tasks.model import Task

DETAIL_LENGTH = 500


@dataclass(frozen=True)
class Recorded:
    """Where calls are recorded, or answered from without calling a model. `used`: recordings that the run has had."""

    record: Path | None = None
    replay: Path | None = None
    used: frozenset[str] = frozenset()

    def after(self, events: Iterable[Event]) -> Recorded:
        """For a run that goes on."""
        if self.replay is None:
            return self
        return replace(self, used=frozenset(event.call.recording for event in events if isinstance(event, ModelCalled)))

    def check(self, *, asks_models: bool) -> None:
        """What is not there is said at once, before a task is read or a run is made."""
        if not asks_models and (self.record or self.replay):
            raise KernelwrightError("--record and --replay need --proposer llm: only that one asks models")
        if self.replay is not None and self.record is not None:
            raise KernelwrightError("--replay calls no model, so there is nothing to --record: leave out one of them")
        if self.replay is not None:
            recordings(self.replay)


def open_models(run: Started, budget: Budget, spent: float, recorded: Recorded) -> Ensemble:
    """The run's ensemble, or one line that says what is missing: a key, a package, a price."""
    if run.ensemble is None:
        raise KernelwrightError("the proposer llm needs models: name some with --models or --ensemble")
    if recorded.replay is not None:
        return replayed(run.ensemble, recorded.replay, recorded.used)
    return open_ensemble(run.ensemble, limit_usd=budget.usd, record=recorded.record, spent=spent)


def ground(run: Started, task: Task) -> PromptContext:
    """What all prompts of a run have in common. Follows the reference's shapes, which takes a moment."""
    told = shown_task(task, run.contract, run.task_name)
    return PromptContext(run.contract, told, shown_device(device_named(run.devices[0]), task.dtypes[0]), run.bounds)


def llm_proposer(run: Started, task: Task, models: Ensemble) -> LlmProposer:
    def means() -> ProposerTools:
        from kernelwright.tasks.drawing import signature

        signatures = tuple(signature(task, workload) for workload in task.public_workloads())
        return ProposerTools(
            ground(run, task), checks_for(run.contract, run.task, signatures, device_named(run.devices[0]))
        )

    names = tuple(member.name for member in models.members)
    using = verifiers_in_use()
    return LlmProposer(models, names, Once(means), run.contract, run.proposals_per_generation, verifiers=using)


def keep_account(run: Run, models: Ensemble, events: Iterable[Event]) -> None:
    """Every call goes into the journal, every measured answer to the bandit, those of before first."""
    rewards = Rewards(models.reward, frozenset(member.name for member in models.members))
    state = State()
    for event in events:
        state.apply(event)
        rewards(event, state)
    run.watch(rewards)

    def called(call: CallRecord) -> None:
        kept = call.model_copy(update={"detail": shortened(call.detail, DETAIL_LENGTH)})
        run.append_while_open(ModelCalled(at=time.time(), call=kept))

    models.on_called = called


def estimate(run: Started, of: Callable[[Request], Estimate]) -> Estimate:
    """What one generation costs at most, at whichever time of the run."""
    learned = upper_bounds.lessons(lessons.MOST, lessons.LENGTH)
    return of(Request(Operator.fresh, run.judged_per_generation, request_seed(run.seed, 1), number=1, lessons=learned))


def in_words(found: Estimate, run: Started, budget: Budget) -> str:
    price = "a price that is not known" if found.usd is None else f"${found.usd:.2f}"
    limit = "no limit of money is set (--budget 5usd)" if budget.usd is None else f"the run stops at ${budget.usd:.2f}"
    return (
        f"a generation asks {run.proposals_per_generation} times, and again for what does not build: at most "
        f"{found.calls} calls, {found.input_tokens + found.output_tokens:,} tokens and {price}, without retries; "
        f"{limit}"
    )


Reward = Callable[[str, float, float], None]
FIRST_RIGHT = 0.1  # what a right answer is worth where there was none, beyond its speed


@dataclass(frozen=True)
class Rewards:
    """What each model's answers were worth, told to the bandit. A member that left the ensemble is passed over."""

    reward: Reward
    members: frozenset[str]

    def __call__(self, event: Event, state: State) -> None:
        match event:
            case Evaluated():
                self._judged(state.entries[event.number], state)
            case Abandoned() if state.entries[event.number].verdict is None:  # a finalist was told of before
                self._judged(state.entries[event.number], state)
            case Refused():
                self._tell(event.member, 0.0, event.usd)

    def _judged(self, entry: Entry, state: State) -> None:
        member, usd = paid(entry.proposal)
        self._tell(member, gain(entry, state), usd)

    def _tell(self, member: str, gained: float, usd: float) -> None:
        if member in self.members:
            self.reward(member, gained, usd)


def gain(entry: Entry, state: State) -> float:
    """By how much it is faster than the fastest of its parents, as a logarithm; without parents, than the baseline."""
    if entry.estimate is None:
        return 0.0
    known = [state.by_id[name] for name in entry.proposal.parents if name in state.by_id]
    parents = [value for number in known if (value := state.entries[number].estimate) is not None]
    if not parents:
        return FIRST_RIGHT + max(0.0, math.log(entry.estimate))
    return max(0.0, math.log(entry.estimate / max(parents)))


MATCHES = {
    Match.request: "by the very request",
    Match.call: "by the same call with other figures",
    Match.material: "by the same sources",
    Match.order: "by order",
}


@dataclass(frozen=True)
class CallOutcomes:
    """How the calls of a run's models ended: `outcomes` counts all, `matches` those that a replay answered."""

    outcomes: dict[str, int]
    matches: dict[str, int]

    @property
    def line(self) -> str:
        """Empty where every call was answered."""
        failed = [f"{self.outcomes[kind]} {kind.replace('_', ' ')}" for kind in FailureKind if kind in self.outcomes]
        found = [f"{self.matches[match]} {said}" for match, said in MATCHES.items() if match in self.matches]
        if found:
            return f"answered from recordings: {', '.join([*found, *failed])}"
        return f"without an answer: {', '.join(failed)}" if failed else ""


def call_outcomes(events: Iterable[Event]) -> CallOutcomes:
    calls = [event.call for event in events if isinstance(event, ModelCalled)]
    outcomes = Counter(str(call.outcome) for call in calls)
    return CallOutcomes(dict(outcomes), dict(Counter(str(call.match) for call in calls if call.ok and call.match)))


@dataclass(frozen=True)
class PastRuns:
    """Past runs, to calibrate verifiers with. `seconds`: of an evaluation, on average; None: there was none.
    `faulty`: the part that was rejected."""

    labelled: tuple[Labelled, ...]
    seconds: float | None
    faulty: float | None


def from_runs(folders: Sequence[Path]) -> PastRuns:
    labelled: list[Labelled] = []
    seconds: list[float] = []
    rejected = judged = 0
    for folder in folders:
        state = look(folder)
        for entry in state.entries.values():
            if entry.verdict is None:
                continue
            judged += 1
            rejected += entry.standing is Standing.rejected
            found = from_verdict(state.run.task, entry.proposal.candidate, entry.verdict)
            if found is not None:
                labelled.append(found)
        seconds += [event.seconds / event.judgings for event in read(folder) if isinstance(event, Evaluated)]
    mean = sum(seconds) / len(seconds) if seconds else None
    return PastRuns(tuple(labelled), mean, rejected / judged if judged else None)
