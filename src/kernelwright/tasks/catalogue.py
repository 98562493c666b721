"""What tasks declare, as plain data: one task, a suite of them, or all built-in ones, without torch where possible.

References need torch, which takes seconds to import. What is shown of the built-in tasks follows from the sources of
this package alone, so that it is kept in the cache under the hash of those.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from kernelwright.paths import cache_dir, write_whole
from kernelwright.tasks.declarations import Input, Saved, Scalar, TensorInput, Upstream
from kernelwright.tasks.dims import TaskError
from kernelwright.tasks.imported.forms import tasks_in
from kernelwright.tasks.model import Task
from kernelwright.tasks.resolve import BACKWARD, builtin_names, declared


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


def _both(*names: str) -> tuple[str, ...]:
    return tuple(ref for name in names for ref in (name, f"{name}:{BACKWARD}"))


SUITES: dict[str, tuple[str, ...]] = {
    # the operations of robust-kbench
    "robust": _both(
        "layernorm3d",
        "rmsnorm",
        "llama_ffw",
        "conv_relu_pool",
        "cross_entropy",
        "linear",
        "linear_relu",
        "maxpool2d",
        "resnet_block",
        "unet_conv2d",
        "unet_linear",
    ),
}


def suite(name: str) -> tuple[str, ...]:
    """The tasks of a suite, as names that `resolve` takes."""
    if name not in SUITES:
        raise TaskError(f"{name!r} is not a suite: choose from {', '.join(SUITES)}")
    return SUITES[name]


def folder_suite(folder: Path) -> tuple[str, ...]:
    """The tasks of strangers in a folder and below it, as names that `resolve` takes, in natural order."""
    return tuple(str(path) if "/" in str(path) else f"./{path}" for path in tasks_in(folder))


PACKAGE = Path(__file__).parent
KEPT: TypeAdapter[tuple[TaskInfo, ...]] = TypeAdapter(tuple[TaskInfo, ...])


def catalogue() -> tuple[TaskInfo, ...]:
    """Each built-in, followed by its gradient where it has one."""
    kept = cache_dir("catalogue") / f"{_digest()}.json"
    try:
        return KEPT.validate_json(kept.read_bytes())
    except (OSError, ValidationError):  # not there yet, or not whole
        found = tuple(info for name in builtin_names() for info in _both_directions(name))
    write_whole(kept, KEPT.dump_json(found))
    return found


def of_suite(name: str) -> tuple[TaskInfo, ...]:
    known = {info.name: info for info in catalogue()}
    return tuple(known[ref] for ref in suite(name))


def _both_directions(name: str) -> tuple[TaskInfo, ...]:
    forward = describe(declared(name))
    try:
        return forward, describe(declared(f"{name}:{BACKWARD}"))
    except TaskError:  # argmax and in-place tasks have no gradient
        return (forward,)


def _digest() -> str:
    """Of all that decides what is shown; where the files lie is shown, too."""
    whole = hashlib.sha256(str(PACKAGE).encode())
    for path in sorted(PACKAGE.rglob("*.py")):
        whole.update(f"{path.relative_to(PACKAGE)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()[:32]
