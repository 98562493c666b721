"""Renders a contraction: on tensor cores with gathered operands, or by direct sums where these would be empty."""

from __future__ import annotations

from dataclasses import replace

from kernelwright.proposers.templates.cuda import nests
from kernelwright.proposers.templates.cuda.contractions import attention, direct, produced, writing
from kernelwright.proposers.templates.cuda.contractions.forms import WIDEST, FormWriter
from kernelwright.proposers.templates.cuda.contractions.narrow import STORES
from kernelwright.proposers.templates.cuda.contractions.nested import NestedContraction, nested_end
from kernelwright.proposers.templates.cuda.contractions.operands import ProductForm
from kernelwright.proposers.templates.cuda.epilogue import stored_types, written_end
from kernelwright.proposers.templates.cuda.kernels import HEADERS, Kernel, KernelBody, KernelWriter
from kernelwright.proposers.templates.genes import Gene, GenePool, Genes
from kernelwright.proposers.templates.graph import CannotExpressError, Graph
from kernelwright.proposers.templates.patterns.contractions import ContractionForm, ContractionStep, panel_of
from kernelwright.proposers.templates.patterns.nests import NestStep
from kernelwright.proposers.templates.patterns.rows import RowProgram
from kernelwright.proposers.templates.sizes import Sizes

FEW = 8  # rows, or columns: fewer leave most of a tile empty


def covers(step: ContractionStep) -> bool:
    form = step.form
    panel = panel_of(form)
    if panel not in WIDEST or form.dtype not in ("float32", "float16", "bfloat16") or not form.kept:
        return False
    nothing = KernelWriter(genes={}, sizes=Sizes(step.nest.graph), graph=step.nest.graph, step=0)
    try:
        FormWriter(form, step.first, step.second, nothing).product()
    except CannotExpressError:
        return False
    return True


def genes(dtype: str) -> tuple[Gene, ...]:
    names = ("tf32x3", "wgmma") if dtype == "float32" else ("mma", "wgmma", "producers")
    return (
        Gene("method", ("size", "direct", *names), ("size", *names)),
        Gene("border", (18, 20, 22, 24), (20,)),  # direct: fewer than 2 ** border multiplications
        *writing.genes(),
    )


def gene_pool(step: ContractionStep) -> GenePool:
    return GenePool(genes(panel_of(step.form) or "float32"))


def describe(step: ContractionStep, chosen: Genes) -> str:
    text = f"contraction {described(str(chosen['method']), chosen)}"
    return text + (", the steps after it on each element" if step.epilogue else "")


def nested_genes(step: NestedContraction) -> GenePool:
    inner = step.contraction
    return gene_pool(inner) if isinstance(inner, ContractionStep) else attention.gene_pool(step)


def describe_nested(step: NestedContraction, chosen: Genes) -> str:
    inner = step.contraction
    if isinstance(inner, ContractionStep):
        return f"{describe(inner, chosen)}, the steps after it on each element"
    return attention.describe(step, chosen)


def described(method: str, chosen: Genes) -> str:
    if method == "direct":
        return "by direct sums"
    tiles = writing.described("wgmma" if method in ("size", "producers") else method, chosen)
    if method == "producers":
        return f"on Hopper tiles that producer warps feed, else {tiles}"
    if method != "size":
        return tiles
    return f"by direct sums below 2^{chosen['border']} multiplications or {FEW} rows or columns, else {tiles}"


def render(step: ContractionStep, genes: Genes, sizes: Sizes, graph: Graph, number: int) -> list[Kernel]:
    code = KernelWriter(genes=genes, sizes=sizes, graph=graph, step=number)
    return [written(step.form, step.first, step.second, step.output, step.epilogue, code)]


def render_nested(step: NestedContraction, genes: Genes, sizes: Sizes, graph: Graph, number: int) -> list[Kernel]:
    code = KernelWriter(genes=genes, sizes=sizes, graph=graph, step=number)
    inner = step.contraction
    if not isinstance(inner, ContractionStep):
        return attention.render(step, genes, sizes, graph, number)
    return [written(inner.form, inner.first, inner.second, inner.output, step.nest, code)]


def written(
    form: ContractionForm,
    first: str,
    second: str,
    output: str,
    program: RowProgram | NestStep | None,
    code: KernelWriter,
) -> Kernel:
    """With a generic step behind it the product itself is not stored."""
    for tensor, operand in zip((first, second), form.operands, strict=True):
        code.types[tensor] = operand.dtype
    code.types[output] = form.dtype
    if isinstance(program, RowProgram):
        code.types.update(stored_types(program))
    product = FormWriter(form, first, second, code).product()
    writing.sized(product, code)
    code.set("few", f"int({is_few(product, code)})")
    if isinstance(program, NestStep):
        end, last = nested_end(code, program, output, writing.placing(product, code))
    else:
        end, last = written_end(code, program, output, writing.placing(product, code))
    before = writing.structures(product, code) + end
    made = writing.kernel(code, _body(product, code), before, last)
    used = {*code.types.values(), product.left.panel}
    headers = tuple(text for dtype, text in HEADERS.items() if dtype in used)
    more = (nests.FUNCTIONS,) if isinstance(program, NestStep) else ()
    helpers = (nests.PLAN,) if isinstance(program, NestStep) else ()
    return replace(made, needs=(*headers, STORES, *more, *made.needs), helpers=(*helpers, *made.helpers))


def is_few(form: ProductForm, code: KernelWriter) -> str:
    """In Python: whether tiles would be mostly empty, or there is too little to do for them."""
    n = code.step
    work = f"batches_{n} * m_{n} * n_{n} * k_{n}"
    return f"min(m_{n}, n_{n}) < {FEW} or {work} < 2 ** {code.genes['border']}"


def _body(form: ProductForm, code: KernelWriter) -> KernelBody:
    n, method = code.step, str(code.genes["method"])
    if method == "direct":
        return direct.written(form, code)
    narrow = form.left.panel != "float32"
    if method not in ("size", "producers"):
        return writing.written(method, form, code)
    if narrow:
        asked = "True" if method == "producers" else f"not few_{n} and {produced.is_large(form, code)}"
        code.set("produced", f'int(kw.device.architecture == "sm_90a" and {asked})')
    large = writing.written("wgmma", form, code)
    if narrow:
        large = _either("produced", n, produced.written(form, code), large)
    return large if method == "producers" else _either("few", n, direct.written(form, code), large)


def _either(flag: str, n: int, small: KernelBody, large: KernelBody) -> KernelBody:
    """The first where the plan's `flag` holds."""

    def chosen(one: str, other: str) -> str:
        return f"(({one}) if {flag}_{n} else ({other}))"

    return replace(
        large,
        lines=[f"#if {flag.upper()}_{n}", *small.lines, "#else", *large.lines, "#endif"],
        blocks=chosen(small.blocks, large.blocks),
        threads=chosen(small.threads, large.threads),
        shared=chosen(small.shared, large.shared),
        least_blocks=chosen(small.least_blocks, large.least_blocks),
        needs=(*small.needs, *large.needs),
        helpers=(*small.helpers, *large.helpers),
    )
