"""What must be computed. These names are all that a task file needs; importing them does not import torch.

Each is imported where it is asked for: commands that only name a task import this package too, and stay light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelwright.tasks.casting import cast
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
    "cast",
    "custom",
    "integers",
    "normal",
    "of_family",
    "tensor",
    "uniform",
]

_IN_MODEL = ("Precision", "Task", "TaskError", "Workloads", "tensor")


def __getattr__(name: str) -> Any:
    """`cast` imports torch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "casting" if name == "cast" else "model" if name in _IN_MODEL else "declarations"
    return getattr(import_module(f"kernelwright.tasks.{module}"), name)
