"""Goes through the samples of a benchmark, one after another, and keeps a row of each as soon as it is there.

Whether a file was just made or is half full makes no difference: what has no row yet is done. A failure is a row (or,
before any candidate was looked at, a task that counts for none), and the next sample is taken.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kernelwright import stopping
from kernelwright.benchmark.entrants import Attempt, Entrant, OpenedTask
from kernelwright.benchmark.journal import ResultsFile, read_results
from kernelwright.benchmark.results import (
    MOST_ATTEMPTS,
    Begun,
    BenchmarkEnvironment,
    BenchmarkPlan,
    PutDown,
    Results,
    ResultsError,
    RowOutcome,
    SampleRow,
    Unopened,
    differs,
    sample_name,
)
from kernelwright.benchmark.suites import SuiteTask
from kernelwright.errors import DiskFull, KernelwrightError


class BenchmarkView(Protocol):
    """What shows a benchmark to people."""

    def begin(self, task: str, sample: int, done: int, planned: int) -> None: ...

    def progress(self, text: str) -> None: ...

    def row(self, row: SampleRow) -> None: ...

    def unopened(self, task: str, why: str) -> None: ...


class FatalError(KernelwrightError):
    """What would go wrong with every task, such as a model without a key. It ends the benchmark, and is fixed first."""


@dataclass(frozen=True)
class Benchmark:
    """`open_task` resolves a task; what it raises is said of the task and not of a candidate."""

    file: ResultsFile
    plan: BenchmarkPlan
    tasks: Sequence[SuiteTask]
    entrant: Entrant
    open_task: Callable[[SuiteTask], OpenedTask]
    environment: BenchmarkEnvironment
    view: BenchmarkView
    retry: bool = False

    def go(self) -> Results:
        """Until every sample has a row. An interrupt is raised, once the file says where it was."""
        number = self._enter()
        results = read_results(self.file.path)
        done = results.judged
        for task, planned in zip(self.tasks, self.plan.tasks, strict=True):
            left = [sample for sample in range(planned.samples) if self._is_left(results, task.name, sample)]
            opened: OpenedTask | None = None
            for sample in left:
                self.view.begin(task.name, sample, done, results.planned)
                done += 1
                attempts = results.attempts.get(sample_name(task.name, sample), 0)
                if attempts >= MOST_ATTEMPTS and not self.retry:
                    given_up = f"the command ended {attempts} times while it was at this sample"
                    self._keep(
                        self._attempt(OpenedTask(task), sample, number, results).row(RowOutcome.failed, given_up)
                    )
                    continue
                self.file.append(Begun(task=task.name, sample=sample, at=time.time()))
                try:
                    opened = opened or self._opened(task)
                    if opened is None:
                        break
                    self._keep(self._row(self._attempt(opened, sample, number, results)))
                except (KeyboardInterrupt, BrokenPipeError):  # or the reader of a pipe has gone, as of `| head`
                    self.file.append(PutDown(task=task.name, sample=sample, at=time.time()))
                    raise
                stopping.raise_if_requested()
        return read_results(self.file.path)

    def _enter(self) -> int:
        """The plan and this environment are in the file; the number of the environment."""
        if self.file.empty:
            self.file.append(self.plan)
        found = read_results(self.file.path)
        _require_same_plan(found, self.plan)
        for number, one in enumerate(found.environments):
            if difference := differs(one, self.environment):
                raise ResultsError(
                    f"{found.origin}: was begun elsewhere: {difference}; such rows are never averaged, so give "
                    "--output another name here"
                )
            if replace_times(one) == replace_times(self.environment):
                return number
        self.file.append(self.environment)
        return len(found.environments)

    def _is_left(self, results: Results, task: str, sample: int) -> bool:
        row = results.by_sample.get((task, sample))
        if row is not None:
            return self.retry and row.outcome is RowOutcome.failed
        return self.retry or task not in results.unopened

    def _opened(self, task: SuiteTask) -> OpenedTask | None:
        self.view.progress("opening the task")
        try:
            return self.open_task(task)
        except DiskFull:
            raise
        except Exception as error:  # whatever a stranger's task makes a library raise: it is this task's line
            why = _line(error)
            self.file.append(Unopened(task=task.name, why=why, at=time.time()))
            self.view.unopened(task.name, why)
            return None

    def _attempt(self, opened: OpenedTask, sample: int, number: int, results: Results) -> Attempt:
        name = opened.task.name
        return Attempt(
            opened,
            sample,
            number,
            self.view.progress,
            results.runs.get(sample_name(name, sample), ""),
            lambda run: self.file.append(Begun(task=name, sample=sample, run=run, at=time.time())),
        )

    def _keep(self, row: SampleRow) -> None:
        self.file.append(row)
        self.view.row(row)

    def _row(self, attempt: Attempt) -> SampleRow:
        try:
            return self.entrant.take(attempt)
        except (DiskFull, FatalError, BrokenPipeError):
            raise
        except Exception as error:  # one sample's failure is one line, and never loses the rest
            return attempt.row(RowOutcome.failed, _line(error))


def replace_times(one: BenchmarkEnvironment) -> BenchmarkEnvironment:
    """Without what differs from command to command on one machine."""
    return one.model_copy(update={"at": 0.0, "load": 0.0})


def _require_same_plan(found: Results, plan: BenchmarkPlan) -> None:
    if found.plan == plan:
        return
    for name in BenchmarkPlan.model_fields:
        if getattr(found.plan, name) != getattr(plan, name):
            raise ResultsError(
                f"{found.origin}: was begun with other options ({name.replace('_', ' ')} differs); give those again, "
                "or --output another name"
            )


def _line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, KernelwrightError) and text else f"{type(error).__name__}: {text}"
