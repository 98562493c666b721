"""The product of two matrices as C++ (core/*.h): packed panels, register tiles, a last step on each finished block.

Operands are anything whose element (i, k) lies at outer(i) + inner(k), in any storage type: packing converts to float.
"""

from __future__ import annotations

from pathlib import Path

from kernelwright.proposers.templates.genes import Gene, GenePool, Genes

_CORE = Path(__file__).parent / "core"
CORE = "\n".join((_CORE / f"{name}.h").read_text(encoding="utf-8") for name in ("tiles", "packing", "products"))
WINDOWS = (_CORE / "windows.h").read_text(encoding="utf-8")


def gene_pool(*, plain: bool) -> GenePool:
    genes = [
        Gene("width", (8, 16), (16, 8)),
        Gene("grain", (4096, 16384, 65536, 262144), (65536, 16384, 262144)),
        Gene("tile_rows", (4, 6, 8, 12, 14), (14, 12, 8, 6)),
        Gene("tile_vectors", (1, 2, 3), (2, 3, 1)),
        Gene("block_rows", (56, 112, 224, 448, 896), (448, 224, 112)),
        Gene("block_cols", (128, 256, 512, 1024, 2048), (512, 1024, 256)),
        Gene("block_depth", (128, 256, 384, 512), (256, 384, 512)),
    ]
    if plain:
        genes.append(Gene("swap", (False, True), (False, True)))
    return GenePool(tuple(genes))


def describe(genes: Genes) -> str:
    text = (
        f"tiles of up to {genes['tile_rows']} rows by {genes['tile_vectors']} vectors of {genes['width']}, blocks of "
        f"{genes['block_rows']}×{genes['block_cols']}×{genes['block_depth']}"
    )
    return f"{text}, computed as the transpose" if genes.get("swap") else text


def call(genes: Genes, count: str, m: str, n: str, depth: str, operands: str, last: str) -> str:
    """A call of `products`; `operands` is a lambda from the number of a product to its Operands."""
    shape = f"{genes['tile_rows']}, {genes['tile_vectors']}"
    blocks = f"{genes['block_rows']}, {genes['block_cols']}, {genes['block_depth']}, {genes['grain']}"
    return f"products<{shape}>({count}, {m}, {n}, {depth}, {blocks}, {operands}, {last});\n"
