"""What runs before the call: the constructor's own computations, and the parameters, which are the problem's.

KernelBench makes Model and ModelNew from one random seed, so that their parameters are equal. Here they are arguments
of the task. Whatever a constructor writes into a parameter is dropped; what it computes from parameters (a transposed
weight) or from nothing (a mask) is done again in every call, where the call needs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

RANDOM, HOST = "random numbers", "numbers of the host"


def tensors_in(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, tuple | list):
        return [one for part in value for one in tensors_in(part)]
    if isinstance(value, dict):
        return tensors_in(list(value.values()))
    return []


def place_of(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def written_by(func: Any, args: Any, kwargs: Any) -> list[torch.Tensor]:
    """The arguments that an operator writes, by its schema."""
    found = []
    for place, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[place] if place < len(args) else kwargs.get(argument.name)
            found += tensors_in(value)
    return found


def draws_numbers(func: Any) -> bool:
    return torch.Tag.nondeterministic_seeded in func.tags


@dataclass(frozen=True)
class ConstructionStep:
    """One operator that ran before the call. `unknown` says why its result cannot be made again."""

    func: Any
    args: Any
    kwargs: Any
    result: Any
    reads: frozenset[int]
    writes: frozenset[int]
    unknown: str = ""


class Construction:
    def __init__(self) -> None:
        self._made: list[ConstructionStep] = []
        self.bound: dict[int, str] = {}  # storages of parameters, with their names

    def note(self, func: Any, args: Any, kwargs: Any, result: Any, unknown: str = "") -> None:
        written = [*written_by(func, args, kwargs), *tensors_in(result)]
        reads = frozenset(map(place_of, tensors_in([args, kwargs])))
        unknown = unknown or (RANDOM if draws_numbers(func) else "")
        self._made.append(
            ConstructionStep(func, args, kwargs, result, reads, frozenset(map(place_of, written)), unknown)
        )

    def needed(self, touched: set[int]) -> list[ConstructionStep] | str:
        """What has to be done again for these storages, in order, or why it cannot be."""
        live, found = set(touched) - set(self.bound), []
        for one in reversed(self._made):
            if not one.writes & live:
                continue
            if one.unknown:
                return one.unknown
            found.append(one)
            live |= one.reads - set(self.bound)
        return found[::-1]

    def again(self) -> None:
        """Does it again on real values, into the tensors that it made the first time."""
        for one in self._made:
            if one.unknown or one.writes & set(self.bound):
                continue
            fresh = one.func(*one.args, **one.kwargs)
            for before, now in zip(tensors_in(one.result), tensors_in(fresh), strict=True):
                if place_of(before) != place_of(now):
                    before.copy_(now)


def move_to_device(model: torch.nn.Module) -> None:
    """As a user moves a module, and KernelBench does: `torch.Tensor(3, 4)` and the like know no default device.

    `Module.to` would swap tensors that lie on the device already, which those without values do not allow.
    """
    moved: dict[torch.Tensor, torch.Tensor] = {}  # one that two modules share stays one
    for module in model.modules():
        tables: tuple[dict[str, Any], ...] = (module._parameters, module._buffers)
        for held in tables:
            for name, value in held.items():
                if value is None or value.device.type != "cpu":
                    continue
                if value not in moved:
                    there = value.detach().to("cuda")
                    is_parameter = isinstance(value, torch.nn.Parameter)
                    moved[value] = torch.nn.Parameter(there, value.requires_grad) if is_parameter else there
                held[name] = moved[value]


class DoesNotFitError(Exception):
    """Why a module does not take the parameters of the problem, in one line."""


def bind(model: torch.nn.Module, held: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """The parameter or buffer for each argument: by name, where sizes of 1 may be left out,
    else all that are left by order and shape."""
    mine: dict[str, torch.Tensor] = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    found: dict[str, torch.Tensor] = {}
    left = []
    for one in held:
        if one["path"] in mine and _as_many(mine[one["path"]], one):
            found[one["argument"]] = mine.pop(one["path"])
        else:
            left.append(one)
    parameters = {name: value for name, value in mine.items() if isinstance(value, torch.nn.Parameter)}
    for others in (parameters, mine):
        if left and [_form(value) for value in others.values()] == [_wanted(one) for one in left]:
            found |= {one["argument"]: value for one, value in zip(left, others.values(), strict=True)}
            left = []
    if left:
        first = left[0]
        there = ", ".join(f"{name} {_shown(*_form(value))}" for name, value in list(mine.items())[:8])
        raise DoesNotFitError(
            f"the problem's {first['path']} {_shown(*_wanted(first))} has no counterpart in ModelNew, which has "
            f"{there or 'no others'}: name it so, or make the same parameters in the same order"
        )
    for argument, value in found.items():
        if not value.is_contiguous() or value.storage_offset():
            raise DoesNotFitError(f"the parameter for {argument} is a view of another layout: make it contiguous")
    return found


def _as_many(value: torch.Tensor, one: dict[str, Any]) -> bool:
    """Whether the same values in the same order fill both, up to sizes of 1."""
    (dtype, shape), (wanted, wanted_shape) = _form(value), _wanted(one)
    return dtype == wanted and [size for size in shape if size != 1] == [size for size in wanted_shape if size != 1]


def _form(value: torch.Tensor) -> tuple[str, tuple[int, ...]]:
    return str(value.dtype).removeprefix("torch."), tuple(map(int, value.shape))


def _wanted(one: dict[str, Any]) -> tuple[str, tuple[int, ...]]:
    return one["dtype"], tuple(one["shape"])


def _shown(dtype: str, shape: tuple[int, ...]) -> str:
    return f"{dtype}{list(shape)}"


def arguments_of(one: dict[str, Any], values: dict[str, Any]) -> list[Any]:
    """What forward is called with: the task's arguments in order, and between them what is the same in every call."""
    found = [values[name] for name in one["given"]]
    for place, value in one["fixed"]:
        found.insert(place, initial_values(value))
    return found


def initial_values(given: Any) -> Any:
    """What the constructor takes (tasks/imported/traced.py, `InitialValue`)."""
    if not isinstance(given, dict):
        return given
    if "number" in given:
        return float(given["number"])
    if "text" in given:
        return given["text"]
    items = [initial_values(one) for one in given["items"]]
    return tuple(items) if given["kind"] == "tuple" else items
