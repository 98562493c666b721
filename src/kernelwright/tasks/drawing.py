"""From a task and a workload to actual arguments: their values, and their shapes alone."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kernelwright.tasks.draws import Family
from kernelwright.tasks.inputs import Saved, TensorInput, Upstream
from kernelwright.tasks.model import ScalarSpec, Signature, Task, TaskError, TensorSpec, Workload
from kernelwright.tasks.realise import realise
from kernelwright.tasks.reference import (
    Argument,
    call_reference,
    dtype_name,
    fault,
    guarded,
    prepared,
    run_reference,
    torch_dtype,
)

__all__ = ["Argument", "draw_inputs", "run_reference", "signature"]


def draw_inputs(task: Task, workload: Workload, family: Family, generator: torch.Generator) -> dict[str, Argument]:
    """Arguments in declared order, contiguous, on the generator's device and determined by it alone."""
    drawn: dict[str, Argument] = {}
    sizes = workload.size_map
    for name, declared in task.inputs.items():
        match declared:
            case TensorInput() | Upstream():
                shape, dtype = _form(declared, workload)
                what = f"drawing {name!r} for {workload.shown} raised"
                form = (shape, dtype, sizes, generator, task.families)
                drawn[name] = guarded(task, what, realise, declared.draw, family, *form)
            case Saved():
                drawn[name] = _saved(name, declared, drawn)
            case _:
                drawn[name] = declared
    return drawn


def _form(declared: TensorInput | Upstream, workload: Workload) -> tuple[tuple[int, ...], torch.dtype]:
    if isinstance(declared, TensorInput):
        return declared.shape(workload.size_map), torch_dtype(declared.dtype or workload.dtype)
    outputs = {spec.name: spec for spec in signature(declared.forward, workload).outputs}
    spec = outputs[declared.output]
    return spec.shape, torch_dtype(spec.dtype)


def _saved(name: str, declared: Saved, drawn: dict[str, Argument]) -> torch.Tensor:
    forward = declared.forward
    arguments = prepared(forward, {name: drawn[name] for name in forward.inputs})
    kept = guarded(forward, f"saved[{name!r}] raised", declared.function, *arguments.values())
    if not isinstance(kept, torch.Tensor):
        raise fault(forward, f"saved[{name!r}] returned a {type(kept).__name__}: return a tensor")
    return kept.detach().contiguous()


def signature(task: Task, workload: Workload) -> Signature:
    """What a kernel receives. Every tensor is row-major, whatever strides the reference happens to return."""
    arguments, results = _traced(task, workload)
    return Signature((*_given(task, arguments), *_returned(task, results)))


def _traced(task: Task, workload: Workload) -> tuple[dict[str, Argument], dict[str, torch.Tensor]]:
    """Runs the reference without data, or, if it looks at its data, on inputs drawn for the purpose."""
    try:
        arguments = without_data(task, workload)
        return arguments, call_reference(task, arguments)
    except TaskError:
        generator = torch.Generator().manual_seed(0)
        arguments = draw_inputs(task, workload, Family.NORMAL, generator)
        return arguments, run_reference(task, arguments)


def without_data(task: Task, workload: Workload) -> dict[str, Argument]:
    """Arguments whose tensors have a shape and a dtype but no values (meta tensors)."""
    arguments: dict[str, Argument] = {}
    for name, declared in task.inputs.items():
        match declared:
            case TensorInput() | Upstream():
                shape, dtype = _form(declared, workload)
                arguments[name] = _without_values(task, workload, shape, dtype)
            case Saved():
                arguments[name] = _saved(name, declared, arguments)
            case _:
                arguments[name] = declared
    return arguments


def _without_values(task: Task, workload: Workload, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    try:
        return torch.empty(shape, dtype=dtype, device="meta")
    except RuntimeError as error:
        raise TaskError(f"{task.name}: no tensor is as large as {workload.shown} asks for") from error


def _given(task: Task, arguments: dict[str, Argument]) -> Iterator[TensorSpec | ScalarSpec]:
    for name, value in arguments.items():
        if not isinstance(value, torch.Tensor):
            yield ScalarSpec(name, value)
        elif name in task.inout:
            yield _spec(name, value, "inout")
        else:
            yield _spec(name, value, "constant" if name in task.constant else "input")


def _returned(task: Task, results: dict[str, torch.Tensor]) -> Iterator[TensorSpec]:
    for name in task.outputs:
        yield _spec(name, results[name], "output")


def _spec(name: str, value: torch.Tensor, role: str) -> TensorSpec:
    shape = tuple(value.shape)
    return TensorSpec(name, dtype_name(value.dtype), shape, row_major(shape), role)


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1]
    for size in reversed(shape[1:]):
        strides.append(strides[-1] * max(size, 1))
    return tuple(reversed(strides[: len(shape)]))
