"""A KernelBench problem at sizes that a CPU and the emulator can do, by rewriting the whole numbers in its source.

The same number always becomes the same one, so that what fits together still does. Several rewritings are tried, the
smallest first: numbers everywhere, or those of the module alone, where classes hold numbers that belong together.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

MOST_PARAMETERS = 1_500_000
MOST_MULTIPLICATIONS = 60_000_000
LIMITS = (4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256)


class TooLargeError(Exception):
    """No rewriting gives a model that runs and is small enough; the message says what was tried last."""


@dataclass(frozen=True)
class Problem:
    model: torch.nn.Module
    inputs: list[Any]
    trained: bool  # as the file makes it; otherwise `eval()` was called
    limit: int


class SmallerNumbers(ast.NodeTransformer):
    def __init__(self, limit: int, *, everywhere: bool) -> None:
        self.limit, self.everywhere = limit, everywhere
        self.inside = 0

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self.inside += 1
        changed = self.generic_visit(node)
        self.inside -= 1
        return changed

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, int) and not isinstance(node.value, bool) and (self.everywhere or not self.inside):
            return ast.copy_location(ast.Constant(smaller(node.value, self.limit)), node)
        return node


def smaller(value: int, limit: int) -> int:
    """Halved until it is within the limit; an odd number keeps being odd."""
    while value > limit:
        value = value // 2 if value % 2 == 0 else value // 2 | 1 if value > 3 else limit
    return value


def problems(path: Path) -> Iterator[Problem]:
    """Models that run, the smallest first."""
    source = path.read_text()
    fault: Exception | None = None
    for limit in LIMITS:
        for everywhere in (True, False):
            tree = SmallerNumbers(limit, everywhere=everywhere).visit(ast.parse(source))
            try:
                found = made(compile(ast.fix_missing_locations(tree), str(path), "exec"), limit)
            except Exception as error:  # whatever a rewritten model raises, another rewriting may do
                fault = error
                continue
            yield found
    if fault is not None:
        raise TooLargeError((str(fault).splitlines() or [type(fault).__name__])[0])


def made(code: Any, limit: int) -> Problem:
    names: dict[str, Any] = {"__name__": "problem"}
    exec(code, names)  # the caller is a process of its own for this file
    torch.manual_seed(0)
    model = names["Model"](*names["get_init_inputs"]())
    if sum(parameter.numel() for parameter in model.parameters()) > MOST_PARAMETERS:
        raise TooLargeError("too many parameters")
    inputs = names["get_inputs"]()
    if any(isinstance(value, torch.Tensor) and value.numel() == 0 for value in inputs):
        raise TooLargeError("an empty input")
    trained = _unchanging(model)
    if not trained:
        model.eval()
    _refuse_large(model, inputs)
    return Problem(model, inputs, trained, limit)


def _unchanging(model: torch.nn.Module) -> bool:
    """Whether a call leaves buffers as they are and draws nothing."""
    kinds = (torch.nn.modules.batchnorm._BatchNorm, torch.nn.modules.dropout._DropoutNd)
    return not any(isinstance(module, kinds) for module in model.modules())


def _refuse_large(model: torch.nn.Module, inputs: list[Any]) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter, torch.no_grad():
        result = model(*inputs)
    if counter.get_total_flops() > MOST_MULTIPLICATIONS:
        raise TooLargeError("too many multiplications")
    if isinstance(result, torch.Tensor) and result.numel() == 0:
        raise TooLargeError("an empty result")
