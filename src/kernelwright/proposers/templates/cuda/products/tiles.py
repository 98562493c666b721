"""Writes a product by square tiles in shared memory, the depth split over blocks where tiles are few."""

from __future__ import annotations

from kernelwright.proposers.templates.cuda.kernels import KernelBody, KernelWriter
from kernelwright.proposers.templates.genes import Genes
from kernelwright.proposers.templates.patterns.heavy import MatmulStep

THREADS = 256
SIDE = 16  # threads along each side of a tile


def describe(genes: Genes) -> str:
    side = genes["tile"] or "as many as leave a tile for each multiprocessor"
    text = f"tiles with a side of {side}, {genes['depth']} deep"
    if genes["split"]:
        text += f", the depth split until there are {genes['split']} blocks for each multiprocessor"
    return text


def written(step: MatmulStep, code: KernelWriter) -> KernelBody:
    number, depth = code.step, int(code.genes["depth"])
    code.set("tile", _side(number) if code.genes["tile"] == 0 else str(code.genes["tile"]))
    code.give_size("tiles", f"ceil(m_{number}, tile_{number}) * ceil(n_{number}, tile_{number})")
    aim = f"max(1, {code.genes['split']} * kw.device.multiprocessors // tiles_{number})"
    code.give_size("splits", f"min(ceil(k_{number}, {depth}), {aim})" if code.genes["split"] else "1")
    lines = _tile(step, code, depth)
    lines += _joined(code, number)
    lines += [
        "#pragma unroll",
        "for (int a = 0; a < EACH; ++a)",
        "#pragma unroll",
        "  for (int b = 0; b < EACH; ++b) {",
        "    const long long row = top + a * SIDE + y, c = left + b * SIDE + x;",
        "    if (row < ROWS && c < COLS) {",
        "      const float one[1] = {sum[a][b]};",
        f"      const Extra_{number} extras[1] = {{last.extra(row, c)}};",
        "      last.finish(one, row, c, extras);",
        "    }",
        "  }",
    ]
    return KernelBody(lines, f"tiles_{number} * splits_{number}", str(THREADS))


def _side(number: int) -> str:
    enough = f"ceil(m_{number}, side) * ceil(n_{number}, side) >= kw.device.multiprocessors"
    return f"next((side for side in (128, 64) if {enough}), 32 if m_{number} * n_{number} >= 4096 else 16)"


def _tile(step: MatmulStep, code: KernelWriter, depth: int) -> list[str]:
    """`sum`: this thread's elements of the tile at (`top`, `left`), over this block's share of the depth."""
    n, left, right = code.step, code.pointer(step.left), code.pointer(step.right)
    at_left = "(k + i) * ROWS + row" if step.left_transposed else "row * DEPTH + (k + i)"
    at_right = "c * DEPTH + (k + i)" if step.right_transposed else "(k + i) * COLS + c"
    tile = f"constexpr int TILE = TILE_{n}, DEEP = {depth}, SIDE = {SIDE}, EACH = TILE / SIDE"
    known = code.constant
    return [
        f"{known} long long ROWS = M_{n}, COLS = N_{n}, DEPTH = K_{n};",
        *([f"{tile};", f"const int SPLITS = SPLITS_{n};"] if code.dynamic else [f"{tile}, SPLITS = SPLITS_{n};"]),
        f"{known} int WIDE = (COLS + TILE - 1) / TILE;",
        f"{known} long long SHARE = ((DEPTH + DEEP - 1) / DEEP + SPLITS - 1) / SPLITS * DEEP;",
        "__shared__ float lefts[DEEP][TILE + 1], rights[DEEP][TILE + 1];",
        "const int tile = block / SPLITS, split = block % SPLITS;",
        "const int top = tile / WIDE * TILE, left = tile % WIDE * TILE;",
        "const int x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;",
        "float sum[EACH][EACH] = {};",
        "for (long long k = split * SHARE; k < (split + 1) * SHARE && k < DEPTH; k += DEEP) {",
        *_filled("lefts", left, at_left, "row", "top", "ROWS", along_depth=not step.left_transposed),
        *_filled("rights", right, at_right, "c", "left", "COLS", along_depth=step.right_transposed),
        "  __syncthreads();",
        "#pragma unroll",
        "  for (int i = 0; i < DEEP; ++i) {",
        "    float l[EACH], r[EACH];",
        "#pragma unroll",
        "    for (int a = 0; a < EACH; ++a) l[a] = lefts[i][a * SIDE + y], r[a] = rights[i][a * SIDE + x];",
        "#pragma unroll",
        "    for (int a = 0; a < EACH; ++a)",
        "#pragma unroll",
        "      for (int b = 0; b < EACH; ++b) sum[a][b] += l[a] * r[b];",
        "  }",
        "  __syncthreads();",
        "}",
    ]


def _filled(to: str, source: str, at: str, name: str, first: str, most: str, *, along_depth: bool) -> list[str]:
    """Neighbouring threads read neighbouring elements, whichever way the matrix lies."""
    split = ("t / DEEP", "t % DEEP") if along_depth else ("t % TILE", "t / TILE")
    return [
        f"  for (int t = threadIdx.x; t < TILE * DEEP; t += {THREADS}) {{",
        f"    const int j = {split[0]}, i = {split[1]};",
        f"    const long long {name} = {first} + j;",
        f"    {to}[i][j] = {name} < {most} && k + i < DEPTH ? {source}[{at}] : 0.0f;",
        "  }",
    ]


def _joined(code: KernelWriter, number: int) -> list[str]:
    """Blocks that share a tile leave their sums in memory; the last one goes on with all of them."""
    if not code.genes["split"]:
        return []
    sums, came = f"sums_{number}", f"came_{number}"
    code.setup.append(f'{sums} = kw.scratch("{sums}", 4 * splits_{number} * tiles_{number} * tile_{number} ** 2)')
    code.setup.append(f'{came} = kw.workspace("{came}", 4 * tiles_{number})')
    to, counters = code.pointer(sums, written=True), code.pointer(came, written=True, kind="unsigned")
    place = "(a * EACH + b) * SIDE * SIDE + threadIdx.x"
    return [
        "if (SPLITS > 1) {",
        f"  float* const mine = {to} + static_cast<long long>(block) * TILE * TILE;",
        "#pragma unroll",
        "  for (int a = 0; a < EACH; ++a)",
        "#pragma unroll",
        f"    for (int b = 0; b < EACH; ++b) mine[{place}] = sum[a][b];",
        f"  if (!last_to_come({counters} + tile, SPLITS)) return;",
        "#pragma unroll",
        "  for (int a = 0; a < EACH; ++a)",
        "#pragma unroll",
        "    for (int b = 0; b < EACH; ++b) {",
        f"      const float* const from = {to} + static_cast<long long>(tile) * SPLITS * TILE * TILE + {place};",
        "      float whole = 0.0f;",
        "#pragma unroll 4",
        "      for (int s = 0; s < SPLITS; ++s) whole += fetched(from + static_cast<long long>(s) * TILE * TILE);",
        "      sum[a][b] = whole;",
        "    }",
        "}",
    ]
