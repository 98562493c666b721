"""A benchmark from its options to its results: what `kernelwright bench` and `kernelwright.bench` do."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import cache

from kernelwright.benchmark.config import BenchConfig, PreparedBenchmark, prepared
from kernelwright.benchmark.driver import Benchmark, BenchmarkView, FatalError
from kernelwright.benchmark.entrants import (
    Attempt,
    CandidateEntrant,
    Entrant,
    OpenedTask,
    ProposerEntrant,
    asks_models,
    with_budget,
)
from kernelwright.benchmark.environment import environment
from kernelwright.benchmark.journal import ResultsFile
from kernelwright.benchmark.results import Results, SampleRow
from kernelwright.benchmark.rows import BoundOf, no_bound
from kernelwright.benchmark.suites import SuiteTask
from kernelwright.errors import KernelwrightError
from kernelwright.isolation import levels
from kernelwright.judge.server.client import ServerJudge
from kernelwright.judge.verdict import WorkloadResult
from kernelwright.search.judging import JudgeClient, JudgeSettings, OnDevice
from kernelwright.search.task import resolve_task
from kernelwright.tasks.model import Task, Workload
from kernelwright.tasks.resolve import absolute_reference, prepare


def run_benchmark(config: BenchConfig, view: BenchmarkView) -> Results:
    """Starts a results file, or continues it."""
    levels.demand(config.search.accepted)
    found = prepared(config)
    with ExitStack() as stack:
        file = stack.enter_context(closing(ResultsFile(config.output)))
        benchmark = Benchmark(
            file,
            found.plan,
            found.tasks,
            _entrant(config, found, stack),
            lambda task: open_task(task, config),
            environment(config.device, config.search.threads),
            view,
            config.retry,
        )
        return benchmark.go()


def open_task(task: SuiteTask, config: BenchConfig) -> OpenedTask:
    reference = absolute_reference(task.reference)
    prepare(reference, config.search.accepted, trust_task=config.search.trust_task)
    about = resolve_task(reference, str(config.device))
    return OpenedTask(task, about, _cpu_bounds(about.task) if config.device.kind == "cpu" else no_bound)


def _cpu_bounds(task: Task) -> BoundOf:
    """Of every workload, hidden ones too. Those of a GPU come with a verdict."""
    from kernelwright.devices.cpu import cpu_peaks
    from kernelwright.insight.bottleneck import bound

    peaks = cpu_peaks()
    return lambda result: bound(task, _workload(result), peaks).seconds


def _workload(result: WorkloadResult) -> Workload:
    return Workload(tuple(result.sizes.items()), result.dtype, result.hidden)


def _entrant(config: BenchConfig, found: PreparedBenchmark, stack: ExitStack) -> Entrant:
    search = config.search
    settings = JudgeSettings().using(search.threads, config.baselines, config.device).accepting(search.accepted)
    judge = _lazily(lambda: OnDevice(stack.enter_context(ServerJudge(settings.quick, own=search.no_server))))
    if config.candidates is not None:
        return CandidateEntrant(found.paths, judge(), with_budget(settings, config.budget), search.contract)
    entrant = ProposerEntrant(search, config.budget, judge, settings)
    return _Strict(entrant) if asks_models(search) else entrant


def _lazily(make: Callable[[], JudgeClient]) -> Callable[[], JudgeClient]:
    return cache(make)


class _Strict:
    """What is wrong with models is wrong for every task: a key that is missing is not a failure of 250 samples."""

    def __init__(self, inner: ProposerEntrant) -> None:
        self._inner = inner

    def take(self, attempt: Attempt) -> SampleRow:
        try:
            return self._inner.take(attempt)
        except KernelwrightError as error:
            if error.exit_code == KernelwrightError.exit_code:
                raise FatalError(str(error)) from error
            raise
