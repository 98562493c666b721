"""Recognises KernelBench's form from the syntax alone, and reads names of sizes off it. Nothing is imported here."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path

MODEL, INPUTS, INITIAL = "Model", "get_inputs", "get_init_inputs"
MOST_SOURCE = 1 << 20


def parsed(source: bytes) -> ast.Module | None:
    """None where it is not Python that can be read at all."""
    if len(source) > MOST_SOURCE:
        return None
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def is_problem(source: bytes) -> bool:
    """A file with `class Model`, `get_inputs` and `get_init_inputs` at its top, and without a `task` of its own."""
    form, task = _top(source)
    return form and not task


def is_both(source: bytes) -> bool:
    """A problem with a `task` of its own: a task file is run as the user's code, which one line must not cause."""
    return _top(source) == (True, True)


def _top(source: bytes) -> tuple[bool, bool]:
    """Whether a file has the form of a problem, and whether it assigns a `task`."""
    tree = parsed(source)
    if tree is None:
        return False, False
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    targets = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    targets += [node.target for node in tree.body if isinstance(node, ast.AnnAssign)]
    assigned = {target.id for target in targets if isinstance(target, ast.Name)}
    return MODEL in classes and {INPUTS, INITIAL} <= functions, "task" in assigned


def natural(path: Path) -> tuple[list[tuple[int, int, str]], ...]:
    """A key for the order in which a person counts."""
    return tuple(_counted(part) for part in path.parts)


def _counted(part: str) -> list[tuple[int, int, str]]:
    """`10_b` after `9_a`."""
    return [(0, int(run), "") if run.isdecimal() else (1, 0, run) for run in re.split(r"(\d+)", part) if run]


class SizeHints:
    """What the author calls a size, read off `get_inputs`: `batch` in `torch.rand(batch, features)`."""

    def __init__(self, source: bytes, values: Mapping[str, object]) -> None:
        tree = parsed(source)
        body = [] if tree is None else [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == INPUTS]
        self._function = body[0] if body else None
        self._values = {name: value for name, value in values.items() if type(value) is int and _usable(name)}

    def name(self, index: int, dim: int, value: int) -> str | None:
        """For a dimension of the tensor at `index` in what `get_inputs` returns."""
        written = self._shape(index)
        said = written[dim] if dim < len(written) else None
        if isinstance(said, ast.Name) and self._values.get(said.id) == value:
            return said.id
        named = [name for name, known in self._values.items() if known == value]
        return named[0] if len(named) == 1 else None

    def _shape(self, index: int) -> list[ast.expr]:
        """The arguments of the call that makes the tensor, where they are its sizes."""
        returned = (
            [node.value for node in ast.walk(self._function) if isinstance(node, ast.Return)] if self._function else []
        )
        if not returned or not isinstance(returned[-1], ast.List | ast.Tuple) or index >= len(returned[-1].elts):
            return []
        found = returned[-1].elts[index]
        if isinstance(found, ast.Name):
            found = self._assigned(found.id) or found
        calls = [node for node in ast.walk(found) if isinstance(node, ast.Call) and len(node.args) > 0]
        arguments = calls[-1].args if calls else []
        if len(arguments) == 1 and isinstance(arguments[0], ast.Tuple | ast.List):
            arguments = arguments[0].elts
        return [] if any(isinstance(one, ast.Starred) for one in arguments[:-1]) else list(arguments)

    def _assigned(self, name: str) -> ast.expr | None:
        assert self._function is not None
        found = [
            node.value
            for node in ast.walk(self._function)
            if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
        ]
        return found[0] if found else None


def _usable(name: str) -> bool:
    return re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,39}", name) is not None
