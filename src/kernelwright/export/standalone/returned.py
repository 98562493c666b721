"""What a call gives back where that is more than a tensor or a tuple: dicts, nested tuples, None, an argument itself.

A *form* says it as plain data: {"output": 0}, {"argument": 1}, {"number": 3}, {"none": true}, {"tuple": [...]},
{"list": [...]}, {"dict": [[key, ...], ...]} or {"named": [name, [[field, ...], ...]]}.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from functools import cache
from typing import Any

Form = dict[str, Any]
DEEPEST = 8


class FormError(ValueError):
    """A form that cannot be understood."""


def in_form(form: Form, outputs: Sequence[Any], arguments: Sequence[Any]) -> Any:
    """`arguments` are those of the call, `outputs` the tensors that were computed."""
    ((kind, value),) = form.items()
    match kind:
        case "output":
            return outputs[value]
        case "argument":
            return arguments[value]
        case "number":
            return value
        case "tuple":
            return tuple([in_form(one, outputs, arguments) for one in value])
        case "list":
            return [in_form(one, outputs, arguments) for one in value]
        case "dict":
            return {key: in_form(one, outputs, arguments) for key, one in value}
        case "named":
            name, parts = value
            made = _named(name, tuple(field for field, _ in parts))
            return made(*(in_form(one, outputs, arguments) for _, one in parts))
    return None


@cache
def _named(name: str, fields: tuple[str, ...]) -> Any:
    """A tuple with the names that the function's own has."""
    return namedtuple(name, fields)


def checked(form: Any, outputs: int, arguments: int, depth: int = 0) -> Form | None:
    """A form of others, before anything is done with it."""
    if form is None and depth == 0:
        return None
    if not isinstance(form, dict) or len(form) != 1 or depth > DEEPEST:
        raise FormError("a form of results is not one of the known")
    ((kind, value),) = form.items()
    bounds = {"output": outputs, "argument": arguments}
    if kind in bounds:
        if type(value) is not int or not 0 <= value < bounds[kind]:
            raise FormError(f"a form of results names {kind} {value!r:.20}")
    elif kind in ("tuple", "list"):
        _each(value, outputs, arguments, depth)
    elif kind == "dict":
        if not all(isinstance(key, str | int) for key, _ in value):
            raise FormError("a form of results has a key that is neither text nor a number")
        _each([one for _, one in value], outputs, arguments, depth)
    elif kind == "named":
        name, parts = value
        if not all(isinstance(one, str) and one.isidentifier() for one in (name, *(field for field, _ in parts))):
            raise FormError("a form of results has a name that is not one")
        _each([one for _, one in parts], outputs, arguments, depth)
    elif not (kind == "none" and value is True) and not (kind == "number" and isinstance(value, bool | int | float)):
        raise FormError("a form of results is not one of the known")
    return form


def _each(forms: Any, outputs: int, arguments: int, depth: int) -> None:
    if not isinstance(forms, list):
        raise FormError("a form of results has something else where a list belongs")
    for one in forms:
        checked(one, outputs, arguments, depth + 1)
