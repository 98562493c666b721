"""Gathers the errors of one candidate over a whole judging, on public and hidden workloads apart, and reports them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

import torch

from kernelwright.isolation.channel import Message
from kernelwright.judge.oracle.errors.observations import STATISTICS, Observation, observe
from kernelwright.judge.oracle.errors.rules import ErrorSummary, ResultErrors
from kernelwright.judge.oracle.errors.samples import take_samples
from kernelwright.judge.oracle.pool import PoolEntry
from kernelwright.judge.oracle.right.tolerance import compute_dtype
from kernelwright.tasks.model import Task, Workload


@dataclass
class _Result:
    """One result over a judging. `scalar`: it is one number."""

    dtype: torch.dtype
    compute: torch.dtype
    scalar: bool
    public: ResultErrors = field(default_factory=ResultErrors)
    every: ResultErrors = field(default_factory=ResultErrors)

    def add(self, workload: Workload, observation: Observation, *, point: bool) -> None:
        self.every.add(workload, observation, point=point)
        if not workload.hidden:
            self.public.add(workload, observation)

    def conclude(self, *, hidden: bool) -> ErrorSummary | None:
        return (self.every if hidden else self.public).conclude(
            narrow=self.dtype != torch.float32 or self.compute != torch.float32,
            comparable=self.compute != torch.float64,
        )


@dataclass
class JudgingErrors:
    _results: dict[str, _Result] = field(default_factory=dict)
    _filtered: dict[Workload, tuple[int, int]] = field(default_factory=dict)
    _trials: dict[Workload, int] = field(default_factory=dict)

    def looks_at(self, workload: Workload, *, point: bool, chance: float) -> bool:
        """Whether the errors of the next trial are looked at: always at a check point and in the first trials of a
        workload, later where `chance`, drawn evenly from 0 to 1 and secret, is small. A sample costs as much as some
        calls of the reference."""
        trial = self._trials.get(workload, 0)
        self._trials[workload] = trial + 1
        return point or trial < STATISTICS.sampled_trials or chance < STATISTICS.sampled_share

    def add(
        self,
        task: Task,
        workload: Workload,
        item: PoolEntry,
        results: dict[str, torch.Tensor],
        *,
        point: bool = False,
    ) -> None:
        """The errors of one checked call, at a check `point` or on a timed workload. Waits for nothing that the device
        has still to compute."""
        if item.samples is None or not item.samples.index:
            return
        filtered = self._filters(workload, item)
        samples = take_samples(task, workload, item.inputs, item.expectations, item.samples, filtered=filtered)
        if filtered and not any(sample.predicted for sample in samples.values()):
            self._filtered[workload] = STATISTICS.filtered_trials, STATISTICS.filtered_elements
        compute = compute_dtype(task, workload)
        for name, sample in samples.items():
            got = results[name]
            known = self._results.setdefault(name, _Result(got.dtype, compute, got.numel() == 1))
            known.scalar &= got.numel() == 1
            known.compute = torch.float64 if torch.float64 in (known.compute, compute) else compute
            known.add(workload, observe(sample, got), point=point)

    def _filters(self, workload: Workload, item: PoolEntry) -> bool:
        """Whether shortened factors are looked for in this trial: in the first few of a workload, and in as many as it
        takes where results are small. What is known of a pair already costs nothing."""
        trials, elements = self._filtered.get(workload, (0, 0))
        if trials >= STATISTICS.filtered_trials and elements >= STATISTICS.filtered_elements:
            return False
        assert item.samples is not None
        size = sum(index.numel() for index in item.samples.index.values())
        self._filtered[workload] = trials + 1, elements + size
        return True

    def report(self) -> Message:
        """What was found in every result: over all workloads, and over the public ones, which an author may see."""
        return {"all": self._reports(hidden=True), "public": self._reports(hidden=False)}

    def _reports(self, *, hidden: bool) -> list[Message]:
        found = {name: one.conclude(hidden=hidden) for name, one in self._results.items()}
        return [
            {"result": name, "scalar": self._results[name].scalar, **_message(summary)}
            for name, summary in found.items()
            if summary is not None
        ]


def _message(summary: ErrorSummary) -> Message:
    return {key: value for key, value in asdict(summary).items() if key != "margins"}
