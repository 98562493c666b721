"""What can be checked of a task without running it: `Task` does so when it is made, so nothing later must."""

from __future__ import annotations

import keyword
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kernelwright.tasks.declarations import (
    DTYPES,
    FLOATS,
    Chosen,
    Close,
    CustomDraw,
    Exact,
    Family,
    FamilyDraw,
    IntegerDraw,
    NormalDraw,
    Rounded,
    Saved,
    TensorInput,
    UniformDraw,
    Upstream,
    ValueKind,
)
from kernelwright.tasks.dims import Sizes, TaskError, described, evaluate, names_in

if TYPE_CHECKING:
    from kernelwright.tasks.model import Task


def check_structure(task: Task) -> None:
    """Raises TaskError, in one line that names the fix, at the first thing that cannot be right."""
    if not callable(task.reference):
        raise TaskError("reference is not a function: give the plain PyTorch function that defines the task")
    _check_names(task)
    _check_inputs(task)
    _check_mentions(task)
    _check_sizes(task)
    for sizes in task.public:
        _check_workload(task, sizes)


def _check_names(task: Task) -> None:
    names = [*task.inputs, *task.outputs, *task.saved]
    for name in names:
        if not (isinstance(name, str) and name.isascii() and name.isidentifier()) or keyword.iskeyword(name):
            raise TaskError(f"{name!r} cannot name an argument: use letters, digits and underscores")
        if names.count(name) > 1:
            raise TaskError(f"{name!r} names two of the inputs, outputs and saved tensors: rename one")
    if isinstance(task.outputs, str):
        raise TaskError(f"outputs is a string: write ({task.outputs!r},)")
    if not task.outputs and not task.inout:
        raise TaskError("the task has no result: name its outputs, or the inputs that it changes in inout")
    if task.direction not in ("forward", "backward"):
        raise TaskError(f"direction is {task.direction!r}: write 'forward' or 'backward'")


def _check_inputs(task: Task) -> None:
    for dtype in task.dtypes:
        if dtype not in DTYPES:
            raise TaskError(f"dtypes has {dtype!r}: write one of {', '.join(DTYPES)}")
    if not task.dtypes or isinstance(task.dtypes, str):
        raise TaskError("dtypes must be a tuple with at least one dtype, such as ('float32',)")
    if not task.families or not all(isinstance(family, Family) for family in task.families):
        raise TaskError(f"families must be some of Family.{', Family.'.join(f.name for f in Family)}")
    for name, declared in task.inputs.items():
        if isinstance(declared, TensorInput):
            _check_tensor(task, name, declared)
        elif isinstance(declared, bool | int | float):
            if not math.isfinite(declared):
                raise TaskError(f"input {name!r} is {declared}: a scalar must be finite")
        elif not isinstance(declared, Saved | Upstream):
            raise TaskError(f"input {name!r} is {declared!r}: write tensor(...) or a number")


def _check_tensor(task: Task, name: str, declared: TensorInput) -> None:
    if declared.dtype is not None and declared.dtype not in DTYPES:
        raise TaskError(f"input {name!r} has dtype {declared.dtype!r}: write one of {', '.join(DTYPES)}")
    dtypes = task.dtypes if declared.dtype is None else (declared.dtype,)
    whole = [dtype for dtype in dtypes if dtype not in FLOATS]
    if isinstance(declared.draw, FamilyDraw | NormalDraw | UniformDraw) and whole:
        raise TaskError(f"input {name!r} is {whole[0]} but drawn as {declared.draw}: use draw=integers(low, high)")
    if not isinstance(declared.draw, FamilyDraw | NormalDraw | UniformDraw | IntegerDraw | CustomDraw):
        raise TaskError(f"input {name!r} has draw {declared.draw!r}: use normal, uniform, integers or custom")


def _check_mentions(task: Task) -> None:
    """Names in inout, constant and comparators must exist, or a misspelt one would silently mean nothing."""
    tensors = [name for name, declared in task.inputs.items() if not isinstance(declared, bool | int | float)]
    for field, mentioned in (("inout", task.inout), ("constant", task.constant)):
        if isinstance(mentioned, str):
            raise TaskError(f"{field} is a string: write ({mentioned!r},)")
        for name in mentioned:
            if name not in tensors:
                raise TaskError(f"{field} names {name!r}, which is not a tensor input: {_choices(tensors)}")
    for name in task.inout:
        if name in task.constant:
            raise TaskError(f"input {name!r} is both inout and constant: a constant never changes")
    for result, comparator in task.comparators.items():
        if result not in task.result_names:
            raise TaskError(f"comparators has {result!r}, which is not a result: {_choices(task.result_names)}")
        if not isinstance(comparator, Close | Exact | Chosen | Rounded):
            raise TaskError(f"comparator of {result!r} is not Close, Exact, Chosen or Rounded")
        if isinstance(comparator, Chosen) and comparator.source not in tensors:
            raise TaskError(f"Chosen(source={comparator.source!r}) is not a tensor input: {_choices(tensors)}")
    if isinstance(task.unchecked, str):
        raise TaskError(f"unchecked is a string: write ({task.unchecked!r},)")
    for kind in task.unchecked:
        if kind not in list(ValueKind):
            raise TaskError(f"unchecked has {kind!r}, which is not a kind of special values: {_choices(ValueKind)}")


def _choices(names: Iterable[str]) -> str:
    return f"choose among {', '.join(names)}"


def _check_sizes(task: Task) -> None:
    used: set[str] = set(names_in(task.work)) if task.work is not None else set()
    free = False
    for declared in task.inputs.values():
        if isinstance(declared, TensorInput):
            used.update(*(names_in(dim) for dim in declared.dims))
            if isinstance(declared.draw, IntegerDraw):
                used |= names_in(declared.draw.low) | names_in(declared.draw.high)
            free = free or isinstance(declared.draw, CustomDraw)
    if not task.public:
        raise TaskError("public is empty: give at least one workload, such as [{'rows': 1024}]")
    for sizes in task.public:
        for name in sorted(used - set(sizes)):
            raise TaskError(f"public workload {dict(sizes)} does not give the size {name!r}")
        for name, value in sizes.items():
            if type(value) is not int or value < 1:
                raise TaskError(f"public workload has {name}={value!r}: a size is a positive whole number")
            if name not in used and not free:
                raise TaskError(f"public workload has a size {name!r} that no dimension uses: remove it")
            if name not in task.hidden:
                raise TaskError(f"hidden has no range for {name!r}: add {name!r}: (low, high)")
    for name, bounds in task.hidden.items():
        if any(name not in sizes for sizes in task.public):
            raise TaskError(f"hidden has a range for {name!r}, which not every public workload gives")
        if len(bounds) != 2 or not all(type(b) is int for b in bounds) or not 1 <= bounds[0] <= bounds[1]:
            raise TaskError(f"hidden range of {name!r} is {bounds!r}: write (low, high), 1 <= low <= high")


def _check_workload(task: Task, sizes: Sizes) -> None:
    for name, declared in task.inputs.items():
        if not isinstance(declared, TensorInput):
            continue
        declared.shape(sizes)
        draw = declared.draw
        if isinstance(draw, IntegerDraw) and evaluate(draw.low, sizes) >= evaluate(draw.high, sizes):
            raise TaskError(f"input {name!r}: {draw} is empty for {described(sizes)}: low must be below high")
    if task.work is not None and evaluate(task.work, sizes) < 1:
        raise TaskError(f"work {task.work!r} is not positive for {described(sizes)}")
