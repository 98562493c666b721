"""Writes a large product: panels stream through shared memory, and tiles stay in the registers of a block.

The tile is multiplied by the float units (`sgemm`), or by the tensor cores as three products of TF32 parts: warp by
warp (`tf32x3`), or by four warps together where the GPU has that, which is Hopper (`wgmma`).
"""

from __future__ import annotations

from kernelwright.proposers.templates.cuda.blocked_library import BLOCKED, COPIES
from kernelwright.proposers.templates.cuda.cores_library import FLOATS, TENSORS
from kernelwright.proposers.templates.cuda.groups_library import GROUPS, WIDTHS
from kernelwright.proposers.templates.cuda.pen import Pen
from kernelwright.proposers.templates.cuda.way import Way
from kernelwright.proposers.templates.genes import Genes
from kernelwright.proposers.templates.patterns.heavy import MatmulStep

SHAPES = ("0", "64x64", "64x128", "128x64", "128x128")
# Rows and columns of a tile, what a thread (sgemm) or a warp (tf32x3) has of it, and blocks that fit a multiprocessor.
FORMS = {
    "sgemm": "{(128, 128): (8, 8, 1), (128, 64): (8, 8, 2), (64, 128): (8, 8, 2), (64, 64): (8, 4, 4)}",
    "tf32x3": "{(128, 128): (64, 32, 1), (128, 64): (64, 32, 2), (64, 128): (32, 64, 2), (64, 64): (32, 32, 4)}",
}
READING = 32  # what reading the rows of a step costs, in columns of a tile
CHOICE = """\
def tile_for(rows, cols, steps):
    # The largest that is not mostly empty, with tiles for all multiprocessors or a depth to share.
    if rows > 64 and cols > 64 and steps >= 16 and 8 * ceil(rows, 128) * ceil(cols, 128) >= kw.device.multiprocessors:
        return 128, 128
    return (128, 64) if rows > 64 and ceil(rows, 128) * ceil(cols, 64) >= kw.device.multiprocessors else (64, 64)


def sharers(steps):
    # Blocks that may share a tile: none of one that is done in a few steps, and not too many, since one adds it up.
    return min(32, steps // 4) if steps >= 8 else 1


def streams(tiles, steps, room):
    # Blocks that share the steps of all tiles; none where tiles come out even.
    waves = tiles / room if room else 1
    return 0 if sharers(steps) == 1 or waves > 0.9 * math.ceil(waves) else min(room, tiles * sharers(steps))
"""
GROUP_CHOICE = f"""\
def group_tile_for(rows, cols, steps):
    # The width that takes the least time: a step of a tile costs its columns, and as much as {READING} for its rows.
    high = 128 if rows > 64 else 64

    def rounds(tiles):
        if sharers(steps) == 1:
            return ceil(tiles, kw.device.multiprocessors)
        return tiles / min(kw.device.multiprocessors, tiles * sharers(steps))

    tiles = {{wide: ceil(rows, high) * ceil(cols, wide) for wide in {WIDTHS}}}
    return high, min(tiles, key=lambda wide: rounds(tiles[wide]) * (wide + {READING}))
"""


def describe(method: str, genes: Genes) -> str:
    units = {
        "sgemm": "the float units",
        "tf32x3": "tensor cores, as three TF32 products",
        "wgmma": "tensor cores, as three TF32 products, by warpgroups on Hopper",
    }
    size = genes["block"] if genes["block"] != "0" else "chosen by size"
    staged = f"{genes['stages']} stages of {_deep(method, genes)} in shared memory"
    text = f"tiles {size} on {units[method]}, {'else ' if method == 'wgmma' else ''}{staged}"
    return text + (", blocks in equal shares of the depths of all tiles" if genes["split"] else "")


def written(method: str, step: MatmulStep, pen: Pen) -> Way:
    n, genes = pen.step, pen.genes
    deep = _deep(method, genes)
    pen.setup.append(f"steps_{n} = ceil(k_{n}, {deep})")
    if method == "wgmma":
        pen.set("groups", 'int(kw.device.architecture == "sm_90a")')
    pen.setup.append(f"high_{n}, wide_{n} = {_tile(method, n, str(genes['block']))}")
    pen.setup.append(f"own_high_{n}, own_wide_{n}, fit_{n} = {_form(method, n)}")
    pen.setup.append(f"pieces_{n} = ceil(m_{n}, high_{n}) * ceil(n_{n}, wide_{n})")
    room = f"{genes['split']} * fit_{n} * kw.device.multiprocessors"
    pen.set("streams", f"streams(pieces_{n}, steps_{n}, {room})")
    for name in ("high", "wide", "own_high", "own_wide"):
        pen.define(f"{name.upper()}_{n}", f"{name}_{n}")
    for name, along_depth, size in (("LEFT", not step.left_transposed, "m"), ("RIGHT", step.right_transposed, "n")):
        pen.define(f"{name}_WIDTH_{n}", f"widest(4, {'k' if along_depth else size}_{n})")
    parts, arrived = f"parts_{n}", f"arrived_{n}"
    pen.setup.append(f'{parts} = kw.scratch("{parts}", 4 * max(1, 2 * streams_{n} * high_{n} * wide_{n}))')
    pen.setup.append(f'{arrived} = kw.workspace("{arrived}", 4 * pieces_{n})')
    sums, came = pen.pointer(parts, written=True), pen.pointer(arrived, written=True, kind="unsigned")
    body = [
        f"constexpr int THREADS = THREADS_product_{n};",
        *_core(method, step, n, deep),
        f"blocked<Shape_{n}, Core, {genes['stages']}, (STREAMS_{n} > 0)>(",
        f"    block, blocks, {pen.pointer(step.left)}, {pen.pointer(step.right)}, {sums}, {came}, last);",
    ]
    left = _floats(f"high_{n}", deep, along_depth=not step.left_transposed)
    right = _floats(f"wide_{n}", deep, along_depth=step.right_transposed)
    shared = f"4 * {genes['stages']} * ({left} + {right})"
    threads = f"high_{n} * wide_{n} // (own_high_{n} * own_wide_{n})" + (" * 32" if method != "sgemm" else "")
    if method == "wgmma":
        shared = f"(1024 + 16 * {deep} * wide_{n}) if groups_{n} else ({shared})"  # four times GroupCore::PART
    if method != "sgemm":
        shared = f"max(4 * high_{n} * (wide_{n} + 4) * (n_{n} % 2), {shared})"  # a tile that ends by way of it
    return Way(
        body,
        f"streams_{n} or pieces_{n}",
        threads,
        shared,
        f"fit_{n}",
        heavy=True,
        needs=(COPIES, BLOCKED, *{"sgemm": (FLOATS,), "tf32x3": (TENSORS,), "wgmma": (TENSORS, GROUPS)}[method]),
        helpers=(CHOICE, *((GROUP_CHOICE,) if method == "wgmma" else ())),
    )


def _deep(method: str, genes: Genes) -> int:
    return 32 if method == "wgmma" else max(16, int(genes["depth"]))


def _tile(method: str, n: int, given: str) -> str:
    if given != "0":
        return str(tuple(map(int, given.split("x"))))
    chosen = f"tile_for(m_{n}, n_{n}, steps_{n})"
    return f"group_{chosen} if groups_{n} else {chosen}" if method == "wgmma" else chosen


def _form(method: str, n: int) -> str:
    """A warp of a warpgroup has 16 whole rows of the tile."""
    if method == "wgmma":
        return f"(16, wide_{n}, 128 // high_{n}) if groups_{n} else {_form('tf32x3', n)}"
    return f"{FORMS[method]}[high_{n}, wide_{n}]"


def _core(method: str, step: MatmulStep, n: int, deep: int) -> list[str]:
    left, right = str(not step.left_transposed).lower(), str(step.right_transposed).lower()
    core = "FloatCore" if method == "sgemm" else "TensorCore"
    staged = [
        f"using Left = Panel<HIGH_{n}, {deep}, {left}, LEFT_WIDTH_{n}, THREADS>;",
        f"using Right = Panel<WIDE_{n}, {deep}, {right}, RIGHT_WIDTH_{n}, THREADS>;",
        f"using Core = {core}<Left, Right, HIGH_{n}, WIDE_{n}, {deep}, OWN_HIGH_{n}, OWN_WIDE_{n}>;",
    ]
    if method != "wgmma":
        return staged
    group = f"using Core = GroupCore<{left}, LEFT_WIDTH_{n}, {right}, RIGHT_WIDTH_{n}, HIGH_{n}, WIDE_{n}>;"
    return [f"#if GROUPS_{n}", group, "(void)THREADS;", "#else", *staged, "#endif"]


def _floats(rows: str, deep: int, *, along_depth: bool) -> str:
    """As many as Panel::FLOATS."""
    return f"{rows} * {deep + 4}" if along_depth else f"{deep} * ({rows} + 8)"
