"""One cuda candidate for the emulator: its plan evaluated, its kernels as host code, a build plan for each workload."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernelwright.contracts.cuda.emulate.headers import needed_headers
from kernelwright.contracts.cuda.emulate.refuse import refuse_source, without_comments
from kernelwright.contracts.cuda.emulate.translate import build_plan, translate
from kernelwright.contracts.cuda.source import Sources
from kernelwright.contracts.cuda.toolchain.evaluate import evaluate_plans
from kernelwright.contracts.model import BuildFailure, BuildPlan
from kernelwright.contracts.target import Target
from kernelwright.tasks.model import Signature


class CudaEmulation:
    def __init__(self, sources: Sources) -> None:
        refuse_source(without_comments(sources.kernel))
        self._sources = sources

    def builds(
        self, signatures: tuple[Signature, ...], target: Target, *, sanitized: bool
    ) -> Iterator[BuildPlan | BuildFailure]:
        plans = evaluate_plans(self._sources.plan, signatures, target)
        if isinstance(plans, BuildFailure):
            yield plans
            return
        for plan, signature in zip(plans, signatures, strict=True):
            made = translate(self._sources.kernel, plan, signature, target)
            yield made if isinstance(made, BuildFailure) else build_plan(*made, plan, sanitized=sanitized)

    def advice(self, lines: Sequence[str]) -> tuple[str, ...]:
        return needed_headers(lines)
