"""What somebody wants of a search, and the first event of the run that it becomes."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernelwright.contracts.registry import contract_named, usual_contract
from kernelwright.devices.names import CPU, Device, device_named
from kernelwright.errors import KernelwrightError
from kernelwright.judge import baseline_names
from kernelwright.llm.config import read_config
from kernelwright.proposers.llm.proposer import GENERATION, MEASURED
from kernelwright.search.events import Started
from kernelwright.search.proposing import PROPOSERS, kind_named
from kernelwright.search.subject import Subject

DEFAULT_PLATEAU = 80
RESUMED = ("budget", "runs", "record", "replay", "own_oracle", "isolation")  # what a run that goes on may be told anew


@dataclass(frozen=True, kw_only=True)
class ModelWishes:
    """Of a proposer that asks models: whom, for how many answers at a time, and how many of them are measured."""

    models: tuple[str, ...] = ()
    ensemble: Path | None = None
    generation: int = GENERATION
    measure: int = MEASURED

    def __post_init__(self) -> None:
        _at_least(self, generation=1, measure=1)


@dataclass(frozen=True, kw_only=True)
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
    asked: ModelWishes = field(default_factory=ModelWishes)

    def __post_init__(self) -> None:
        _at_least(self, seed=0, plateau=1, threads=0, wait=0, ahead=1)


def placed(contract: str | None, device: str | None) -> tuple[str, Device]:
    """A contract and a device, where one of them or both may be left out: each goes with the other."""
    if contract is None:
        chosen = device_named(device or "cpu")
        return usual_contract(chosen.kind), chosen
    return contract, device_named(device or contract_named(contract).device)


def began_with(resume: str, given: Sequence[str], others: Sequence[str]) -> KernelwrightError:
    """What to say of options that a run which goes on cannot be given anew: they would change nothing."""
    return KernelwrightError(
        f"{resume} goes on with what a run began with: leave out {_and(given)}; {_and(others)} may be given"
    )


def _and(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def started(wishes: Wishes, about: Subject, bounds: dict[str, float], budget: str = "") -> Started:
    """The wishes, with what is known once the task was read."""
    kind = kind_named(wishes.proposer)
    if kind.lockstep and wishes.ahead > 1:
        several = " or ".join(name for name, other in PROPOSERS.items() if not other.lockstep)
        raise KernelwrightError(
            f"the proposer {wishes.proposer} is asked once at a time, so that a run can be repeated: --ahead is for "
            f"--proposer {several}"
        )
    return Started(
        at=time.time(),
        task=wishes.task,
        task_name=about.task.name,
        task_digest=about.digest,
        contract=wishes.contract,
        device=str(wishes.device),
        proposer=wishes.proposer,
        policy=wishes.policy,
        seed=wishes.seed,
        plateau=wishes.plateau,
        threads=wishes.threads,
        baselines=baseline_names.chosen(wishes.baselines, wishes.device.kind),
        wait=wishes.wait,
        ahead=wishes.ahead,
        lockstep=kind.lockstep,
        repairs=kind.repairs,
        bounds=bounds,
        budget=budget,
        **_asked(wishes),
    )


def _asked(wishes: Wishes) -> dict[str, Any]:
    """What a run with models keeps of them: settings and names of variables, never a key."""
    asked = wishes.asked
    if not kind_named(wishes.proposer).asks_models:
        if asked.models or asked.ensemble:
            asking = " or ".join(name for name, kind in PROPOSERS.items() if kind.asks_models)
            raise KernelwrightError(f"the proposer {wishes.proposer} asks no models: use --proposer {asking}")
        return {}
    if asked.measure > asked.generation:
        raise KernelwrightError("--measure is more than --generation: nothing more can be measured than was proposed")
    config = read_config(asked.ensemble, asked.models)
    return {"ensemble": config, "generation": asked.generation, "measure": asked.measure}


def _at_least(wishes: object, **least: int) -> None:
    for name, wanted in least.items():
        value = getattr(wishes, name)
        if isinstance(value, float) and not math.isfinite(value):  # a journal could not keep it
            raise KernelwrightError(f"{name} is {value}, and has to be a number that is at least {wanted}")
        if value < wanted:
            raise KernelwrightError(f"{name} is {value}, and has to be at least {wanted}")
