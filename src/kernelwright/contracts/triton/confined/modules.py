"""Executes a Triton module statement by statement, and calls the function that stands for the task.

A statement at the top that fails (a demonstration, a benchmark, which need values) is left out, unless it imports or
defines a function or a class. If the call then misses a name, what was left out first is told.
"""

from __future__ import annotations

import ast
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from .refusal import HostCodeRefused, Refusals

MODULE_NAME = "kernel"


LEFT_OUT = "__kw_left_out__"


def execute(path: Path, refusals: Refusals) -> types.ModuleType:
    """A fresh module, so that nothing is left of earlier calls."""
    module = types.ModuleType(MODULE_NAME)
    module.__file__ = str(path)
    sys.modules[MODULE_NAME] = module
    for statement in ast.parse(path.read_text(encoding="utf-8"), str(path)).body:
        code = compile(ast.Module([statement], []), str(path), "exec")
        needed = isinstance(statement, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef)
        try:
            exec(code, module.__dict__)  # in the sandbox, which is what this process is for
        except (HostCodeRefused, Exception) as error:
            if needed:
                raise
            why = refusals.first or f"line {statement.lineno}: {type(error).__name__}: {error}"
            module.__dict__.setdefault(LEFT_OUT, why)
            refusals.first = ""
    return module


def with_what_is_missing(module: types.ModuleType | None, error: BaseException, said: str) -> str:
    """A message, and for a name that is not there the statement that may have defined it."""
    left_out = getattr(module, LEFT_OUT, "")
    return f"{said}; left out was {left_out}" if left_out and isinstance(error, NameError | AttributeError) else said


class Context:
    """Stands for the `ctx` of an autograd function: keeps what forward saves for backward."""

    def __init__(self, needs: Sequence[bool]) -> None:
        self.saved_tensors: tuple[Any, ...] = ()
        self.needs_input_grad = tuple(needs)

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    def mark_non_differentiable(self, *_: Any) -> None: ...

    def mark_dirty(self, *_: Any) -> None: ...

    def set_materialize_grads(self, *_: Any) -> None: ...


def function_of(module: types.ModuleType, name: str) -> Callable[..., Any]:
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part)
    if not callable(found):
        raise TypeError(f"{name} is not a function")
    return found  # type: ignore[no-any-return]


def call(module: types.ModuleType, request: dict[str, Any], values: dict[str, Any]) -> list[Any]:
    """The tensors that the function returns. Of an autograd class the gradient is its forward and then its backward."""
    arguments = [_value(value, values) for value in request["values"]]
    context = request.get("context", "")
    if not context:
        return list(_flat(function_of(module, request["function"])(*arguments)))
    kept = Context([True] * len(arguments))
    returned = function_of(module, f"{context}.forward")(kept, *arguments)
    if not request["gradients"]:
        return list(_flat(returned))
    gradients = [values[name] for name in request["gradients"]]
    found = function_of(module, f"{context}.backward")(kept, *gradients)
    found = found if isinstance(found, tuple | list) else (found,)
    wanted = request["wanted"]  # of which parameters the gradients are outputs
    return [found[place] for place in wanted if place < len(found)]


def _value(value: Any, values: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_value(one, values) for one in value]
    if isinstance(value, dict):
        return values[value["name"]]
    return None


def _flat(returned: Any) -> Iterator[Any]:
    if isinstance(returned, tuple | list):
        for one in returned:
            yield from _flat(one)
    elif isinstance(returned, dict):
        yield from _flat(list(returned.values()))
    elif hasattr(returned, "data_ptr"):
        yield returned
