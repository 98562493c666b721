"""Which elements of the results depend on probe rows alone: rows of a product's operand with one or two terms.

Found without knowledge of the task: with everything but the probe rows set to NaN the element stays finite, and with
the probe rows set to NaN it does not. See `tasks.products` for how such rows are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

import torch

from kernelwright.judge.oracle.flags import strict_flags
from kernelwright.judge.oracle.right.constants import CONSTANTS
from kernelwright.tasks.drawing import task_products
from kernelwright.tasks.formats import arithmetic
from kernelwright.tasks.model import Task, TaskError, Workload
from kernelwright.tasks.products import Operand, probe_rows_of
from kernelwright.tasks.reference import Argument

Results = dict[str, torch.Tensor]
Call = Callable[[Mapping[str, Argument]], Results]


@strict_flags()
def probed_elements(task: Task, workload: Workload, call: Call, inputs: Mapping[str, Argument]) -> Results:
    """A mask for each floating-point result that has such elements."""
    found = task_products(task, workload)
    if found.blurred or found.depth > CONSTANTS.probe_depth:
        return {}
    masks: Results = {}
    for operand in found.operands:
        for name, mask in _elements_of(operand, call, inputs).items():
            masks[name] = masks[name] | mask if name in masks else mask
    return masks


def _elements_of(operand: Operand, call: Call, inputs: Mapping[str, Argument]) -> Results:
    value = inputs[operand.name]
    assert isinstance(value, torch.Tensor)
    rows = probe_rows_of(operand, value)
    if not bool(rows.any()):
        return {}
    with suppress(TaskError):
        others_gone = call({**inputs, operand.name: torch.where(rows, value, torch.nan)})
        rows_gone = call({**inputs, operand.name: torch.where(rows, torch.nan, value)})
        masks = {
            name: torch.isfinite(arithmetic(result)) & torch.isnan(rows_gone[name])
            for name, result in others_gone.items()
            if result.is_floating_point()
        }
        return {name: mask.contiguous() for name, mask in masks.items() if bool(mask.any())}
    return {}
