"""The text of a `triton` candidate: whether it is one, the function that stands for the task, and its parameters.

Nothing here is run: the syntax tree tells all of it.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache

from kernelwright.contracts.candidate import CandidateError
from kernelwright.contracts.recorded.calls import BoundFunction, BoundParameter, CallPlan, plan_call, upstream_gradients
from kernelwright.tasks.model import Signature

SOURCE_NAME = "kernel.py"
_NUMBERS = ("int", "float", "bool")
_DECORATORS = ("jit", "autotune", "heuristics")


@dataclass(frozen=True)
class ModuleCall:
    """A function of the module and its arguments. `context` is the autograd class whose forward it is; the gradients
    of these parameters (`wanted`) are then what its backward returns."""

    plan: CallPlan
    context: str = ""
    gradients: tuple[int, ...] = ()
    wanted: tuple[int, ...] = ()


@lru_cache(maxsize=64)
def parsed(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except SyntaxError as error:
        raise CandidateError(f"line {error.lineno}: is not Python: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError):
        raise CandidateError("is not Python that can be read") from None


def is_triton(source: str) -> bool:
    """Whether a kernel of Triton is defined here, and none of another contract, nor a module that has one."""
    try:
        tree = parsed(source)
    except CandidateError:
        return False
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    modules = any(isinstance(node, ast.ClassDef) and node.name == "ModelNew" for node in ast.walk(tree))
    return bool(kernels(tree)) and not modules and not any(_name(function) == "load_inline" for function in calls)


def kernels(tree: ast.Module) -> list[ast.FunctionDef]:
    """The functions that `@triton.jit` decorates."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return [node for node in found if any(_name(one) == "jit" for one in map(_decorator, node.decorator_list))]


def check(source: str) -> None:
    tree = parsed(source)
    imports = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    if not kernels(tree) and not any(_may_bring_kernels(one) for one in imports):
        raise CandidateError("has no kernel: decorate a function with @triton.jit and launch it in forward(...)")
    if not _functions(tree) and not _classes(tree):
        raise CandidateError("has no host function: define forward(...), which launches kernels and returns tensors")


def _may_bring_kernels(statement: str) -> bool:
    """Whether it imports more than the usual: another package may have the kernels."""
    return statement.split()[1].partition(".")[0] not in ("torch", "math", "typing", "__future__", "os", "sys")


def module_call(source: str, signature: Signature) -> ModuleCall:
    """Which function is called, and with what; docs/triton.md has the rules. Raises CandidateError."""
    tree = parsed(source)
    gradients = upstream_gradients(signature)
    function = _chosen(tree, "backward" if gradients else "forward")
    if function is not None:
        return ModuleCall(plan_call(_bound(function), signature))
    classes = _classes(tree)
    if len(classes) == 1:
        return _of_class(classes[0], signature, tuple(gradients))
    wanted = "backward" if gradients else "forward"
    names = ", ".join(function.name for function in _functions(tree)) or "none"
    raise CandidateError(f"has no function {wanted}(...): its functions are {names}; name one of them {wanted}")


def _of_class(found: ast.ClassDef, signature: Signature, gradients: tuple[int, ...]) -> ModuleCall:
    methods = {node.name: node for node in found.body if isinstance(node, ast.FunctionDef)}
    bound = _bound(methods["forward"])
    forward = BoundFunction(f"{found.name}.forward", bound.parameters[1:], bound.returns)
    plan = plan_call(forward, signature, without=gradients)
    if not gradients:
        return ModuleCall(plan, found.name)
    if "backward" not in methods:
        raise CandidateError(f"{found.name} has no backward")
    names = {signature.arguments[value].name: n for n, value in enumerate(plan.values) if isinstance(value, int)}
    missing = [t.name for t in signature.outputs if t.name.removeprefix("grad_") not in names]
    if missing:
        raise CandidateError(f"{found.name}.forward does not take what {missing[0]} is the gradient of")
    wanted = tuple(names[tensor.name.removeprefix("grad_")] for tensor in signature.outputs)
    return ModuleCall(plan, found.name, gradients, wanted)


# --- functions -------------------------------------------------------------------------------------------------------


def _functions(tree: ast.Module) -> list[ast.FunctionDef]:
    """Of the host, at the top of the module."""
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return [
        node for node in found if not any(_name(one) in _DECORATORS for one in map(_decorator, node.decorator_list))
    ]


def _classes(tree: ast.Module) -> list[ast.ClassDef]:
    """Autograd functions: classes whose forward and backward take a context."""
    found = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return [node for node in found if any(_name(base) == "Function" for base in node.bases)]


def _chosen(tree: ast.Module, wanted: str) -> ast.FunctionDef | None:
    """Of that name, or the only one whose name ends so, or for forward the only one that launches, or
    that launches and is not called by another, or the only one at all (a compiler's module launches in a function that
    it imports)."""
    functions = _functions(tree)
    exact = [function for function in functions if function.name == wanted]
    if exact:
        return exact[-1]
    short = {"forward": "_fwd", "backward": "_bwd"}[wanted]
    ending = [function for function in functions if function.name.endswith((f"_{wanted}", short))]
    if len(ending) == 1:
        return ending[0]
    if wanted == "backward" or _classes(tree):
        return None
    launching = [function for function in functions if _launches(function)]
    if len(launching) == 1:
        return launching[0]
    called = {_name(node.func) for function in functions for node in ast.walk(function) if isinstance(node, ast.Call)}
    roots = [function for function in launching if function.name not in called]
    if len(roots) == 1:
        return roots[0]
    return functions[0] if len(functions) == 1 else None


def _launches(function: ast.FunctionDef) -> bool:
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    return any(isinstance(node.func, ast.Subscript) for node in calls)


def _bound(function: ast.FunctionDef) -> BoundFunction:
    arguments = function.args
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
    parameters = tuple(_parameter(one, default) for one, default in zip(plain, defaults, strict=True))
    if arguments.vararg is not None:
        parameters += (BoundParameter(arguments.vararg.arg, "any", optional=True),)
    return BoundFunction(function.name, parameters, returns=True)


def _parameter(argument: ast.arg, default: ast.expr | None) -> BoundParameter:
    said = ast.unparse(argument.annotation) if argument.annotation else ""
    number = isinstance(default, ast.Constant) and isinstance(default.value, int | float)
    if "Tensor" in said:
        return BoundParameter(argument.arg, "tensor", default is not None)
    if said in _NUMBERS or number:
        return BoundParameter(argument.arg, "number", default is not None)
    return BoundParameter(argument.arg, "any", default is not None)


def _decorator(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
