"""The options of a benchmark, and the plan that follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kernelwright.benchmark.results import BenchmarkPlan, PlannedTask
from kernelwright.benchmark.samples import samples_of
from kernelwright.benchmark.suites import SuiteTask, chosen, suite_tasks
from kernelwright.contracts.registry import contract_named
from kernelwright.devices.names import Device, require
from kernelwright.errors import KernelwrightError
from kernelwright.judge import baseline_names
from kernelwright.paths import printable
from kernelwright.search.config import SearchConfig
from kernelwright.search.core import budget as budgets
from kernelwright.search.core.policies import policy_named
from kernelwright.search.proposing import kind_named

DEFAULT_OUTPUT = Path("results.jsonl")
DEFAULT_SEARCH_BUDGET = "5m"
SHOWN_NAME = 80


@dataclass(frozen=True, kw_only=True)
class BenchConfig:
    """`search` has all that a benchmark shares with a search; its task is each of the suite's in turn. With
    `candidates` no search is begun, and `search` says how they are judged."""

    suite: str
    candidates: Path | None = None
    search: SearchConfig = field(default_factory=lambda: SearchConfig(task=""))
    name: str = ""
    only: tuple[str, ...] = ()
    sample: int | None = None
    samples: int = 1
    output: Path = DEFAULT_OUTPUT
    retry: bool = False

    def __post_init__(self) -> None:
        for name, value in (("sample", self.sample), ("samples", self.samples)):
            if value is not None and value < 1:
                raise KernelwrightError(f"{name} is {value}, and has to be at least 1")
        if self.search.start:
            raise KernelwrightError("--start is for one task: leave it out, or use `kernelwright optimize`")
        if self.candidates is not None and self.samples > 1:
            raise KernelwrightError("--samples is for searches; the candidates of a folder are its samples")

    @property
    def budget(self) -> str:
        """For each search, or for each judging of a candidate; empty: a judging has its usual deadline."""
        return self.search.budget or ("" if self.candidates is not None else DEFAULT_SEARCH_BUDGET)

    @property
    def device(self) -> Device:
        return self.search.contract_and_devices[1][0]

    @property
    def baselines(self) -> tuple[str, ...]:
        return baseline_names.chosen(self.search.baseline, self.device.kind)


@dataclass(frozen=True)
class PreparedBenchmark:
    """What is to be done, once everything that the options name has been found."""

    plan: BenchmarkPlan
    tasks: tuple[SuiteTask, ...]
    paths: dict[str, tuple[Path, ...]]  # the candidates of each task; empty for searches


def prepared(config: BenchConfig) -> PreparedBenchmark:
    """Finds tasks and candidates. What is wrong with the options is said here, and not once for each task."""
    contract, devices = config.search.contract_and_devices
    if (kind := contract_named(contract).device) != devices[0].kind:
        raise KernelwrightError(f"a {contract} candidate runs on {kind}, not on {devices[0]}")
    for device in devices:
        require(device)
    if config.candidates is not None and len(devices) > 1:
        raise KernelwrightError(f"--device {config.search.device}: candidates are judged on one device")
    if config.budget:
        budgets.parse(config.budget)
    tasks = chosen(suite_tasks(config.suite), config.only, config.sample, config.search.seed)
    paths: dict[str, tuple[Path, ...]] = {}
    if config.candidates is not None:
        paths = samples_of(config.candidates, tasks, config.search.contract)
    else:
        policy_named(config.search.policy)
        kind_named(config.search.proposer)
    return PreparedBenchmark(_plan(config, tasks, paths), tasks, paths)


def _plan(config: BenchConfig, tasks: Sequence[SuiteTask], paths: dict[str, tuple[Path, ...]]) -> BenchmarkPlan:
    searching = config.candidates is None
    usual = config.search.proposer if config.candidates is None else config.candidates.resolve().name
    return BenchmarkPlan(
        entrant=printable(config.name or usual)[:SHOWN_NAME],
        suite=printable(Path(config.suite).name),
        source="proposer" if searching else "candidates",
        proposer=config.search.proposer if searching else "",
        models=config.search.models if searching else (),
        contract=config.search.contract,
        device=config.device.kind,
        baselines=config.baselines,
        threads=config.search.threads,
        budget=config.budget,
        seed=config.search.seed,
        tasks=tuple(
            PlannedTask(
                name=task.name,
                category=task.category,
                samples=config.samples if searching else len(paths[task.name]),
            )
            for task in tasks
        ),
    )
