"""Where the threads of a row meet: in a warp, in a block, and across the blocks that share a long row."""

from __future__ import annotations

from collections.abc import Sequence

from kernelwright.proposers.templates.cuda.elements import Elements
from kernelwright.proposers.templates.cuda.moments import moments
from kernelwright.proposers.templates.cuda.stage_plan import StagePlan
from kernelwright.proposers.templates.cuda.writer import JOINS


class Meetings(StagePlan):
    """Blocks that share a row leave a word for each reduction in a workspace, and wait for the words of all."""

    def slots(self) -> list[str]:
        """Two sets, so that one barrier is enough between a set's use and its next."""
        plain = max((sum(not self.finds(p) for p in reductions) for reductions in self.stage.passes), default=0)
        pair = moments(self.program, self.stage)
        plain = max(plain, len(pair.names) - 1 if pair else 0)
        found = max((sum(self.finds(p) for p in reductions) for reductions in self.stage.passes), default=0)
        lines = [f"__shared__ float slots[2][{max(plain, 1)}][32];", "int turn = 0;", "(void)slots, (void)turn;"]
        return [*lines, *([f"__shared__ Found finds[2][{found}][32];"] if found else [])]

    def finds(self, place: int) -> bool:
        return self.instruction(place).kind.startswith("arg")

    def join(self, place: int) -> str:
        return JOINS[self.instruction(place).kind]

    def meeting(self, number: int, reductions: tuple[int, ...], meanwhile: Sequence[str] = ()) -> list[str]:
        """Joins the threads' values `a` of pass `number`; blocks do something else until they hear of each other."""
        slots = self._slots_of(reductions)
        lines = [f"a{p} = over_team<{self.join(p)}, TEAM, WHOLE>(a{p}, {slots[p]});" for p in reductions]
        lines.append("turn ^= 1;")
        if not self.parted:
            return lines
        before = sum(map(len, self.stage.passes[:number]))
        inner = [*self.words({before + order: f"a{place}" for order, place in enumerate(reductions)}), *meanwhile]
        for place in reductions:
            kind = "Found" if self.finds(place) else "float"
            inner.append(f"a{place} = {self.join(place)}::nothing();")
            inner.append("for (int i = threadIdx.x; i < PARTS; i += TEAM)")
            inner.append(f"  a{place} = {self.join(place)}::join(a{place}, heard<{kind}>(words_a{place} + i));")
        inner += [f"a{p} = over_team<{self.join(p)}, TEAM>(a{p}, {slots[p]});" for p in reductions]
        return [*lines, "if (PARTS > 1) {", *(f"  {line}" for line in inner), "  turn ^= 1;", "}"]

    def _slots_of(self, reductions: tuple[int, ...]) -> dict[int, str]:
        taken = {True: 0, False: 0}
        slots = {}
        for place in reductions:
            found = self.finds(place)
            slots[place] = f"{'finds' if found else 'slots'}[turn][{taken[found]}]"
            taken[found] += 1
        return slots

    def words(self, names: dict[int, str]) -> list[str]:
        """The words of all parts of this row for each variable, by its order in the row; this part's are written."""
        met = self.pointer(f"met_{self.tag}", written=True, kind="unsigned long long")
        lines = [f"unsigned long long* const words = {met} + row * ({self.exchanged} * PARTS + 1);"]
        for order, name in names.items():
            lines.append(f"unsigned long long* const words_{name} = words + {order} * PARTS;")
        lines.append("if (threadIdx.x == 0) {")
        lines += [f"  tell(words_{name} + part, {name});" for name in names.values()]
        return [*lines, "}"]

    @property
    def unroll(self) -> str:
        """All chunks where columns lie in registers, which have no addresses."""
        few = str(self.genes["unroll"])
        return f"(COLUMNS_{self.tag} ? CHUNKS : {few})" if self.stage.columns else few

    def chunks(self, elements: Elements) -> list[str]:
        """A thread's share of a row, vector by vector."""
        return [
            f"#pragma unroll {'CHUNKS' if elements.keep else self.unroll}",
            "for (int k = 0; k < CHUNKS; ++k) {",
            "  const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;",
            "  if (c < COLS) {",
            *(f"    {line}" for line in elements.lines()),
            "  }",
            "}",
        ]

    def counted(self) -> list[str]:
        """Once a block has read the words of all, it says so; it need not know at once whether it was the last."""
        met = self.pointer(f"met_{self.tag}", written=True, kind="unsigned long long")
        return [
            "unsigned long long came = 0;",
            "if (PARTS > 1 && threadIdx.x == 0)",
            f"  came = atomicAdd({met} + (row + 1) * ({self.exchanged} * PARTS + 1) - 1, 1ull);",
        ]

    def cleared(self) -> list[str]:
        """The last block of a row leaves the words as it found them."""
        met = self.pointer(f"met_{self.tag}", written=True, kind="unsigned long long")
        return [
            "if (PARTS > 1 && threadIdx.x < 32) {",
            "  if (__shfl_sync(0xffffffffu, came, 0) == PARTS - 1)",
            f"    for (int i = threadIdx.x; i <= {self.exchanged} * PARTS; i += 32)",
            f"      {met}[row * ({self.exchanged} * PARTS + 1) + i] = 0;",
            "}",
        ]
