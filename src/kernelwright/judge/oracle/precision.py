"""Names the precision in which a candidate seems to have computed, as evidence beside a verdict.

A coarse format leaves its mark: the reference on inputs rounded to that format is off by a typical amount,
and a kernel that computes in it is off by about as much. Where that amount drowns in the error of eager
PyTorch, nothing can be said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum

import torch

from kernelwright.judge.oracle.flags import strict_flags
from kernelwright.judge.oracle.scales import row_scale
from kernelwright.judge.oracle.tolerance import compute_dtype
from kernelwright.tasks.declarations import Close
from kernelwright.tasks.model import Task, Workload
from kernelwright.tasks.reference import Argument, dtype_name, run_reference

VISIBLE = 8.0
ALIKE = 0.3


class PrecisionClass(StrEnum):
    """tf32 and float16 keep the same number of bits: where the range does not tell them apart, tf32 is
    named.
    """

    float64 = "float64"
    float32 = "float32"
    tf32 = "tf32"
    float16 = "float16"
    bfloat16 = "bfloat16"
    indistinguishable = "indistinguishable"


def _to_tf32(value: torch.Tensor) -> torch.Tensor:
    bits = value.float().contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)


# From fine to coarse; a later one of the same typical error does not replace an earlier one.
ROUNDINGS: dict[PrecisionClass, Callable[[torch.Tensor], torch.Tensor]] = {
    PrecisionClass.float32: lambda value: value.float(),
    PrecisionClass.tf32: _to_tf32,
    PrecisionClass.float16: lambda value: value.half(),
    PrecisionClass.bfloat16: lambda value: value.bfloat16(),
}


@strict_flags()
def precision_class(
    task: Task, inputs: Mapping[str, Argument], results: Mapping[str, torch.Tensor], workload: Workload
) -> PrecisionClass:
    """The coarsest precision that any floating-point result of the candidate looks like."""
    exact = run_reference(task, inputs, torch.float64)
    eager = run_reference(task, inputs)
    names = [name for name in exact if isinstance(task.comparator(name, dtype_name(eager[name].dtype)), Close)]
    base = PrecisionClass(dtype_name(compute_dtype(task, workload)))
    order = list(PrecisionClass)
    rounded = {
        form: run_reference(task, _rounded(inputs, to_form), torch.float64)
        for form, to_form in ROUNDINGS.items()
        if order.index(form) > order.index(base)
    }
    found = [
        _class_of(
            base,
            _typical(results[name], exact[name]),
            _typical(eager[name], exact[name]),
            {form: _typical(moved[name], exact[name]) for form, moved in rounded.items()},
        )
        for name in names
    ]
    known = [one for one in found if one is not PrecisionClass.indistinguishable]
    return max(known, key=order.index) if known else PrecisionClass.indistinguishable


def _class_of(
    base: PrecisionClass, error: float, eager: float, levels: Mapping[PrecisionClass, float]
) -> PrecisionClass:
    visible = {form: level for form, level in levels.items() if level > VISIBLE * eager}
    if not visible:
        return PrecisionClass.indistinguishable
    looks = [form for form, level in visible.items() if error >= ALIKE * level]
    if looks:
        coarsest = max(visible[form] for form in looks)
        return next(form for form in looks if visible[form] > 0.7 * coarsest)
    return base if next(iter(levels)) in visible else PrecisionClass.indistinguishable


def _rounded(inputs: Mapping[str, Argument], to_form: Callable[[torch.Tensor], torch.Tensor]) -> dict[str, Argument]:
    def rounded(value: Argument) -> Argument:
        floating = isinstance(value, torch.Tensor) and value.is_floating_point()
        return to_form(value).double() if isinstance(value, torch.Tensor) and floating else value

    return {name: rounded(value) for name, value in inputs.items()}


def _typical(value: torch.Tensor, exact: torch.Tensor) -> float:
    """The typical error relative to the typical size, row by row; what is not finite does not count."""
    error = (value.double() - exact).abs_().nan_to_num_(0.0, 0.0, 0.0)
    size = exact.abs().nan_to_num_(0.0, 0.0, 0.0)
    if not error.numel():
        return 0.0
    scale = row_scale(size, least=64)
    ratio = torch.where(scale > 0, row_scale(error, least=64) / scale, 0.0)
    return float(ratio.median())
