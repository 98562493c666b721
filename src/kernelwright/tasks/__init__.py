"""What must be computed. These names are all that a task file needs; importing them does not import torch."""

from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from kernelwright.tasks.casting import cast

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
    "cast",
    "custom",
    "integers",
    "normal",
    "of_family",
    "tensor",
    "uniform",
]


def __getattr__(name: str) -> Any:
    """`cast` imports torch, so it is imported where a task file asks for it."""
    if name != "cast":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from kernelwright.tasks.casting import cast

    return cast
