"""CUDA templates on the emulator: right on ragged sizes for every pattern, and taken by the GPU's compiler."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kernelwright.contracts import Candidate
from kernelwright.contracts.cuda.source import split
from kernelwright.contracts.cuda.target import HOPPER
from kernelwright.contracts.cuda.toolkit import include_directories
from kernelwright.judge.emulate.check import Checker
from kernelwright.judge.emulate.model import CheckOutcome
from kernelwright.judge.gpu import nvrtc
from kernelwright.judge.gpu.evaluate import evaluate_plans
from kernelwright.proposers.templates import TemplateProposer, make
from kernelwright.tasks.model import ScalarSpec, Signature, TensorSpec
from kernelwright.tasks.resolve import resolve

TASKS = Path(__file__).parent / "cuda_tasks"
FORWARD = tuple(sorted(path.stem for path in TASKS.glob("*.py")))
BACKWARD = tuple(f"{name}:backward" for name in FORWARD if name not in ("argmax",))
QUICK = ("layernorm", "cross_entropy", "linear_relu:backward", "conv_relu_pool")
# Ways to multiply where an operand does not lie along the depth.
GRADIENTS: tuple[dict[str, int | str], ...] = (
    {"method": "dots", "patch": "4x4", "team": 16, "ahead": 1},
    {"method": "dots", "patch": "8x4", "team": 1, "warps": 4, "width": 2},
    {"method": "sgemm", "block": "64x64", "depth": 16, "stages": 2},
    {"method": "tf32x3", "block": "128x64", "depth": 16, "stages": 4},
)
# What another choice than the expert's changes most.
CHOICES = (
    ("cross_entropy:backward", {"recount": True}),
    ("column_sum", {"joined": "last"}),
    ("rmsnorm:backward", {"joined": "last", "most": 128, "elements": 4, "keep": 0}),
    ("softmax", {"width": 1, "persist": 1, "stream": True}),
    ("layernorm", {"split": 256, "keep": 0}),
    ("linear_relu:backward", {"fold": False}),
    ("linear_relu", {"method": "tiles", "tile": 16, "depth": 8, "split": 4}),
    ("linear_relu", {"method": "dots", "patch": "8x8", "team": 16}),
    ("linear_relu", {"method": "dots", "patch": "2x1", "team": 1, "warps": 4, "width": 2}),
    ("linear_relu", {"method": "sgemm", "block": "128x64", "depth": 16, "split": 4}),
    ("linear_relu", {"method": "tf32x3", "block": "128x128", "depth": 16}),
    *(
        ("linear_relu:backward", {f"{name}{n}": value for name, value in genes.items() for n in (3, 4)})
        for genes in GRADIENTS
    ),
)


@pytest.fixture(scope="module")
def checker() -> Iterator[Checker]:
    with Checker(small=1) as one:
        yield one


def reference(name: str) -> str:
    stem, _, direction = name.partition(":")
    return f"{TASKS / stem}.py{':' + direction if direction else ''}"


def proposer(name: str) -> TemplateProposer:
    return make(resolve(reference(name)), "cuda")


def candidate(templates: TemplateProposer, genes: dict[str, int | float | str | bool]) -> Candidate:
    pool = templates.renderer.gene_pool(templates.plan)
    chosen = pool.legal(pool.default() | genes)
    return Candidate("cuda", templates.renderer.render(templates.plan, chosen, templates.signatures), "templates")


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in (*FORWARD, *BACKWARD)]
)
def test_the_expert_choice_is_right(checker: Checker, name: str) -> None:
    found = checker.check(reference(name), candidate(proposer(name), {}))
    assert found.outcome is CheckOutcome.right, found
    assert len(found.workloads) >= 2


@pytest.mark.slow
@pytest.mark.parametrize(("name", "genes"), CHOICES)
def test_other_choices_are_right(checker: Checker, name: str, genes: dict[str, int | float | str | bool]) -> None:
    templates = proposer(name)
    known = {gene.name for gene in templates.renderer.gene_pool(templates.plan).genes}
    assert set(genes) <= known
    found = checker.check(reference(name), candidate(templates, genes))
    assert found.outcome is CheckOutcome.right, found


@pytest.mark.skipif(bool(nvrtc.available()), reason="NVRTC is missing")
@pytest.mark.parametrize("name", (*FORWARD, *BACKWARD))
def test_the_gpu_compiler_takes_it(name: str) -> None:
    """The expert's choice and one by chance, for every public workload."""
    templates = proposer(name)
    drawn = templates.renderer.gene_pool(templates.plan).drawn(random.Random(name))
    for genes in ({}, drawn):
        sources = split(candidate(templates, genes).source)
        plans = evaluate_plans(sources.plan, templates.signatures, HOPPER)
        assert isinstance(plans, tuple), plans
        for plan in plans:
            options = [f"--gpu-architecture={HOPPER.architecture}", f"--std={plan.options.std}"]
            options += [f"-D{name}={value}" for name, value in plan.definitions]
            options += [f"-I{folder}" for folder in include_directories()]
            assert nvrtc.compile_cuda(sources.kernel, "kernel.cu", options, plan.kernels).cubin


def test_a_row_of_four_million_elements_is_split_over_all_multiprocessors() -> None:
    templates = proposer("layernorm")
    sources = split(candidate(templates, {}).source)
    cols = 64 * 256 * 256
    long = Signature(tuple(_with_columns(argument, cols) for argument in templates.signatures[0].arguments))
    plans = evaluate_plans(sources.plan, (long,), HOPPER)
    assert isinstance(plans, tuple), plans
    (launch,) = plans[0].launches
    assert launch.cooperative and launch.grid[0] == HOPPER.multiprocessors and launch.block[0] == 1024
    assert dict(plans[0].definitions)["KEEP_0_0"] == "1"


def _with_columns(argument: TensorSpec | ScalarSpec, cols: int) -> TensorSpec | ScalarSpec:
    assert isinstance(argument, TensorSpec)
    shape = (*argument.shape[:-1], cols)
    return replace(argument, shape=shape, strides=(cols, 1)[-len(shape) :])
