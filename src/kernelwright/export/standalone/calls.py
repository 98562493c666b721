"""From what a user passes to the reference's arguments, and from its results to what the user gets back."""

from __future__ import annotations

import inspect
from collections import namedtuple
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import torch

from . import guards
from .manifest import OF_TORCH, CallParameter, Form, OperationSpec

NamedFields = tuple[str, tuple[str, ...]]
NO_TYPES: Mapping[NamedFields, Any] = {}


class CallBinding:
    def __init__(self, operation: OperationSpec) -> None:
        self._operation = operation
        self._parameters = [one for one in operation.call if one.values is None]
        self.signature = inspect.Signature(list(_shown(self._parameters)))
        names = [one.name for one in operation.parameters]
        self._places = [names.index(one.reference) if one.reference is not None else None for one in operation.call]
        self._constants = _constants(operation)
        self.complete = not self._constants
        """Whether a call passes all that the reference takes."""
        self.direct = self._places == list(range(len(names)))
        """Whether a call's arguments are the reference's, in order."""

    def bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """All arguments by position, defaults included. A TypeError says what does not fit, as of any function."""
        if self._constants and len(args) == len(self._operation.call):
            return tuple(args)
        if len(args) > len(self._parameters):
            raise TypeError(f"{self._named()} takes {len(self._parameters)} arguments, and {len(args)} were given")
        values = list(args)
        left = dict(kwargs)
        for place, one in enumerate(self._parameters):
            if place < len(args):
                if one.name in left:
                    raise TypeError(f"{self._named()} got several values for {one.name!r}")
            elif one.name in left:
                values.append(left.pop(one.name))
            elif one.default is not None:
                values.append(one.default)
            else:
                raise TypeError(f"{self._named()} is called without {one.name!r}")
        if left:
            raise TypeError(f"{self._named()} has no parameter {next(iter(left))!r}")
        device = next((one.device for one in values if isinstance(one, torch.Tensor)), torch.device("cpu"))
        return (*values, *(one.to(device) for one in self._constants))

    def arguments(self, args: Sequence[Any]) -> tuple[Any, ...] | str:
        """The reference's arguments, or the reason why it has none for these."""
        if self.direct:
            return tuple(args)
        found: list[Any] = [None] * len(self._operation.parameters)
        for one, place, value in zip(self._operation.call, self._places, args, strict=True):
            if place is not None:
                found[place] = value
            elif not one.unused and not guards.same_number(value, one.fixed):
                return guards.NUMBER
        return tuple(found)

    def built_in(self, args: Sequence[Any]) -> str:
        """What to tell a user whose numbers the reference does not take."""
        fixed = [
            f"{one.name}={one.fixed!r}"
            for one, value in zip(self._operation.call, args, strict=True)
            if one.reference is None and not one.unused and not guards.same_number(value, one.fixed)
        ]
        return f"it was captured with {', '.join(fixed)}, and neither kernel nor reference takes another value"

    def _named(self) -> str:
        return f"{self._operation.name}{self.signature}"


def _constants(operation: OperationSpec) -> list[torch.Tensor]:
    """Tensors that the captured code writes out. They come last in a call, and are made once."""
    dtypes = {one.name: one.dtype for one in operation.parameters}
    found = []
    for one in operation.call:
        if one.values is not None:
            dtype = dtypes.get(one.reference or "")
            found.append(torch.tensor(one.values, dtype=getattr(torch, dtype or "float32")))
    return found


def _shown(call: Sequence[CallParameter]) -> Iterator[inspect.Parameter]:
    """What has no default and comes after what has one, as the tensors of a module do, is shown as given by name."""
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    optional = False
    for one in call:
        if one.default is None and optional:
            kind = inspect.Parameter.KEYWORD_ONLY
        optional = optional or one.default is not None
        default = inspect.Parameter.empty if one.default is None else one.default
        yield inspect.Parameter(one.name, kind, default=default)


def in_form(
    form: Form, outputs: Sequence[Any], arguments: Sequence[Any], types: Mapping[NamedFields, Any] = NO_TYPES
) -> Any:
    """`arguments` are those of the call, `outputs` the tensors that were computed. `types` are the caller's own classes
    of named tuples."""
    ((kind, value),) = form.items()
    match kind:
        case "output":
            return outputs[value]
        case "argument":
            return arguments[value]
        case "number":
            return value
        case "tuple":
            return tuple([in_form(one, outputs, arguments, types) for one in value])
        case "list":
            return [in_form(one, outputs, arguments, types) for one in value]
        case "dict":
            return {key: in_form(one, outputs, arguments, types) for key, one in value}
        case "named":
            name, parts = value
            fields = tuple(field for field, _ in parts)
            values = [in_form(one, outputs, arguments, types) for _, one in parts]
            if name.startswith(OF_TORCH):
                made = _of_torch(name, fields)
                return made(values) if made is not None else tuple(values)
            return (types.get((name, fields)) or _named(name, fields))(*values)
    return None


@cache
def _named(name: str, fields: tuple[str, ...]) -> Any:
    """A tuple with the names that the function's own has."""
    return namedtuple(name, fields)


@cache
def _of_torch(name: str, fields: tuple[str, ...]) -> Any:
    """The class of what an operator such as `torch.topk` returns; None where this torch has none with these fields."""
    found = getattr(torch.return_types, name.removeprefix(OF_TORCH), None)
    is_class = isinstance(found, type) and issubclass(found, tuple)
    return found if is_class and getattr(found, "__match_args__", None) == fields else None
