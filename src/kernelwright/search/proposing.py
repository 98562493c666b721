"""Proposers by name, made for a run."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelwright.devices import lock
from kernelwright.devices.names import device_named
from kernelwright.errors import KernelwrightError
from kernelwright.proposers.files import Files
from kernelwright.proposers.llm.asking import Ground
from kernelwright.proposers.llm.machine import shown_device
from kernelwright.proposers.llm.showing import shown_task
from kernelwright.proposers.model import Proposal, Proposer, Request
from kernelwright.search.events import Started
from kernelwright.tasks.model import Task

Tell = Callable[[str], None]
REQUESTS = "requests"
# Those that think for themselves give the same answers again. A person is not waited for while there is other work.
LOCKSTEP = {"templates": True, "files": False}
# How often in a row a candidate is repaired, by those that can read why it was rejected.
REPAIRS = {"templates": 0, "files": 3}


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


def ground(run: Started, task: Task) -> Ground:
    """What all prompts of a run have in common. Follows the reference's shapes, which takes a moment."""
    told = shown_task(task, run.contract, run.task_name)
    return Ground(run.contract, told, shown_device(device_named(run.device), task.dtypes[0]), run.bounds)


def _files(run: Started, task: Task, folder: Path, tell: Tell) -> Proposer:
    return Files(folder / REQUESTS, lambda: ground(run, task), run.contract, run.wait, tell=tell)


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
