"""C++ templates take sizes at run time: one build is right wherever the task has to hold."""

from __future__ import annotations

import math
from typing import Any

import pytest

from kernelwright.contracts import Candidate
from kernelwright.contracts.cpp import CPP
from kernelwright.contracts.cuda.toolchain.portable import sampled
from kernelwright.contracts.symbolic import symbolic_signature
from kernelwright.proposers.templates import make
from kernelwright.tasks.drawing import signature
from kernelwright.tasks.model import Workload
from kernelwright.tasks.resolve import resolve
from tests.proposers.templates.checking import errors
from tests.proposers.templates.test_cuda import reference

QUICK = ("rmsnorm", "linear_relu")
NAMES = ("rmsnorm", "layernorm", "cross_entropy", "column_sum", "linear_relu", "maxpool2d", "conv", "rmsnorm:backward")


def quick(names: tuple[str, ...]) -> list[Any]:
    return [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in names]


@pytest.mark.parametrize("name", quick(NAMES))
def test_one_build_is_right_at_any_sizes(name: str) -> None:
    task = resolve(reference(name))
    templates = make(task, "cpp")
    genes = templates.renderer.gene_pool(templates.plan).default()
    source = templates.renderer.render(templates.plan, genes, templates.signatures)
    drawn = list(sampled(symbolic_signature(task)))[:60]
    chosen = sorted(drawn, key=lambda sizes: math.prod(sizes.values()))[:12:2]  # references take long at large ones
    forms = [signature(task, Workload(tuple(sizes.items()))) for sizes in chosen]
    builds = {CPP.build_plan(Candidate("cpp", source), form, sanitized=False) for form in forms}
    assert len(builds) == 1 and len(set(forms)) > 1
    for sizes in chosen:
        assert errors(task, source, sizes) == [], sizes
