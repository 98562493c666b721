"""A search from its wishes to its end: what `optimize` and the Python interface do."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kernelwright.contracts import Candidate, contract_named
from kernelwright.contracts.candidate import read_candidate
from kernelwright.contracts.cuda.source import read_cuda_candidate
from kernelwright.devices.names import CPU, Device, device_named, require
from kernelwright.errors import KernelwrightError
from kernelwright.judge.baselines import BASELINES
from kernelwright.judge.service.client import WarmJudge, portable
from kernelwright.proposers.model import Proposal
from kernelwright.search import budget as budgets
from kernelwright.search import proposing
from kernelwright.search.directory import Directory
from kernelwright.search.driver import Driver
from kernelwright.search.events import Event, Started
from kernelwright.search.judging import Remote, Terms
from kernelwright.search.policies import policy_named
from kernelwright.search.run import create, take_up
from kernelwright.search.state import State
from kernelwright.tasks.model import Task

DEFAULT_BUDGET = "200evals,30m"
DEFAULT_PLATEAU = 80
DEFAULT_ROOT = Path("kernelwright-runs")


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
    baselines: tuple[str, ...] = BASELINES
    wait: float = 3600.0
    ahead: int = 1


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


def begin(wishes: Wishes, starts: Sequence[Path], root: Path) -> Path:
    """A new run, once everything in the wishes has been found to be there."""
    from kernelwright.tasks.resolve import resolve  # imports torch, which takes seconds

    contract, kind = wishes.contract, contract_named(wishes.contract).device
    if kind != wishes.device.kind:
        raise KernelwrightError(f"a {contract} candidate runs on {kind}, not on {wishes.device}")
    require(wishes.device)
    policy_named(wishes.policy)
    proposing.known(wishes.proposer)
    given = [Proposal(_read(path, contract), "start", note="what the search began with") for path in starts]
    reference = portable(wishes.task)
    task = resolve(reference, str(wishes.device))
    started = Started(
        at=time.time(),
        task=reference,
        task_name=task.name,
        contract=contract,
        device=str(wishes.device),
        proposer=wishes.proposer,
        policy=wishes.policy,
        seed=wishes.seed,
        plateau=wishes.plateau,
        threads=wishes.threads,
        baselines=wishes.baselines,
        wait=wishes.wait,
        ahead=wishes.ahead,
        repairs=proposing.REPAIRS[wishes.proposer],
        lockstep=proposing.LOCKSTEP[wishes.proposer],
        bounds=_bounds(task) if kind == "cpu" else {},
    )
    proposing.make(started, task, root, lambda text: None)  # what it cannot do it says before a run is made
    return create(root, started, given)


def carry_on(folder: Path, budget: str, view: View, *, own_oracle: bool = False, terms: Terms | None = None) -> State:
    """Begins a run that was just made, or goes on with one from before, until it stops."""
    from kernelwright.tasks.resolve import resolve

    budgets.parse(budget)
    run = take_up(folder, budget, time.time())
    try:
        started = run.state.run
        directory = Directory(folder)
        directory.restore(run.state)
        run.watch(directory)
        run.watch(view)
        device = device_named(started.device)
        require(device)
        proposer = proposing.make(started, resolve(started.task, started.device), folder, view.progress)
        chosen = (terms or Terms()).using(started.threads, started.baselines, device)
        with WarmJudge(chosen.quick, own=own_oracle) as judge:
            view.progress("opening the task")
            judge.open(started.task, view.progress)
            policy = policy_named(started.policy)
            return Driver(run, proposer, Remote(judge), policy, chosen, progress=view.progress).go()
    finally:
        run.close()


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
