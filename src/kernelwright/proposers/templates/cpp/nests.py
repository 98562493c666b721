"""Renders a generic step in C++: nested loops, the outer ones shared by threads."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import indent

from kernelwright.contracts.cpp import TYPES
from kernelwright.proposers.templates.genes import Gene, GenePool, Genes
from kernelwright.proposers.templates.graph import Extent, Number, total
from kernelwright.proposers.templates.nests.nest_bodies import element_body, functions
from kernelwright.proposers.templates.nests.nest_code import NestCode, NestTarget, computed
from kernelwright.proposers.templates.patterns.nests import NestStep
from kernelwright.proposers.templates.sizes import Sizes

PRELUDE = functions("inline", "std::numeric_limits<float>::infinity()", "::")


def gene_pool(step: NestStep) -> GenePool:
    return GenePool(
        (
            Gene("width", (8, 16), (16, 8)),
            Gene("grain", (4096, 16384, 65536, 262144), (16384, 65536, 4096)),
        )
    )


def describe(step: NestStep, genes: Genes) -> str:
    return "loops over index maps"


def render(step: NestStep, genes: Genes, sizes: Sizes, pointers: Mapping[str, str]) -> str:
    names: dict[Extent, str] = {}

    def size(extent: Extent) -> str:
        if extent.literal is not None:
            return str(extent.literal)
        return names.setdefault(extent, f"e{len(names)}")

    def number(value: Number, kind: str) -> str:
        if isinstance(value, int) and not isinstance(value, bool):
            return f"{value}LL" if kind == "long long" else f"static_cast<{kind}>({value}.0)"
        return f"static_cast<{kind}>({sizes.number(value)})"

    def load(place: int, at: str) -> str:
        return f"static_cast<{computed(step.graph.nodes[place].dtype)}>({pointers[step.reads[place]]}[{at}])"

    code = NestCode(step.graph, step.reads, NestTarget(load, size, number, "int64_t"))
    kind = TYPES[step.root.dtype]

    def store(at: str, value: str) -> str:
        return f"{pointers[step.output]}[{at}] = static_cast<{kind}>({value});"

    space = step.space
    inner = max((dim for dim, extent in enumerate(space) if not extent.single), default=None)
    outer = space if inner is None else space[:inner]
    at = code.split("o", outer) if inner is not None else ("0",) * len(space)
    if inner is None:
        element_body(code, step, at, "0", store)
    else:
        index = (*at, "c", *("0" for _ in space[inner + 1 :]))
        with code.block(f"for (int64_t c = 0; c < {size(space[inner])}; ++c)"):
            element_body(code, step, index, code.simple(f"o * {size(space[inner])} + c"), store)
    work = " * ".join(f"double({size(total(s))})" for s in (space, step.reduced))
    rows = size(total(outer)) if inner is not None else "1"
    lines = indent("\n".join(code.lines), "  ")
    head = "".join(f"const int64_t {name} = {sizes.expression(extent)};\n" for extent, name in names.items())
    body = (
        f"{head}#pragma omp parallel for schedule(static) if ({work} >= {genes['grain']})\n"
        f"for (int64_t o = 0; o < {rows}; ++o) {{\n{lines}\n}}\n"
    )
    return indent(f"{{\n{indent(body, '  ')}}}\n", "  ")
