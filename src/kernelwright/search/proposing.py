"""Proposers by name: how each is made for a run, and how a search goes about with it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelwright.devices import lock
from kernelwright.devices.names import device_named
from kernelwright.errors import KernelwrightError
from kernelwright.judge.settings import ProgressCallback, ignore_progress
from kernelwright.llm.ensemble import Ensemble
from kernelwright.llm.model import Estimate
from kernelwright.proposers.files import Files
from kernelwright.proposers.model import Once, Proposal, Proposer, Request, Reviewer
from kernelwright.search.core.events import Started
from kernelwright.search.models import ground, llm_proposer
from kernelwright.tasks.model import Task

REQUESTS, ASKED = "requests", "asked"


@dataclass(frozen=True)
class Given:
    """What a proposer is made from. `models` are there for a kind that asks them, opened with the run's money."""

    run: Started
    task: Task
    folder: Path
    tell: ProgressCallback = ignore_progress
    models: Ensemble | None = None


@dataclass(frozen=True)
class Made:
    """A proposer, what reviews challengers, if anything does, and what a request costs at most."""

    proposer: Proposer
    reviewer: Reviewer | None = None
    estimate: Callable[[Request], Estimate] | None = None


@dataclass(frozen=True, kw_only=True)
class ProposerKind:
    make: Callable[[Given], Made]
    lockstep: bool  # the policy waits for it, as its answers are the same again; a person is not waited for
    repairs: int = 0  # how often in a row a candidate is repaired: it can read why that was rejected
    profiled: bool = False  # it reads what a profiler says of a kernel on a GPU
    asks_models: bool = False
    reusable: bool = False  # it needs neither the run's folder nor models, so that it is made once per command


@dataclass(frozen=True)
class PausedWhileTiming:
    """A proposer that computes on the CPU, and so waits while the CPU is being timed."""

    inner: Proposer

    @property
    def name(self) -> str:
        return self.inner.name

    def propose(self, request: Request) -> Sequence[Proposal]:
        with lock.working("cpu"):
            return self.inner.propose(request)


def _templates(given: Given) -> Made:
    run = given.run
    made: Proposer = importlib.import_module("kernelwright.proposers.templates").make(given.task, run.contract)
    return Made(PausedWhileTiming(made) if device_named(run.devices[0]).kind == "cpu" else made)


def _files(given: Given) -> Made:
    run, about = given.run, Once(lambda: ground(given.run, given.task))
    requests, asked = given.folder / REQUESTS, given.folder / ASKED
    return Made(Files(requests, asked, about, run.contract, run.answer_timeout, tell=given.tell))


def _llm(given: Given) -> Made:
    assert given.models is not None
    made = llm_proposer(given.run, given.task, given.models)
    return Made(made, reviewer=made, estimate=made.estimate)


PROPOSERS: dict[str, ProposerKind] = {
    "templates": ProposerKind(make=_templates, lockstep=True, reusable=True),
    "files": ProposerKind(make=_files, lockstep=False, repairs=3, profiled=True),
    "llm": ProposerKind(make=_llm, lockstep=True, repairs=3, profiled=True, asks_models=True),
}


def kind_named(name: str) -> ProposerKind:
    if name not in PROPOSERS:
        raise KernelwrightError(f"unknown proposer {name!r}: choose from {', '.join(PROPOSERS)}")
    return PROPOSERS[name]


def make(given: Given) -> Made:
    return kind_named(given.run.proposer).make(given)
