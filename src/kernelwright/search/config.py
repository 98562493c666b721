"""The options of a search, each declared once: command line, Python, journal, checks and resuming derive from here.

An option is a field of `SearchConfig`. Its metadata says what help shows, the least value that makes sense, whether a
run that is resumed may be given another value, and under which name the journal keeps it.
"""
# ruff: noqa: RUF009 - a default is a field with all that is known of the option, made by a function of this module

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelwright.contracts.registry import contract_named, names, usual_contract
from kernelwright.devices.names import Device, device_named
from kernelwright.errors import KernelwrightError
from kernelwright.isolation import levels
from kernelwright.judge import baseline_names
from kernelwright.llm.config import read_config
from kernelwright.proposers.llm.proposer import GENERATION, MEASURED
from kernelwright.search.core import budget as budgets
from kernelwright.search.core.events import Started
from kernelwright.search.core.policies import POLICIES, policy_named
from kernelwright.search.proposing import PROPOSERS, kind_named
from kernelwright.search.task import ResolvedTask
from kernelwright.tasks.resolve import TRUST_TASK

DEFAULT_BUDGET = "200evals,30m"
DEFAULT_ROOT = Path("kernelwright-runs")
_METADATA = "option"


@dataclass(frozen=True, kw_only=True)
class Option:
    """What is known of an option beside its name, type and default."""

    help: str
    least: float | None = None
    resumable: bool = False  # whether a run that is resumed may be given another value
    journal: str | None = None  # the field of `Started`; None: the journal does not keep it
    variable: str | None = None  # the environment variable that gives it to the command
    flag: str | None = None  # on the command line, where it is not the name


def _option(default: Any, **about: Any) -> Any:
    return dataclasses.field(default=default, metadata={_METADATA: Option(**about)})


@dataclass(frozen=True, kw_only=True)
class SearchConfig:
    """All that a user can say of a search. A tuple is an option that may be given several times."""

    task: str
    proposer: str = _option(
        "templates",
        help=f"Who writes the candidates: {', '.join(PROPOSERS)}. With files, a person or a tool answers.",
        journal="proposer",
    )
    policy: str = _option(
        "islands",
        help=f"Search strategy: {', '.join(POLICIES)}; with parameters, as in islands:islands=4,migrate=12.",
        journal="policy",
    )
    contract: str | None = _option(
        None, help=f"How candidates are written: {', '.join(names())}. Default: by device.", journal="contract"
    )
    device: str | None = _option(
        None,
        help="Where candidates run: cpu, cuda, cuda:N, or several GPUs in parallel, as in cuda:0,cuda:1. "
        "Default: the device of the contract, else cpu.",
        journal="device",
    )
    budget: str | None = _option(
        None,
        help=f"When to stop, as in {budgets.EXAMPLE}. Default: {DEFAULT_BUDGET}. Counts everything since the run "
        "started, resumed or not.",
        resumable=True,
        journal="budget",
    )
    start: tuple[Path, ...] = _option((), help="Start from this kernel; repeatable.")
    seed: int = _option(0, help="Random seed.", least=0, journal="seed")
    plateau: int = _option(
        80, help="Stop after this many evaluations without a faster candidate.", least=1, journal="plateau"
    )
    threads: int = _option(0, help="Threads for candidates and baselines; 0: all cores.", least=0, journal="threads")
    baseline: tuple[str, ...] = _option(
        (),
        help=f"Baseline to compare with, instead of the usual ones ({baseline_names.names_for_help()}); repeatable.",
        journal="baselines",
    )
    answer_timeout: float = _option(
        3600.0, help="Seconds to wait for an answer, with --proposer files.", least=0, journal="answer_timeout"
    )
    open_requests: int = _option(
        1, help="Requests open at the same time, with --proposer files.", least=1, journal="open_requests"
    )
    models: tuple[str, ...] = _option(
        (),
        help="Model for --proposer llm, such as openai:gpt-5 or http://host/v1#name; repeatable.",
        journal="ensemble",
    )
    ensemble: Path | None = _option(
        None, help="TOML file with the models for --proposer llm (docs/llm.md).", journal="ensemble"
    )
    proposals_per_generation: int = _option(
        GENERATION, help="Answers to request from models at a time.", least=1, journal="proposals_per_generation"
    )
    judged_per_generation: int = _option(
        MEASURED, help="How many of those answers to judge at most.", least=1, journal="judged_per_generation"
    )
    record: Path | None = _option(None, help="Record every model call in this directory.", resumable=True)
    replay: Path | None = _option(None, help="Answer from recorded calls; no model is called.", resumable=True)
    runs: Path = _option(DEFAULT_ROOT, help="Directory of the runs.", resumable=True, variable="KERNELWRIGHT_RUNS")
    no_server: bool = _option(
        False,
        help="Do not use the background server; slower to start.",
        resumable=True,
        variable="KERNELWRIGHT_NO_SERVER",
    )
    isolation: str | None = _option(
        None,
        help=f"Refuse to run with less isolation than this: {', '.join(levels.Level)}. Default: full.",
        resumable=True,
        variable=levels.ACCEPTED_VARIABLE,
    )
    trust_task: bool = _option(
        False,
        help=TRUST_TASK,
        resumable=True,
    )

    def __post_init__(self) -> None:
        for name, option in OPTIONS.items():
            if option.least is not None:
                _require_at_least(name, getattr(self, name), option.least)
        if self.budget is not None:
            budgets.parse(self.budget)
        if self.isolation is not None:
            levels.level_named(self.isolation)
        if self.judged_per_generation > self.proposals_per_generation:
            raise KernelwrightError("--judged-per-generation cannot be more than --proposals-per-generation")

    @property
    def contract_and_devices(self) -> tuple[str, tuple[Device, ...]]:
        """As the options say, or as one follows from the other; several devices have a judge each."""
        return placed(self.contract, self.device)

    @property
    def accepted(self) -> levels.Level:
        """The lowest isolation level that is accepted."""
        return accepted_level(self.isolation)

    @property
    def limit(self) -> str:
        return self.budget or DEFAULT_BUDGET


FIELDS = {field.name: field for field in dataclasses.fields(SearchConfig)}
OPTIONS: dict[str, Option] = {
    name: field.metadata[_METADATA] for name, field in FIELDS.items() if _METADATA in field.metadata
}
RESUMABLE = tuple(name for name, option in OPTIONS.items() if option.resumable)


def accepted_level(name: str | None) -> levels.Level:
    """The level of this name or, where none is named, what the environment accepts: by default full."""
    return levels.accepted() if name is None else levels.level_named(name)


def flag_of(name: str) -> str:
    """An option's name on the command line."""
    option = OPTIONS.get(name)
    return (option and option.flag) or f"--{name.replace('_', '-')}"


def config_from(task: str, given: Mapping[str, Any]) -> SearchConfig:
    """From values by name, where a list, one value or None may stand for a tuple, and text for a path."""
    return SearchConfig(task=task, **{name: _converted(name, given[name]) for name in OPTIONS if name in given})


def _converted(name: str, value: Any) -> Any:
    kind, default = str(FIELDS[name].type), FIELDS[name].default
    if kind.startswith("tuple"):
        several = () if value is None else (value,) if isinstance(value, str | Path) else tuple(value)
        return tuple(Path(one) for one in several) if "Path" in kind else several
    if "Path" in kind:
        return default if value is None else Path(value)
    return default if value is None else value


def placed(contract: str | None, device: str | None) -> tuple[str, tuple[Device, ...]]:
    """A contract and devices, where one of them or both may be left out: each goes with the other."""
    if contract is None:
        chosen = _devices(device or "cpu")
        return usual_contract(chosen[0].kind), chosen
    return contract, _devices(device or contract_named(contract).device)


def _devices(given: str) -> tuple[Device, ...]:
    found = tuple(device_named(part.strip()) for part in given.split(","))
    if len(set(found)) < len(found):
        raise KernelwrightError(f"--device {given}: names a device twice")
    if len({device.kind for device in found}) > 1:
        raise KernelwrightError(f"--device {given}: all devices of a search must be of one kind")
    return found


def refuse_with_resume(resume: str, given: Sequence[str], allowed: Sequence[str]) -> KernelwrightError:
    """The error for options that a resumed run cannot be given: the journal has their values."""
    return KernelwrightError(
        f"{resume} keeps the options that the run started with: leave out {_and(given)}; {_and(allowed)} may be given"
    )


def _and(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def started(config: SearchConfig, about: ResolvedTask, bounds: dict[str, float]) -> Started:
    """The first event of a run: the options, with what is known once the task was read."""
    kind, (contract, devices) = kind_named(config.proposer), config.contract_and_devices
    if kind.lockstep and config.open_requests > 1:
        several = " or ".join(name for name, other in PROPOSERS.items() if not other.lockstep)
        raise KernelwrightError(
            f"the proposer {config.proposer} gets one request at a time, so that runs are repeatable: --open-requests "
            f"is for --proposer {several}"
        )
    policy = policy_named(config.policy)
    return Started(
        at=time.time(),
        task=config.task,
        task_name=about.task.name,
        task_digest=about.digest,
        contract=contract,
        device=",".join(map(str, devices)),
        judges=len(devices),
        proposer=config.proposer,
        policy=policy.name,
        policy_parameters=policy.parameters,
        seed=config.seed,
        plateau=config.plateau,
        threads=config.threads,
        baselines=baseline_names.chosen(config.baseline, devices[0].kind),
        answer_timeout=config.answer_timeout,
        open_requests=config.open_requests,
        lockstep=kind.lockstep,
        repairs=kind.repairs,
        bounds=bounds,
        budget=config.limit,
        **_of_models(config),
    )


def _of_models(config: SearchConfig) -> dict[str, Any]:
    """What a run keeps of its models: settings and names of variables, never a key."""
    if not kind_named(config.proposer).asks_models:
        if config.models or config.ensemble:
            asking = " or ".join(name for name, kind in PROPOSERS.items() if kind.asks_models)
            raise KernelwrightError(f"the proposer {config.proposer} asks no models: use --proposer {asking}")
        return {}
    return {
        "ensemble": read_config(config.ensemble, config.models),
        "proposals_per_generation": config.proposals_per_generation,
        "judged_per_generation": config.judged_per_generation,
    }


def _require_at_least(name: str, value: float, least: float) -> None:
    if isinstance(value, float) and not math.isfinite(value):  # a journal could not keep it
        raise KernelwrightError(f"{name} is {value}, and must be a number of at least {least:g}")
    if value < least:
        raise KernelwrightError(f"{name} is {value}, and must be at least {least:g}")
