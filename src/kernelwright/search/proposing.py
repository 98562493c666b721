"""Proposers by name, made for a run."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelwright.contracts import contract_named
from kernelwright.contracts.brief import brief
from kernelwright.devices import lock
from kernelwright.devices.names import device_named
from kernelwright.errors import KernelwrightError
from kernelwright.proposers.files import Files
from kernelwright.proposers.model import Proposal, Proposer, Request
from kernelwright.search.events import Started
from kernelwright.tasks.model import Task

Tell = Callable[[str], None]
REQUESTS = "requests"
# Those that think for themselves give the same answers again. A person is not waited for while there is other work.
LOCKSTEP = {"templates": True, "files": False}


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


def _files(run: Started, task: Task, folder: Path, tell: Tell) -> Proposer:
    told = brief(contract_named(run.contract), task).text()
    return Files(folder / REQUESTS, run.contract, told, run.wait, tell=tell)


def _templates(run: Started, task: Task, folder: Path, tell: Tell) -> Proposer:
    made: Proposer = importlib.import_module("kernelwright.proposers.templates").make(task, run.contract)
    return Polite(made) if device_named(run.device).kind == "cpu" else made


PROPOSERS: dict[str, Callable[[Started, Task, Path, Tell], Proposer]] = {"templates": _templates, "files": _files}


def known(name: str) -> str:
    if name not in PROPOSERS:
        raise KernelwrightError(f"unknown proposer {name!r}: choose from {', '.join(PROPOSERS)}")
    return name


def make(run: Started, task: Task, folder: Path, tell: Tell) -> Proposer:
    return PROPOSERS[known(run.proposer)](run, task, folder, tell)
