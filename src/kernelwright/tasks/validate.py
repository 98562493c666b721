"""Checks a task by running it, so that its faults are found before a search begins.

What a task is made of has been checked when it was made (`structure`).
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from kernelwright.tasks.backward import derive_backward
from kernelwright.tasks.declarations import FLOATS, Family
from kernelwright.tasks.dims import NotFiniteError, TaskError
from kernelwright.tasks.drawing import draw_inputs, on_any_arguments, signature
from kernelwright.tasks.formats import arithmetic
from kernelwright.tasks.hidden import hidden_workloads
from kernelwright.tasks.model import Task, Workload
from kernelwright.tasks.reference import (
    Argument,
    call_reference,
    dtype_name,
    fault,
    prepared,
    run_reference,
    storage_of,
)
from kernelwright.tasks.small_sizes import is_inside, is_light, smallest_workload, trial_workload

SEED = 20

VJP_TOLERANCE = 1e-9


def validate(task: Task) -> None:
    """Raises TaskError at the first fault. Takes about a tenth of a second, whatever the sizes: a large workload is
    followed without values, and values are tried at a small size."""
    validate_sizes(task)
    _check_values(task)
    _check_outputs_are_new(task)


def _check_values(task: Task) -> None:
    first = task.public_workloads()[0]
    if is_light(task, first):
        _check_purity(task, first)
        _check_results(task, first, task.families[0])
    small = trial_workload(task)
    if small is None or not (is_inside(task, small) or _accepts(task, small)):
        return
    _check_purity(task, small)
    _check_float64(task, small)
    for dtype, family in itertools.product(task.dtypes, task.families):
        _check_results(task, replace(small, dtype=dtype), family)
    if task.vjp is not None:
        _check_vjp(task, small)


def _accepts(task: Task, workload: Workload) -> bool:
    """Whether the reference runs at all: on sizes that the task does not declare it need not."""
    try:
        run_reference(task, _drawn(task, workload, task.families[0]))
    except TaskError:
        return False
    return True


def validate_sizes(task: Task) -> None:
    """What can be said of the workloads without data."""
    hidden_workloads(task, b"any key will do: is there a hidden workload at all?", count=1)
    for workload in (*task.public_workloads(), smallest_workload(task)):
        signature(task, workload)


def _drawn(task: Task, workload: Workload, family: Family) -> dict[str, Argument]:
    return draw_inputs(task, workload, family, torch.Generator().manual_seed(SEED))


def _check_purity(task: Task, workload: Workload) -> None:
    """The reference is a function of its inputs: it changes nothing but `inout` and draws nothing itself."""
    arguments = prepared(task, _drawn(task, workload, task.families[0]))
    tensors = {name: value for name, value in arguments.items() if isinstance(value, torch.Tensor)}
    versions = {name: value._version for name, value in tensors.items()}
    random_state = torch.get_rng_state()
    call_reference(task, arguments)
    if not torch.equal(random_state, torch.get_rng_state()):
        raise fault(task, "the reference draws random numbers: make them an input")
    for name, value in tensors.items():
        changed = value._version != versions[name]
        if changed and name not in task.inout:
            raise fault(task, f"the reference changes {name!r}: name it in inout, or work on a copy")
        if not changed and name in task.inout:
            raise fault(task, f"the reference never changes {name!r}: take it out of inout")


def _check_outputs_are_new(task: Task) -> None:
    """An output is not a view of an input. At some sizes it may be one: `x.t().contiguous()` is, with a single row."""
    sources: dict[str, str] | None = None
    for workload in task.public_workloads():
        seen = on_any_arguments(task, workload, lambda arguments: _shared(task, arguments))
        sources = seen if sources is None else {name: source for name, source in sources.items() if name in seen}
        if not sources:
            return
    for name, source in (sources or {}).items():
        raise fault(task, f"output {name!r} shares memory with {source!r}: return a new tensor")


def _shared(task: Task, arguments: dict[str, Argument]) -> dict[str, str]:
    """Outputs that share memory with an input, and which."""
    tensors = {name: value for name, value in arguments.items() if isinstance(value, torch.Tensor)}
    results = call_reference(task, arguments)
    memory = {storage_of(value): name for name, value in tensors.items()}
    found = {name: memory.get(storage_of(results[name])) for name in task.outputs}
    return {name: source for name, source in found.items() if source is not None}


def _check_results(task: Task, workload: Workload, family: Family) -> None:
    """Results are finite in the task's dtype, so that only a kernel can make them otherwise."""
    inputs = _drawn(task, workload, family)
    expected = {spec.name: spec for spec in signature(task, workload).tensors}
    for name, result in run_reference(task, inputs).items():
        spec = expected[name]
        if tuple(result.shape) != spec.shape or dtype_name(result.dtype) != spec.dtype:
            raise fault(
                task,
                f"result {name!r} is {tuple(result.shape)} {dtype_name(result.dtype)} on data but "
                f"{spec.shape} {spec.dtype} without: its shape must follow from the sizes alone",
            )
        if not _is_finite(result):
            message = (
                f"result {name!r} is not finite for family {family} and {workload.label}: "
                f"draw its inputs from a narrower range, or leave the family out of families"
            )
            raise NotFiniteError(str(fault(task, message)))


def _is_finite(result: torch.Tensor) -> bool:
    """In one pass: the extremes are not finite if any value is not, and isfinite().all() makes four."""
    if not result.is_floating_point() or not result.numel():
        return True
    return all(bool(extreme.isfinite()) for extreme in arithmetic(result).aminmax())


class _NoDowncast(TorchFunctionMode):
    """Raises where float64 goes into an operation and less comes out: the answer would lose its precision."""

    def __torch_function__(
        self, function: Any, types: Any, arguments: tuple[Any, ...] = (), options: Any = None
    ) -> Any:
        result = function(*arguments, **(options or {}))
        given = [value.dtype for value in arguments if isinstance(value, torch.Tensor)]
        if torch.float64 in given and isinstance(result, torch.Tensor) and _is_less(result.dtype):
            raise TaskError(
                f"the reference casts float64 to {dtype_name(result.dtype)}, but answers are in float64: write "
                f"cast(x, torch.{dtype_name(result.dtype)}) in place of the cast, with cast from kernelwright.tasks"
            )
        return result


def _is_less(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point and dtype is not torch.float64


def _check_float64(task: Task, workload: Workload) -> None:
    """The answer is the reference in float64, so it must neither cast down nor return less."""
    expected = {spec.name: spec.dtype for spec in signature(task, workload).tensors}
    inputs = prepared(task, _drawn(task, workload, task.families[0]), torch.float64)
    with _NoDowncast():
        results = call_reference(task, inputs)
    for name, result in results.items():
        if expected[name] in FLOATS and result.dtype is not torch.float64:
            raise fault(
                task,
                f"result {name!r} is {dtype_name(result.dtype)} for float64 inputs: "
                f"make the reference follow the dtype of its inputs",
            )


def _check_vjp(task: Task, workload: Workload) -> None:
    """Gradients that the author wrote out must be those of the reference."""
    written, derived = derive_backward(task), derive_backward(replace(task, vjp=None))
    inputs = _drawn(written, replace(workload, dtype="float64"), task.families[0])
    right = run_reference(derived, inputs)
    for name, gradient in run_reference(written, inputs).items():
        worst = float((gradient - right[name]).abs().max() / right[name].abs().max())
        if not worst < VJP_TOLERANCE:
            raise fault(task, f"vjp gives a wrong {name}: it is off by {worst:.1e} of its size")
