"""Renders a product of two matrices by one of several methods, which the plan may choose by size."""

from __future__ import annotations

import re
from collections.abc import Callable
from textwrap import indent

from kernelwright.proposers.templates.cuda.epilogue import written_epilogue
from kernelwright.proposers.templates.cuda.kernels import Kernel, KernelBody, KernelWriter, python_size
from kernelwright.proposers.templates.cuda.products import blocked, dots, padding, producers, tiles
from kernelwright.proposers.templates.cuda.products.dynamic import with_sizes_as_arguments
from kernelwright.proposers.templates.cuda.products.folding import ColumnSum, FoldedProduct, written_operand
from kernelwright.proposers.templates.genes import Gene, GenePool, Genes
from kernelwright.proposers.templates.graph import Graph
from kernelwright.proposers.templates.patterns.heavy import MatmulStep
from kernelwright.proposers.templates.sizes import Sizes

METHODS = ("size", "tiles", "dots", "sgemm", "tf32x3", "wgmma", "producers")
SHAPES = tuple(dict.fromkeys((*blocked.SHAPES, *producers.SHAPES)))
MEMORY = re.compile(r"(\w+) = kw\.(?:scratch|workspace)\(")
NUMBER = re.compile(r"^\s*(\w+) = ", re.MULTILINE)
SUM_GENES: Genes = {"patch": "1x1", "team": 0, "warps": 1, "ahead": 4, "width": 4}


def gene_pool(step: MatmulStep) -> GenePool:
    return GenePool(
        (
            Gene("method", METHODS, ("size", "wgmma", "tf32x3", "sgemm", "tiles")),
            Gene("border", (20, 22, 24, 26), (24,)),  # small: fewer than 2 ** border multiplications
            # Small products.
            Gene("patch", dots.PATCHES, ("0", "4x4", "2x2", "4x8", "1x2", "8x4")),  # elements of a warp; 0: by size
            Gene("team", (0, 1, 2, 4, 8, 16), (0, 16, 4, 2)),  # warps that share the depth; 0: as it is long
            Gene("warps", (1, 2, 4, 8), (1, 4, 2)),  # of a block, at least
            Gene("ahead", (1, 2, 4, 8), (4, 8, 2)),  # steps of the depth that are loaded at once
            Gene("width", (1, 2, 4), (4, 2)),
            # Large ones, and tiles.
            Gene("block", SHAPES, ("0", "128x64", "128x128", "256x128", "64x64")),
            Gene("depth", (8, 16, 32), (32, 16)),
            Gene("stages", (0, 2, 3, 4), (0, 4, 2)),  # 0: by method and tile
            padding.GENE,  # operands with odd rows are copied to aligned ones first
            Gene("split", (0, 1, 2, 4), (1, 0, 2)),  # blocks on each multiprocessor that share the depth
            Gene("tile", (0, 16, 32, 64, 128), (0,)),
        )
    )


def describe(step: MatmulStep, genes: Genes) -> str:
    small, large = _methods(step, genes)
    text = _described(large, step, genes)
    if small != large:
        few = f"below 2^{genes['border']} multiplications, or for {dots.FEW} rows or columns at most"
        text = f"{_described(small, step, genes)} {few}, else {text}"
    return text + (", the steps after it on each element" if step.epilogue else "")


def render(step: MatmulStep, genes: Genes, sizes: Sizes, graph: Graph, number: int) -> list[Kernel]:
    code = writer(step, genes, sizes, graph, number)
    end, last = written_epilogue(code, step)
    small, large = _methods(step, genes)
    if small != large:
        code.set("small", f"int({is_small(step, genes, sizes)})")
    before = []
    if large == "producers":
        code.set("produced", f"int({is_produced(step, code)})")
        produced = f"produced_{number}" + (f" and not small_{number}" if small != large else "")
        before.append(padding.kernel(step, code, produced, *producers.choice(genes, number, f"n_{number}"), None))
    if small == large:
        body = _written(large, step, code)
    else:
        body = _either("small", code, lambda: _written(small, step, code), lambda: _written(large, step, code))
    return [*before, kernel(code, body, end, last)]


def render_folded(step: FoldedProduct, genes: Genes, sizes: Sizes, graph: Graph, number: int) -> list[Kernel]:
    code = writer(step.product, genes, sizes, graph, number)
    end, last = written_epilogue(code, step.product)
    text, left = written_operand(code, step.left)
    return [kernel(code, dots.written(step.product, code, left), text + end, last)]


def render_sum(step: ColumnSum, genes: Genes, sizes: Sizes, graph: Graph, number: int) -> list[Kernel]:
    code = writer(step.product, SUM_GENES, sizes, graph, number)
    end, last = written_epilogue(code, step.product)
    text, right = written_operand(code, step.right)
    return [kernel(code, dots.written(step.product, code, "Ones{}", right), text + end, last)]


def is_small(step: MatmulStep, genes: Genes, sizes: Sizes) -> str:
    """In Python."""
    if genes["method"] != "size":
        return str(genes["method"] == "dots")
    m, n, k = (python_size(extent, sizes) for extent in (step.m, step.n, step.k))
    return dots.is_small(step, int(genes["border"]), m, n, k)


def writer(step: MatmulStep, genes: Genes, sizes: Sizes, graph: Graph, number: int) -> KernelWriter:
    code = KernelWriter(genes=genes, sizes=sizes, graph=graph, step=number)
    for name, extent in (("m", step.m), ("n", step.n), ("k", step.k)):
        code.give_size(name, code.size(extent))
    if code.dynamic:
        code.set("even", f"int(bool(n_{number} % 4 == 0))")
    return code


def kernel(code: KernelWriter, body: KernelBody, before: str, last: str) -> Kernel:
    n = code.step
    shape = [f"const Shape_{n} shape{{M_{n}, N_{n}, K_{n}}};", "(void)shape;"] if code.dynamic else []
    return Kernel(
        f"product_{code.step}",
        tuple(code.parameters.values()),
        "".join(f"{line}\n" if line.startswith("#") else f"  {line}\n" for line in (*shape, last, *body.lines)),
        code.plan_lines,
        body.blocks,
        body.threads,
        before=before,
        least_blocks=body.least_blocks,
        shared=body.shared,
        heavy=body.heavy,
        needs=tuple(map(with_sizes_as_arguments, body.needs)) if code.dynamic else body.needs,
        helpers=body.helpers,
        dynamic=code.dynamic,
    )


def _methods(step: MatmulStep, genes: Genes) -> tuple[str, str]:
    """For small and for large sizes."""
    method = str(genes["method"])
    small, large = ("dots", "producers") if method == "size" else (method, method)
    return ("tiles" if small == "dots" and not dots.covers(step) else small), large if large != "dots" else small


def _described(method: str, step: MatmulStep, genes: Genes) -> str:
    match method:
        case "tiles":
            return tiles.describe(genes)
        case "dots":
            return dots.describe(step, genes)
        case "producers":
            return f"{producers.describe(genes)}, else {blocked.describe('wgmma', genes)}"
    return blocked.describe(method, genes)


def _written(method: str, step: MatmulStep, code: KernelWriter) -> KernelBody:
    match method:
        case "tiles":
            return tiles.written(step, code)
        case "dots":
            return dots.written(step, code)
        case "producers":
            return _either(
                "produced",
                code,
                lambda: producers.written(step, code),
                lambda: blocked.written("wgmma", step, code),
                apart=True,
            )
    return blocked.written(method, step, code)


def is_produced(step: MatmulStep, code: KernelWriter) -> str:
    """In Python."""
    hopper, n = 'kw.device.architecture == "sm_90a"', code.step
    if code.genes["method"] == "producers":
        return hopper
    return f"{hopper} and {producers.is_large(n)} and {padding.is_fed(step, code)}"


def _either(
    flag: str,
    code: KernelWriter,
    write_one: Callable[[], KernelBody],
    write_other: Callable[[], KernelBody],
    *,
    apart: bool = False,
) -> KernelBody:
    """The first where the plan's `flag` of the step holds. The plan says so by a definition: the other is not even
    compiled."""
    one, other = (
        _written_apart(flag, code, write_one, write_other) if apart or code.dynamic else (write_one(), write_other())
    )
    n = code.step

    def chosen(one: str, other: str) -> str:
        return one if one == other else f"(({one}) if {flag}_{n} else ({other}))"

    return KernelBody(
        [f"#if {flag.upper()}_{n}", *one.lines, "#else", *other.lines, "#endif"],
        chosen(one.blocks, other.blocks),
        chosen(one.threads, other.threads),
        chosen(one.shared, other.shared),
        chosen(one.least_blocks, other.least_blocks),
        other.heavy,
        (*one.needs, *other.needs),
        (*one.helpers, *other.helpers),
    )


def _written_apart(
    flag: str, code: KernelWriter, write_one: Callable[[], KernelBody], write_other: Callable[[], KernelBody]
) -> tuple[KernelBody, KernelBody]:
    """Only the method at hand is planned: numbers of both have the same names, or with dynamic sizes cases of one would
    be multiplied by those of the other. The kernel still takes the memory of both."""
    setup, n = code.setup, code.step
    bodies, parts = [], []
    for write in (write_one, write_other):
        code.setup = []
        bodies.append(write())
        parts.append(list(dict.fromkeys(code.setup)))
    memory = [{name for line in lines for name in MEMORY.findall(line)} for lines in parts]
    passed = {name for one in code.parameters.values() for name in re.findall(r"\w+", one.value)}
    numbers = [{name for line in lines for name in NUMBER.findall(line)} & passed for lines in parts]
    for lines, here, there in ((parts[0], 0, 1), (parts[1], 1, 0)):
        lines += [f'{name} = kw.scratch("{name}", 4)' for name in sorted(memory[there] - memory[here])]
        lines += [f"{name} = 0" for name in sorted(numbers[there] - numbers[here])]
    one, other = (indent("\n".join(lines), "    ") for lines in parts)
    code.setup = [*setup, f"if {flag}_{n}:\n{one}\nelse:\n{other}"]
    return bodies[0], bodies[1]
