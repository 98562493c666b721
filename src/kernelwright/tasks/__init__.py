"""What must be computed. These names are all that a task file needs; importing them does not import torch."""

from kernelwright.tasks.declarations import (
    CallArgument,
    Chosen,
    Close,
    Exact,
    Family,
    Rounded,
    custom,
    integers,
    normal,
    of_family,
    uniform,
)
from kernelwright.tasks.model import Precision, Task, TaskError, Workloads, tensor

__all__ = [
    "CallArgument",
    "Chosen",
    "Close",
    "Exact",
    "Family",
    "Precision",
    "Rounded",
    "Task",
    "TaskError",
    "Workloads",
    "custom",
    "integers",
    "normal",
    "of_family",
    "tensor",
    "uniform",
]
