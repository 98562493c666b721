"""Proposers by name, made for a run."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelwright.devices import lock
from kernelwright.devices.names import device_named
from kernelwright.errors import KernelwrightError
from kernelwright.llm.ensemble import Ensemble
from kernelwright.proposers.files import Files
from kernelwright.proposers.model import Proposal, Proposer, Request
from kernelwright.proposers.once import Once
from kernelwright.search.asking import ground, llm_proposer
from kernelwright.search.events import Started
from kernelwright.tasks.model import Task

Tell = Callable[[str], None]
REQUESTS = "requests"
# Those that think for themselves give the same answers again. A person is not waited for while there is other work.
LOCKSTEP = {"templates": True, "files": False, "llm": True}
# How often in a row a candidate is repaired, by those that can read why it was rejected.
REPAIRS = {"templates": 0, "files": 3, "llm": 3}
# Who reads what a profiler says of a kernel on a GPU.
PROFILED = {"templates": False, "files": True, "llm": True}
LLM = "llm"


@dataclass(frozen=True)
class Polite:
    """A proposer that computes on the CPU, and so keeps off while the CPU is being measured."""

    inner: Proposer

    @property
    def name(self) -> str:
        return self.inner.name

    def propose(self, request: Request) -> Sequence[Proposal]:
        with lock.working("cpu"):
            return self.inner.propose(request)


def _files(run: Started, task: Task, folder: Path, tell: Tell, models: Ensemble | None) -> Proposer:
    return Files(folder / REQUESTS, Once(lambda: ground(run, task)), run.contract, run.wait, tell=tell)


def _llm(run: Started, task: Task, folder: Path, tell: Tell, models: Ensemble | None) -> Proposer:
    assert models is not None
    return llm_proposer(run, task, models)


def _templates(run: Started, task: Task, folder: Path, tell: Tell, models: Ensemble | None) -> Proposer:
    made: Proposer = importlib.import_module("kernelwright.proposers.templates").make(task, run.contract)
    return Polite(made) if device_named(run.device).kind == "cpu" else made


Make = Callable[[Started, Task, Path, Tell, Ensemble | None], Proposer]
PROPOSERS: dict[str, Make] = {"templates": _templates, "files": _files, LLM: _llm}


def known(name: str) -> str:
    if name not in PROPOSERS:
        raise KernelwrightError(f"unknown proposer {name!r}: choose from {', '.join(PROPOSERS)}")
    return name


def make(run: Started, task: Task, folder: Path, tell: Tell, models: Ensemble | None = None) -> Proposer:
    """`models` are those of the proposer `llm`, opened with the run's money."""
    return PROPOSERS[known(run.proposer)](run, task, folder, tell, models)
