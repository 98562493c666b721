"""Renders a row program: a team of threads for each row, from four lanes to many blocks.

Every stage is a kernel. What is reduced over the rows leaves it as partial results: single numbers are joined by the
block that comes last, columns by a kernel of their own.
"""

from __future__ import annotations

from typing import Any

from kernelwright.proposers.templates.cuda.kernels import DYNAMIC, Kernel
from kernelwright.proposers.templates.cuda.rows.analysis import recounted, stage_of, suits_column_threads
from kernelwright.proposers.templates.cuda.rows.column_threads import ColumnThreads, RowResults, RowShares
from kernelwright.proposers.templates.cuda.rows.stage import StageWriter
from kernelwright.proposers.templates.cuda.rows.writer import JoinWriter, column_stores, width_gene
from kernelwright.proposers.templates.genes import Gene, GenePool, Genes
from kernelwright.proposers.templates.graph import CannotExpressError, Graph
from kernelwright.proposers.templates.patterns.rows import RowProgram, Span
from kernelwright.proposers.templates.sizes import Sizes


def gene_pool(program: RowProgram) -> GenePool:
    over = program.reduces_rows
    genes = [
        width_gene(program),
        Gene("elements", (2, 4, 8, 16, 32), (16, 8, 4)),
        Gene("most", (128, 256, 512, 1024), (256, 512, 128)),
        Gene("persist", (1, 2, 4, 8) if over else (0, 1, 2, 4, 8), (2, 4, 8) if over else (0, 4, 8)),
        Gene("unroll", (1, 2, 4), (4, 2, 1)),
        Gene("dense", (0, 4, 6, 8), (0, 6, 8)),  # so many times 256 threads must fit on a multiprocessor
    ]
    if any(i.operation == "reduce" and i.over == Span.row and i.span == Span.one for i in program.instructions):
        genes.append(Gene("solo", (0, 4096, 32768), (32768, 4096, 0)))
    if any(program.instructions[s.place].span == Span.full for s in program.stores):
        genes.append(Gene("stream", (False, True), (False, True)))
    if program.sums_columns:
        genes.append(Gene("joined", ("apart", "last"), ("apart", "last")))
        if any(suits_column_threads(program, stage_of(program, number)) for number in range(program.stages)):
            genes.append(Gene("owned", (False, True), (True, False)))
    if recounted(program):
        genes.append(Gene("recount", (0, 256, 2048, 16384), (2048, 256, 0)))
    if program.reduces_cols:
        genes.append(Gene("fewest", (1, 4, 8), (4, 1, 8)))
        genes.append(Gene("ahead", (False, True), (False, True)))
        if any(i.operation == "load" and i.span == Span.col for i in program.instructions):
            genes.append(Gene("hold", (False, True), (True, False)))
        genes.append(Gene("keep", (0, 32, 64, 96), (64, 96, 0)))
        genes.append(Gene("shelf", (False, True), (False, True)))
        genes.append(Gene("split", (0, 256, 512, 1024), (1024, 512, 0)))
        genes.append(Gene("crowd", (512, 1024), (1024, 512)))
    return GenePool(tuple(genes))


def describe(program: RowProgram, genes: Genes) -> str:
    if genes.get("sizes") == DYNAMIC:
        genes = genes | dict.fromkeys(("split", "shelf", "owned"), False)  # for known sizes alone
    parts = [f"about {genes['elements']} elements a thread and at most {genes['most']} threads a row"]
    parts.append(f"vectors of {genes['width']}")
    if genes["persist"] or genes.get("ahead"):
        parts.append(f"{genes['persist'] or 'some'} persistent blocks on each multiprocessor")
    if genes.get("keep"):
        parts.append("rows kept in registers where they fit")
    if genes.get("shelf"):
        parts.append("what registers cannot keep of a row in shared memory")
    if genes.get("hold"):
        parts.append("what is the same for every row read early and once")
    if genes.get("split"):
        parts.append(f"a long row split over blocks of {genes['split']} threads that meet in a workspace")
    if genes.get("joined") == "last":
        parts.append("columns joined by the block that comes last")
    if genes.get("solo"):
        parts.append(f"one block for up to {genes['solo']} elements")
    if genes.get("owned"):
        parts.append("few rows of many columns in two goes, the second down the columns")
    if genes.get("recount"):
        parts.append(f"numbers over up to {genes['recount']} rows found anew by every block")
    if genes.get("ahead"):
        parts.append("the next row fetched before the work on a row")
    if genes.get("stream"):
        parts.append("streaming stores")
    return ", ".join(parts)


def render(program: RowProgram, genes: Genes, sizes: Sizes, graph: Graph, step: int) -> list[Kernel]:
    kernels = []
    for number in range(program.stages):
        stage = stage_of(program, number)
        given: dict[str, Any] = {"genes": genes, "sizes": sizes, "graph": graph, "step": step}
        if stage.works:
            kernels.append(StageWriter(program=program, stage=stage, **given).kernel())
        in_place = genes.get("joined") == "last" and stage.columns and not stage.totals
        if (stage.columns or column_stores(program, number + 1)) and not in_place:
            kernels.append(JoinWriter(program=program, stage=stage, **given).kernel())
        if genes.get("owned") and genes.get("sizes") != DYNAMIC and suits_column_threads(program, stage):
            writers = (RowShares, RowResults, ColumnThreads)
            kernels += [writer(program=program, stage=stage, **given).kernel() for writer in writers]
    if any(program.instructions[s.place].stage == 0 and _narrow(program, s.place) for s in program.stores):
        raise CannotExpressError(f"{graph.task}: no CUDA template covers a result that does not vary over the rows")
    return kernels


def _narrow(program: RowProgram, place: int) -> bool:
    return not program.instructions[place].span & Span.row and not program.rows.single
