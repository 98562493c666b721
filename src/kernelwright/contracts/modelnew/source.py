"""The text of a `modelnew` candidate: whether it is one, and what its class takes. Nothing here is run."""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kernelwright.contracts.candidate import CandidateError
from kernelwright.contracts.recorded.calls import BoundFunction, BoundParameter, plan_call, upstream_gradients
from kernelwright.contracts.triton.source import parsed
from kernelwright.tasks.model import ScalarSpec, Signature, TensorSpec

SOURCE_NAME = "kernel.py"
CLASS = "ModelNew"
NO_ARGUMENTS: dict[str, Any] = {"kind": "list", "items": []}


@dataclass(frozen=True)
class ModelNewCall:
    """How the module is made and called: what its constructor takes, as JSON; the names of the arguments that forward
    gets, in order; those that are its parameters, each with its name in the module; and what else forward gets, at
    which place."""

    initial: Any
    given: tuple[str, ...]
    held: tuple[tuple[str, str], ...]
    fixed: tuple[tuple[int, Any], ...] = ()


def is_modelnew(source: str) -> bool:
    """Whether the file defines the class that KernelBench asks for."""
    if CLASS not in source:
        return False
    try:
        return _class(parsed(source)) is not None
    except CandidateError:
        return False


def check(source: str) -> None:
    found = _class(parsed(source))
    if found is None:
        raise CandidateError(f"has no class {CLASS}: define class {CLASS}(nn.Module), whose forward launches kernels")
    if _forward(found) is None:
        raise CandidateError(f"{CLASS} has no forward(...): define it with the parameters of the problem's")


@lru_cache(maxsize=64)
def _class(tree: ast.Module) -> ast.ClassDef | None:
    return next((node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == CLASS), None)


def _forward(found: ast.ClassDef) -> ast.FunctionDef | None:
    return next((node for node in found.body if isinstance(node, ast.FunctionDef) and node.name == "forward"), None)


def module_call(source: str, signature: Signature) -> ModelNewCall:
    """Of a problem that was a module its own form decides; of any other task forward takes what it names, and what is
    left are parameters. Raises CandidateError."""
    if upstream_gradients(signature):
        raise CandidateError(f"{CLASS} computes a forward: give another contract for a task with upstream gradients")
    given = [a for a in signature.arguments if isinstance(a, ScalarSpec) or a.role != "output"]
    if signature.module is not None:
        held = signature.module.held
        parameters = {name for name, _ in held}
        names = tuple(argument.name for argument in given if argument.name not in parameters)
        fixed = tuple((place, json.loads(text)["value"]) for place, text in signature.module.fixed)
        return ModelNewCall(json.loads(signature.module.initial), names, held, fixed)
    found = _class(parsed(source))
    forward = None if found is None else _forward(found)
    if forward is None:
        raise CandidateError(f"has no class {CLASS} with forward(...)")
    plan = plan_call(BoundFunction("forward", _parameters(forward), returns=True), signature)
    if any(isinstance(value, tuple) or value is None for value in plan.values):
        raise CandidateError("forward takes a parameter that the task does not give")
    taken = tuple(signature.arguments[value].name for value in plan.values if isinstance(value, int))
    left = [a for a in given if a.name not in taken and isinstance(a, TensorSpec)]
    return ModelNewCall(NO_ARGUMENTS, taken, tuple((argument.name, argument.name) for argument in left))


def _parameters(function: ast.FunctionDef) -> tuple[BoundParameter, ...]:
    arguments = [*function.args.posonlyargs, *function.args.args][1:]
    optional = len(arguments) - len(function.args.defaults)
    return tuple(BoundParameter(one.arg, "any", place >= optional) for place, one in enumerate(arguments))
