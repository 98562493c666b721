"""The host side of a loaded kernel in C++: a call that is alike an earlier one is answered without Python.

Python chooses the variant of a first call and enters it here as a plan. The C++ side (`cpp/`) finds it again by shapes,
dtypes, device, threads and deterministic mode, and asks of every call what these do not tell: types, strides,
addresses, modes of torch, numbers, gradients. Whatever it does not know it leaves to Python: slower, and as right.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from . import fastbuild, guards
from .manifest import OperationSpec

if TYPE_CHECKING:
    from .choice import Direction, SelectedVariant

MOST_PLANS = 2048
NOTHING, MUST_BE_NONE = -1, -2  # in place of the number of a tensor


class FastPath:
    def __init__(
        self, module: Any, operation: OperationSpec, kind: str, directions: tuple[Direction, Direction], slow: Any
    ) -> None:
        """`slow(arguments, upstream)` gives gradients where no plan does."""
        self.module = module
        forward, backward = directions
        index = {place: number for number, place in enumerate(forward.tensor_places)}
        parameters = operation.parameters
        self._kernel = module.Kernel(
            name=operation.name,
            kind=kind,
            call=_called(operation, index),
            reference=[(index.get(place, NOTHING), one.value) for place, one in enumerate(parameters)],
            least=_least(operation),
            returns=operation.returns,
            differentiable=list(forward.differentiable_outputs),
            gradients=[index[place] for place in forward.gradient_places],
            changed=[parameters[place].inout for place in forward.tensor_places],
            alignments=(forward.alignment, backward.alignment),
            slow_backward=slow,
        )
        self.call: Callable[..., Any] = self._kernel.callable()
        """The answer, or NotImplemented where Python has to look."""
        self._lock = threading.Lock()
        self._entered: set[Any] = set()

    @property
    def used(self) -> int:
        return int(self._kernel.used)

    @property
    def plans(self) -> tuple[int, int]:
        """How many plans each direction has."""
        return tuple(self._kernel.plans)

    def clear(self) -> None:
        with self._lock:
            self._entered.clear()
            self._kernel.clear()

    def enter(
        self, chosen: SelectedVariant, arguments: Sequence[Any], *, backward: bool, gradient: Callable[[], bool]
    ) -> None:
        """For later calls that are alike. `gradient`: whether a backward is proved for them."""
        name = (backward, chosen.key)
        if name in self._entered:
            return
        body = chosen.library.fast_body(self.module, chosen, arguments)
        shapes, dtypes, device, threads, deterministic = chosen.key
        given = [(list(shape), dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
        made = [(list(shape), dtype) for shape, dtype in chosen.outputs]
        proved = gradient()
        with self._lock:
            if len(self._entered) >= MOST_PLANS:
                self._entered.clear()
                self._kernel.clear()
            self._entered.add(name)
            if body is not None:
                self._kernel.enter(backward, given, made, device, threads, deterministic, proved, body)

    def implement_forward(self, space: str, name: str, outputs: int, gradient: bool, slow: Any) -> None:
        self._kernel.implement_forward(space, name, outputs, gradient, slow)

    def implement_backward(self, space: str, name: str, slow: Any, twice: Any) -> None:
        self._kernel.implement_backward(space, name, slow, twice)


def _called(operation: OperationSpec, index: dict[int, int]) -> list[tuple[int, Any]]:
    """The parameters as a user passes them: the number of a tensor, or a number that must be as proved."""
    places = {one.name: place for place, one in enumerate(operation.parameters)}
    found: list[tuple[int, Any]] = []
    for one in operation.call:
        if one.reference is not None:
            place = places[one.reference]
            found.append((index.get(place, NOTHING), operation.parameters[place].value))
        elif one.unused:
            found.append((NOTHING, None))
        else:
            found.append((MUST_BE_NONE if one.fixed is None else NOTHING, one.fixed))
    return found


def _least(operation: OperationSpec) -> int:
    """How many arguments a call has at least, if the defaults of the others are what was proved."""
    values = {one.name: one.value for one in operation.parameters}
    least = len(operation.call)
    for one in reversed(operation.call):
        proved = one.fixed if one.reference is None else values[one.reference]
        if one.default is None or not (one.unused or guards.same_number(one.default, proved)):
            break
        least -= 1
    return least


def opened(operation: OperationSpec, kind: str, directions: tuple[Direction, Direction], slow: Any) -> FastPath | None:
    module = fastbuild.open_module()
    return None if module is None else FastPath(module, operation, kind, directions, slow)
