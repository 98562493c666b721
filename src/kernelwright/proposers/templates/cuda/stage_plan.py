"""The plan's part of a stage: how many threads a row gets, how many blocks there are, and what memory they need."""

from __future__ import annotations

from kernelwright.proposers.templates.cuda.stages import read_later
from kernelwright.proposers.templates.cuda.writer import Writer

COLUMN_REGISTERS = 64
# Blocks that meet have 64 registers a thread, so that all of them are resident.
KEPT_IN_PARTS, COLUMNS_IN_PARTS = 40, 16


class StagePlan(Writer):
    def set_up(self, kept_count: int) -> None:
        tag, genes, stage = self.tag, self.genes, self.stage
        add = self.setup.append
        add(f"rows_{tag}, cols_{tag} = {self._size('rows')}, {self._size('cols')}")
        add(f"width_{tag} = widest({genes['width']}, cols_{tag})")
        add(f"team_{tag} = min({genes['most']}, max(4, power(ceil(cols_{tag}, {genes['elements']}))))")
        add(f"parts_{tag} = 1")
        if stage.passes and genes.get("split"):
            long = f"cols_{tag} >= {4 * int(genes['most']) * int(genes['elements'])}"
            add(f"if 2 * rows_{tag} <= kw.device.multiprocessors and {long}:")
            add(f"    team_{tag} = {genes['split']}")
            add(f"    room_{tag} = kw.device.multiprocessors * {1024 // int(genes['split'])} // rows_{tag}")
            add(f"    parts_{tag} = min(room_{tag}, ceil(cols_{tag}, team_{tag} * width_{tag}))")
        add(f"teams_{tag} = max(1, 128 // team_{tag}) if team_{tag} <= 32 else 1")
        add(f"groups_{tag} = ceil(rows_{tag}, teams_{tag})")
        if genes["persist"]:
            most = f"kw.device.multiprocessors * max(1, {genes['persist']} * 256 // (team_{tag} * teams_{tag}))"
            add(f"groups_{tag} = groups_{tag} if parts_{tag} > 1 else min(groups_{tag}, {most})")
        add(f"chunks_{tag} = ceil(cols_{tag}, team_{tag} * width_{tag} * parts_{tag})")
        for name in ("rows", "cols", "width", "team", "parts", "teams", "chunks"):
            self.define(f"{name.upper()}_{tag}", f"{name}_{tag}")
        columns, each = len(stage.columns), f"chunks_{tag} * width_{tag}"
        if kept_count:
            room = int(genes["keep"]) + (32 if columns and genes["keep"] else 0)
            add(f"registers_{tag} = {room} if parts_{tag} == 1 else {min(room, KEPT_IN_PARTS)}")
            self.define(f"KEEP_{tag}", f"int({kept_count + columns} * {each} <= registers_{tag})")
        if columns:
            room_for = f"({COLUMN_REGISTERS} if parts_{tag} == 1 else {COLUMNS_IN_PARTS})"
            self.define(f"COLUMNS_{tag}", f"int({columns} * {each} <= {room_for})")
        self._memory()

    def _memory(self) -> None:
        tag, stage, step = self.tag, self.stage, self.step
        add = self.setup.append
        for place in stage.columns:
            name = f"partial_{step}_{place}"
            add(f'{name} = kw.scratch("{name}", 4 * cols_{tag} * groups_{tag} * teams_{tag})')
        for place in stage.totals:
            name = f"partial_{step}_{place}"
            add(f'{name} = kw.scratch("{name}", 4 * groups_{tag} * parts_{tag})')
            if read_later(self.program, place):
                add(f'total_{step}_{place} = kw.scratch("total_{step}_{place}", 4)')
        if stage.totals:
            add(f'came_{tag} = kw.workspace("came_{tag}", 4)')
        if stage.passes and self.genes.get("split"):
            add(f'parted_{tag} = kw.scratch("parted_{tag}", 8 * {self.reductions} * rows_{tag} * parts_{tag})')
            counters = len(stage.passes) + 1
            add(f'met_{tag} = kw.workspace("met_{tag}", 4 * {counters} * (rows_{tag} if parts_{tag} > 1 else 1))')

    def _size(self, name: str) -> str:
        return self.size(getattr(self.program, name))

    @property
    def reductions(self) -> int:
        return sum(map(len, self.stage.passes))
