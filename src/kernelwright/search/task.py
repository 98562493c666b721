"""The task of a run, resolved once per command, and whether its files are still what they were when the run began."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.contracts import Candidate
from kernelwright.errors import KernelwrightError
from kernelwright.judge.settings import ProgressCallback, Settings
from kernelwright.judge.verdict import Verdict
from kernelwright.search.core.events import Started
from kernelwright.search.judging import JudgeClient
from kernelwright.tasks.loading import Sources, digest, sources_of, unchanged
from kernelwright.tasks.model import Task


class TaskChangedError(KernelwrightError):
    """The old verdicts of a run and any new one would be on two tasks."""


@dataclass(frozen=True)
class ResolvedTask:
    task: Task
    sources: Sources

    @property
    def digest(self) -> str:
        return digest(self.sources)

    def require_unchanged(self) -> None:
        if not unchanged(self.sources):
            raise _changed(self.task)

    def require_same(self, run: Started) -> None:
        """As when the run began. A run that does not say how it was cannot be gone on with."""
        if not run.task_digest:
            raise TaskChangedError(f"{self.task.origin}: the run does not say what its task was; start another run")
        if run.task_digest != self.digest:
            raise _changed(self.task)


def resolve_task(reference: str, device: str) -> ResolvedTask:
    from kernelwright.tasks.resolve import resolve  # imports torch, which takes seconds

    task = resolve(reference, device)
    return ResolvedTask(task, sources_of(task.origin, task.files))


def task_of(run: Started) -> ResolvedTask:
    found = resolve_task(run.task, run.devices[0])
    found.require_same(run)
    return found


@dataclass(frozen=True)
class TaskGuard:
    """A judge whose verdict does not count when the task's files were edited meanwhile: it reads them as they are."""

    inner: JudgeClient
    about: ResolvedTask

    def expect(self, task: str, candidates: Sequence[Candidate], settings: Settings) -> None:
        self.inner.expect(task, candidates, settings)

    def judge(
        self, task: str, candidate: Candidate, settings: Settings, progress: ProgressCallback, deadline: float
    ) -> Verdict:
        self.about.require_unchanged()
        verdict = self.inner.judge(task, candidate, settings, progress, deadline)
        self.about.require_unchanged()
        return verdict


def _changed(task: Task) -> TaskChangedError:
    return TaskChangedError(
        f"{task.origin}: the task has changed since the run started; restore it and continue with --resume, or start "
        "a new run"
    )
