"""A task as plain data, for whatever shows it to a person or an agent. No hidden workload is in it."""

from __future__ import annotations

from dataclasses import dataclass

from kernelwright.tasks.inputs import Input, Saved, Scalar, TensorInput, Upstream
from kernelwright.tasks.model import Task


@dataclass(frozen=True)
class ArgumentInfo:
    """One argument. `role` is input, constant, inout or scalar; `value` is a scalar's, `draw` a tensor's."""

    name: str
    role: str
    dims: tuple[str, ...] = ()
    dtype: str = ""
    draw: str = ""
    value: Scalar | None = None
    gradient: bool = False


@dataclass(frozen=True)
class TaskInfo:
    """`cuda_public` and `cuda_hidden` are empty where a GPU has the same workloads."""

    name: str
    doc: str
    direction: str
    origin: str
    arguments: tuple[ArgumentInfo, ...]
    outputs: tuple[str, ...]
    inout: tuple[str, ...]
    constant: tuple[str, ...]
    comparators: tuple[tuple[str, str], ...]
    public: tuple[str, ...]
    hidden: tuple[tuple[str, int, int], ...]
    dtypes: tuple[str, ...]
    families: tuple[str, ...]
    cuda_public: tuple[str, ...] = ()
    cuda_hidden: tuple[tuple[str, int, int], ...] = ()


def describe(task: Task) -> TaskInfo:
    on_cuda = task.on("cuda") if task.cuda is not None else None
    return TaskInfo(
        name=task.name,
        doc=task.doc,
        direction=task.direction,
        origin=task.origin,
        arguments=tuple(_argument(task, name, declared) for name, declared in task.inputs.items()),
        outputs=task.outputs,
        inout=task.inout,
        constant=task.constant,
        comparators=tuple((name, str(comparator)) for name, comparator in task.comparators.items()),
        public=_public(task),
        hidden=_hidden(task),
        dtypes=task.dtypes,
        families=tuple(str(family) for family in task.families),
        cuda_public=_public(on_cuda) if on_cuda else (),
        cuda_hidden=_hidden(on_cuda) if on_cuda else (),
    )


def _public(task: Task) -> tuple[str, ...]:
    return tuple(workload.label for workload in task.public_workloads())


def _hidden(task: Task) -> tuple[tuple[str, int, int], ...]:
    return tuple((name, low, high) for name, (low, high) in task.hidden.items())


def _argument(task: Task, name: str, declared: Input) -> ArgumentInfo:
    role = "inout" if name in task.inout else "constant" if name in task.constant else "input"
    match declared:
        case TensorInput():
            dims = tuple(str(dim) for dim in declared.dims)
            dtype = declared.dtype or "the workload's"
            return ArgumentInfo(name, role, dims, dtype, str(declared.draw), gradient=declared.gradient)
        case Upstream():
            like = f"that of {declared.output}"
            return ArgumentInfo(name, role, (f"shape of {declared.output}",), like, str(declared.draw))
        case Saved():
            return ArgumentInfo(name, role, draw="computed by the forward pass")
        case _:
            return ArgumentInfo(name, "scalar", value=declared)
