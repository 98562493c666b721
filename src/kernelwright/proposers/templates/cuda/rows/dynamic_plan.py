"""The plan's part of a stage whose sizes are arguments: definitions have few values, so that one module serves many.

Threads for a row, the width of a vector and, where a row is kept in registers, the number of vectors stay definitions:
`settled` numbers, each value a case of its own. A row that no block can keep is read again by passes, whatever its
length, and no row is shared by blocks: how many would share it differs from size to size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelwright.proposers.templates.cuda.rows.analysis import HeldValues

if TYPE_CHECKING:
    from kernelwright.proposers.templates.cuda.rows.stage_plan import StagePlan


def write_team(plan: StagePlan) -> None:
    tag, genes, stage = plan.tag, plan.genes, plan.stage
    add = plan.setup.append
    rows, cols = plan.size(plan.program.rows), plan.size(plan.program.cols)
    add(f"rows_{tag}, cols_{tag}, parts_{tag} = {rows}, {cols}, 1")
    add(f"width_{tag} = {plan.widest(genes['width'], f'cols_{tag}')}")
    wanted = f"max({genes.get('fewest', 4)}, power(ceil(cols_{tag}, {genes['elements']})))"
    add(f"team_{tag} = settled(min({genes['most']}, {wanted}))")
    if stage.columns:
        add(f"owned_{tag} = False")
    add(f"teams_{tag} = max(1, 128 // team_{tag}) if team_{tag} <= 32 else 1")
    add(f"groups_{tag} = ceil(rows_{tag}, teams_{tag})")
    if plan.persist:
        most = f"kw.device.multiprocessors * max(1, {plan.persist} * 256 // (team_{tag} * teams_{tag}))"
        add(f"groups_{tag} = min(groups_{tag}, {most})")
    if stage.totals:
        add(f"if rows_{tag} * cols_{tag} <= {genes.get('solo', 0)}:")
        add(f"    team_{tag}, groups_{tag} = min(team_{tag}, 32), 1")
        add(f"    teams_{tag} = (128 if rows_{tag} * team_{tag} <= 128 else 1024) // team_{tag}")
    add(f"chunks_{tag} = ceil(cols_{tag}, team_{tag} * width_{tag})")
    for name in ("width", "team", "teams"):
        plan.define(f"{name.upper()}_{tag}", f"{name}_{tag}")
    plan.define(f"PARTS_{tag}", "1")
    plan.define(f"INDEX_{tag}", f"'int' if rows_{tag} * cols_{tag} < 2 ** 31 else 'long long'")
    plan.give(f"ROWS_{tag}", f"rows_{tag}", "long long")
    plan.give(f"COLS_{tag}", f"cols_{tag}")


def write_room(plan: StagePlan, held: HeldValues, column_registers: int, working: int) -> None:
    """Columns' sums first, then what is kept of a row, what is fetched ahead, and what all rows share."""
    tag, genes, sums, count = plan.tag, plan.genes, len(plan.stage.columns), len(held.values)
    add = plan.setup.append
    add(f"unrolled_{tag}, threads_{tag}, shared_{tag} = 0, team_{tag} * teams_{tag}, 0")
    taken = ""
    if sums:
        add(f"only_{tag} = {'False' if plan.stage.totals else f'bool(rows_{tag} == 1)'}")
        fits = f"{sums} * width_{tag} * chunks_{tag} <= {column_registers}"
        add(f"summed_{tag} = int(bool(not only_{tag} and {fits}))")
        most = f"{column_registers} // ({sums} * width_{tag})"
        add(f"unrolled_{tag} = unrolled(chunks_{tag}, {most}) if summed_{tag} else 0")
        plan.define(f"ONLY_{tag}", f"int(only_{tag})")
        plan.define(f"COLUMNS_{tag}", f"summed_{tag}")
        taken = f" - {sums} * unrolled_{tag} * width_{tag}"
    if count:
        registers = int(genes["keep"]) + (32 if sums and genes["keep"] else 0)
        registers = min(registers, 256 // int(genes["dense"]) - working) if genes["dense"] else registers
        add(f"space_{tag} = max(0, min({registers}, 32768 // threads_{tag}){taken})")
        add(f"kept_{tag} = bool({count} * width_{tag} * (unrolled_{tag} or chunks_{tag}) <= space_{tag})")
        fitting = f"unrolled(chunks_{tag}, space_{tag} // ({count} * width_{tag}))"
        add(f"unrolled_{tag} = unrolled_{tag} or {fitting} if kept_{tag} else unrolled_{tag}")
        add(f"each_{tag} = unrolled_{tag} * width_{tag}")
        add(f"left_{tag} = space_{tag} - {count} * each_{tag}")
        plan.define(f"KEEP_{tag}", f"int(kept_{tag})")
        plan.define(f"OUTSIDE_{tag}", "0")
        _write_early(plan, held)
    plan.define(f"UNROLLED_{tag}", f"unrolled_{tag}")


def _write_early(plan: StagePlan, held: HeldValues) -> None:
    tag, genes, add = plan.tag, plan.genes, plan.setup.append
    ahead = "0"
    if genes.get("ahead"):
        fits = f"{len(held.fetched)} * each_{tag} <= left_{tag}"
        ahead = f"int(bool(kept_{tag} and {fits} and groups_{tag} * teams_{tag} < rows_{tag}))"
    add(f"ahead_{tag} = {ahead}")
    plan.define(f"AHEAD_{tag}", f"ahead_{tag}")
    add(f"left_{tag} -= ahead_{tag} * {len(held.fetched)} * each_{tag}")
    hold = f"{bool(genes.get('hold'))} and {len(held.columns)} * each_{tag} <= left_{tag}"
    for place in held.columns:
        plan.define(f"HELD_{tag}_{place}", f"unrolled_{tag} if {hold} else 0")


def declarations(plan: StagePlan) -> list[str]:
    """What the body of the kernel has in the place of constants."""
    tag = plan.tag
    return [
        f"const int COLS = COLS_{tag};",
        f"constexpr int WIDTH = WIDTH_{tag}, TEAM = TEAM_{tag}, TEAMS = TEAMS_{tag}, PARTS = PARTS_{tag};",
        f"#if UNROLLED_{tag}",
        f"constexpr int CHUNKS = UNROLLED_{tag};",
        "#else",
        "const int CHUNKS = (COLS + TEAM * WIDTH - 1) / (TEAM * WIDTH);",
        "#endif",
        f"using Index = INDEX_{tag};",
        f"const Index ROWS = ROWS_{tag};",
        "constexpr bool WHOLE = TEAM >= 32;",
    ]
