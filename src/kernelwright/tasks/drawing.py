"""From a task and a workload to actual arguments: their values, and their shapes alone.

Millions of values are drawn for every trial, so each input family is one pass of float32 normals changed in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import TypeVar

import torch

from kernelwright.tasks.declarations import (
    CustomDraw,
    Draw,
    Family,
    FamilyDraw,
    IntegerDraw,
    NormalDraw,
    Saved,
    TensorInput,
    UniformDraw,
    Upstream,
)
from kernelwright.tasks.model import ScalarSpec, Signature, Sizes, Task, TaskError, TensorSpec, Workload, evaluate
from kernelwright.tasks.products import Products, products, with_probe_rows
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
from kernelwright.tasks.without_values import fake_tensors, has_values, needs_values

Shape = tuple[int, ...]
Drawer = Callable[[torch.Generator, Shape], torch.Tensor]

SHIFT = 4.0
TAIL = 0.25
SPIKE_AT, SPIKE, NOISE = 2.5, 8.0, 0.05
OCTAVES = 6.0
SMALL = 1e-3
FOREIGN_ROWS, ONE_ROW_IN = 4, 64  # at most so many rows of each other family, and one in so many
FOREIGN_ELEMENTS = 16
SHUFFLED = 1 << 14
PART = 1 << 26  # elements that are changed at a time, so that no second tensor is as large as the first


def _normal(generator: torch.Generator, shape: Shape) -> torch.Tensor:
    return torch.randn(shape, generator=generator, device=generator.device, dtype=torch.float32)


def _uniform(generator: torch.Generator, shape: Shape) -> torch.Tensor:
    return torch.rand(shape, generator=generator, device=generator.device, dtype=torch.float32)


def _shifted(generator: torch.Generator, shape: Shape) -> torch.Tensor:
    return _normal(generator, shape).add_(SHIFT)


def _heavy_tail(generator: torch.Generator, shape: Shape) -> torch.Tensor:
    """Tukey's h distribution, whose quantiles for h = 1/4 are those of Student's t with 3 degrees of freedom.

    It needs one normal where Student's t needs four, and cannot divide by zero.
    """
    z = _normal(generator, shape)
    for part in torch.split(z.view(-1), PART):
        part.mul_(part.square().mul_(TAIL / 2).exp_())
    return z


def _spikes(generator: torch.Generator, shape: Shape) -> torch.Tensor:
    """About one value in eighty is large (beyond +-20), the rest is noise; every value still differs."""
    z = _normal(generator, shape)
    for part in torch.split(z.view(-1), PART):
        part.mul_(torch.where(part.abs() > SPIKE_AT, SPIKE, NOISE))
    return z


def _wide(generator: torch.Generator, shape: Shape) -> torch.Tensor:
    """Every row has its own scale; a vector has one for each element."""
    z = _normal(generator, shape)
    scales = _uniform(generator, (*shape[:-1], 1) if len(shape) > 1 else shape)
    return z.mul_(scales.mul_(2 * OCTAVES).sub_(OCTAVES).exp2_())


def _small(generator: torch.Generator, shape: Shape) -> torch.Tensor:
    return _normal(generator, shape).mul_(SMALL)


_FAMILIES: dict[Family, Drawer] = {
    Family.NORMAL: _normal,
    Family.SHIFTED: _shifted,
    Family.HEAVY_TAIL: _heavy_tail,
    Family.SPIKES: _spikes,
    Family.WIDE: _wide,
    Family.SMALL: _small,
}


def _with_strangers(
    generator: torch.Generator, drawn: torch.Tensor, family: Family, families: tuple[Family, ...]
) -> torch.Tensor:
    """Draws a few rows (in a vector: a few elements), somewhere, from each of the task's other families.

    A kernel that samples its input to guess which family it got, and takes a shortcut that this family allows,
    would be wrong for a user whose data has one unusual row. So every trial has some.
    """
    rows = drawn.view(-1, drawn.shape[-1]) if drawn.ndim > 1 else drawn.view(-1, 1)
    count = min(FOREIGN_ROWS, rows.shape[0] // ONE_ROW_IN)
    others = [other for other in families if other is not family]
    if count == 0 or not others:
        return drawn
    places = _few(generator, rows.shape[0], count * len(others))
    for number, other in enumerate(others):
        chosen = places[number * count : (number + 1) * count]
        rows[chosen] = _FAMILIES[other](generator, (count, rows.shape[1]))
    if Family.WIDE in others:  # and single elements as large as that family's largest: a look at every row misses them
        few = min(FOREIGN_ELEMENTS, drawn.numel() // ONE_ROW_IN)
        at = torch.randint(drawn.numel(), (few,), generator=generator, device=generator.device)
        drawn.view(-1)[at] = _normal(generator, (few,)).mul_(2.0**OCTAVES)
    return drawn


def _few(generator: torch.Generator, rows: int, wanted: int) -> torch.Tensor:
    """Random rows. Many are drawn with repetition, which then hardly happens, because shuffling a million to take
    twenty would cost more than drawing them."""
    if rows > SHUFFLED:
        return torch.randint(rows, (wanted,), generator=generator, device=generator.device)
    return torch.randperm(rows, generator=generator, device=generator.device)[:wanted]


def realise(
    draw: Draw,
    family: Family,
    shape: Shape,
    dtype: torch.dtype,
    sizes: Sizes,
    generator: torch.Generator,
    families: tuple[Family, ...] = (),
) -> torch.Tensor:
    """A contiguous tensor on the generator's device. `families` are those whose rows may stand among the others."""
    match draw:
        case FamilyDraw():
            drawn = _FAMILIES[family](generator, shape)
            return _with_strangers(generator, drawn, family, families).to(dtype)
        case NormalDraw(mean, std):
            return _normal(generator, shape).mul_(std).add_(mean).to(dtype)
        case UniformDraw(low, high):
            return _uniform(generator, shape).mul_(high - low).add_(low).to(dtype)
        case IntegerDraw(low, high):
            bounds = evaluate(low, sizes), evaluate(high, sizes)
            drawn = torch.randint(*bounds, shape, generator=generator, device=generator.device)
            return drawn.to(dtype)
        case CustomDraw(function):
            return _checked(function(generator, shape, dtype, dict(sizes)), shape, dtype)


def _checked(drawn: object, shape: Shape, dtype: torch.dtype) -> torch.Tensor:
    if not isinstance(drawn, torch.Tensor):
        raise TaskError(f"a custom draw returned a {type(drawn).__name__}: return a tensor")
    if tuple(drawn.shape) != shape or drawn.dtype != dtype:
        raise TaskError(
            f"a custom draw returned {tuple(drawn.shape)} {drawn.dtype} where {shape} {dtype} was asked for"
        )
    return drawn.detach().contiguous()


__all__ = ["Argument", "draw_inputs", "run_reference", "signature", "with_saved"]


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
                value = guarded(task, what, realise, declared.draw, family, *form)
                drawn[name] = with_probe_rows(task_products(task, workload), name, value, generator)
            case Saved():
                drawn[name] = _saved(name, declared, drawn)
            case _:
                drawn[name] = declared
    return drawn


def with_saved(task: Task, inputs: dict[str, Argument]) -> dict[str, Argument]:
    """The arguments with every saved tensor computed from the others, which have changed since they were drawn."""
    fresh = dict(inputs)
    for name, declared in task.inputs.items():
        if isinstance(declared, Saved):
            fresh[name] = _saved(name, declared, fresh)
    return fresh


def task_products(task: Task, workload: Workload) -> Products:
    return products(task, workload, partial(without_data, task, workload))


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
    return Signature((*_given(task, arguments), *_returned(task, results)), task.module)


def _traced(task: Task, workload: Workload) -> tuple[dict[str, Argument], dict[str, torch.Tensor]]:
    return on_any_arguments(task, workload, lambda arguments: (arguments, call_reference(task, arguments)))


Found = TypeVar("Found")


def on_any_arguments(task: Task, workload: Workload, look: Callable[[dict[str, Argument]], Found]) -> Found:
    """What is seen of a reference without data, or, if it looks at its data, on inputs drawn for the purpose.

    Nothing is drawn, or made by the reference itself, where that would be large.
    """
    with suppress(TaskError):
        return look(without_data(task, workload))
    if has_values(task, workload):
        generator = torch.Generator().manual_seed(0)
        return look(prepared(task, draw_inputs(task, workload, Family.NORMAL, generator)))
    try:
        with fake_tensors():
            arguments = without_data(task, workload, "cpu")
        return look(arguments)
    except TaskError as error:
        if not needs_values(error):
            raise
        raise fault(
            task,
            f"the reference looks at its values, and {workload.shown} is too large to find its shapes by trying it "
            f"out: write it without .item() and shapes that follow from values",
        ) from error


def without_data(task: Task, workload: Workload, device: str = "meta") -> dict[str, Argument]:
    """Arguments whose tensors have a shape and a dtype but no values: meta tensors, or fake ones under their mode."""
    arguments: dict[str, Argument] = {}
    for name, declared in task.inputs.items():
        match declared:
            case TensorInput() | Upstream():
                shape, dtype = _form(declared, workload)
                arguments[name] = _without_values(task, workload, shape, dtype, device)
            case Saved():
                arguments[name] = _saved(name, declared, arguments)
            case _:
                arguments[name] = declared
    return arguments


def _without_values(
    task: Task, workload: Workload, shape: tuple[int, ...], dtype: torch.dtype, device: str
) -> torch.Tensor:
    try:
        return torch.empty(shape, dtype=dtype, device=device)
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
