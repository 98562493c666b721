"""Lets sizes vary through `int(a / b)`, which torch.export would take for a number.

Code that counts windows writes `int(x.shape[0] / (height * width / 7 / 7))`. For sizes that is the whole quotient, and
as such torch can follow it. Nothing else of the source changes.
"""

from __future__ import annotations

import ast
import builtins
from typing import Any

import torch

NAME = "_kernelwright_whole_quotient"


def with_whole_quotients(source: bytes, name: str) -> Any:
    tree = ast.parse(source, name)
    found = _Quotients()
    found.visit(tree)
    if not found.count:
        return source
    setattr(builtins, NAME, whole_quotient)
    return ast.fix_missing_locations(tree)


class _Quotients(ast.NodeTransformer):
    count = 0

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        inner = node.args[0] if len(node.args) == 1 and not node.keywords else None
        named = isinstance(node.func, ast.Name) and node.func.id == "int"
        if not named or not isinstance(inner, ast.BinOp) or not isinstance(inner.op, ast.Div):
            return node
        self.count += 1
        return ast.copy_location(ast.Call(ast.Name(NAME, ast.Load()), [inner.left, inner.right], []), node)


def whole_quotient(left: Any, right: Any) -> Any:
    if isinstance(right, float) and right.is_integer():
        right = int(right)
    if isinstance(left, torch.SymInt) and isinstance(right, int | torch.SymInt):
        return left // right
    return int(left / right)
