"""CUDA templates with sizes as arguments: one formula for all sizes, right on ragged ones, fixed sources unchanged."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from kernelwright.contracts import Candidate, nvrtc
from kernelwright.contracts.cuda.source import split
from kernelwright.contracts.cuda.toolchain.formulate import disagreement, formula_of, plan_at
from kernelwright.contracts.cuda.toolchain.portable import sampled
from kernelwright.contracts.cuda.toolkit import include_directories
from kernelwright.contracts.model import BuildFailure
from kernelwright.contracts.portable import LaunchFormula
from kernelwright.contracts.symbolic import symbolic_signature
from kernelwright.contracts.target import HOPPER
from kernelwright.judge.emulate.check import Checker, CheckOutcome
from kernelwright.tasks.drawing import signature
from kernelwright.tasks.model import Workload
from kernelwright.tasks.resolve import resolve
from tests.proposers.templates.test_cuda import candidate, proposer, reference

FIXED = json.loads((Path(__file__).parent / "fixed_sources.json").read_text(encoding="utf-8"))
DYNAMIC: dict[str, Any] = {"sizes": "dynamic"}
NAMES = (
    *("pointwise", "rmsnorm", "layernorm", "softmax", "cross_entropy", "argmax", "column_sum", "mean"),
    *("rmsnorm:backward", "softmax:backward", "cross_entropy:backward", "linear_relu"),
)
# Right, though their stages have more cases together than a formula takes.
MANY_CASES = ("pointwise:backward", "linear_relu:backward", "layernorm:backward")
QUICK = ("pointwise", "rmsnorm")
METHODS = ("tiles", "dots", "sgemm", "tf32x3", "wgmma")


def quick(names: tuple[str, ...]) -> list[Any]:
    return [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in names]


def formula(name: str, made: Candidate) -> LaunchFormula:
    found = formula_of(split(made.source).plan, symbolic_signature(resolve(reference(name))), HOPPER)
    assert isinstance(found, LaunchFormula), found
    return found


def points(name: str, count: int) -> list[tuple[dict[str, int], Any]]:
    task = resolve(reference(name))
    chosen = list(sampled(symbolic_signature(task)))[:count]
    return [(sizes, signature(task, Workload(tuple(sizes.items())))) for sizes in chosen]


@pytest.mark.parametrize("name", sorted(FIXED))
def test_candidates_with_fixed_sizes_are_what_they_were(name: str) -> None:
    templates = proposer(name)
    for genes, digest in FIXED[name]:
        pool = templates.renderer.gene_pool(templates.plan)
        source = templates.renderer.render(templates.plan, pool.legal(pool.default() | genes), templates.signatures)
        assert hashlib.sha256(source.encode()).hexdigest()[:20] == digest, genes


@pytest.mark.parametrize("name", quick((*NAMES, *MANY_CASES)))
def test_sizes_as_arguments_are_right(checker: Checker, name: str) -> None:
    found = checker.check(reference(name), candidate(proposer(name), DYNAMIC))
    assert found.outcome is CheckOutcome.right, found
    assert len(found.workloads) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_every_way_to_multiply_is_right(checker: Checker, method: str) -> None:
    made = candidate(proposer("linear_relu"), DYNAMIC | {"method": method})
    found = checker.check(reference("linear_relu"), made)
    assert found.outcome is CheckOutcome.right, found


@pytest.mark.parametrize("name", quick(NAMES))
def test_one_formula_gives_the_plan_at_every_size(name: str) -> None:
    made = candidate(proposer(name), DYNAMIC)
    assert disagreement(split(made.source).plan, formula(name, made), points(name, 60), HOPPER) is None


def test_definitions_with_sizes_are_refused_with_their_line() -> None:
    made = candidate(proposer("rmsnorm"), {})
    found = formula_of(split(made.source).plan, symbolic_signature(resolve(reference("rmsnorm"))), HOPPER)
    assert isinstance(found, BuildFailure) and len(found.lines) == 1
    assert found.lines[0].startswith("plan.py:") and "depends on" in found.lines[0]


@pytest.mark.skipif(bool(nvrtc.available()), reason="NVRTC is missing")
@pytest.mark.parametrize("name", quick(NAMES))
def test_the_gpu_compiler_takes_its_cases(name: str) -> None:
    """One point of each of the most different cases that the sampled sizes lead to."""
    made = candidate(proposer(name), DYNAMIC)
    sources, found = split(made.source), formula(name, made)
    by_build = {found.cases[found.case_at(sizes)].build: sizes for sizes, _ in points(name, 200)}
    for sizes in list(by_build.values())[:6]:
        plan = plan_at(found, sizes)
        assert not isinstance(plan, BuildFailure), plan
        options = [f"--gpu-architecture={HOPPER.architecture}", f"--std={plan.options.std}"]
        options += [f"-D{key}={value}" for key, value in plan.definitions]
        options += [f"-I{folder}" for folder in include_directories()]
        assert nvrtc.compile_cuda(sources.kernel, "kernel.cu", options, plan.kernels).cubin
