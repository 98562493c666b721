"""Renders attention as one kernel: scores never leave the registers."""

from __future__ import annotations

from dataclasses import replace

from kernelwright.proposers.templates.cuda import nests
from kernelwright.proposers.templates.cuda.contractions import narrow, writing
from kernelwright.proposers.templates.cuda.contractions.attention_core import ATTENTION
from kernelwright.proposers.templates.cuda.contractions.forms import FormWriter
from kernelwright.proposers.templates.cuda.contractions.loop import COPY_PIECE, GATHERED
from kernelwright.proposers.templates.cuda.contractions.nested import NestedContraction, nested_end
from kernelwright.proposers.templates.cuda.contractions.operands import GatheredOperand, declared
from kernelwright.proposers.templates.cuda.epilogue import Placing, member, stored_types, written_end
from kernelwright.proposers.templates.cuda.kernels import HEADERS, Kernel, KernelBody, KernelWriter, python_number
from kernelwright.proposers.templates.cuda.nests import NestWriter
from kernelwright.proposers.templates.cuda.products.blocked import BLOCKED, COPIES
from kernelwright.proposers.templates.cuda.products.cores import TENSORS
from kernelwright.proposers.templates.genes import Gene, GenePool, Genes
from kernelwright.proposers.templates.graph import Graph
from kernelwright.proposers.templates.patterns.attention import AttentionForm, AttentionStep
from kernelwright.proposers.templates.patterns.nests import NestStep
from kernelwright.proposers.templates.sizes import Sizes

QUERIES, THREADS = 64, 128  # of a block


def covers(form: AttentionForm) -> bool:
    return form.operands[0].dtype in ("float32", "bfloat16", "float16")


def gene_pool(step: AttentionStep | NestedContraction) -> GenePool:
    return GenePool((Gene("dense", (1, 2), (1, 2)),))  # blocks for which a multiprocessor must have registers


def describe(step: AttentionStep | NestedContraction, genes: Genes) -> str:
    text = f"attention, {QUERIES} queries for each block on tensor cores, with a softmax that goes along"
    return text + (", the steps after it on each element" if isinstance(step, NestedContraction) else "")


def render(
    step: AttentionStep | NestedContraction, genes: Genes, sizes: Sizes, graph: Graph, number: int
) -> list[Kernel]:
    code = KernelWriter(genes=genes, sizes=sizes, graph=graph, step=number)
    if isinstance(step, NestedContraction):
        assert isinstance(step.contraction, AttentionStep)
        return [_written(step.contraction, step.nest, code)]
    return [_written(step, None, code)]


class _ScoreWriter(NestWriter):
    """What becomes of a product before the softmax."""

    def __init__(self, step: NestStep, writer: KernelWriter, product: int) -> None:
        super().__init__(step, writer)
        self.product = product

    def _load(self, place: int, at: str) -> str:
        return "product" if place == self.product else super()._load(place, at)

    def lines(self) -> list[str]:
        self._define_index()
        code, shape = self._code(), self.step.root.shape
        at = (
            *code.split("batch", shape[:-2]),
            *("0" if e.single else x for e, x in zip(shape[-2:], "ts", strict=True)),
        )
        value = code.value(self.step.node, at)
        return [*code.lines, f"return {value};"]


def _padded(size: int | None) -> int:
    assert size is not None
    return -(-size // 16) * 16


def _written(step: AttentionStep, nest: NestStep | None, code: KernelWriter) -> Kernel:
    n, form = code.step, step.form
    query, key, value = form.operands
    dtype = query.dtype
    for tensor, operand in zip((step.query, step.key, step.value), form.operands, strict=True):
        code.types[tensor] = operand.dtype
    code.types[step.output] = form.values.dtype
    if step.epilogue is not None:
        code.types.update(stored_types(step.epilogue))
    scores = FormWriter(form.scores, step.query, step.key, code, prefix="s", led=True)
    values = FormWriter(form.values, step.value, step.value, code, prefix="v", led=True)
    operands = {
        "Query": (scores.gathered(step.query, query, scores.row_axes), scores.count(scores.row_axes)),
        "Key": (scores.gathered(step.key, key, scores.col_axes), scores.count(scores.col_axes)),
        "Value": (values.gathered(step.value, value, values.col_axes), values.count(values.col_axes)),
    }
    depths = {"Query": scores, "Key": scores, "Value": values}
    for name, (gathered, rows) in operands.items():
        code.define(f"WIDTH_{name}_{n}", gathered.width)
        code.define(f"ROWS_{name}_{n}", rows)
        code.define(f"DEPTH_{name}_{n}", depths[name].count(depths[name].depth_axes))
    code.set("batches", scores.count(scores.batch_axes))
    code.set("queries", scores.count(scores.row_axes))
    code.set("keys", scores.count(scores.col_axes))
    code.set("length", code.size(form.values.shape[1]))
    numbers = [python_number(one, code.sizes) for one in form.factors]
    code.define(f"FACTOR_{n}", f"literal(float({' * '.join(numbers) or '1.0'}))")
    head = _padded(form.scores.extent(form.scores.of("depth")).literal)
    wide = _padded(form.values.axes[form.values.kept[-1]].extent.literal)
    each = 32 if dtype == "float32" or (max(head, wide) > 128 and min(head, wide) >= 32) else 64
    score, pointers = _score(step, code)
    columns = form.values.axes[form.values.kept[-1]].extent.literal or 1
    placing = Placing(f"LENGTH_{n}", values.place(), "2" if columns % 2 == 0 else "1")
    end, last = (
        nested_end(code, nest, step.output, placing) if nest else written_end(code, step.epilogue, step.output, placing)
    )
    before = [
        f"struct Shape_{n} {{",
        f"  static constexpr int QUERIES = QUERIES_{n}, KEYS = KEYS_{n}, HEAD = {head}, WIDE = {wide};",
        f"  static constexpr int KEYS_EACH = {each};",
        f"  static constexpr bool SAFE = {str(form.safe).lower()};",
        "};",
        *(line for name, (gathered, _) in operands.items() for line in declared(f"{name}_{n}", gathered)),
        *score,
    ]
    tensors = {"Query": step.query, "Key": step.key, "Value": step.value}
    lines = [
        *(f"const {name}_{n} {name.lower()}{{{code.pointer(tensor)}}};" for name, tensor in tensors.items()),
        f"const Score_{n} score{{{', '.join(pointers)}}};",
        f"attention<Shape_{n}>(block, query, key, value, score, last);",
    ]
    shared = " + ".join(
        _bytes(gathered, rows, deep)
        for (gathered, _), rows, deep in zip(operands.values(), (QUERIES, each, wide), (head, head, each), strict=True)
    )
    needs = (COPIES, BLOCKED, TENSORS, COPY_PIECE, GATHERED)
    cores = (narrow.warps("bfloat16" if dtype == "float32" else dtype), narrow.WARP_CORE)
    headers = {dtype if dtype != "float32" else "bfloat16", *code.types.values()}
    body = KernelBody(
        lines,
        f"batches_{n} * ceil(queries_{n}, {QUERIES})",
        str(THREADS),
        shared,
        str(code.genes["dense"]),
        heavy=True,
        needs=(
            *(text for name, text in HEADERS.items() if name in headers),
            *(narrow.STORES, nests.FUNCTIONS, *needs, *cores, ATTENTION),
        ),
        helpers=(nests.PLAN,),
    )
    made = writing.kernel(code, body, "".join(f"{line}\n" for line in before) + end, last)
    return replace(made, name=f"attention_{n}")


def _score(step: AttentionStep, code: KernelWriter) -> tuple[list[str], list[str]]:
    """The structure that makes a score of a product, and what it is made with."""
    n = code.step
    inner = replace(code, parameters={})
    inner.types = code.types
    lines = _ScoreWriter(step.mask, inner, step.form.product).lines()
    members = list(inner.parameters.values())
    reads = {tensor: step.mask.graph.nodes[place].dtype for place, tensor in step.mask.reads.items()}
    for one in members:
        code.types[one.name] = reads[one.name]
        code.pointer(one.name, written=one.written, read=one.read, kind=one.type)
    return [
        f"struct Score_{n} {{",
        *(member(one) for one in members),
        "  __device__ __forceinline__ float at(const float raw, const int batch, const int t, const int s) const {",
        f"    const float product = raw * FACTOR_{n};",
        "    (void)batch, (void)t, (void)s;",
        *(f"    {line}" for line in lines),
        "  }",
        "};",
    ], [one.pointer for one in members]


def _bytes(operand: GatheredOperand, rows: int, deep: int) -> str:
    """As many as Gathered::FLOATS hold."""
    size = 4 if operand.dtype == "float32" else 2
    lines, length = (rows, deep) if operand.along_depth else (deep, rows)
    return str(lines * size * (length + (16 // size if operand.along_depth or size == 2 else 8)))
