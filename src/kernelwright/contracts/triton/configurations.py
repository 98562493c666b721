"""The configurations of autotuned kernels, as tunables: which are there, and which one a source has chosen.

`@triton.autotune` would time its configurations on whatever values it is called with. Nothing is timed while host code
is recorded, and nothing may be tuned on the judge's values. So each autotuned kernel `f` has a tunable `f_config`, the
number of its configuration, or `first`: the first that fits the device. A search tries the others, and each is judged
as a candidate of its own.

How many there are is read off the syntax tree: lists, comprehensions over constants, and functions that return them.
Where that cannot be told, an author may declare the tunable: `# tunable: f_config = 0, 1, 2`.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from kernelwright.contracts.candidate import CandidateError
from kernelwright.contracts.triton.source import parsed
from kernelwright.contracts.tunable_syntax import PYTHON_TUNABLES

FIRST = "first"
MOST = 1000
_CONFIG = re.compile(r"^(\w+)_config$")


def configured(source: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """For each autotuned kernel the name of its tunable and its values, as far as they can be counted."""
    try:
        tree = parsed(source)
    except CandidateError:
        return ()
    found = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            count = next(filter(None, (_count(one, tree) for one in node.decorator_list)), 0)
            if count > 1:
                found.append((f"{node.name}_config", (FIRST, *map(str, range(count)))))
    return tuple(found)


def choices(source: str) -> dict[str, int]:
    """The configurations that the source has chosen, by kernel."""
    found = {}
    for match in PYTHON_TUNABLES.line.finditer(source):
        kernel = _CONFIG.match(match["name"])
        value = match["now"] or match["values"].split(",")[0].strip()
        if kernel is not None and value.isdigit():
            found[kernel[1]] = int(value)
    return found


# --- how many ---------------------------------------------------------------------------------------------------------


class _CannotTell(Exception):  # noqa: N818 - it names an outcome
    pass


def _count(decorator: ast.expr, tree: ast.Module) -> int:
    if not isinstance(decorator, ast.Call) or "autotune" not in ast.unparse(decorator.func):
        return 0
    given = {keyword.arg: keyword.value for keyword in decorator.keywords}
    configs = decorator.args[0] if decorator.args else given.get("configs")
    try:
        return 0 if configs is None else sum(1 for _ in itertools.islice(_items(configs, {}, tree, 0), MOST))
    except _CannotTell:
        return 0


def _items(node: ast.expr, names: Mapping[str, Any], tree: ast.Module, depth: int) -> Iterator[Any]:
    """The elements of a list: constants as they are, and everything else as None."""
    if depth > 20:
        raise _CannotTell
    if isinstance(node, ast.List | ast.Tuple):
        for element in node.elts:
            if isinstance(element, ast.Starred):
                yield from _items(element.value, names, tree, depth + 1)
            else:
                yield _value(element, names, None)
    elif isinstance(node, ast.ListComp | ast.GeneratorExp):
        yield from _comprehended(node, dict(names), tree, depth)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from _items(node.left, names, tree, depth + 1)
        yield from _items(node.right, names, tree, depth + 1)
    elif isinstance(node, ast.Name):
        yield from _items(_assigned(node.id, tree), names, tree, depth + 1)
    elif isinstance(node, ast.Call):
        yield from _called(node, names, tree, depth)
    else:
        raise _CannotTell


def _called(node: ast.Call, names: Mapping[str, Any], tree: ast.Module, depth: int) -> Iterator[Any]:
    called = ast.unparse(node.func)
    if called == "range":
        yield from itertools.islice(range(*(int(_value(one, names)) for one in node.args)), MOST)
    elif called in ("list", "tuple", "sorted"):
        yield from _items(node.args[0], names, tree, depth + 1)
    elif called in ("product", "itertools.product"):
        yield from itertools.product(*(list(_items(one, names, tree, depth + 1)) for one in node.args))
    else:
        functions = [one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == called]
        returned = [one.value for one in ast.walk(functions[0]) if isinstance(one, ast.Return)] if functions else []
        if len(returned) != 1 or returned[0] is None:
            raise _CannotTell
        yield from _items(returned[0], names, tree, depth + 1)


def _comprehended(
    node: ast.ListComp | ast.GeneratorExp, names: dict[str, Any], tree: ast.Module, depth: int, level: int = 0
) -> Iterator[Any]:
    if level == len(node.generators):
        yield _value(node.elt, names, None)
        return
    generator = node.generators[level]
    for item in itertools.islice(_items(generator.iter, names, tree, depth + 1), MOST):
        _bind(generator.target, item, names)
        if all(_value(test, names) for test in generator.ifs):
            yield from _comprehended(node, names, tree, depth, level + 1)


def _bind(target: ast.expr, item: Any, names: dict[str, Any]) -> None:
    if isinstance(target, ast.Name):
        names[target.id] = item
    elif isinstance(target, ast.Tuple | ast.List) and isinstance(item, tuple) and len(item) == len(target.elts):
        for inner, part in zip(target.elts, item, strict=True):
            _bind(inner, part, names)
    else:
        raise _CannotTell


def _assigned(name: str, tree: ast.Module) -> ast.expr:
    found = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and any(isinstance(one, ast.Name) and one.id == name for one in node.targets)
    ]
    if len(found) != 1:
        raise _CannotTell
    return found[0]


_UNKNOWN = object()
_OPERATIONS: dict[type[ast.AST], Any] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
}


def _value(node: ast.expr, names: Mapping[str, Any], otherwise: Any = _UNKNOWN) -> Any:
    """A number, a truth or a tuple of them; `otherwise` where it is something else."""
    try:
        return _evaluated(node, names)
    except (_CannotTell, TypeError, ZeroDivisionError):
        if otherwise is _UNKNOWN:
            raise _CannotTell from None
        return otherwise


def _evaluated(node: ast.expr, names: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name) and node.id in names:
        return names[node.id]
    if isinstance(node, ast.Tuple | ast.List):
        return tuple(_evaluated(one, names) for one in node.elts)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return _OPERATIONS[type(node.op)](_small(_evaluated(node.left, names)), _small(_evaluated(node.right, names)))
    if isinstance(node, ast.BoolOp):
        values = [_evaluated(one, names) for one in node.values]
        return all(values) if isinstance(node.op, ast.And) else any(values)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not _evaluated(node.operand, names)
    if isinstance(node, ast.Compare):
        sides = [_evaluated(one, names) for one in (node.left, *node.comparators)]
        pairs = zip(node.ops, itertools.pairwise(sides), strict=True)
        return all(_OPERATIONS[type(op)](*pair) if type(op) in _OPERATIONS else _raise() for op, pair in pairs)
    raise _CannotTell


def _small(value: Any) -> int:
    if not isinstance(value, int) or abs(value) > 1 << 40:
        raise _CannotTell
    return value


def _raise() -> bool:
    raise _CannotTell
