"""Writes the kernel of a product in batches: tiles on tensor cores, with operands that are gathered."""

from __future__ import annotations

from kernelwright.proposers.templates.cuda.contractions import narrow as narrow_cores
from kernelwright.proposers.templates.cuda.contractions.loop import (
    CONTRACTED,
    COPY_PIECE,
    GATHERED,
    GATHERED_GROUPS,
    WIDENED_PIECE,
)
from kernelwright.proposers.templates.cuda.contractions.narrow import DEEP, NARROW_CHOICE
from kernelwright.proposers.templates.cuda.contractions.operands import ProductForm, declared
from kernelwright.proposers.templates.cuda.epilogue import Placing
from kernelwright.proposers.templates.cuda.kernels import Kernel, KernelBody, KernelWriter
from kernelwright.proposers.templates.cuda.products.blocked import BLOCKED, CHOICE, COPIES, GROUP_CHOICE
from kernelwright.proposers.templates.cuda.products.cores import GROUPS, TENSORS
from kernelwright.proposers.templates.genes import Gene, Genes

SHAPES = ("0", "32x128", "64x64", "64x128", "128x64", "128x128")
# Rows and columns of a tile, what a warp has of it, and blocks that fit a multiprocessor.
FORMS = (
    "{(128, 128): (64, 32, 1), (128, 64): (64, 32, 2), (64, 128): (32, 64, 2), (64, 64): (32, 32, 4), "
    "(32, 128): (32, 32, 3)}"
)
FEW_ROWS = 32  # up to which a warpgroup would be half empty
TILE_CHOICE = f"""\
def wide_tile_for(rows, cols, steps):
    # As for other products, but with few rows (filters of a convolution) where there are many columns.
    return (32, 128) if rows <= {FEW_ROWS} and cols > 64 else tile_for(rows, cols, steps)
"""


def genes() -> tuple[Gene, ...]:
    return (
        Gene("block", SHAPES, ("0", "128x64", "128x128", "64x64")),
        Gene("depth", (16, 32), (32, 16)),
        Gene("stages", (2, 3, 4), (4, 3, 2)),
        Gene("split", (0, 1, 2), (1, 0, 2)),  # blocks on each multiprocessor that share the depth
    )


def described(method: str, chosen: Genes) -> str:
    size = chosen["block"] if chosen["block"] != "0" else "chosen by size"
    units = "tensor cores" + (", as three TF32 products" if method == "tf32x3" else "")
    units += ", by warpgroups on Hopper" if method == "wgmma" else ""
    text = f"tiles {size} on {units}, {chosen['stages']} stages of {chosen['depth']} in shared memory"
    return text + (", blocks in equal shares of the depths of all tiles" if chosen["split"] else "")


def written(method: str, form: ProductForm, code: KernelWriter) -> KernelBody:
    """The kernel's lines use `last` and the structures of `structures`."""
    n, chosen = code.step, code.genes
    group, narrow = method == "wgmma", form.left.panel != "float32"
    stages = max(3, int(chosen["stages"])) if narrow else int(chosen["stages"])
    deep = max(32, int(chosen["depth"])) if narrow else int(chosen["depth"])
    code.set("groups", f'int(kw.device.architecture == "sm_90a" and m_{n} > {FEW_ROWS})' if group else "0")
    code.set("deep", f"{DEEP if narrow else 32} if groups_{n} else {deep}")
    code.setup.append(f"steps_{n} = ceil(k_{n}, deep_{n})")
    code.setup.append(f"high_{n}, wide_{n} = {_tile(n, str(chosen['block']), group=group, narrow=narrow)}")
    forms = f"{FORMS}[high_{n}, wide_{n}]"
    code.setup.append(
        f"own_high_{n}, own_wide_{n}, fit_{n} = (16, wide_{n}, 128 // high_{n}) if groups_{n} else {forms}"
    )
    code.setup.append(f"pieces_{n} = batches_{n} * ceil(m_{n}, high_{n}) * ceil(n_{n}, wide_{n})")
    room = f"{chosen['split']} * fit_{n} * kw.device.multiprocessors"
    code.set("streams", f"streams(pieces_{n}, steps_{n}, {room})")
    for name in ("high", "wide", "own_high", "own_wide"):
        code.define(f"{name.upper()}_{n}", f"{name}_{n}")
    parts, arrived = f"parts_{n}", f"arrived_{n}"
    code.setup.append(f'{parts} = kw.scratch("{parts}", 4 * max(1, 2 * streams_{n} * high_{n} * wide_{n}))')
    code.setup.append(f'{arrived} = kw.workspace("{arrived}", 4 * (pieces_{n} if streams_{n} else 1))')
    sums, came = code.pointer(parts, written=True), code.pointer(arrived, written=True, kind="unsigned")
    left, right = code.pointer(form.left.tensor), code.pointer(form.right.tensor)
    sizes = f"{stages}, M, N, K" if narrow else "M, N, K"
    lines = [
        f"constexpr int HIGH = HIGH_{n}, WIDE = WIDE_{n}, M = M_{n}, N = N_{n}, K = K_{n};",
        f"#if GROUPS_{n}",
        f"using Core = {'Narrow' if narrow else 'Gathered'}GroupCore<Left_{n}, Right_{n}, HIGH, WIDE, {sizes}>;",
        "#else",
        f"constexpr int DEEP = DEEP_{n}, THREADS = THREADS_product_{n};",
        f"using Lefts = Gathered<Left_{n}, HIGH, DEEP, M, K, THREADS>;",
        f"using Rights = Gathered<Right_{n}, WIDE, DEEP, N, K, THREADS>;",
        f"using Tile = {'Narrow' if narrow else 'Tensor'}Core<",
        f"    Lefts, Rights, HIGH, WIDE, DEEP, OWN_HIGH_{n}, OWN_WIDE_{n}>;",
        f"using Core = Staged<{stages}, Tile>;",
        "#endif",
        f"const Left_{n} left{{{left}}};",
        f"const Right_{n} right{{{right}}};",
        f"contracted<Shape_{n}, Core, (STREAMS_{n} > 0)>(block, blocks, left, right, {sums}, {came}, last);",
    ]
    staged = f"{stages} * ({_bytes(form, n, 'left', 'high')} + {_bytes(form, n, 'right', 'wide')})"
    lined = f"1024 + {stages} * 128 * (high_{n} + wide_{n})" if narrow else f"1024 + 512 * wide_{n}"
    shared = f"({lined}) if groups_{n} else ({staged})"
    shared = f"max(0 if paired_{n} else 4 * high_{n} * (wide_{n} + 4), {shared})"  # a tile that ends by way of it
    return KernelBody(
        lines,
        f"streams_{n} or pieces_{n}",
        f"high_{n} * wide_{n} // (own_high_{n} * own_wide_{n}) * 32",
        shared,
        f"fit_{n}",
        heavy=True,
        needs=(*_needs(form, group=group), CONTRACTED),
        helpers=(CHOICE, TILE_CHOICE, *((NARROW_CHOICE if narrow else GROUP_CHOICE,) if group else ())),
    )


def _needs(form: ProductForm, *, group: bool) -> tuple[str, ...]:
    dtype = form.left.panel
    widens = any(operand.dtype != operand.panel for operand in (form.left, form.right))
    common = (COPIES, BLOCKED, TENSORS, COPY_PIECE, *((WIDENED_PIECE,) if widens else ()), GATHERED)
    if dtype == "float32":
        return (*common, *((GROUPS, GATHERED_GROUPS) if group else ()))
    groups = (GROUPS, narrow_cores.groups(dtype), narrow_cores.GROUP_CORE) if group else ()
    return (*common, narrow_cores.warps(dtype), narrow_cores.WARP_CORE, *groups)


def sized(form: ProductForm, code: KernelWriter) -> None:
    """The plan's numbers that kernels of the product share."""
    n = code.step
    for name, python in (("k", form.depth), ("m", form.rows), ("n", form.cols), ("batches", form.batches)):
        code.set(name, python)
    code.set("length", form.length)
    code.set("paired", f"int({form.pairs})")
    for side, operand, rows in (("Left", form.left, "m"), ("Right", form.right, "n")):
        code.define(f"WIDTH_{side}_{n}", operand.width)
        code.define(f"ROWS_{side}_{n}", f"{rows}_{n}")
        code.define(f"DEPTH_{side}_{n}", f"k_{n}")


def structures(form: ProductForm, code: KernelWriter) -> str:
    n = code.step
    text = [
        f"struct Shape_{n} {{",
        f"  static constexpr int BATCHES = BATCHES_{n}, ROWS = M_{n}, COLS = N_{n}, DEPTH = K_{n};",
        "};",
        *declared(f"Left_{n}", form.left),
        *declared(f"Right_{n}", form.right),
    ]
    return "".join(f"{line}\n" for line in text)


def placing(form: ProductForm, code: KernelWriter) -> Placing:
    return Placing(f"LENGTH_{code.step}", form.place, f"PAIRED_{code.step} ? 2 : 1")


def kernel(code: KernelWriter, body: KernelBody, before: str, last: str) -> Kernel:
    return Kernel(
        f"product_{code.step}",
        tuple(code.parameters.values()),
        "".join(f"{line}\n" if line.startswith("#") else f"  {line}\n" for line in (last, *body.lines)),
        code.plan_lines,
        body.blocks,
        body.threads,
        before=before,
        least_blocks=body.least_blocks,
        shared=body.shared,
        heavy=body.heavy,
        needs=body.needs,
        helpers=body.helpers,
    )


def _tile(n: int, given: str, *, group: bool, narrow: bool) -> str:
    if given != "0":
        high, wide = map(int, given.split("x"))
        return f"({max(high, 64)} if groups_{n} else {high}, {wide})"
    chooser = "narrow_tile_for" if narrow else "group_tile_for"
    chosen = f"wide_tile_for(m_{n}, n_{n} * batches_{n}, steps_{n})"
    return f"{chooser}(m_{n}, n_{n} * batches_{n}, steps_{n}) if groups_{n} else {chosen}" if group else chosen


def _bytes(form: ProductForm, n: int, side: str, rows: str) -> str:
    """As many as Gathered::FLOATS hold."""
    operand = form.left if side == "left" else form.right
    size = 4 if operand.panel == "float32" else 2
    if operand.along_depth:
        return f"{rows}_{n} * {size} * (deep_{n} + {16 // size})"
    return f"deep_{n} * {size} * ({rows}_{n} + 8)"
