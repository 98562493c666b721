"""Models in a run: who is asked, with which money, and how the run keeps account of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from kernelwright.devices.names import device_named
from kernelwright.errors import KernelwrightError
from kernelwright.judge.words import shortened
from kernelwright.llm.ensemble import Ensemble, open_ensemble, replayed
from kernelwright.llm.model import CallRecord, Estimate
from kernelwright.llm.recordings import recordings
from kernelwright.proposers.llm import upper_bounds
from kernelwright.proposers.llm.calibration import verifiers_in_use
from kernelwright.proposers.llm.checks import checks_for
from kernelwright.proposers.llm.context import PromptContext
from kernelwright.proposers.llm.machine import shown_device
from kernelwright.proposers.llm.proposer import LlmProposer, ProposerTools
from kernelwright.proposers.llm.shown import shown_task
from kernelwright.proposers.model import Operator, Request
from kernelwright.proposers.once import Once
from kernelwright.search import lessons
from kernelwright.search.budget import Budget
from kernelwright.search.events import Event, ModelCalled, Started
from kernelwright.search.policy import request_seed
from kernelwright.search.rewards import Rewards
from kernelwright.search.run import Run
from kernelwright.search.state import State
from kernelwright.tasks.model import Task

DETAIL_LENGTH = 500


@dataclass(frozen=True)
class Recorded:
    """Where calls are recorded, or answered from without asking anybody. `used`: recordings that the run has had."""

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
            raise KernelwrightError("--record and --replay are for --proposer llm: others ask no models")
        if self.replay is not None and self.record is not None:
            raise KernelwrightError("--replay asks nobody, so that there is nothing to --record: leave out one of them")
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
    return PromptContext(run.contract, told, shown_device(device_named(run.device), task.dtypes[0]), run.bounds)


def llm_proposer(run: Started, task: Task, models: Ensemble) -> LlmProposer:
    def tools() -> ProposerTools:
        from kernelwright.tasks.drawing import signature

        signatures = tuple(signature(task, workload) for workload in task.public_workloads())
        return ProposerTools(
            ground(run, task), checks_for(run.contract, run.task, signatures, device_named(run.device))
        )

    names = tuple(member.name for member in models.members)
    using = verifiers_in_use()
    return LlmProposer(models, names, Once(tools), run.contract, run.generation, verifiers=using)


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
    return of(Request(Operator.fresh, run.measure, request_seed(run.seed, 1), number=1, lessons=learned))


def in_words(found: Estimate, run: Started, budget: Budget) -> str:
    price = "a price that is not known" if found.usd is None else f"${found.usd:.2f}"
    limit = "no limit of money is set (--budget 5usd)" if budget.usd is None else f"the run stops at ${budget.usd:.2f}"
    return (
        f"a generation asks {run.generation} times, and again for what does not build: at most {found.calls} calls, "
        f"{found.input_tokens + found.output_tokens:,} tokens and {price}, without retries; {limit}"
    )
