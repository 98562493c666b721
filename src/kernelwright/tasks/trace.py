"""Records the operations of a reference while it runs, and which of them its results depend on.

make_fx and export drop dead operations before they hand a graph over, and symbolic tracing fails where a reference
looks at its data. Watching one evaluation does neither: whatever runs can be recorded, in-place steps and views
included, because dependence is followed from storage to storage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from kernelwright.tasks.drawing import on_any_arguments
from kernelwright.tasks.model import Task, Workload
from kernelwright.tasks.reference import Argument, call_reference, prepared, storage_of

_FILLS = "zeros_like ones_like empty_like full_like new_zeros new_ones new_empty new_full lift_fresh lift_fresh_copy"
FILLS = frozenset(_FILLS.split())


@dataclass(frozen=True)
class Operation:
    """One step. `escapes`: its result steered Python, so everything may depend on it."""

    name: str
    reads: frozenset[int]
    writes: frozenset[int]
    escapes: bool
    flops: int

    @property
    def computes(self) -> bool:
        return bool(self.reads) and self.name not in FILLS


@dataclass(frozen=True)
class Trace:
    """The steps that the results need, those that nothing needs, and the inputs that are read for a result."""

    live: tuple[Operation, ...]
    dead: tuple[Operation, ...]
    read: tuple[str, ...]

    @property
    def flops(self) -> int:
        """Of products, convolutions and attention, as torch counts them; everything else counts nothing."""
        return sum(operation.flops for operation in self.live)


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: list[Operation] = []
        self._held: list[torch.Tensor] = []  # so that no storage serves two tensors in turn

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if not func.is_view:
            made = _tensors(result)
            self._held += made
            steers = not made or torch.Tag.dynamic_output_shape in func.tags
            writes = _storages(made) | _storages(_changed(func, args, kwargs))
            packet = func.overloadpacket
            flops = int(flop_registry[packet](*args, **kwargs, out_val=result)) if packet in flop_registry else 0
            reads = _storages(_tensors((args, kwargs)))
            self.operations.append(Operation(str(packet.__name__), reads, writes, steers, flops))
        return result


def record(task: Task, inputs: Mapping[str, Argument]) -> Trace:
    """Watches one call of the reference. Raises TaskError where the reference raises."""
    arguments = prepared(task, inputs)
    recorder = _Recorder()
    with recorder:
        results = call_reference(task, arguments)
    live: list[Operation] = []
    dead: list[Operation] = []
    wanted = set(_storages(results.values()))
    for operation in reversed(recorder.operations):
        if operation.escapes or operation.writes & wanted:
            wanted |= operation.reads
            live.append(operation)
        elif operation.computes:
            dead.append(operation)
    tensors = {name: value for name, value in arguments.items() if isinstance(value, torch.Tensor)}
    read = tuple(name for name, value in tensors.items() if storage_of(value) in wanted)
    return Trace(tuple(reversed(live)), tuple(reversed(dead)), read)


def record_sizes(task: Task, workload: Workload) -> Trace:
    """Without data where the reference runs so, which costs no memory, and on drawn inputs otherwise."""
    return on_any_arguments(task, workload, partial(record, task))


def _changed(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    declared = enumerate(func._schema.arguments)
    given = [
        args[place] if place < len(args) else kwargs.get(argument.name)
        for place, argument in declared
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    return _tensors(given)


def _tensors(values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def _storages(tensors: Iterable[torch.Tensor]) -> frozenset[int]:
    return frozenset(storage_of(tensor) for tensor in tensors)
