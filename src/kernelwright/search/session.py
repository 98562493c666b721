"""A search from its options to its end: what `optimize` and the Python interface do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

from kernelwright import stopping
from kernelwright.contracts.registry import contract_named, read_source
from kernelwright.devices.names import device_named, require
from kernelwright.errors import CannotDecide, DeadlineExceeded, KernelwrightError
from kernelwright.isolation import levels
from kernelwright.judge import baseline_names
from kernelwright.judge.server.client import ServerJudge
from kernelwright.llm.ensemble import Ensemble
from kernelwright.proposers.model import Proposal
from kernelwright.search import origin, proposing
from kernelwright.search.config import DEFAULT_BUDGET, SearchConfig, started
from kernelwright.search.core import budget as budgets
from kernelwright.search.core.budget import Budget, Spent
from kernelwright.search.core.events import Continued, Event, Prepared, Started, Stop, Stopped, StopReason
from kernelwright.search.core.policies import policy_named, policy_of
from kernelwright.search.core.scheduler import decide
from kernelwright.search.core.state import State
from kernelwright.search.directory import Directory
from kernelwright.search.driver import Driver
from kernelwright.search.journal import JournalError, read
from kernelwright.search.judging import JudgeSettings, OnDevice
from kernelwright.search.models import Recorded, estimate, in_words, keep_account, open_models
from kernelwright.search.pool import JudgePool
from kernelwright.search.proposing import Given, Made, kind_named
from kernelwright.search.run import Run, create, look, take_up
from kernelwright.search.task import ResolvedTask, TaskGuard, resolve_task, task_of
from kernelwright.tasks.model import Task
from kernelwright.tasks.resolve import absolute_reference, prepare

NOT_RECORDED = Recorded()
SETTLED_SECONDS = 3.0  # for calls under way when a run ends


class View(Protocol):
    """What shows a search to people: it is given every event, and what the judge is doing."""

    def __call__(self, event: Event, state: State) -> None: ...

    def progress(self, text: str) -> None: ...


@dataclass
class RunSession:
    """One command's work on a run. Its task is resolved once, and its time counts from when the command began."""

    folder: Path
    began: float = field(default_factory=time.monotonic)
    made: Made | None = None  # the proposer, where making it needed no folder

    @cached_property
    def about(self) -> ResolvedTask:
        return task_of(look(self.folder).run)


def begin(config: SearchConfig, began: float | None = None, about: ResolvedTask | None = None) -> RunSession:
    """A new run, once everything that the options name has been found. `about`: the task, if it was resolved before."""
    began = time.monotonic() if began is None else began
    levels.demand(config.accepted)
    contract, devices = config.contract_and_devices
    kind = contract_named(contract).device
    if kind != devices[0].kind:
        raise KernelwrightError(f"a {contract} candidate runs on {kind}, not on {devices[0]}")
    for device in devices:
        require(device)
    policy_named(config.policy)
    baseline_names.chosen(config.baseline, kind)
    recorded = Recorded(config.record, config.replay)
    recorded.check(asks_models=kind_named(config.proposer).asks_models)
    given = [Proposal(read_source(path, contract), "start", note="what the search began with") for path in config.start]
    config = replace(config, task=absolute_reference(config.task))
    prepare(config.task, config.accepted, trust_task=config.trust_task)
    about = about or resolve_task(config.task, str(devices[0]))
    run = started(config, about, _bounds(about.task) if kind == "cpu" else {})
    with _models(run, budgets.parse(config.limit), 0.0, recorded) as models:
        made = proposing.make(Given(run, about.task, config.runs, models=models))  # or says what it cannot do
    folder = create(config.runs, run, given)
    origin.mark(folder)
    session = RunSession(folder, began, made if kind_named(config.proposer).reusable else None)
    session.about = about
    return session


@contextmanager
def _models(run: Started, budget: Budget, spent: float, recorded: Recorded) -> Iterator[Ensemble | None]:
    if not kind_named(run.proposer).asks_models:
        yield None
        return
    with open_models(run, budget, spent, recorded) as models:
        yield models


def resumed(folder: Path, began: float, task: str | None = None) -> RunSession:
    """A run from before, which goes on. `task` is for one that another installation began, and is given for no other:
    what such a run names is not imported."""
    if task is None:
        origin.require_begun_here(folder)
    else:
        origin.adopt(folder, task)
    return RunSession(folder, began)


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
    actions = () if state.pending else decide(state, policy_of(state.run))
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
    gone = f"{folder}: its budget {limit} is spent ({limit.gone(state.spent)}), counted from the start of the run"
    return KernelwrightError(f"{gone}; give it more, such as --budget {more}")


def estimated(session: RunSession, budget: str, recorded: Recorded = NOT_RECORDED) -> str | None:
    """What a generation may cost, in words, before anything is spent; None where no models are asked."""
    run = look(session.folder).run
    limit = budgets.parse(budget)
    if recorded.replay is not None:
        return f"answers come from {recorded.replay}, and no model is called"
    with _models(run, limit, 0.0, recorded) as models:
        if models is None:
            return None
        made = proposing.make(Given(run, session.about.task, session.folder, models=models))
        return None if made.estimate is None else in_words(estimate(run, made.estimate), run, limit)


def carry_on(
    session: RunSession,
    budget: str,
    view: View,
    *,
    no_server: bool = False,
    settings: JudgeSettings | None = None,
    recorded: Recorded = NOT_RECORDED,
    isolation: levels.Level | None = None,
) -> State:
    """Begins a run that was just made, or goes on with one from before, until it stops.

    `isolation` is the lowest level that is accepted; without it the environment says so.
    """
    accepted = isolation or levels.accepted()
    levels.demand(accepted)
    chosen = (settings or JudgeSettings()).accepting(accepted)
    budgets.parse(budget)  # what cannot be read must not get into a journal
    first = look(session.folder).run
    recorded.check(asks_models=kind_named(first.proposer).asks_models)
    for device in first.devices:
        require(device_named(device))
    session.about.require_same(first)
    run = take_up(session.folder, budget, time.time(), session.began)
    try:
        if run.state.run != first:
            raise JournalError(f"{session.folder}: its journal was changed meanwhile; look at the run, and resume it")
        return _driven(run, session, view, no_server=no_server, settings=chosen, recorded=recorded)
    except KeyboardInterrupt as interrupt:  # before there was a driver to stop, or after it has
        if run.state.stopped is None:
            run.append(
                Stopped(at=time.time(), reason=StopReason.interrupted, detail=str(interrupt) or stopping.BY_HAND)
            )
        return run.state
    except KernelwrightError as error:
        _close_journal(run, error)
        raise
    finally:
        run.close()


def _close_journal(run: Run, error: KernelwrightError) -> None:
    """The journal says why the run ended, unless that is what could not be written. It can be gone on with."""
    if run.state.stopped is None and error.exit_code == CannotDecide.exit_code:
        with suppress(KernelwrightError):
            run.append(Stopped(at=time.time(), reason=StopReason.failed, detail=str(error)))


def _driven(
    run: Run, session: RunSession, view: View, *, no_server: bool, settings: JudgeSettings, recorded: Recorded
) -> State:
    first = run.state.run
    directory = Directory(run.folder)
    directory.restore(run.state)
    run.watch(directory)
    run.watch(view)
    with ExitStack() as stack:
        models = stack.enter_context(
            _models(first, run.state.budget, run.state.spent.usd, recorded.after(read(run.folder)))
        )
        made = session.made or proposing.make(Given(first, session.about.task, run.folder, view.progress, models))
        if models is not None:
            keep_account(run, models, read(run.folder))
        chosen = [_settings(first, device, settings) for device in first.devices]
        left = _wall_left(run)
        end = None if left is None else time.monotonic() + left
        judges = [stack.enter_context(ServerJudge(one.quick, own=no_server, leave_at=end)) for one in chosen]
        if not _opened(run, judges, view):
            return run.state
        pairs = list(zip(judges, chosen, strict=True))
        driver = Driver(
            run,
            made.proposer,
            JudgePool([TaskGuard(OnDevice(judge, one.quick.device), session.about) for judge, one in pairs]),
            policy_of(first),
            chosen[0],
            progress=view.progress,
            reviewer=made.reviewer,
        )
        try:
            return driver.go()
        finally:
            if models is not None:
                models.close()
                driver.settle(SETTLED_SECONDS)


def _settings(first: Started, device: str, settings: JudgeSettings) -> JudgeSettings:
    where = device_named(device)
    profile = where.kind == "cuda" and kind_named(first.proposer).profiled
    return settings.using(first.threads, first.baselines, where, profile=profile)


def _opened(run: Run, judges: list[ServerJudge], view: View) -> bool:
    """Opens the task with every judge. A budget of time counts this as well, and may end before it is done."""
    view.progress("opening the task")
    try:
        for judge in judges:
            judge.open(run.state.run.task, view.progress, _wall_left(run))
    except DeadlineExceeded:
        detail = f"{run.state.budget}: it ran out during preparation"
        run.append(
            Prepared(at=time.time(), seconds=run.seconds),
            Stopped(at=time.time(), reason=StopReason.budget, detail=detail),
        )
        return False
    run.append(Prepared(at=time.time(), seconds=run.seconds))
    return True


def _wall_left(run: Run) -> float | None:
    """Seconds to the end of the budget, if it limits wall time."""
    wall = run.state.budget.wall
    return None if wall is None else max(0.001, wall - run.state.spent.wall - run.seconds)


def find(given: str, root: Path) -> Path:
    """A run by its path, or by its name among the runs."""
    for path in (Path(given), root / given):
        if path.is_dir():
            return path
    raise KernelwrightError(f"{given}: no such run here or in {root}; `kernelwright runs list` lists them")


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
