"""CUDA templates on the emulator: right on ragged sizes for every pattern, and taken by the GPU's compiler."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from kernelwright.contracts import Candidate, nvrtc
from kernelwright.contracts.cuda.plan import Plan
from kernelwright.contracts.cuda.source import split
from kernelwright.contracts.cuda.toolchain.evaluate import evaluate_plans
from kernelwright.contracts.cuda.toolkit import include_directories
from kernelwright.contracts.target import HOPPER
from kernelwright.judge.emulate.check import Checker, CheckOutcome
from kernelwright.proposers.templates import TemplateProposer, make
from kernelwright.proposers.templates.cuda.rows import stage_plan
from kernelwright.proposers.templates.cuda.rows.analysis import moments, stage_of
from kernelwright.proposers.templates.patterns.rows import RowProgram
from kernelwright.tasks.drawing import signature
from kernelwright.tasks.model import Workload
from kernelwright.tasks.resolve import resolve

TASKS = Path(__file__).parent / "cuda_tasks"
FORWARD = tuple(sorted(path.stem for path in TASKS.glob("*.py")))
BACKWARD = tuple(f"{name}:backward" for name in FORWARD if name not in ("argmax",))
LONG = 64 * 256 * 256
# One of every pattern; `make test-all` has them all.
QUICK = ("layernorm", "cross_entropy", "linear_relu:backward", "conv_relu_pool")
COMPILED = (
    *("argmax", "column_sum", "conv", "conv_relu_pool", "layernorm", "linear_relu", "maxpool2d", "pointwise"),
    *("cross_entropy:backward", "linear_relu:backward", "maxpool2d_overlapping:backward", "rmsnorm:backward"),
)
# Ways to multiply where an operand does not lie along the depth.
GRADIENTS: tuple[dict[str, int | str], ...] = (
    {"method": "dots", "patch": "4x4", "team": 16, "ahead": 1},
    {"method": "dots", "patch": "8x4", "team": 1, "warps": 4, "width": 2},
    {"method": "sgemm", "block": "64x64", "depth": 16, "stages": 2},
    {"method": "tf32x3", "block": "128x64", "depth": 16, "stages": 4},
    {"method": "wgmma", "stages": 2},
)
# What another choice than the expert's changes most.
CHOICES = (
    ("cross_entropy", {"solo": 0, "fewest": 1, "ahead": True, "persist": 1}),
    ("cross_entropy:backward", {"recount": 0}),
    ("cross_entropy:backward", {"fewest": 8, "elements": 2, "ahead": True, "persist": 1}),
    ("column_sum", {"joined": "last"}),
    ("rmsnorm:backward", {"joined": "last", "most": 128, "elements": 4, "keep": 0}),
    ("softmax", {"width": 1, "persist": 1, "stream": True}),
    ("rmsnorm", {"ahead": True, "hold": False, "persist": 1, "keep": 96}),
    ("layernorm", {"split": 256, "keep": 0}),
    ("linear_relu:backward", {"fold": False}),
    ("linear_relu", {"method": "tiles", "tile": 16, "depth": 8, "split": 4}),
    ("linear_relu", {"method": "dots", "patch": "8x8", "team": 16}),
    ("linear_relu", {"method": "dots", "patch": "2x1", "team": 1, "warps": 4, "width": 2}),
    ("linear_relu", {"method": "sgemm", "block": "128x64", "depth": 16, "split": 4}),
    ("linear_relu", {"method": "tf32x3", "block": "128x128", "depth": 16}),
    ("linear_relu", {"method": "wgmma", "block": "128x128", "stages": 4, "split": 4}),
    *(
        ("linear_relu:backward", {f"{name}{n}": value for name, value in genes.items() for n in (3, 4)})
        for genes in GRADIENTS
    ),
    ("layernorm:backward", {"split": 512, "crowd": 512, "most": 128, "elements": 2}),
    ("layernorm:backward", {"split": 0, "keep": 0, "persist": 1}),
    ("maxpool2d", {"pair": 4, "lines": 4, "stream": True}),
    ("maxpool2d:backward", {"pair": 1, "lines": 8}),
    ("conv:backward", {"shares": 1, "blocks2": 1, "group": 2}),
)


def reference(name: str) -> str:
    stem, _, direction = name.partition(":")
    return f"{TASKS / stem}.py{':' + direction if direction else ''}"


def proposer(name: str) -> TemplateProposer:
    return make(resolve(reference(name)), "cuda")


def candidate(templates: TemplateProposer, genes: dict[str, int | float | str | bool]) -> Candidate:
    pool = templates.renderer.gene_pool(templates.plan)
    chosen = pool.legal(pool.default() | genes)
    return Candidate("cuda", templates.renderer.render(templates.plan, chosen, templates.signatures), "templates")


def quick(names: tuple[str, ...]) -> list[Any]:
    return [n if n in names else pytest.param(n, marks=pytest.mark.slow) for n in (*FORWARD, *BACKWARD)]


@pytest.mark.parametrize("name", quick(QUICK))
def test_the_expert_choice_is_right(checker: Checker, name: str) -> None:
    found = checker.check(reference(name), candidate(proposer(name), {}))
    assert found.outcome is CheckOutcome.right, found
    assert len(found.workloads) >= 2


def test_warpgroups_multiply_right(checker: Checker) -> None:
    found = checker.check(reference("linear_relu"), candidate(proposer("linear_relu"), {"method": "wgmma"}))
    assert found.outcome is CheckOutcome.right, found


@pytest.mark.slow
@pytest.mark.parametrize(("name", "genes"), CHOICES)
def test_other_choices_are_right(checker: Checker, name: str, genes: dict[str, int | float | str | bool]) -> None:
    templates = proposer(name)
    known = {gene.name for gene in templates.renderer.gene_pool(templates.plan).genes}
    assert set(genes) <= known
    found = checker.check(reference(name), candidate(templates, genes))
    assert found.outcome is CheckOutcome.right, found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["layernorm:backward", "rmsnorm:backward"])
def test_threads_may_own_columns(checker: Checker, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where rows are few and very long, at sizes that the emulator can do."""
    monkeypatch.setattr(stage_plan, "MANY", 16)
    found = checker.check(reference(name), candidate(proposer(name), {"owned": True}))
    assert found.outcome is CheckOutcome.right, found


@pytest.mark.skipif(bool(nvrtc.available()), reason="NVRTC is missing")
@pytest.mark.parametrize("name", quick(COMPILED))
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


def plan_at(name: str, **sizes: int) -> Plan:
    """The plan of the expert's choice at other sizes."""
    form = signature(resolve(reference(name)), Workload(tuple(sizes.items())))
    plans = evaluate_plans(split(candidate(proposer(name), {}).source).plan, (form,), HOPPER)
    assert isinstance(plans, tuple), plans
    return plans[0]


def test_a_row_of_four_million_elements_is_split_over_all_multiprocessors() -> None:
    plan = plan_at("layernorm", rows=1, cols=LONG)
    (launch,) = plan.launches
    assert launch.cooperative and launch.grid[0] == HOPPER.multiprocessors and launch.block[0] == 1024
    assert dict(plan.definitions)["KEEP_0_0"] == "1"


def test_its_gradient_is_kept_whole_too_and_needs_no_partial_sums() -> None:
    plan = plan_at("layernorm:backward", rows=1, cols=LONG)
    (launch,) = plan.launches
    assert launch.cooperative and launch.grid[0] == HOPPER.multiprocessors and launch.shared > 100_000
    assert sum(memory.bytes for memory in plan.scratch) < 10_000


def test_few_such_rows_leave_no_column_sums_in_memory() -> None:
    plan = plan_at("layernorm:backward", rows=32, cols=LONG)
    assert len(plan.launches) == 3 and not any(launch.cooperative for launch in plan.launches)
    assert sum(memory.bytes for memory in plan.scratch) < 1_000_000


def test_few_elements_are_one_block_and_many_are_not() -> None:
    few, many = (plan_at("cross_entropy", rows=rows, classes=10) for rows in (64, 64_000))
    assert [launch.grid[0] for launch in few.launches] == [1]
    assert [launch.grid[0] > 1 for launch in many.launches] == [True]


def test_a_number_over_few_rows_needs_no_launch_of_its_own() -> None:
    few, many = (plan_at("cross_entropy:backward", rows=rows, classes=10) for rows in (64, 64_000))
    assert [len(plan.launches) for plan in (few, many)] == [1, 2]


def test_sums_around_the_mean_are_recognised_in_gradients_too() -> None:
    (step,) = proposer("layernorm:backward").plan.steps
    assert isinstance(step, RowProgram)
    found = moments(step, stage_of(step, 0))
    assert found and found.squares is not None and len(found.products) == 1
    assert found.products[0].total in found.others
