"""What a function of host code is called with: the task's arguments onto its parameters, by name and then in order."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from kernelwright.contracts.candidate import CandidateError
from kernelwright.tasks.model import ScalarSpec, Signature, TensorSpec

Kind = Literal["tensor", "tensors", "number", "any"]
_GRADIENT = re.compile(r"^(?:d_?|g_?)?(?:grad|dout|dy|dz|upstream)|^do$", re.IGNORECASE)


@dataclass(frozen=True)
class BoundParameter:
    """`any`: a language without types does not say whether it takes a tensor or a number."""

    name: str
    kind: Kind
    optional: bool = False


@dataclass(frozen=True)
class BoundFunction:
    name: str
    parameters: tuple[BoundParameter, ...]
    returns: bool


@dataclass(frozen=True)
class CallPlan:
    """For each parameter the number of an argument of the signature, several of them, or none."""

    function: str
    values: tuple[int | tuple[int, ...] | None, ...]


def upstream_gradients(signature: Signature) -> list[int]:
    return [n for n, a in enumerate(signature.arguments) if a.name.startswith("grad_") and _given(a)]


def plan_call(function: BoundFunction, signature: Signature, *, without: tuple[int, ...] = ()) -> CallPlan:
    """Gives the function the arguments of a signature but for some. Raises CandidateError."""
    gradients = [n for n in upstream_gradients(signature) if n not in without]
    left = {n: a for n, a in enumerate(signature.arguments) if n not in without and (_given(a) or not function.returns)}
    values: list[int | tuple[int, ...] | None] = [None] * len(function.parameters)
    _take_gradients(function.parameters, values, left, gradients)
    for place, parameter in enumerate(function.parameters):
        if values[place] is None:
            values[place] = next((n for n, a in left.items() if a.name == parameter.name and _fits(a, parameter)), None)
            left.pop(values[place], None)  # type: ignore[arg-type]
    rest = [n for n in left if n in gradients] + [n for n in left if n not in gradients]
    for place, parameter in enumerate(function.parameters):
        if values[place] is not None:
            continue
        if parameter.kind == "tensors":
            taken = tuple(n for n in rest if n in left and isinstance(left[n], TensorSpec) and n not in gradients)
            values[place] = taken
            for n in taken:
                del left[n]
        else:
            values[place] = next((n for n in rest if n in left and _fits(left[n], parameter)), None)
            left.pop(values[place], None)  # type: ignore[arg-type]
        if values[place] is None and not parameter.optional:
            raise CandidateError(
                f"{function.name} takes {parameter.name or 'a parameter'}, which the task does not give"
            )
    while values and values[-1] is None:
        values.pop()  # its own defaults
    return CallPlan(function.name, tuple(values))


def _take_gradients(
    parameters: tuple[BoundParameter, ...],
    values: list[int | tuple[int, ...] | None],
    left: dict[int, TensorSpec | ScalarSpec],
    gradients: list[int],
) -> None:
    kinds = ("tensor", "any")
    named = [p for p, one in enumerate(parameters) if one.kind in kinds and _GRADIENT.match(one.name)]
    for place, number in zip(named, gradients, strict=False):
        values[place] = number
        del left[number]


def _given(argument: TensorSpec | ScalarSpec) -> bool:
    return isinstance(argument, ScalarSpec) or argument.role != "output"


def _fits(argument: TensorSpec | ScalarSpec, parameter: BoundParameter) -> bool:
    if parameter.kind == "any":
        return True
    return isinstance(argument, TensorSpec) == (parameter.kind == "tensor") and parameter.kind != "tensors"
