"""The back-ends of `templates`: for each contract that it can write, the module that renders candidates."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Protocol, cast

from kernelwright.errors import KernelwrightError
from kernelwright.proposers.templates.genes import GenePool, Genes
from kernelwright.proposers.templates.plan import StepPlan
from kernelwright.tasks.model import Signature


class Renderer(Protocol):
    """Writes a plan with genes as a candidate of one contract: cpp/candidate.py is one."""

    ATTENTION: bool  # whether it writes attention as one step
    MIXED: bool  # whether operands of a contraction may have two dtypes

    def gene_pool(self, plan: StepPlan) -> GenePool: ...

    def describe(self, plan: StepPlan, genes: Genes) -> str: ...

    def render(self, plan: StepPlan, genes: Genes, signatures: Sequence[Signature]) -> str: ...


_MODULES: dict[str, str] = {}


def register(contract: str, module: str) -> None:
    """Adds a back-end: a module with the functions of `Renderer`, imported when it is first asked for."""
    _MODULES[contract] = module


def renderer_for(contract: str) -> Renderer:
    if contract not in _MODULES:
        raise KernelwrightError(
            f"templates cannot write {contract!r} candidates: use the contract {' or '.join(_MODULES)}, or another "
            "--proposer"
        )
    return cast(Renderer, import_module(_MODULES[contract]))


register("cpp", "kernelwright.proposers.templates.cpp.candidate")
register("cuda", "kernelwright.proposers.templates.cuda.candidate")
