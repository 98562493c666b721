"""Executes a Triton module statement by statement, and calls the function that stands for the task.

A statement at the top that needs values (a demonstration, a benchmark) is left out. What it would have defined is then
missing, and the call says so.
"""

from __future__ import annotations

import ast
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from .refusal import Refusals, Refused

MODULE_NAME = "kernel"


def execute(path: Path, refusals: Refusals) -> types.ModuleType:
    """A fresh module, so that nothing is left of earlier calls."""
    module = types.ModuleType(MODULE_NAME)
    module.__file__ = str(path)
    sys.modules[MODULE_NAME] = module
    for statement in ast.parse(path.read_text(encoding="utf-8"), str(path)).body:
        code = compile(ast.Module([statement], []), str(path), "exec")
        optional = not isinstance(statement, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef)
        try:
            exec(code, module.__dict__)  # in the sandbox, which is what this process is for
        except Refused:
            if not optional:
                raise
            refusals.first = ""
        except Exception:
            if not optional or not isinstance(statement, ast.Expr | ast.For | ast.If | ast.With):
                raise
    return module


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
