"""A KernelBench problem at sizes that a CPU and the emulator can do, by rewriting the whole numbers in its source.

The same number always becomes the same one, so that what fits together still does. Several rewritings are tried, the
smallest first: numbers everywhere, or those of the module alone, where classes hold numbers that belong together; the
same with batches of two; then all channels divided by one number and images by another, which leaves windows and
depths as they are.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

MOST_PARAMETERS = 1_500_000
MOST_MULTIPLICATIONS = 150_000_000
LIMITS = (4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256)
FACTORS = tuple((channels, images) for images in (1, 2, 4, 7, 8) for channels in (8, 16, 4, 32))
IMAGES = re.compile(r"image|img|resolution|height|width")
KEPT = re.compile(r"patch|window|kernel|head|depth|stride|pad|group|layer|chunk|block")
FEWEST_CHANNELS = 16  # smaller numbers are seldom channels


class TooLargeError(Exception):
    """No rewriting gives a model that runs and is small enough; the message says what was tried last."""


@dataclass(frozen=True)
class Problem:
    model: torch.nn.Module
    inputs: list[Any]
    trained: bool  # as the file makes it; otherwise `eval()` was called
    limit: int | str  # the largest number, or the share of all channels
    source: str = ""  # of the file, rewritten


class _Divided(ast.NodeTransformer):
    """Numbers divided, but for those under a name that says that they count something else."""

    def __init__(self, channels: int, images: int) -> None:
        self.channels, self.images = channels, images
        self.name = ""

    def _named(self, name: str, node: ast.AST) -> ast.AST:
        before, self.name = self.name, name
        made = self.visit(node)
        self.name = before
        return made

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        node.value = self._named(node.arg or "", node.value)  # type: ignore[assignment]
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        target = node.targets[0]
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            names = [one.id if isinstance(one, ast.Name) else "" for one in target.elts]
            node.value.elts = [self._named(n, v) for n, v in zip(names, node.value.elts, strict=False)]  # type: ignore[misc]
            return node
        node.value = self._named(target.id if isinstance(target, ast.Name) else "", node.value)  # type: ignore[assignment]
        return node

    def visit_arguments(self, node: ast.arguments) -> ast.AST:
        named = [one.arg for one in node.args][len(node.args) - len(node.defaults) :]
        node.defaults = [self._named(n, d) for n, d in zip(named, node.defaults, strict=True)]  # type: ignore[misc]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """What draws inputs names images and sequences, which stay."""
        return node if node.name == "get_inputs" else self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        value = node.value
        if not isinstance(value, int) or isinstance(value, bool):
            return node
        if "batch" in self.name.lower():
            return ast.copy_location(ast.Constant(min(value, 2)), node)
        divisor = self.images if IMAGES.search(self.name.lower()) else self.channels
        if value < FEWEST_CHANNELS or value % divisor or KEPT.search(self.name.lower()):
            return node
        return ast.copy_location(ast.Constant(value // divisor), node)


class SmallerNumbers(ast.NodeTransformer):
    """With `batch`, that is the limit of what is named so: channels that must be divisible may stay as they are."""

    def __init__(self, limit: int, *, everywhere: bool, batch: int | None = None) -> None:
        self.limit, self.everywhere, self.batch = limit, everywhere, batch
        self.inside = 0

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        target = node.targets[0]
        if self.batch is None or not (isinstance(target, ast.Name) and "batch" in target.id.lower()):
            return self.generic_visit(node)
        limit, self.limit = self.limit, self.batch
        changed = self.generic_visit(node)
        self.limit = limit
        return changed

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
    ways: list[tuple[ast.NodeTransformer, int | str]] = [
        (SmallerNumbers(limit, everywhere=everywhere), limit) for limit in LIMITS for everywhere in (True, False)
    ]
    ways += [(SmallerNumbers(limit, everywhere=True, batch=2), f"{limit}, batches of 2") for limit in LIMITS]
    ways += [(_Divided(*factors), "1/{} of channels, 1/{} of images".format(*factors)) for factors in FACTORS]
    for way, limit in ways:
        tree = way.visit(ast.parse(source))
        try:
            code = compile(ast.fix_missing_locations(tree), str(path), "exec")
            _refuse_early(code)
            found = replace(made(code, limit), source=ast.unparse(tree))
        except Exception as error:  # whatever a rewritten model raises, another rewriting may do
            fault = error
            continue
        yield found
    if fault is not None:
        raise TooLargeError((str(fault).splitlines() or [type(fault).__name__])[0])


def _refuse_early(code: Any) -> None:
    """What is too large, found without computing anything; a model that needs data is looked at again with it."""
    names: dict[str, Any] = {"__name__": "problem"}
    try:
        with torch.device("meta"):
            exec(code, names)  # the caller is a process of its own for this file
            model, inputs = names["Model"](*names["get_init_inputs"]()), names["get_inputs"]()
            if sum(parameter.numel() for parameter in model.parameters()) > MOST_PARAMETERS:
                raise TooLargeError("too many parameters")
            _refuse_large(model.eval(), inputs)
    except NotImplementedError:
        return
    except RuntimeError as error:
        if "meta" not in str(error):
            raise


def made(code: Any, limit: int | str) -> Problem:
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
