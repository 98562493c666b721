"""Calls a task's reference and gives its results names."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from typing import Any

import torch

from kernelwright.errors import JudgeOutOfMemory
from kernelwright.tasks.declarations import DTYPES, Scalar
from kernelwright.tasks.dims import TaskError
from kernelwright.tasks.formats import saturates
from kernelwright.tasks.loading import blame, located
from kernelwright.tasks.model import Task
from kernelwright.tasks.without_values import followed

Argument = torch.Tensor | Scalar


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def torch_dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name)
    assert isinstance(dtype, torch.dtype)
    return dtype


def storage_of(tensor: torch.Tensor) -> int:
    """Tells storages apart, also those without data."""
    return int(tensor.untyped_storage()._cdata)


def home(task: Task) -> str:
    """The file to name in an error; a task made in memory is named by its name."""
    return task.origin or task.name or "task"


def first_line(task: Task) -> int | None:
    """Where the reference begins, for faults that no single line of it causes."""
    code = getattr(task.reference, "__code__", None)
    return code.co_firstlineno if code is not None and code.co_filename == task.origin else None


def fault(task: Task, message: str) -> TaskError:
    return located(home(task), first_line(task), message)


def guarded(task: Task, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls code of the task's author; whatever it raises becomes a TaskError."""
    try:
        return function(*arguments)
    except Exception as error:
        if is_out_of_memory(error):  # which says nothing of the task, and must not pass for a value that it refuses
            raise JudgeOutOfMemory(f"{home(task)}: {what} because memory ran out: {first_line_of(error)}") from error
        if isinstance(error, NotImplementedError) and "'Float8_" in str(error):
            what += ", since torch does not compute in 8-bit floats (widen them first, as in x.float())"
        raise blame(error, home(task), what) from error


def is_out_of_memory(error: BaseException) -> bool:
    """The host's memory, torch's on either device, or an arena's."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    words = str(error).lower()
    return any(known in words for known in ("out_of_memory", "out of memory", "can't allocate memory"))


def first_line_of(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0][:160] or type(error).__name__


def call_reference(task: Task, arguments: Mapping[str, Argument]) -> dict[str, torch.Tensor]:
    """Results by name, from arguments that the call may change: first inout tensors, then outputs."""
    with followed(arguments):
        returned = guarded(task, "the reference raised", task.reference, *arguments.values())
    if returned is None:
        returned = ()
    outputs = tuple(returned) if isinstance(returned, tuple | list) else (returned,)
    if len(outputs) != len(task.outputs):
        raise fault(
            task,
            f"the reference returned {len(outputs)} value(s) but outputs={task.outputs} names "
            f"{len(task.outputs)}: make them agree",
        )
    results = {name: arguments[name] for name in task.inputs if name in task.inout}
    results |= dict(zip(task.outputs, outputs, strict=True))
    return {name: _checked(task, name, value) for name, value in results.items()}


def _checked(task: Task, name: str, value: object) -> torch.Tensor:
    if not isinstance(value, torch.Tensor):
        raise fault(task, f"the reference returned a {type(value).__name__} for {name!r}: return a tensor")
    if dtype_name(value.dtype) not in DTYPES:
        raise fault(task, f"result {name!r} is {dtype_name(value.dtype)}: use one of {', '.join(DTYPES)}")
    if value.dtype == torch.float8_e4m3fn and not saturates():
        raise fault(
            task,
            f"result {name!r} is float8_e4m3fn, whose largest number torch {torch.__version__} does not keep where "
            f"more is rounded to it: install torch 2.13 or newer",
        )
    return value


def prepared(task: Task, inputs: Mapping[str, Argument], dtype: torch.dtype | None = None) -> dict[str, Argument]:
    """Arguments for one call: inout tensors are copies, floating-point tensors are in `dtype` if given."""

    def prepare(name: str, value: Argument) -> Argument:
        if not isinstance(value, torch.Tensor):
            return value
        target = dtype if dtype is not None and value.is_floating_point() else value.dtype
        return value.to(target, copy=name in task.inout)

    return {name: prepare(name, inputs[name]) for name in task.inputs}


def run_reference(
    task: Task, inputs: Mapping[str, Argument], dtype: torch.dtype | None = None
) -> dict[str, torch.Tensor]:
    """Results keyed by `task.result_names`; `inputs` stay as they are. The answer is the one in float64."""
    results = call_reference(task, prepared(task, inputs, dtype))
    return {name: result.detach() for name, result in results.items()}
