"""The plan's part of a stage: how many threads a row gets, how many blocks there are, and what memory they need."""

from __future__ import annotations

from kernelwright.proposers.templates.cuda.rows import dynamic_plan
from kernelwright.proposers.templates.cuda.rows.analysis import (
    MANY_COLUMNS,
    HeldValues,
    moments,
    passed_on,
    suits_column_threads,
)
from kernelwright.proposers.templates.cuda.rows.writer import Writer

COLUMN_REGISTERS = 64
# All blocks of a grid-wide reduction are resident. By threads on a multiprocessor: what a thread may keep.
KEPT_IN_PARTS, COLUMNS_IN_PARTS = {512: 88, 1024: 40}, {512: 32, 1024: 16}
LONG = 32768  # elements of a row that no block should have to keep alone
WORKING = 24  # registers that a thread needs besides what it keeps
AHEAD_PERSIST = 4  # blocks of 256 threads on a multiprocessor, with 64 registers for each thread
STATIC_SHARED = 4096  # bytes that a block may need besides the rows that it keeps


class StagePlan(Writer):
    def set_up(self, held: HeldValues) -> None:
        if self.dynamic:
            dynamic_plan.write_team(self)
            dynamic_plan.write_room(self, held, COLUMN_REGISTERS, WORKING)
        else:
            self._team(held)
            self._room(held)
        self._memory()

    def _team(self, held: HeldValues) -> None:
        tag, genes, stage = self.tag, self.genes, self.stage
        add = self.setup.append
        add(f"rows_{tag}, cols_{tag} = {self._size('rows')}, {self._size('cols')}")
        add(f"width_{tag} = {self.width_of(f'cols_{tag}')}")
        fewest = genes.get("fewest", 4)
        add(f"team_{tag} = min({genes['most']}, max({fewest}, power(ceil(cols_{tag}, {genes['elements']}))))")
        add(f"parts_{tag} = 1")
        if stage.columns:
            add(f"owned_{tag} = {self.uses_column_threads(tag)}")
        alone = f"rows_{tag} * cols_{tag} <= {genes.get('solo', 0)}" if stage.totals else "False"
        add(f"solo_{tag} = {alone}")
        if self.parted:
            long = f"cols_{tag} >= {4 * int(genes['most']) * int(genes['elements'])}"
            few = f"(2 * rows_{tag} <= kw.device.multiprocessors or cols_{tag} >= {LONG})"
            add(f"if {long} and {few} and not solo_{tag}:")
            for line in self._parts(held):
                add(f"    {line}")
        add(f"teams_{tag} = max(1, 128 // team_{tag}) if team_{tag} <= 32 else 1")
        add(f"groups_{tag} = ceil(rows_{tag}, teams_{tag})")
        if self.persist:
            most = f"kw.device.multiprocessors * max(1, {self.persist} * 256 // (team_{tag} * teams_{tag}))"
            add(f"groups_{tag} = min(groups_{tag}, {most})")
        if self.parted:
            add(f"groups_{tag} = together_{tag} if parts_{tag} > 1 else groups_{tag}")
        if stage.totals:
            add(f"if solo_{tag}:")
            add(f"    team_{tag}, groups_{tag} = min(team_{tag}, 32), 1")
            add(f"    teams_{tag} = min(1024 // team_{tag}, max(32 // team_{tag}, power(rows_{tag})))")
        add(f"chunks_{tag} = ceil(cols_{tag}, team_{tag} * width_{tag} * parts_{tag})")
        for name in ("rows", "cols", "width", "team", "parts", "teams", "chunks"):
            self.define(f"{name.upper()}_{tag}", f"{name}_{tag}")
        self.define(f"INDEX_{tag}", f"'int' if rows_{tag} * cols_{tag} < 2 ** 31 else 'long long'")

    @property
    def persist(self) -> int:
        """Blocks that fetch rows ahead are persistent."""
        return int(self.genes["persist"]) or (AHEAD_PERSIST if self.genes.get("ahead") else 0)

    @property
    def dense(self) -> str:
        """How many blocks must fit on a multiprocessor; those that fetch ahead must not come in waves."""
        least = max(int(self.genes["dense"]), min(self.persist, AHEAD_PERSIST) if self.genes.get("ahead") else 0)
        return f"max(1, {least * 256} // threads_{self.tag})"

    def uses_column_threads(self, tag: str) -> str:
        """Whether a thread takes whole columns, in Python."""
        may = self.genes.get("owned") and suits_column_threads(self.program, self.stage)
        return f"rows_{tag} > 1 and cols_{tag} >= {MANY_COLUMNS}" if may else "False"

    @property
    def parted(self) -> bool:
        """Whether a long row may be shared by several blocks."""
        return bool(self.stage.passes and self.genes.get("split") and not self.dynamic)

    @property
    def resident(self) -> int:
        """How many of the blocks that share rows are on each multiprocessor."""
        return max(1, int(self.genes["crowd"]) // int(self.genes["split"]))

    def _parts(self, held: HeldValues) -> list[str]:
        """As many rows at a time as blocks can keep, if they can keep one; else all, which are then read again."""
        tag, count = self.tag, len(held.values)
        lines = [f"team_{tag}, room_{tag} = {self.genes['split']}, kw.device.multiprocessors * {self.resident}"]
        lines.append(f"most_{tag} = max(1, min(rows_{tag}, kw.device.multiprocessors // 2))")
        fits = f"kept({count}, cols_{tag}, width_{tag}, team_{tag}, room_{tag} // n, *{self._space})"
        together = f"next((n for n in range(most_{tag}, 0, -1) if {fits}), most_{tag})" if count else f"most_{tag}"
        lines.append(f"together_{tag} = {together}")
        lines.append(f"parts_{tag} = min(room_{tag} // together_{tag}, ceil(cols_{tag}, team_{tag} * width_{tag}))")
        return lines

    @property
    def _space(self) -> str:
        """Registers of a thread and bytes of shared memory for what the blocks of a grid-wide reduction keep."""
        registers = KEPT_IN_PARTS[self._crowd] if self.genes["keep"] else 0
        return f"({registers}, kw.device.shared_per_block // {self.resident} - {STATIC_SHARED})"

    @property
    def _crowd(self) -> int:
        return 512 if self.resident * int(self.genes["split"]) <= 512 else 1024

    def _room(self, held: HeldValues) -> None:
        """What of a row stays in registers from pass to pass, what in shared memory, and what is fetched early."""
        tag, genes, sums, count = self.tag, self.genes, len(self.stage.columns), len(held.values)
        add = self.setup.append
        add(f"each_{tag}, threads_{tag} = chunks_{tag} * width_{tag}, team_{tag} * teams_{tag}")
        if sums:
            add(f"only_{tag} = {'False' if self.stage.totals else f'rows_{tag} == 1'}")
            self.define(f"ONLY_{tag}", f"int(only_{tag})")
            parts = COLUMNS_IN_PARTS[self._crowd] if self.parted else 0
            room = f"({COLUMN_REGISTERS} if parts_{tag} == 1 else {parts})"
            add(f"summed_{tag} = int(not only_{tag} and {sums} * each_{tag} <= {room})")
            self.define(f"COLUMNS_{tag}", f"summed_{tag}")
        if not count:
            return
        most = int(genes["keep"]) + (32 if sums and genes["keep"] else 0)
        most = min(most, 256 // int(genes["dense"]) - WORKING) if genes["dense"] else most
        shelf = f"kw.device.shared_per_block - {STATIC_SHARED}" if genes.get("shelf") else "0"
        taken = f" - summed_{tag} * {sums} * each_{tag}" if sums else ""
        add(f"space_{tag} = (max(0, min({most}, 32768 // threads_{tag}){taken}), {shelf})")
        if self.parted:
            add(f"space_{tag} = {self._space} if parts_{tag} > 1 else space_{tag}")
        add(f"kept_{tag} = kept({count}, cols_{tag}, width_{tag}, team_{tag}, parts_{tag}, *space_{tag}, teams_{tag})")
        add(f"outside_{tag}, shared_{tag} = kept_{tag} or (0, 0)")
        add(f"left_{tag} = space_{tag}[0] - ({count} - outside_{tag}) * each_{tag}")
        self.define(f"KEEP_{tag}", f"int(bool(kept_{tag}))")
        self.define(f"OUTSIDE_{tag}", f"outside_{tag}")
        repeats = f"outside_{tag} == 0 and groups_{tag} * teams_{tag} < rows_{tag}"
        fits = f"{len(held.fetched)} * each_{tag} <= left_{tag}"
        add(f"ahead_{tag} = int({bool(genes.get('ahead'))} and {repeats} and {fits})")
        self.define(f"AHEAD_{tag}", f"ahead_{tag}")
        add(f"left_{tag} -= ahead_{tag} * {len(held.fetched)} * each_{tag}")
        hold = f"{bool(genes.get('hold'))} and parts_{tag} == 1 and {len(held.columns)} * each_{tag} <= left_{tag}"
        add(f"hold_{tag}, chunk_{tag} = {hold}, 4 * threads_{tag} * width_{tag}")
        for place in held.columns:
            late = place in held.late and genes.get("hold")
            staged = f"min(chunks_{tag}, (space_{tag}[1] - shared_{tag}) // chunk_{tag})" if late else "0"
            add(f"held_{tag}_{place} = chunks_{tag} if hold_{tag} else {staged}")
            add(f"shared_{tag} += 0 if hold_{tag} else held_{tag}_{place} * chunk_{tag}")
            self.define(f"HELD_{tag}_{place}", f"held_{tag}_{place}")

    def _memory(self) -> None:
        tag, stage, step = self.tag, self.stage, self.step
        add = self.setup.append
        for place in stage.columns:
            name = f"partial_{step}_{place}"
            count = f"cols_{tag} * groups_{tag} * teams_{tag} if not (only_{tag} or owned_{tag}) else 1"
            add(f'{name} = kw.scratch("{name}", 4 * ({count}))')
        if stage.totals:
            count = f"{len(stage.totals)} * groups_{tag} * parts_{tag}"
            add(f'shares_{tag} = kw.workspace("shares_{tag}", 8 * {count})')
            if passed_on(self.program, stage):
                for place in stage.totals:
                    add(f'total_{step}_{place} = kw.scratch("total_{step}_{place}", 4)')
        if self.parted:
            words = f"{self.exchanged} * parts_{tag} + 1"  # for each row; the last counts blocks that have read them
            add(f'met_{tag} = kw.workspace("met_{tag}", 8 * ({words}) * (rows_{tag} if parts_{tag} > 1 else 1))')

    def _size(self, name: str) -> str:
        return self.size(getattr(self.program, name))

    @property
    def exchanged(self) -> int:
        """How many numbers the parts of a row exchange."""
        pair = moments(self.program, self.stage)
        return sum(map(len, self.stage.passes)) + sum(p.total is None for p in (pair.products if pair else ()))
