"""Writes a small product: lanes run over the depth, or over the columns, and all loads are issued at once."""

from __future__ import annotations

from kernelwright.proposers.templates.cuda.dots_library import DOTS, PLAIN, STRIPS
from kernelwright.proposers.templates.cuda.pen import Pen
from kernelwright.proposers.templates.cuda.way import Way
from kernelwright.proposers.templates.genes import Genes
from kernelwright.proposers.templates.patterns.heavy import MatmulStep

PATCHES = ("0", "1x1", "1x2", "2x1", "2x2", "2x4", "4x2", "4x4", "4x8", "8x4", "8x8")
MOST_TEAM = 8
LOADS_OF_A_STRIP = 8  # for each warp of a team
SIDES = """\
def sides(rows, cols, tall, broad):
    # Of what is not given: where loads are used most often, with a warp left for nearly every multiprocessor.
    talls = [tall] if tall else [side for side in (8, 4, 2, 1) if side < 2 * rows]
    broads = [broad] if broad else [side for side in (8, 4, 2, 1) if side < 2 * cols]
    choices = sorted(((t, b) for t in talls for b in broads), key=lambda one: one[0] * one[1] / (one[0] + one[1]))
    enough = 0.9 * kw.device.multiprocessors
    return next((one for one in reversed(choices) if ceil(rows, one[0]) * ceil(cols, one[1]) >= enough), choices[0])
"""


def covers(step: MatmulStep) -> bool:
    """Lanes need neighbouring elements of the right operand, and of both if they run over the depth."""
    return not (step.left_transposed and step.right_transposed)


def describe(step: MatmulStep, genes: Genes) -> str:
    patch = str(genes["patch"]) if genes["patch"] != "0" else "as many as fit"
    team = genes["team"] or f"up to {MOST_TEAM}"
    if step.right_transposed:
        return f"lanes along the depth, {patch} elements a warp, {team} warps for the depth"
    return f"lanes along the columns, {patch.split('x')[0]} rows a warp, {team} warps for the depth"


def written(step: MatmulStep, pen: Pen, left: str = "") -> Way:
    """`left` is the operand where it is not read as it lies.

    The plan has `vector` floats for a lane, `tall` x `broad` elements for a warp, `team` warps for all of them.
    """
    n, genes = pen.step, pen.genes
    along_depth = step.right_transposed
    pen.set("vector", f"widest({genes['width']}, {'k' if along_depth else 'n'}_{n})")
    strip = f"(32 * vector_{n})"
    across = f"n_{n}" if along_depth else f"ceil(n_{n}, {strip})"
    rows, cols = str(genes["patch"]).split("x") if genes["patch"] != "0" else ("0", "0")
    chosen = f"sides(m_{n}, {across}, {rows}, {cols if along_depth else 1})"
    pen.setup.append(f"tall_{n}, broad_{n} = {chosen}")
    pen.define(f"TALL_{n}", f"tall_{n}")
    pen.define(f"BROAD_{n}", f"broad_{n}")
    pen.set("deep", f"ceil(k_{n}, {strip if along_depth else LOADS_OF_A_STRIP})")
    pen.set("team", f"min({genes['team'] or MOST_TEAM}, power(deep_{n}))")
    pen.set("warps", f"max(team_{n}, {genes['warps']})")
    if along_depth:
        pen.set("ahead", f"min({genes['ahead']}, ceil(deep_{n}, team_{n}))")
    else:
        pen.set("ahead", f"min({LOADS_OF_A_STRIP // 2 * int(genes['ahead'])}, ceil(k_{n}, team_{n}))")
    function = "dots" if along_depth else "strips"
    first = f"BROAD_{n}" if along_depth else str(step.left_transposed).lower()
    chosen = f"Shape_{n}, {first}, TALL_{n}, TEAM_{n}, WARPS_{n}, VECTOR_{n}, AHEAD_{n}"
    left = left or f"Plain{{{pen.pointer(step.left)}}}"
    call = f"{function}<{chosen}>(block, {left}, {pen.pointer(step.right)}, last);"
    blocks = f"ceil(ceil(m_{n}, tall_{n}) * ceil({across}, broad_{n}), warps_{n} // team_{n})"
    elements = f"tall_{n} * broad_{n}" if along_depth else f"tall_{n} * {strip}"
    shared = f"4 * warps_{n} * {elements} if team_{n} > 1 else 0"
    return Way(
        [call], blocks, f"32 * warps_{n}", shared, needs=(PLAIN, DOTS if along_depth else STRIPS), helpers=(SIDES,)
    )
