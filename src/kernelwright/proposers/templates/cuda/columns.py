"""Joins the partial results of columns that the blocks of a stage have left in memory."""

from __future__ import annotations

from kernelwright.proposers.templates.cuda.kernels import Kernel
from kernelwright.proposers.templates.cuda.writer import JOINS, Writer

JOIN_THREADS = 256


class JoinWriter(Writer):
    """Joins the partial results of columns: a thread for each column, several where there are many results to join."""

    def kernel(self) -> Kernel:
        tag, stage = self.tag, self.stage
        self.setup.append(f"columns_{tag} = {self.size(self.program.cols)}")
        self.define(f"JOINED_{tag}", f"columns_{tag}")
        partials = f"groups_{tag} * teams_{tag}" if stage.columns else "0"
        self.setup.append(f"sharing_{tag} = min({JOIN_THREADS // 32}, power({partials}))")
        self.define(f"SHARING_{tag}", f"sharing_{tag}")
        self.define(f"PARTIALS_{tag}", partials)
        lines = [f"constexpr int COLS = JOINED_{tag}, PARTIALS = PARTIALS_{tag}, GROUPS = SHARING_{tag};"]
        lines.append(f"constexpr int LANES = {JOIN_THREADS} / GROUPS;")
        lines.append(f"__shared__ float found[{max(1, len(stage.columns))}][GROUPS][LANES];")
        lines.append("const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;")
        lines.append("const int c = block * LANES + lane;")
        for number, place in enumerate(stage.columns):
            join = JOINS[self.instruction(place).kind]
            pointer = self.pointer(f"partial_{self.step}_{place}")
            lines.append(f"float a{place} = {join}::nothing();")
            lines.append("if (c < COLS)")
            lines.append("#pragma unroll 4")
            lines.append("  for (int i = group; i < PARTIALS; i += GROUPS)")
            lines.append(f"    a{place} = {join}::join(a{place}, {pointer}[static_cast<long long>(i) * COLS + c]);")
            lines.append(f"found[{number}][group][lane] = a{place};")
        lines.append("__syncthreads();")
        lines.append("if (group == 0 && c < COLS) {")
        for number, place in enumerate(stage.columns):
            join = JOINS[self.instruction(place).kind]
            lines.append(
                f"  for (int i = 1; i < GROUPS; ++i) a{place} = {join}::join(a{place}, found[{number}][i][lane]);"
            )
            lines += [f"  {line}" for line in self.column_kept(place, f"columns_{tag}")]
        lines += [f"  {line}" for line in self.column_results()]
        return Kernel(
            f"columns_{tag}",
            tuple(self.parameters.values()),
            "".join(f"  {line}\n" for line in [*lines, "}"]),
            self.plan_lines,
            f"ceil(columns_{tag}, {JOIN_THREADS} // sharing_{tag})",
            str(JOIN_THREADS),
            when=f"not (only_{tag} or owned_{tag})" if stage.columns else "True",
        )
