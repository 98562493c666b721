"""What torch.export makes of a call, and the parts of reading it that are common to everything that is traced.

A user's own function is captured with it in the user's process (`capture`), a stranger's problem in a sandbox
(`imported`).
"""

from __future__ import annotations

import io
import logging
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelwright.tasks.dims import TaskError, names_in
from kernelwright.tasks.loading import shown_path, summary

if TYPE_CHECKING:
    import torch

UNFOUND = "Unable to find user code"  # what torch logs where it looks for a line to advise on
SPECIALIZED = "0/1 specialized"  # a size of one, which torch never lets vary
ADVISERS = ("torch.fx.experimental.symbolic_shapes", "torch._export.non_strict_utils")


def function_name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def export_call(
    function: Callable[..., Any],
    example: Sequence[Any],
    *,
    most: int | None = None,
    varying: Sequence[Collection[int]] | None = None,
    own: tuple[str, ...] = (),
    fix: str = "write a task file",
    keywords: Sequence[str] = (),
) -> Any:
    """What `function(*example)` computes; the last arguments are given by name where there are `keywords`. Numbers are
    part of it; tensors, also those in lists, are its inputs, and every size of theirs varies that may: of each tensor
    the first `most`, and of those the axes in `varying`. `own` are folders whose lines are not the author's."""
    import torch
    from torch.fx.traceback import preserve_node_meta
    from torch.utils._pytree import tree_flatten, tree_unflatten

    from kernelwright.tasks.line_recorder import LineRecorder

    leaves, structure = tree_flatten(tuple(example))
    held = [*function.parameters(), *function.buffers()] if isinstance(function, torch.nn.Module) else []
    tensors = _distinct([leaf for leaf in leaves if isinstance(leaf, torch.Tensor)], held)

    class Wrapped(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = function

        def forward(self, *given: torch.Tensor) -> Any:
            waiting = iter(given)
            complete = [next(waiting) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
            values = tree_unflatten(complete, structure)
            first = len(values) - len(keywords)
            with LineRecorder():
                return self.inner(*values[:first], **dict(zip(keywords, values[first:], strict=True)))

    def freedom(place: int, dim: int) -> Any:
        free = (most is None or dim < most) and (varying is None or dim in varying[place])
        return torch.export.Dim.AUTO if free else torch.export.Dim.STATIC

    sizes = tuple([freedom(place, dim) for dim in range(one.dim())] for place, one in enumerate(tensors))
    printed = io.StringIO()
    try:
        # It prints the graph of what it could not finish.
        with redirect_stderr(printed), _without_advice(), preserve_node_meta():
            exported = quietly(torch.export.export, Wrapped(), tensors, dynamic_shapes=(sizes,))
    except Exception as error:  # whatever torch.export raises, it means that it cannot write this down
        if printed.getvalue():
            error.add_note(printed.getvalue())
        reason = f"torch.export cannot write {function_name(function)} down: {_cause(error, own)}"
        raise TaskError(f"{reason}: {fix}" if fix else reason) from error
    sys.stderr.write(printed.getvalue())
    return exported


def _distinct(tensors: Sequence[torch.Tensor], held: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Each with memory of its own: torch.export takes one tensor that is given twice, as in `attention(x, x, x)`, for
    one argument, and the others would not be looked at in later calls. `held` are those of the function itself."""
    known = {one.untyped_storage()._cdata for one in held}
    found = []
    for one in tensors:
        memory = one.untyped_storage()._cdata
        found.append(one.detach().clone().requires_grad_(one.requires_grad) if memory in known else one)
        known.add(memory)
    return tuple(found)


@contextmanager
def _without_advice() -> Iterator[None]:
    logs = [logging.getLogger(name) for name in ADVISERS]
    for log in logs:
        log.addFilter(_is_wanted)
    try:
        yield
    finally:
        for log in logs:
            log.removeFilter(_is_wanted)


def _is_wanted(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith(UNFOUND) and SPECIALIZED not in str(record.msg)


def quietly(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Without what torch warns of in its own use of itself."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)` is deprecated", FutureWarning)
        return call(*arguments, **options)


def _cause(error: Exception, own: tuple[str, ...]) -> str:
    """In a few words and with the user's own line; the error itself has the rest."""
    import torch
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    from kernelwright.tasks import line_recorder

    reason = summary(error)
    if isinstance(error, GuardOnDataDependentSymNode):
        reason = "a branch, a loop or a size in it depends on the values of a tensor"
    others = (str(Path(torch.__file__).parent), __file__, line_recorder.__file__, *own)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(others)]
    return f"{reason} ({shown_path(frames[-1].filename)}:{frames[-1].lineno})" if frames else reason


def drop_type_assertions(graph: Any) -> None:
    """They hold for one type and one device, and the judge runs a reference on others."""
    import torch

    for node in list(graph.nodes):
        if getattr(node.target, "overloadpacket", None) is torch.ops.aten._assert_tensor_metadata:
            graph.erase_node(node)


def widen_types(graph: Any, given: Any, declared: torch.dtype) -> None:
    """Lets the floating-point types that the code names follow the input `given`, which is declared as `declared`:
    the judge also runs a reference in float64, which a cast inside of it would undo."""
    import torch

    from kernelwright.tasks.casting import working_dtype

    last = [node for node in graph.nodes if node.op == "placeholder"][-1]
    known: dict[torch.dtype, Any] = {}

    def widened(value: Any) -> Any:
        if not (isinstance(value, torch.dtype) and value.is_floating_point):
            return value
        if declared is torch.float64 and value is not torch.float64:
            name = str(value).removeprefix("torch.")
            raise TaskError(f"it casts float64 inputs to {name}: leave the cast out, or give inputs of that type")
        if value not in known:
            with graph.inserting_after(last):
                name = str(value).removeprefix("torch.")
                arguments = (value, given, declared)
                known[value] = graph.create_node("call_function", working_dtype, arguments, name=name)
        return known[value]

    for node in list(graph.nodes):
        if node.op == "call_function" and node.target is not working_dtype:
            if _has_default_type(node):
                node.kwargs = {**node.kwargs, "dtype": node.meta["val"].dtype}
            node.args, node.kwargs = (torch.fx.node.map_aggregate(part, widened) for part in (node.args, node.kwargs))
    graph.lint()


def _has_default_type(node: Any) -> bool:
    """Makes floats of torch's default type, as `torch.zeros(3)` does."""
    import torch

    schema, value = getattr(node.target, "_schema", None), node.meta.get("val")
    if schema is None or not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return False
    names = {argument.name for argument in schema.arguments if argument.kwarg_only}
    given = any(isinstance(one, torch.fx.Node) and isinstance(one.meta.get("val"), torch.Tensor) for one in node.args)
    return "dtype" in names and not given and node.kwargs.get("dtype") is None


def meant_equal(exported: Any) -> dict[str, str]:
    """torch takes keys and values of different lengths, and reads beyond the shorter ones."""
    found: dict[str, str] = {}
    for node in exported.graph.nodes:
        if "scaled_dot_product_attention" in str(node.target) and len(node.args) > 2:
            keys, values = (str(given.meta["val"].shape[-2]) for given in node.args[1:3])
            found |= {values: keys} if keys != values else {}
    return found


class SizeNames:
    """Names for the sizes that may vary, with the example's values.

    `equal` gives symbols that others stand for; `proposed` the name for a size, by the argument and its dimension.
    """

    def __init__(self, equal: Mapping[str, str], proposed: Callable[[str, int], str | None] = lambda *_: None) -> None:
        self.values: dict[str, int] = {}
        self.symbols: dict[str, str] = {}
        self.units: dict[str, int] = {}  # by name, what a size is a multiple of, if it cannot be any number
        self._equal = dict(equal)
        self._proposed = proposed

    def learn(self, argument: str, shape: Sequence[Any], values: Sequence[int]) -> None:
        """Names the sizes of an argument that are one symbol each; expressions over them come later, in `dims`."""
        for place, (size, value) in enumerate(zip(shape, values, strict=True)):
            symbol = self._equal.get(str(size), str(size))
            if symbol.isidentifier() and symbol not in self.symbols:
                name = self._proposed(argument, place)
                base, number = (f"{name}_", 2) if name in self.values else ("n", 0)
                while name is None or name in self.values:
                    name, number = f"{base}{number}", number + 1
                self.symbols[symbol] = name
                self.values[name] = value

    def count_in(self, units: Mapping[str, int]) -> None:
        """Lets sizes, by symbol, be multiples alone: the name stands for how many."""
        for symbol, unit in units.items():
            name = self.symbols[symbol]
            self.units[name] = unit
            self.values[name] //= unit

    def dims(self, shape: Sequence[Any]) -> tuple[int | str, ...]:
        return tuple(self._dim(size) for size in shape)

    def _dim(self, size: Any) -> int | str:
        written = self._equal.get(str(size), str(size))
        if written.lstrip("-").isdigit():
            return int(written)
        text = re.sub(r"[A-Za-z_]\w*", lambda found: self._name_of(found[0]), written)
        if "?" in text or "**" in text or "/" in text.replace("//", ""):
            raise TaskError(f"a size depends on others in a way that a task cannot say ({written}): write a task file")
        names_in(text)  # refuses what is not an expression
        return text

    def _name_of(self, symbol: str) -> str:
        name = self.symbols.get(self._equal.get(symbol, symbol), "?")
        return f"{self.units[name]}*{name}" if name in self.units else name
