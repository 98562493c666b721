"""The plan's part of a stage: how many threads a row gets, how many blocks there are, and what memory they need."""

from __future__ import annotations

from kernelwright.proposers.templates.cuda.stages import Held, passed_on
from kernelwright.proposers.templates.cuda.writer import Writer

COLUMN_REGISTERS = 64
# Blocks that meet have 64 registers a thread, so that all of them are resident.
KEPT_IN_PARTS, COLUMNS_IN_PARTS = 40, 16
STATIC_SHARED = 4096  # bytes that a block may need besides the rows that it keeps


class StagePlan(Writer):
    def set_up(self, held: Held) -> None:
        self._team()
        self._room(held)
        self._memory()

    def _team(self) -> None:
        tag, genes, stage = self.tag, self.genes, self.stage
        add = self.setup.append
        add(f"rows_{tag}, cols_{tag} = {self._size('rows')}, {self._size('cols')}")
        add(f"width_{tag} = widest({genes['width']}, cols_{tag})")
        fewest = genes.get("fewest", 4)
        add(f"team_{tag} = min({genes['most']}, max({fewest}, power(ceil(cols_{tag}, {genes['elements']}))))")
        add(f"parts_{tag} = 1")
        alone = f"rows_{tag} * cols_{tag} <= {genes.get('solo', 0)}" if stage.totals else "False"
        add(f"solo_{tag} = {alone}")
        if stage.passes and genes.get("split"):
            long = f"cols_{tag} >= {4 * int(genes['most']) * int(genes['elements'])}"
            add(f"if 2 * rows_{tag} <= kw.device.multiprocessors and {long} and not solo_{tag}:")
            add(f"    team_{tag} = {genes['split']}")
            add(f"    room_{tag} = kw.device.multiprocessors * {1024 // int(genes['split'])} // rows_{tag}")
            add(f"    parts_{tag} = min(room_{tag}, ceil(cols_{tag}, team_{tag} * width_{tag}))")
        add(f"teams_{tag} = max(1, 128 // team_{tag}) if team_{tag} <= 32 else 1")
        add(f"groups_{tag} = ceil(rows_{tag}, teams_{tag})")
        if genes["persist"]:
            most = f"kw.device.multiprocessors * max(1, {genes['persist']} * 256 // (team_{tag} * teams_{tag}))"
            add(f"groups_{tag} = groups_{tag} if parts_{tag} > 1 else min(groups_{tag}, {most})")
        if stage.totals:
            add(f"if solo_{tag}:")
            add(f"    team_{tag}, groups_{tag} = min(team_{tag}, 32), 1")
            add(f"    teams_{tag} = min(1024 // team_{tag}, max(32 // team_{tag}, power(rows_{tag})))")
        add(f"chunks_{tag} = ceil(cols_{tag}, team_{tag} * width_{tag} * parts_{tag})")
        for name in ("rows", "cols", "width", "team", "parts", "teams", "chunks"):
            self.define(f"{name.upper()}_{tag}", f"{name}_{tag}")
        self.define(f"INDEX_{tag}", f"'int' if rows_{tag} * cols_{tag} < 2 ** 31 else 'long long'")

    def _room(self, held: Held) -> None:
        """What of a row stays in registers from pass to pass, what in shared memory, and what is fetched early."""
        tag, genes, sums = self.tag, self.genes, len(self.stage.columns)
        add = self.setup.append
        add(f"each_{tag}, threads_{tag} = chunks_{tag} * width_{tag}, team_{tag} * teams_{tag}")
        if sums:
            add(f"only_{tag} = {'False' if self.stage.totals else f'rows_{tag} == 1'}")
            self.define(f"ONLY_{tag}", f"int(only_{tag})")
            room = f"({COLUMN_REGISTERS} if parts_{tag} == 1 else {COLUMNS_IN_PARTS})"
            add(f"summed_{tag} = int(not only_{tag} and {sums} * each_{tag} <= {room})")
            self.define(f"COLUMNS_{tag}", f"summed_{tag}")
        if not held.values:
            return
        keep, spare = int(genes["keep"]), 32 if sums else 0
        add(f"left_{tag} = min({keep + spare}, 32768 // threads_{tag}) if parts_{tag} == 1 else {KEPT_IN_PARTS}")
        if sums:
            add(f"left_{tag} -= summed_{tag} * {sums} * each_{tag}")
        add(f"inside_{tag} = min({len(held.values)}, left_{tag} // each_{tag})")
        add(f"left_{tag} -= inside_{tag} * each_{tag}")
        add(f"outside_{tag} = {len(held.values)} - inside_{tag}")
        add(f"shared_{tag} = 4 * outside_{tag} * threads_{tag} * (chunks_{tag} | 1) * width_{tag}")
        add(f"resident_{tag} = 1 if parts_{tag} == 1 else 1024 // team_{tag}")
        add(f"fits_{tag} = shared_{tag} <= kw.device.shared_per_block // resident_{tag} - {STATIC_SHARED}")
        allowed = f"(outside_{tag} == 0 or parts_{tag} > 1 and fits_{tag})"
        add(f"keep_{tag} = {keep > 0} and {allowed}")
        add(f"shared_{tag}, outside_{tag} = (shared_{tag}, outside_{tag}) if keep_{tag} else (0, 0)")
        self.define(f"KEEP_{tag}", f"int(keep_{tag})")
        self.define(f"OUTSIDE_{tag}", f"outside_{tag}")
        repeats = f"outside_{tag} == 0 and groups_{tag} * teams_{tag} < rows_{tag}"
        fits = f"{len(held.fetched)} * each_{tag} <= left_{tag}"
        add(f"ahead_{tag} = int({bool(genes.get('ahead'))} and {repeats} and {fits})")
        self.define(f"AHEAD_{tag}", f"ahead_{tag}")
        add(f"left_{tag} -= ahead_{tag} * {len(held.fetched)} * each_{tag}")
        self.define(f"HELD_{tag}", f"int({len(held.columns)} * each_{tag} <= left_{tag})")

    def _memory(self) -> None:
        tag, stage, step = self.tag, self.stage, self.step
        add = self.setup.append
        for place in stage.columns:
            name = f"partial_{step}_{place}"
            count = f"cols_{tag} * groups_{tag} * teams_{tag} if not only_{tag} else 1"
            add(f'{name} = kw.scratch("{name}", 4 * ({count}))')
        for place in stage.totals:
            name = f"partial_{step}_{place}"
            add(f'{name} = kw.scratch("{name}", 4 * groups_{tag} * parts_{tag})')
            if passed_on(self.program, stage):
                add(f'total_{step}_{place} = kw.scratch("total_{step}_{place}", 4)')
        if stage.totals:
            add(f'came_{tag} = kw.workspace("came_{tag}", 4)')
        if stage.passes and self.genes.get("split"):
            words = f"{self.reductions} * parts_{tag} + 1"  # for each row; the last counts blocks that have read them
            add(f'met_{tag} = kw.workspace("met_{tag}", 8 * ({words}) * (rows_{tag} if parts_{tag} > 1 else 1))')

    def _size(self, name: str) -> str:
        return self.size(getattr(self.program, name))

    @property
    def reductions(self) -> int:
        return sum(map(len, self.stage.passes))
