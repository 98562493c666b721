"""A contraction whose elements only a generic step reads, each at its own place: both are one kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from kernelwright.proposers.templates.cuda.epilogue import Placing, member, placed
from kernelwright.proposers.templates.cuda.kernels import STORED, KernelWriter
from kernelwright.proposers.templates.cuda.nests import NestWriter
from kernelwright.proposers.templates.graph import Constant, Pointwise, ViewNode, total
from kernelwright.proposers.templates.nests.index_maps import Ranked, Scan
from kernelwright.proposers.templates.patterns.attention import AttentionStep
from kernelwright.proposers.templates.patterns.contractions import ContractionStep
from kernelwright.proposers.templates.patterns.nests import NestStep
from kernelwright.tasks.dtypes import NARROW


@dataclass(frozen=True)
class NestedContraction:
    contraction: ContractionStep | AttentionStep
    nest: NestStep
    pattern: ClassVar[str] = "contraction"


def follows(nest: NestStep, contraction: ContractionStep | AttentionStep) -> bool:
    """Whether every element is made of the product's element at the same place, and of what does not need others."""
    graph, root = nest.graph, nest.root
    read = [place for place, tensor in nest.reads.items() if tensor == contraction.output]
    if len(read) != 1 or contraction.epilogue or nest.reduces or isinstance(root, Scan | Ranked):
        return False
    known: dict[int, bool] = {}

    def in_place(place: int) -> bool:
        """At its own place, or without the product."""
        if place not in known:
            node = graph.nodes[place]
            if place == read[0]:
                known[place] = total(node.shape) == total(root.shape)
            elif place in nest.reads or isinstance(node, Constant) or not _needs(nest, place, read[0]):
                known[place] = True
            elif isinstance(node, Pointwise | ViewNode) and total(node.shape) == total(root.shape):
                known[place] = all(map(in_place, node.inputs))
            else:
                known[place] = False
        return known[place]

    return nest.node != read[0] and in_place(nest.node)


def _needs(nest: NestStep, place: int, wanted: int) -> bool:
    left, seen = [place], set[int]()
    while left:
        one = left.pop()
        if one == wanted:
            return True
        if one not in seen and one not in nest.reads:
            left += nest.graph.nodes[one].inputs
        seen.add(one)
    return False


class _ElementWriter(NestWriter):
    """The product is in a register, and the result is put where its neighbours are stored with it."""

    def __init__(self, step: NestStep, writer: KernelWriter, product: str) -> None:
        super().__init__(step, writer)
        self.product = product

    def _load(self, place: int, at: str) -> str:
        return "product" if self.step.reads[place] == self.product else super()._load(place, at)

    def _store(self, at: str, value: str) -> str:
        return f"made[j] = {value};"


def nested_end(code: KernelWriter, nest: NestStep, product: str, placing: Placing) -> tuple[str, str]:
    """As written_end of epilogue.py, for a generic step."""
    inner = replace(code, parameters={})
    n, dtype = code.step, nest.root.dtype
    inner.types, code.types[nest.output] = code.types, dtype
    writer = _ElementWriter(nest, inner, product)
    lines: Sequence[str] = writer.element_lines("o")
    target = inner.pointer(nest.output, written=True, read=False, kind=STORED[dtype])
    members = list(inner.parameters.values())
    for one in members:
        code.types.update({name: kind for name, kind in _dtypes(nest).items() if name == one.name})
        code.pointer(one.name, written=one.written, read=one.read, kind=one.type)
    kinds = {"float32": "store", **dict.fromkeys(NARROW, "store_narrow")}
    kind = "float" if dtype in kinds else STORED[dtype]
    stores = (
        [f"{kinds[dtype]}({target} + row * COLS + first, made);"]
        if dtype in kinds
        else [f"for (int j = 0; j < Run; ++j) {target}[row * COLS + first + j] = made[j];"]
    )
    text = [
        f"struct Extra_{n} {{}};",
        f"struct Last_{n} {{",
        f"  static constexpr long long COLS = {placing.columns};",
        *(member(one) for one in members),
        *placed(placing),
        f"  __device__ __forceinline__ Extra_{n} extra(const long long, const long long) const {{ return {{}}; }}",
        "  template <int Run>",
        "  __device__ __forceinline__ void finish(",
        "      const float (&products)[Run], const long long row, const long long first,",
        f"      const Extra_{n} (&)[Run]) const {{",
        f"    alignas(16) {kind} made[Run];",
        "#pragma unroll",
        "    for (int j = 0; j < Run; ++j) {",
        "      const float product = products[j];",
        f"      const {writer.index} o = row * COLS + first + j;",
        *(f"      {line}" for line in lines),
        "    }",
        *(f"    {line}" for line in stores),
        "  }",
        "};",
    ]
    return "".join(f"{line}\n" for line in text), f"const Last_{n} last{{{', '.join(o.pointer for o in members)}}};"


def _dtypes(nest: NestStep) -> dict[str, str]:
    return {tensor: nest.graph.nodes[place].dtype for place, tensor in nest.reads.items()}
