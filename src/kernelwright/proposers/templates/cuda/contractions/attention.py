"""Renders attention as one kernel: scores never leave the registers."""

from __future__ import annotations

from dataclasses import replace
from math import e, log2

from kernelwright.proposers.templates.cuda import nests
from kernelwright.proposers.templates.cuda.contractions import narrow as narrow_cores
from kernelwright.proposers.templates.cuda.contractions import writing
from kernelwright.proposers.templates.cuda.contractions.attention_core import ATTENTION
from kernelwright.proposers.templates.cuda.contractions.attention_narrow import CHUNK, TILE_CHOICE, narrow_attention
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

QUERIES, THREADS = 64, 128  # of a block; with 16-bit operands as many queries, or twice as many
LARGEST_SCALE = 2**24  # of finite products that a causal kernel skips


def covers(form: AttentionForm) -> bool:
    return form.operands[0].dtype in ("float32", "bfloat16", "float16")


def gene_pool(step: AttentionStep | NestedContraction) -> GenePool:
    return GenePool((Gene("dense", (1, 2), (1, 2)),))  # blocks for which a multiprocessor must have registers


def describe(step: AttentionStep | NestedContraction, genes: Genes) -> str:
    text = "attention on tensor cores, with a softmax that goes along"
    return text + (", the steps after it on each element" if isinstance(step, NestedContraction) else "")


def render(
    step: AttentionStep | NestedContraction, genes: Genes, sizes: Sizes, graph: Graph, number: int
) -> list[Kernel]:
    code = KernelWriter(genes=genes, sizes=sizes, graph=graph, step=number)
    if isinstance(step, NestedContraction):
        assert isinstance(step.contraction, AttentionStep)
        return _written(step.contraction, step.nest, code)
    return _written(step, None, code)


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


def _written(step: AttentionStep, nest: NestStep | None, code: KernelWriter) -> list[Kernel]:
    n, form = code.step, step.form
    query, key, value = form.operands
    narrow = query.dtype != "float32"
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
    code.set("head", f"padded({scores.count(scores.depth_axes)})")
    code.set("wide", f"padded({values.count(values.col_axes)})")
    if narrow:
        code.setup.append(f"tall_{n}, each_{n} = attention_tile(head_{n}, wide_{n})")
    else:
        code.setup.append(f"tall_{n}, each_{n} = 1, 32")
    code.define(f"TALL_{n}", f"tall_{n}")
    code.define(f"EACH_{n}", f"each_{n}")
    code.set("rows", f"{QUERIES} * tall_{n}")
    _define_scale(form, code, narrow=narrow)
    score, pointers = _score(step, code)
    columns = code.size(form.values.axes[form.values.kept[-1]].extent)
    code.set("run", f"2 if ({columns}) % 2 == 0 else 1")
    placing = Placing(f"LENGTH_{n}", values.place(), f"RUN_{n}")
    end, last = (
        nested_end(code, nest, step.output, placing) if nest else written_end(code, step.epilogue, step.output, placing)
    )
    before = [
        f"struct Shape_{n} {{",
        f"  static constexpr int QUERIES = QUERIES_{n}, KEYS = KEYS_{n}, HEAD = HEAD_{n}, WIDE = WIDE_{n};",
        f"  static constexpr int KEYS_EACH = EACH_{n}, TALL = TALL_{n}, CHUNKS = CHUNKS_{n};",
        f"  static constexpr bool SAFE = {str(form.safe).lower()}, SCALED = SCALED_{n}, CAUSAL = CAUSAL_{n};",
        f"  static __device__ __forceinline__ float scale() {{ return SCALE_{n}; }}",
        "};",
        *(line for name, (gathered, _) in operands.items() for line in declared(f"{name}_{n}", gathered)),
        *score,
    ]
    tensors = {"Query": step.query, "Key": step.key, "Value": step.value}
    text = "".join(f"{line}\n" for line in before) + end
    skips = narrow and form.causal
    wild = _wild(code, written=False) if skips else "nullptr"
    lines = [
        *(f"const {name}_{n} {name.lower()}{{{code.pointer(tensor)}}};" for name, tensor in tensors.items()),
        f"const Score_{n} score{{{', '.join(pointers)}}};",
        f"attention<Shape_{n}>(block, query, key, value, score, {wild + ', ' if narrow else ''}last);",
    ]
    extents = zip(operands.values(), (f"rows_{n}", f"each_{n}", f"wide_{n}"), strict=True)
    sizes = [
        _bytes(gathered, rows, deep)
        for ((gathered, _), rows), deep in zip(extents, (f"head_{n}", f"head_{n}", f"each_{n}"), strict=True)
    ]
    shared = f"{sizes[0]} + {2 if narrow else 1} * ({sizes[1]} + {sizes[2]})"
    kinds = {query.dtype, *code.types.values()} | (set() if narrow else {"bfloat16"})
    headers = tuple(text for name, text in HEADERS.items() if name in kinds)
    cores = (narrow_cores.warps(query.dtype if narrow else "bfloat16"), narrow_cores.WARP_CORE)
    common = (*headers, narrow_cores.STORES, nests.FUNCTIONS, COPIES, BLOCKED, TENSORS, COPY_PIECE, GATHERED, *cores)
    needs = (*common, narrow_attention(query.dtype) if narrow else ATTENTION)
    helpers = (nests.PLAN, TILE_CHOICE)
    blocks, least = f"batches_{n} * ceil(queries_{n}, rows_{n})", str(code.genes["dense"])
    body = KernelBody(lines, blocks, str(THREADS), shared, least, heavy=True, needs=needs, helpers=helpers)
    kernel = replace(writing.kernel(code, body, text, last), name=f"attention_{n}")
    if not skips:
        return [kernel]
    inner = replace(code, parameters={})
    inner.types = code.types
    chunk = [
        *(f"const {name}_{n} {name.lower()}{{{inner.pointer(tensor)}}};" for name, tensor in tensors.items()),
        f"look_for_wild<Shape_{n}, {CHUNK}, {THREADS}>(block, query, key, value, {_wild(inner)});",
    ]
    body = KernelBody(chunk, f"batches_{n} * chunks_{n}", str(THREADS), needs=needs, helpers=helpers)
    looking = replace(writing.kernel(inner, body, text, ""), name=f"wild_{n}", when=f"causal_{n}")
    return [looking, replace(kernel, before="")]  # structures stand before the first of both


def _wild(code: KernelWriter, *, written: bool = True) -> str:
    """Memory with a number for every chunk of a batch."""
    n = code.step
    code.setup.append(f'wild_{n} = kw.scratch("wild_{n}", 4 * batches_{n} * chunks_{n})')
    return code.pointer(f"wild_{n}", written=written, read=not written, kind="unsigned")


def _define_scale(form: AttentionForm, code: KernelWriter, *, narrow: bool) -> None:
    """What scores are multiplied with before they are powers of two, and whether they are a product and no more."""
    n = code.step
    numbers = [python_number(one, code.sizes) for one in form.factors]
    code.define(f"FACTOR_{n}", f"literal(float({' * '.join(numbers) or '1.0'}))")
    numbers += [python_number(one, code.sizes) for one in form.scale or ()]
    code.setup.append(f"scale_{n} = float({' * '.join(numbers) or '1.0'})")
    plain = f"0 < scale_{n} <= {LARGEST_SCALE}" if narrow and form.scale is not None else "False"
    code.setup.append(f"scaled_{n} = {plain}")
    code.setup.append(f"causal_{n} = scaled_{n} and {form.causal}")
    code.define(f"SCALED_{n}", f"int(scaled_{n})")
    code.define(f"CAUSAL_{n}", f"int(causal_{n})")
    code.define(f"SCALE_{n}", f"literal((scale_{n} if scaled_{n} else 1.0) * {log2(e)!r})")
    code.set("chunks", f"ceil(max(queries_{n}, keys_{n}), {CHUNK})")


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


def _bytes(operand: GatheredOperand, rows: str, deep: str) -> str:
    """As many as Gathered::FLOATS hold."""
    size = 4 if operand.dtype == "float32" else 2
    lines, length = (rows, deep) if operand.along_depth else (deep, rows)
    return f"{size} * {lines} * ({length} + {16 // size if operand.along_depth or size == 2 else 8})"
