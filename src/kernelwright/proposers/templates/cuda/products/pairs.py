"""Two products of one left operand in one kernel, where only steps after the second need the first (SwiGLU).

Tiles have columns of both, and the same thread has an element of the first and that of the second, so that the first is
never stored. The plan says by size whether it is done, else both kernels follow each other as usual.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kernelwright.proposers.templates.cuda.epilogue import written_epilogue
from kernelwright.proposers.templates.cuda.kernels import DYNAMIC, Kernel
from kernelwright.proposers.templates.cuda.products import matmul, padding, producers
from kernelwright.proposers.templates.cuda.products.folding import reads_of
from kernelwright.proposers.templates.genes import Genes
from kernelwright.proposers.templates.graph import Graph
from kernelwright.proposers.templates.patterns.heavy import MatmulStep
from kernelwright.proposers.templates.patterns.rows import RowProgram, Span
from kernelwright.proposers.templates.plan import Buffer
from kernelwright.proposers.templates.sizes import Sizes


@dataclass(frozen=True)
class PairedProduct:
    first: MatmulStep
    second: MatmulStep


def pairs(steps: Mapping[int, object], buffers: Sequence[Buffer]) -> dict[int, PairedProduct]:
    """By the number of the first; the second has the next one."""
    own = {buffer.name for buffer in buffers}
    found: dict[int, PairedProduct] = {}
    for number, first in steps.items():
        second = steps.get(number + 1)
        if not isinstance(first, MatmulStep) or not isinstance(second, MatmulStep) or number - 1 in found:
            continue
        readers = [at for at, step in steps.items() if at != number and first.output in reads_of(step)]  # type: ignore[arg-type]
        if readers == [number + 1] and first.output in own and _beside(first, second):
            found[number] = PairedProduct(first, second)
    return found


def _beside(first: MatmulStep, second: MatmulStep) -> bool:
    def form(step: MatmulStep) -> MatmulStep:
        return replace(step, right="", output="", epilogue=None)

    if first.epilogue is not None or second.epilogue is None or form(first) != form(second):
        return False
    return first.output != second.right and _loads_beside(second.epilogue, first.output)


def _loads_beside(program: RowProgram, tensor: str) -> bool:
    loads = [i for i in program.instructions if i.operation == "load" and i.tensor == tensor]
    return all(i.span == Span.full and i.dtype == "float32" and not i.memory for i in loads)


def applies(genes: Genes) -> bool:
    return genes["method"] in ("size", "producers") and genes.get("sizes") != DYNAMIC


def render(pair: PairedProduct, genes: Genes, sizes: Sizes, graph: Graph, number: int, at: int) -> list[Kernel]:
    """The kernel of both, under the number `at` of its own, and those of each, of which the plan launches what it
    needs."""
    code = matmul.writer(pair.second, genes, sizes, graph, at)
    code.set(
        "paired", f"int({matmul.is_produced(pair.second, code)} and not ({matmul.is_small(pair.second, genes, sizes)}))"
    )
    end, last = written_epilogue(code, pair.second, beside=pair.first.output)
    cols, first = f"2 * n_{at}", pair.first.right
    before = padding.kernel(pair.second, code, f"paired_{at}", *producers.choice(genes, at, cols), first)
    both = matmul.kernel(code, producers.written(pair.second, code, first), end, last)
    each = [
        kernel
        for step, own in ((pair.first, number), (pair.second, number + 1))
        for kernel in matmul.render(step, genes, sizes, graph, own)
    ]
    return [before, replace(both, when=f"paired_{at}"), *(replace(kernel, when=f"not paired_{at}") for kernel in each)]
