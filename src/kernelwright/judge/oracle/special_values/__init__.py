"""Special values, a part of the oracle: `finding` finds out from a reference which of them a kernel must get right,
`planting` plants them, and `patterns` says what is then expected."""

from kernelwright.judge.oracle.special_values.finding import special_expectations, special_values
from kernelwright.judge.oracle.special_values.planting import SpecialValues, draw_special
from kernelwright.tasks.declarations import ValueKind

__all__ = ["SpecialValues", "ValueKind", "draw_special", "special_expectations", "special_values"]
