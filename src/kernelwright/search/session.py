"""A search from its wishes to its end: what `optimize` and the Python interface do."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from kernelwright import stopping
from kernelwright.contracts.registry import contract_named, read_source
from kernelwright.devices.names import device_named, require
from kernelwright.errors import KernelwrightError
from kernelwright.judge import baseline_names
from kernelwright.judge.server.client import WarmJudge
from kernelwright.llm.ensemble import Ensemble
from kernelwright.proposers.model import Proposal
from kernelwright.search import budget as budgets
from kernelwright.search import proposing
from kernelwright.search.actions import Stop, StopReason
from kernelwright.search.asking import Recorded, estimate, in_words, keep_account, open_models
from kernelwright.search.budget import Budget, Spent
from kernelwright.search.directory import Directory
from kernelwright.search.driver import Driver
from kernelwright.search.events import Continued, Event, Started, Stopped
from kernelwright.search.journal import read
from kernelwright.search.judging import Remote, Terms
from kernelwright.search.policies import policy_named
from kernelwright.search.policy import decide
from kernelwright.search.proposing import Given, kind_named
from kernelwright.search.run import Run, create, look, take_up
from kernelwright.search.state import State
from kernelwright.search.subject import Subject, Watchful, subject, subject_of
from kernelwright.search.wishes import Wishes, started
from kernelwright.tasks.model import Task
from kernelwright.tasks.resolve import portable

DEFAULT_BUDGET = "200evals,30m"
DEFAULT_ROOT = Path("kernelwright-runs")
NOT_RECORDED = Recorded()
SETTLED_SECONDS = 3.0  # for calls under way when a run ends


class View(Protocol):
    """Somebody who looks on: told every event, and what the judge is doing."""

    def __call__(self, event: Event, state: State) -> None: ...

    def progress(self, text: str) -> None: ...


def begin(
    wishes: Wishes,
    starts: Sequence[Path],
    root: Path,
    budget: str = DEFAULT_BUDGET,
    recorded: Recorded = NOT_RECORDED,
) -> Path:
    """A new run, once everything in the wishes has been found to be there."""
    contract, kind = wishes.contract, contract_named(wishes.contract).device
    if kind != wishes.device.kind:
        raise KernelwrightError(f"a {contract} candidate runs on {kind}, not on {wishes.device}")
    require(wishes.device)
    policy_named(wishes.policy)
    baseline_names.chosen(wishes.baselines, kind)
    recorded.check(asks_models=kind_named(wishes.proposer).asks_models)
    given = [Proposal(read_source(path, contract), "start", note="what the search began with") for path in starts]
    wishes = replace(wishes, task=portable(wishes.task))
    about = subject(wishes.task, str(wishes.device))
    limit = budgets.parse(budget)
    run = started(wishes, about, _bounds(about.task) if kind == "cpu" else {}, budget)
    with _models(run, limit, 0.0, recorded) as models:
        proposing.make(Given(run, about.task, root, models=models))  # what it cannot do it says before a run is made
    return create(root, run, given)


@contextmanager
def _models(run: Started, budget: Budget, spent: float, recorded: Recorded) -> Iterator[Ensemble | None]:
    if not kind_named(run.proposer).asks_models:
        yield None
        return
    with open_models(run, budget, spent, recorded) as models:
        yield models


def limit_of(folder: Path, budget: str | None) -> str:
    """What is asked for, or what the run had, or the usual; one line where a run that stopped has none of it left."""
    state = look(folder)
    limit = budget or str(state.budget) or DEFAULT_BUDGET
    if state.stopped is not None and _nothing_fits(state, limit):
        raise _spent(state, folder, budgets.parse(limit))
    return limit


def _nothing_fits(state: State, limit: str) -> bool:
    """Whether a driver with this budget would stop at once; a try changes what is not kept of the state."""
    state.apply(Continued(at=state.last_at, budget=limit))
    if state.budget.exceeded(state.spent) is not None:
        return True
    actions = () if state.pending else decide(state, policy_named(state.run.policy))
    return any(isinstance(action, Stop) and action.reason is StopReason.budget for action in actions)


def larger_budget(folder: Path) -> Budget:
    """One with which a run that stopped on its budget goes on."""
    state = look(folder)
    return _larger(state, state.budget)


def _larger(state: State, limit: Budget) -> Budget:
    more = limit.more(state.spent)
    while _nothing_fits(state, str(more)):
        more = more.more(Spent(more.evaluations or 0, more.wall or 0.0, more.device or 0.0, more.usd or 0.0))
    return more


def _spent(state: State, folder: Path, limit: Budget) -> KernelwrightError:
    more = _larger(state, limit)
    said = f"{folder}: its budget {limit} is spent ({limit.gone(state.spent)}), and it counts from the run's beginning"
    return KernelwrightError(f"{said}; go on with more, such as --budget {more}")


def estimated(folder: Path, budget: str, recorded: Recorded = NOT_RECORDED) -> str | None:
    """What a generation may cost, in words, before anything is spent; None where no models are asked."""
    run = look(folder).run
    limit = budgets.parse(budget)
    if recorded.replay is not None:
        return f"answers come from {recorded.replay}, and nobody is asked"
    with _models(run, limit, 0.0, recorded) as models:
        if models is None:
            return None
        made = proposing.make(Given(run, subject_of(run).task, folder, models=models))
        return None if made.estimate is None else in_words(estimate(run, made.estimate), run, limit)


def carry_on(
    folder: Path,
    budget: str,
    view: View,
    *,
    own_oracle: bool = False,
    terms: Terms | None = None,
    recorded: Recorded = NOT_RECORDED,
) -> State:
    """Begins a run that was just made, or goes on with one from before, until it stops."""
    budgets.parse(budget)  # what cannot be read must not get into a journal
    first = look(folder).run
    recorded.check(asks_models=kind_named(first.proposer).asks_models)
    require(device_named(first.device))
    about = subject_of(first)
    run = take_up(folder, budget, time.time())
    try:
        return _driven(run, about, view, own_oracle=own_oracle, terms=terms or Terms(), recorded=recorded)
    except KeyboardInterrupt as interrupt:  # before there was a driver to stop, or after it has
        if run.state.stopped is None:
            run.append(
                Stopped(at=time.time(), reason=StopReason.interrupted, detail=str(interrupt) or stopping.BY_HAND)
            )
        return run.state
    finally:
        run.close()


def _driven(run: Run, about: Subject, view: View, *, own_oracle: bool, terms: Terms, recorded: Recorded) -> State:
    first = run.state.run
    directory = Directory(run.folder)
    directory.restore(run.state)
    run.watch(directory)
    run.watch(view)
    device = device_named(first.device)
    profile = device.kind == "cuda" and kind_named(first.proposer).profiled
    chosen = terms.using(first.threads, first.baselines, device, profile=profile)
    with _models(first, run.state.budget, run.state.spent.usd, recorded.after(read(run.folder))) as models:
        made = proposing.make(Given(first, about.task, run.folder, view.progress, models))
        if models is not None:
            keep_account(run, models, read(run.folder))
        with WarmJudge(chosen.quick, own=own_oracle) as judge:
            view.progress("opening the task")
            judge.open(first.task, view.progress)
            driver = Driver(
                run,
                made.proposer,
                Watchful(Remote(judge), about),
                policy_named(first.policy),
                chosen,
                progress=view.progress,
                reviewer=made.reviewer,
            )
            try:
                return driver.go()
            finally:
                if models is not None:
                    models.close()
                    driver.settle(SETTLED_SECONDS)


def find(given: str, root: Path) -> Path:
    """A run by its path, or by its name among the runs."""
    for path in (Path(given), root / given):
        if path.is_dir():
            return path
    raise KernelwrightError(f"{given}: there is no such run here or in {root}; `kernelwright runs list` names them")


def runs_in(root: Path) -> list[Path]:
    from kernelwright.search.journal import NAME

    return sorted((path.parent for path in root.glob(f"*/{NAME}")), key=_by_name)


def _by_name(path: Path) -> tuple[str, int]:
    stem, _, number = path.name.rpartition("-")
    return (stem, int(number)) if number.isdigit() else (path.name, 0)


def _bounds(task: Task) -> dict[str, float]:
    """Of a CPU. Those of a GPU come with every verdict."""
    from kernelwright.devices.cpu import cpu_peaks
    from kernelwright.insight.bottleneck import bound

    peaks = cpu_peaks()
    return {workload.label: bound(task, workload, peaks).seconds for workload in task.public_workloads()}
