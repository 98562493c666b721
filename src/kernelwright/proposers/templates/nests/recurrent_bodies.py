"""What is done for one unit at one time of a recurrent layer: the same text for C++ and CUDA."""

from __future__ import annotations

from collections.abc import Callable

from kernelwright.proposers.templates.nests.nest_code import computed
from kernelwright.proposers.templates.patterns.recurrent import CELLS, RecurrentStep

PointerText = Callable[[str], str]


def unit_lines(step: RecurrentStep, pointer: PointerText, kind: str) -> list[str]:
    """For unit `j` of row `b` at time `t`, after `before` (-1: none); `a0`, ... hold the products with the state.

    BATCH and UNITS are names of sizes; `kind` is the type in memory.
    """
    cell, value = CELLS[step.cell], computed(step.dtype)
    output = pointer(step.output)
    wide = f"{cell.gates} * UNITS"
    lines = []
    for gate in range(cell.gates):
        bias = f"static_cast<{value}>({pointer(step.bias)}[{gate} * UNITS + j])" if step.bias else "0"
        at = f"(t * BATCH + b) * ({wide}) + {gate} * UNITS + j"
        lines.append(f"const {value} x{gate} = static_cast<{value}>({pointer(step.gates)}[{at}]);")
        lines.append(f"const {value} g{gate} = a{gate} + {bias};")
    for state, name in enumerate(step.states):
        held = f"{output}[(({state} * TIMES + before) * BATCH + b) * UNITS + j]"
        first = f"{pointer(name)}[b * UNITS + j]"
        lines.append(f"const {value} s{state} = static_cast<{value}>(before < 0 ? {first} : {held});")
    lines += [line.replace("T ", f"{value} ").replace("T(", f"{value}(") for line in cell.code]
    for state in range(cell.states):
        at = f"(({state} * TIMES + t) * BATCH + b) * UNITS + j"
        lines.append(f"{output}[{at}] = static_cast<{kind}>(next{state});")
    return lines


def time_lines(step: RecurrentStep, index: str) -> list[str]:
    """The time `t` of turn `n`, and the one before it."""
    if step.back:
        return [f"const {index} t = TIMES - 1 - n;", f"const {index} before = n ? t + 1 : -1;"]
    return [f"const {index} t = n;", f"const {index} before = n - 1;"]
