"""Generic CUDA steps on the emulator: right on ragged sizes, with fixed sizes only, taken by the GPU's compiler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kernelwright.contracts import Candidate, nvrtc
from kernelwright.contracts.cuda.source import split
from kernelwright.contracts.cuda.toolchain.evaluate import evaluate_plans
from kernelwright.contracts.cuda.toolkit import include_directories
from kernelwright.contracts.target import HOPPER
from kernelwright.judge.emulate.check import Checker, CheckOutcome
from kernelwright.proposers.templates import TemplateProposer, make
from kernelwright.proposers.templates.patterns.attention import AttentionStep
from kernelwright.proposers.templates.patterns.contractions import ContractionStep
from kernelwright.proposers.templates.patterns.nests import NestStep
from kernelwright.tasks.resolve import resolve
from tests.proposers.templates.test_cuda import candidate

TASKS = Path(__file__).parent / "generic_tasks"
NAMES = ("attention", "convolutions", "scans", "views", "windows")


def proposer(name: str) -> TemplateProposer:
    return make(resolve(str(TASKS / f"{name}.py")), "cuda")


def quick(names: tuple[str, ...]) -> list[Any]:
    return [n if n in names else pytest.param(n, marks=pytest.mark.slow) for n in NAMES]


def right(checker: Checker, name: str, made: Candidate) -> None:
    found = checker.check(str(TASKS / f"{name}.py"), made)
    assert found.outcome is CheckOutcome.right, found
    assert len(found.workloads) >= 2


@pytest.mark.parametrize("name", quick(("attention", "convolutions", "views")))
def test_the_expert_choice_is_right(checker: Checker, name: str) -> None:
    templates = proposer(name)
    assert any(isinstance(step, NestStep | ContractionStep | AttentionStep) for step in templates.plan.steps)
    right(checker, name, candidate(templates, {}))


@pytest.mark.slow
@pytest.mark.parametrize("team", [1, 32, 128])
@pytest.mark.parametrize("name", ["windows", "scans"])
def test_teams_of_any_size_are_right(checker: Checker, name: str, team: int) -> None:
    templates = proposer(name)
    pool = templates.renderer.gene_pool(templates.plan)
    teams = {gene.name: team for gene in pool.genes if gene.name.startswith("team")}
    assert teams
    right(checker, name, candidate(templates, teams))


def test_generic_steps_have_fixed_sizes() -> None:
    templates = proposer("views")
    assert "sizes" not in {gene.name for gene in templates.renderer.gene_pool(templates.plan).genes}


@pytest.mark.skipif(bool(nvrtc.available()), reason="NVRTC is missing")
@pytest.mark.parametrize("name", quick(("convolutions",)))
def test_the_gpu_compiler_takes_it(name: str) -> None:
    templates = proposer(name)
    sources = split(candidate(templates, {}).source)
    plans = evaluate_plans(sources.plan, templates.signatures, HOPPER)
    assert isinstance(plans, tuple), plans
    for plan in plans:
        options = [f"--gpu-architecture={HOPPER.architecture}", f"--std={plan.options.std}"]
        options += [f"-D{name}={value}" for name, value in plan.definitions]
        options += [f"-I{folder}" for folder in include_directories()]
        assert nvrtc.compile_cuda(sources.kernel, "kernel.cu", options, plan.kernels).cubin
