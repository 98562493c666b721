"""STAND-IN until the real special values are merged: NaN in the first float input. Replace this file whole."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import torch

from kernelwright.judge.oracle.tolerance import Expectation, expectations
from kernelwright.tasks.declarations import Family, Scalar
from kernelwright.tasks.drawing import draw_inputs
from kernelwright.tasks.model import Task, TensorInput, Workload

Argument = torch.Tensor | Scalar


class ValueKind(StrEnum):
    nan = "nan"


@dataclass(frozen=True)
class SpecialValues:
    """One way of planting values; `name` is unique in a task and says it in words."""

    name: str
    kind: ValueKind
    tensor: str = ""


def special_values(task: Task) -> tuple[SpecialValues, ...]:
    tensors = [name for name, given in task.inputs.items() if isinstance(given, TensorInput) and given.dtype is None]
    return tuple(SpecialValues(f"nan in {name}", ValueKind.nan, name) for name in tensors[:1])


def draw_special(
    task: Task, workload: Workload, special: SpecialValues, family: Family, generator: torch.Generator
) -> dict[str, Argument]:
    inputs = draw_inputs(task, workload, family, generator)
    planted = inputs[special.tensor]
    assert isinstance(planted, torch.Tensor)
    flat = planted.view(-1)
    flat[torch.randint(flat.numel(), (), generator=generator, device=generator.device)] = torch.nan
    return inputs


def special_expectations(
    task: Task, inputs: dict[str, Argument], workload: Workload, special: SpecialValues
) -> dict[str, Expectation]:
    return expectations(task, inputs, workload)
