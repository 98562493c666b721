"""How the arguments of a traced problem are to be drawn, from the steps by which the problem makes them."""

from __future__ import annotations

from typing import Any

import torch

from kernelwright.tasks.imported.confined.encode import Data, RecipeWriter
from kernelwright.tasks.imported.confined.tape import (
    AFFINE,
    SAME_VALUES,
    Draws,
    Tape,
    TapeStep,
    Untraceable,
    affine,
    constant_of,
    covers,
    draws,
    is_random,
    last_writer,
    storage_of,
)

SPREAD = 0.1  # of parameters that a problem sets to zero
TRANSPOSING = {"t", "transpose", "permute", "numpy_T", "mT"}
WITH_SIZES = {"size", "shape", "sizes", "repeats", "output_size", "split_sizes", "length", "end"}


def distribution(of: str, low: Any, high: Any) -> Data:
    return {"kind": "distribution", "of": of, "low": low, "high": high}


def simple(tape: Tape, tensor: torch.Tensor) -> Draws | float | None:
    """One distribution, or one value, for the whole tensor; None where its steps say something else."""
    steps = tape.steps_of(tensor)
    step = last_writer(steps, tensor)
    if step is None or not covers(step, tensor):
        return None
    if is_random(step):
        return draws(step)
    constant = constant_of(step)
    if constant is not None:
        return constant
    sources = [given for given in step.given if storage_of(given) not in {storage_of(c) for c in step.changed}]
    if step.name in SAME_VALUES and step.name != "copy_" and len(step.given) == 1:
        return _kept(simple(tape, step.given[0]), step.given[0].dtype, tensor.dtype)
    if step.name == "copy_" and len(sources) == 1 and sources[0].numel() == tensor.numel():
        return _kept(simple(tape, sources[0]), sources[0].dtype, tensor.dtype)
    if step.name in AFFINE and len(step.given) == 1 and not step.changed:
        known = simple(tape, step.given[0])
        return affine(step, known) if isinstance(known, Draws) else None
    return None


def _kept(known: Draws | float | None, before: torch.dtype, after: torch.dtype) -> Draws | float | None:
    """A cast keeps a distribution, unless it makes steps of it or numbers of steps."""
    if (before.is_floating_point and after.is_floating_point) or not isinstance(known, Draws):
        return known
    if before.is_floating_point or after.is_floating_point:
        return None
    inside = known.of == "bernoulli" or (known.low, known.high) == (0, 2)
    return known if after is not torch.bool or inside else None


def is_ordinary(steps: list[TapeStep]) -> bool:
    """Continuous random numbers, shifted and scaled: data without a structure that a kernel might rely on."""
    drawn = [draws(step) for step in steps if is_random(step)]
    if not drawn or any(one is None or one.of not in ("uniform", "normal") for one in drawn):
        return False
    for step in steps:
        if is_random(step) or step.func.is_view or step.name in SAME_VALUES or step.name.startswith("empty"):
            continue
        whole = [given for given in step.given if given.dim()]
        if step.name not in AFFINE or len(whole) > 1:
            return False
    return True


def input_draw(tape: Tape, tensor: torch.Tensor, *, varies: bool) -> Data:
    """Of an input of the problem. Floating-point data comes from every family."""
    known, floating = simple(tape, tensor), tensor.is_floating_point()
    steps = tape.steps_of(tensor)
    if floating and ((isinstance(known, Draws) and known.of in ("uniform", "normal")) or is_ordinary(steps)):
        return {"kind": "families", **({"otherwise": _distribution(known)} if isinstance(known, Draws) else {})}
    if isinstance(known, float):
        return {"kind": "families"} if floating else _whole(known, known)
    if isinstance(known, Draws) and not floating:
        return distribution("integers", 0, 2) if known.of == "bernoulli" else _whole_range(known)
    if any(is_random(step) for step in steps) and (not varies or _scales(steps, tensor)):
        return _recipe(tape, tensor, own=tuple(map(int, tensor.shape)) if varies else None)
    if floating:
        return {"kind": "families"}
    return _measured(tape.compute(tensor))


def mixes_axes(steps: list[TapeStep]) -> bool:
    """Whether a tensor is made of one and its transpose, as a symmetric matrix is."""
    return any(step.name in TRANSPOSING for step in steps) and not is_ordinary(steps)


def _whole_range(known: Draws) -> Data:
    return distribution("integers", int(known.low), int(known.high))


def _scales(steps: list[TapeStep], tensor: torch.Tensor) -> bool:
    """Whether the steps mean the same at other sizes: none of them names a size but that of the tensor itself."""
    for step in steps:
        named = {argument.name for argument in step.func._schema.arguments}
        if is_random(step):
            if step.name == "randperm" or tuple(step.made[0].shape) not in ((), tuple(tensor.shape)):
                return False
        elif named & WITH_SIZES or not step.given:
            return False
    return True


def parameter_draw(tape: Tape, tensor: torch.Tensor) -> Data:
    """Of a parameter or buffer: as the problem draws it, and around a constant that it is set to."""
    known = simple(tape, tensor)
    if isinstance(known, float):
        return _around(known) if tensor.is_floating_point() else _whole(known, known)
    if isinstance(known, Draws):
        if known.of in ("uniform", "normal") and known.high != (known.low if known.of == "uniform" else 0):
            return _distribution(known)
        if known.of == "integers" and not tensor.is_floating_point():
            return _whole_range(known)
    if any(is_random(step) for step in tape.steps_of(tensor)):
        return _recipe(tape, tensor, own=None)
    return _measured(tape.compute(tensor))


def is_computed(tape: Tape, tensor: torch.Tensor) -> bool:
    """Made by steps alone, without chance, and not one value everywhere: a mask, positions, a table of indices."""
    known = simple(tape, tensor)
    return known is None and not any(is_random(step) for step in tape.steps_of(tensor))


def _distribution(known: Draws) -> Data:
    return distribution(known.of, known.low, known.high)


def _around(constant: float) -> Data:
    low, high = (-SPREAD, SPREAD) if constant == 0 else sorted((0.5 * constant, 1.5 * constant))
    return distribution("uniform", low, high)


def _whole(low: float, high: float) -> Data:
    return distribution("integers", int(low), int(high) + 1)


def _measured(tensor: torch.Tensor) -> Data:
    """By the values that it has, where no step says how they are drawn."""
    if not tensor.numel():
        raise Untraceable("one of its tensors has no elements")
    low, high = float(tensor.min()), float(tensor.max())
    if not tensor.is_floating_point():
        return _whole(low, high)
    return _around(low) if low == high else distribution("uniform", low, high)


def _recipe(tape: Tape, tensor: torch.Tensor, own: tuple[int, ...] | None) -> Data:
    made = RecipeWriter(own=own)
    made.add(tape.steps_of(tensor))
    return {"kind": "recipe", "nodes": made.nodes, "result": made.place(tensor)}
