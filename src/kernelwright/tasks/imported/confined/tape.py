"""Records how tensors without data come to be: the steps by which a problem draws its inputs and parameters.

Under fake tensors a gigabyte costs nothing, and has no values. What is known of a tensor is the steps that wrote to its
storage. They can be read (`uniform_(-0.1, 0.1)` is a distribution), written down as a recipe, or, where they are
few and small, run after all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

SMALL = 1 << 22  # elements that are computed after all
UNWRITTEN = {"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided"}
aten = torch.ops.aten

View = tuple[int, int, tuple[int, ...], tuple[int, ...], torch.dtype]


class Untraceable(Exception):  # noqa: N818 - it becomes the tracer's one line
    """What cannot be written down, in words."""


def view_of(tensor: torch.Tensor) -> View:
    """Tensors with the same view are the same memory, whatever Python objects stand for it."""
    shape, stride = tuple(map(int, tensor.shape)), tuple(map(int, tensor.stride()))
    return storage_of(tensor), int(tensor.storage_offset()), shape, stride, tensor.dtype


def storage_of(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


class TapeStep:
    """One operator that ran. `writes` are the storages that it wrote to, `touches` also those that it made views of."""

    def __init__(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        self.func, self.args, self.kwargs, self.result = func, args, kwargs, result
        self.name = str(func.overloadpacket.__name__)
        self.made, self.given = tensors_in(result), tensors_in((args, kwargs))
        self.changed = tensors_in(
            [_at(self, *entry) for entry in enumerate(func._schema.arguments) if _writes(entry[1])]
        )
        self.touches = {storage_of(tensor) for tensor in (*self.made, *self.changed)}
        self.writes = {storage_of(t) for t in self.changed} if func.is_view else self.touches


def _writes(argument: Any) -> bool:
    return argument.alias_info is not None and bool(argument.alias_info.is_write)


def _at(step: TapeStep, place: int, argument: Any) -> Any:
    return step.args[place] if place < len(step.args) else step.kwargs.get(argument.name)


def tensors_in(values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


class Tape(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """To be entered inside of a fake mode, so that it sees every step before that does."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.steps: list[TapeStep] = []
        self._touching: dict[int, list[int]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (aten._local_scalar_dense.default, aten.item.default) and is_fake(args[0]):
            return self._value(args[0])
        result = func(*args, **kwargs)
        step = TapeStep(func, tuple(args), dict(kwargs), result)
        for storage in step.touches:
            self._touching.setdefault(storage, []).append(len(self.steps))
        self.steps.append(step)
        return result

    def _value(self, tensor: torch.Tensor) -> Any:
        """Code that looks at a number while it builds a module: it is computed, if nothing random is in it."""
        found = self.compute(tensor)
        with _disable_current_modes():
            return found.item()

    def steps_of(self, tensor: torch.Tensor) -> list[TapeStep]:
        """The steps that the tensor's values depend on, in order."""
        waiting, known, places = [storage_of(tensor)], {storage_of(tensor)}, set()
        while waiting:
            for place in self._touching.get(waiting.pop(), ()):
                if place not in places:
                    places.add(place)
                    further = {storage_of(given) for given in self.steps[place].given} - known
                    known |= further
                    waiting += further
        return _needed([self.steps[place] for place in sorted(places, reverse=True)], view_of(tensor))

    def is_unwritten(self, tensor: torch.Tensor) -> bool:
        """Memory without values, which a problem hands to its reference for a result."""
        storage = storage_of(tensor)
        writers = [step for step in self.steps_of(tensor) if storage in step.writes]
        return bool(writers) and all(step.name in UNWRITTEN for step in writers)

    def compute(self, tensor: torch.Tensor) -> torch.Tensor:
        """Runs the steps after all."""
        steps = self.steps_of(tensor)
        if any(is_random(step) for step in steps):
            raise Untraceable("a value drawn at random decides what is computed")
        if sum(math.prod(made.shape) for step in steps for made in step.made) > SMALL:
            raise Untraceable(
                f"a constant of {tuple(tensor.shape)} is computed step by step, which is too large to run"
            )
        real: dict[View, torch.Tensor] = {}
        with _disable_current_modes():
            for step in steps:
                args, kwargs = tree_map(lambda value: _real(value, real), (step.args, step.kwargs))
                if kwargs.get("device") is not None:
                    kwargs["device"] = torch.device("cpu")
                for told, made in zip(step.made, tensors_in(step.func(*args, **kwargs)), strict=True):
                    real[view_of(told)] = made
            found = real.get(view_of(tensor))
            if found is None:
                raise Untraceable("a constant comes from steps that were not seen")
            return found.detach().clone()


def _real(value: Any, real: dict[View, torch.Tensor]) -> Any:
    if not isinstance(value, torch.Tensor) or not is_fake(value):
        return value
    if view_of(value) not in real:
        raise Untraceable("a constant comes from steps that were not seen")
    return real[view_of(value)]


def is_fake(value: Any) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(value, FakeTensor)


def _needed(reversed_steps: Sequence[TapeStep], wanted: View) -> list[TapeStep]:
    """Without views that nothing goes through."""
    needed, found = {wanted}, []
    for step in reversed_steps:
        made = {view_of(tensor) for tensor in step.made}
        if step.writes or made & needed:
            needed |= {view_of(given) for given in step.given if is_fake(given)}
            found.append(step)
    return found[::-1]


# --- what a step draws -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Draws:
    of: str
    low: float
    high: float


def is_random(step: TapeStep) -> bool:
    return torch.Tag.nondeterministic_seeded in step.func.tags


def draws(step: TapeStep) -> Draws | None:
    """The distribution of a step that draws; None where it has none that is known here."""
    named = _by_name(step)
    match step.name:
        case "rand" | "rand_like":
            return Draws("uniform", 0.0, 1.0)
        case "randn" | "randn_like":
            return Draws("normal", 0.0, 1.0)
        case "uniform_" | "uniform":
            return Draws("uniform", float(named.get("from", 0.0)), float(named.get("to", 1.0)))
        case "normal_" | "normal":
            mean, std = named.get("mean", 0.0), named.get("std", 1.0)
            numbers = isinstance(mean, int | float) and isinstance(std, int | float)
            return Draws("normal", float(mean), float(std)) if numbers else None
        case "randint" | "randint_like":
            return Draws("integers", int(named.get("low", 0)), int(named["high"]))
        case "random_":
            low, high = named.get("from", 0), named.get("to")
            return Draws("integers", int(low), int(high)) if high is not None else None
        case "bernoulli_" | "bernoulli":
            p = named.get("p", 0.5)
            return Draws("bernoulli", float(p), 1.0) if isinstance(p, int | float) else None
        case "randperm":
            return Draws("permutation", 0, int(named["n"]))
    return None


def _by_name(step: TapeStep) -> dict[str, Any]:
    names = [argument.name for argument in step.func._schema.arguments]
    return {**dict(zip(names, step.args, strict=False)), **step.kwargs}


def constant_of(step: TapeStep) -> float | None:
    """The one value that a step writes everywhere, if it does."""
    named = _by_name(step)
    match step.name:
        case "zeros" | "zeros_like" | "new_zeros" | "zero_":
            return 0.0
        case "ones" | "ones_like" | "new_ones":
            return 1.0
        case "full" | "full_like" | "new_full":
            value = named["fill_value"]
        case "fill_" | "fill":
            value = named["value"]
        case _:
            return None
    return float(value) if isinstance(value, int | float) else None


def covers(step: TapeStep, tensor: torch.Tensor) -> bool:
    """Whether a step writes to all of the tensor's storage."""
    whole = sum(made.numel() for made in step.made[:1])
    return whole * tensor.element_size() >= tensor.untyped_storage().nbytes()


def last_writer(steps: Iterable[TapeStep], tensor: torch.Tensor) -> TapeStep | None:
    storage, found = storage_of(tensor), None
    for step in steps:
        if storage in step.writes:
            found = step
    return found


AFFINE = {"mul", "mul_", "add", "add_", "sub", "sub_", "div", "div_", "neg", "neg_"}
SAME_VALUES = {"clone", "_to_copy", "copy_", "detach", "alias", "contiguous", "lift_fresh", "lift_fresh_copy"}


def affine(step: TapeStep, known: Draws) -> Draws | None:
    """The distribution after a step with one tensor and one number: twice a uniform is a uniform."""
    if step.name.startswith("neg"):
        factor, offset = -1.0, 0.0
    else:
        number = step.args[1] if len(step.args) > 1 else None
        scale = step.kwargs.get("alpha", 1)
        if not isinstance(number, int | float) or isinstance(number, bool) or not isinstance(scale, int | float):
            return None
        base = step.name.rstrip("_")
        if base == "div" and (number == 0 or step.kwargs.get("rounding_mode")):
            return None
        factor, offset = {
            "mul": (float(number), 0.0),
            "div": (1 / number if number else 0.0, 0.0),
            "add": (1.0, float(number * scale)),
            "sub": (1.0, -float(number * scale)),
        }[base]
    if known.of == "normal":
        return Draws("normal", known.low * factor + offset, known.high * abs(factor))
    if known.of == "uniform":
        low, high = sorted((known.low * factor + offset, known.high * factor + offset))
        return Draws("uniform", low, high)
    return None
