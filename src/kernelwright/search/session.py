"""A search from its wishes to its end: what `optimize` and the Python interface do."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from kernelwright import stopping
from kernelwright.contracts import Candidate, contract_named
from kernelwright.contracts.candidate import read_candidate
from kernelwright.contracts.cuda.source import read_cuda_candidate
from kernelwright.devices.names import CPU, Device, device_named, require
from kernelwright.errors import KernelwrightError
from kernelwright.judge import baseline_names
from kernelwright.judge.service.client import WarmJudge
from kernelwright.llm.config import read_config
from kernelwright.llm.ensemble import Ensemble
from kernelwright.proposers.llm.proposer import GENERATION, MEASURED, LlmProposer
from kernelwright.proposers.model import Proposal
from kernelwright.search import budget as budgets
from kernelwright.search import proposing
from kernelwright.search.actions import StopReason
from kernelwright.search.asking import Recorded, estimate, in_words, keep_account, llm_proposer, open_models
from kernelwright.search.budget import Budget
from kernelwright.search.directory import Directory
from kernelwright.search.driver import Driver
from kernelwright.search.events import Event, Started, Stopped
from kernelwright.search.journal import read
from kernelwright.search.judging import Remote, Terms
from kernelwright.search.policies import policy_named
from kernelwright.search.run import Run, create, look, take_up
from kernelwright.search.state import State
from kernelwright.search.subject import Subject, Watchful, subject, subject_of
from kernelwright.tasks.model import Task
from kernelwright.tasks.naming import portable

DEFAULT_BUDGET = "200evals,30m"
DEFAULT_PLATEAU = 80
DEFAULT_ROOT = Path("kernelwright-runs")
NOT_RECORDED = Recorded()
SETTLED_SECONDS = 3.0  # for calls under way when a run ends


@dataclass(frozen=True)
class Wishes:
    task: str
    proposer: str = "templates"
    policy: str = "islands"
    contract: str = "cpp"
    device: Device = CPU
    seed: int = 0
    plateau: int = DEFAULT_PLATEAU
    threads: int = 0
    baselines: tuple[str, ...] = ()  # none: those that are usual on the device
    wait: float = 3600.0
    ahead: int = 1
    models: tuple[str, ...] = ()
    ensemble: Path | None = None
    generation: int = GENERATION
    measure: int = MEASURED


def placed(contract: str | None, device: str | None) -> tuple[str, Device]:
    """A contract and a device, where one of them or both may be left out: each goes with the other."""
    if contract is None:
        chosen = device_named(device or "cpu")
        return {"cpu": "cpp", "cuda": "cuda"}[chosen.kind], chosen
    return contract, device_named(device or contract_named(contract).device)


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
    proposing.known(wishes.proposer)
    baselines = baseline_names.chosen(wishes.baselines, kind)
    given = [Proposal(_read(path, contract), "start", note="what the search began with") for path in starts]
    recorded.check(asks_models=wishes.proposer == proposing.LLM)
    reference = portable(wishes.task)
    found = subject(reference, str(wishes.device))
    task = found.task
    started = Started(
        at=time.time(),
        task=reference,
        task_name=task.name,
        task_digest=found.digest,
        contract=contract,
        device=str(wishes.device),
        proposer=wishes.proposer,
        policy=wishes.policy,
        seed=wishes.seed,
        plateau=wishes.plateau,
        threads=wishes.threads,
        baselines=baselines,
        wait=wishes.wait,
        ahead=wishes.ahead,
        repairs=proposing.REPAIRS[wishes.proposer],
        **_asked(wishes),
        lockstep=proposing.LOCKSTEP[wishes.proposer],
        bounds=_bounds(task) if kind == "cpu" else {},
    )
    with _models(started, budgets.parse(budget), 0.0, recorded) as models:
        proposing.make(started, task, root, lambda text: None, models)  # what it cannot do it says before a run is made
    return create(root, started, given)


def _asked(wishes: Wishes) -> dict[str, Any]:
    """What a run with models keeps of them: settings and names of variables, never a key."""
    if wishes.proposer != proposing.LLM:
        if wishes.models or wishes.ensemble:
            raise KernelwrightError(f"the proposer {wishes.proposer} asks no models: use --proposer {proposing.LLM}")
        return {}
    if wishes.measure > wishes.generation:
        raise KernelwrightError("--measure is more than --generation: nothing more can be measured than was proposed")
    config = read_config(wishes.ensemble, wishes.models)
    return {"ensemble": config, "generation": wishes.generation, "measure": wishes.measure}


@contextmanager
def _models(run: Started, budget: Budget, spent: float, recorded: Recorded) -> Iterator[Ensemble | None]:
    if run.proposer != proposing.LLM:
        yield None
        return
    with open_models(run, budget, spent, recorded) as models:
        yield models


def estimated(folder: Path, budget: str, recorded: Recorded = NOT_RECORDED) -> str | None:
    """What a generation may cost, in words, before anything is spent; None where no models are asked."""
    started = look(folder).run
    limit = budgets.parse(budget)
    if recorded.replay is not None:
        return f"answers come from {recorded.replay}, and nobody is asked"
    with _models(started, limit, 0.0, recorded) as models:
        if models is None:
            return None
        proposer = llm_proposer(started, subject_of(started).task, models)
        return in_words(estimate(started, proposer), started, limit)


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
    started = look(folder).run
    recorded.check(asks_models=started.proposer == proposing.LLM)
    require(device_named(started.device))
    about = subject_of(started)
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
    started = run.state.run
    directory = Directory(run.folder)
    directory.restore(run.state)
    run.watch(directory)
    run.watch(view)
    device = device_named(started.device)
    profile = device.kind == "cuda" and proposing.PROFILED[started.proposer]
    chosen = terms.using(started.threads, started.baselines, device, profile=profile)
    with _models(started, run.state.budget, run.state.spent.usd, recorded) as models:
        proposer = proposing.make(started, about.task, run.folder, view.progress, models)
        if models is not None:
            keep_account(run, models, read(run.folder))
        with WarmJudge(chosen.quick, own=own_oracle) as judge:
            view.progress("opening the task")
            judge.open(started.task, view.progress)
            policy = policy_named(started.policy)
            driver = Driver(run, proposer, Watchful(Remote(judge), about), policy, chosen, progress=view.progress)
            driver.reviewer = proposer if isinstance(proposer, LlmProposer) else None
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


def _read(path: Path, contract: str) -> Candidate:
    return read_cuda_candidate(path) if contract == "cuda" else read_candidate(path, contract)


def _bounds(task: Task) -> dict[str, float]:
    """Of a CPU. Those of a GPU come with every verdict."""
    from kernelwright.devices.peaks_cpu import cpu_peaks
    from kernelwright.insight.bound import bound

    peaks = cpu_peaks()
    return {workload.label: bound(task, workload, peaks).seconds for workload in task.public_workloads()}
