"""Runs a problem without data and writes down what it computes and how its arguments are drawn.

    python -I -S -B -c "import sys; sys.path[:0] = [...]; ..."  SOURCE OUTPUT

SOURCE is the problem's file. OUTPUT becomes JSON: the traced problem (`traced.TracedProblem`), or {"error": one line}.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import resource
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export.graph_signature import InputKind
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from kernelwright.tasks.dims import TaskError
from kernelwright.tasks.exporting import SizeNames, export_call, meant_equal
from kernelwright.tasks.imported.confined import encode, learn
from kernelwright.tasks.imported.confined.surgery import purify
from kernelwright.tasks.imported.confined.tape import Tape, Untraceable, is_fake, tensors_in
from kernelwright.tasks.imported.form import INITIAL, INPUTS, MODEL, SizeHints

Data = dict[str, Any]
LONGEST = 300
FEWER = (None, 1, 0)  # how many sizes of each tensor vary, where torch cannot follow all of them
_WORDS = """alignas alignof and asm auto bool case catch char class const constexpr default delete do double else enum
explicit export extern float for goto if inline int long mutable namespace new not nullptr operator or private protected
public register return short signed sizeof static struct switch template this throw try typedef typename union unsigned
using virtual void volatile while xor out kernel in from import lambda def del pass None True False global is yield
async await with raise except finally assert break continue elif nonlocal"""
RESERVED = frozenset(_WORDS.split())  # of C++ and Python, and what a kernel calls its own


@dataclass(frozen=True)
class Opened:
    """A problem's module and what it made without data."""

    module: ModuleType
    model: torch.nn.Module
    inputs: tuple[Any, ...]
    tape: Tape
    fake: FakeTensorMode


def trace(path: Path) -> Data:
    source = path.read_bytes()
    opened = open_problem(_executed(path, source))
    exported, fixed = _exported(opened)
    graph = exported.graph_module.graph
    notes = purify(graph)
    names = _Names(opened, source)
    return _Writer(opened, exported, names).problem([*notes, *fixed])


def _executed(path: Path, source: bytes) -> ModuleType:
    module = ModuleType("problem")
    module.__file__ = str(path)
    sys.modules["problem"] = module
    exec(compile(source, str(path), "exec", dont_inherit=True), module.__dict__)
    return module


def open_problem(module: ModuleType) -> Opened:
    """Under fake tensors nothing is allocated, however large the inputs and parameters are."""
    fake, tape = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv()), Tape()
    with fake, tape, mock.patch.object(torch.nn.init, "_no_grad_trunc_normal_", _truncated):
        model = getattr(module, MODEL)(*getattr(module, INITIAL)())
        given = getattr(module, INPUTS)()
    if not isinstance(model, torch.nn.Module):
        raise Untraceable(f"{MODEL} is not a torch.nn.Module")
    if isinstance(given, torch.Tensor) or not isinstance(given, list | tuple):
        raise Untraceable(f"{INPUTS}() returns a {type(given).__name__}: it must return a list")
    if not tensors_in(given):
        raise Untraceable(f"{INPUTS}() returns no tensor")
    return Opened(module, model, tuple(given), tape, fake)


def _truncated(
    tensor: torch.Tensor, mean: float, std: float, a: float, b: float, generator: torch.Generator | None = None
) -> torch.Tensor:
    """torch draws again until all values lie within, which needs values to look at."""
    with torch.no_grad():
        return tensor.normal_(mean, std).clamp_(a, b)


def _exported(opened: Opened) -> tuple[Any, list[str]]:
    """With all sizes free that may be; where torch cannot solve for them, with the first of each tensor, or none."""
    from torch.utils._pytree import tree_map

    with opened.fake:
        example = tree_map(_contiguous, opened.inputs)
    first: Exception | None = None
    for most in FEWER:
        try:
            with opened.fake:
                own = (str(Path(__file__).parents[2]), "<")
                found = export_call(opened.model, example, most=most, own=own, fix="")
        except TaskError as error:
            first = first or error
            continue
        return found, [] if most is None else ["fixed_sizes"]
    assert first is not None
    raise first


def _contiguous(leaf: Any) -> Any:
    """The judge gives contiguous tensors, none a view of another."""
    if not isinstance(leaf, torch.Tensor):
        return leaf
    return torch.empty(leaf.shape, dtype=leaf.dtype)


class _Names:
    """Names of arguments and sizes that the author would know them by."""

    def __init__(self, opened: Opened, source: bytes) -> None:
        self._hints = SizeHints(source, vars(opened.module))
        self._taken: set[str] = set()
        self.leaves: list[tuple[str, int]] = []  # a name, and the place in what get_inputs returns
        given = [name for name, one in _parameters(opened.model) if one.kind is not one.VAR_KEYWORD]
        for place, value in enumerate(opened.inputs):
            name = given[place] if place < len(given) else f"x{place}"
            found = tensors_in(value)
            several = not isinstance(value, torch.Tensor)
            for index in range(len(found)):
                self.leaves.append((self.free(f"{name}_{index}" if several else name), place))

    def free(self, wanted: str) -> str:
        base = re.sub(r"\W+", "_", wanted, flags=re.ASCII).strip("_")[:60] or "x"
        base = f"{base}_" if base in RESERVED else f"x{base}" if base[0].isdigit() else base
        name, number = base, 2
        while name in self._taken:
            name, number = f"{base}_{number}", number + 1
        self._taken.add(name)
        return name

    def size(self, place: int | None, dim: int, value: int) -> str | None:
        found = self._hints.name(place, dim, value) if place is not None else None
        return None if found is None or found in self._taken or found in RESERVED else found


def _parameters(model: torch.nn.Module) -> list[tuple[str, inspect.Parameter]]:
    return list(inspect.signature(model.forward).parameters.items())


@dataclass
class _Held:
    """A placeholder of the graph, with the tensor that it stands for."""

    node: Any
    name: str
    tensor: torch.Tensor
    part: str
    place: int | None = None


class _Writer:
    def __init__(self, opened: Opened, exported: Any, names: _Names) -> None:
        self._opened, self._exported, self._names = opened, exported, names
        self._places: dict[Any, int] = {}
        self._nodes: list[Any] = []

    def problem(self, notes: list[str]) -> Data:
        held = self._held()
        inlined = [one for one in held if one.part != "parameter" and self._is_constant(one)]
        arguments = [one for one in held if one not in inlined]
        if not arguments:
            raise Untraceable("no result depends on an input")
        sizes = SizeNames(_rooted([*meant_equal(self._exported).items(), *self._square(arguments)]), self._size_name)
        self._by_name = {one.name: one for one in arguments}
        for one in arguments:
            sizes.learn(one.name, one.node.meta["val"].shape, tuple(map(int, one.tensor.shape)))
        declared = [self._argument(one, sizes) for one in arguments]
        for place, one in enumerate(arguments):
            self._places[one.node] = place
        self._first = len(arguments)
        for one in inlined:
            self._inline(one)
        results = self._body()
        if any(one.part == "input" and not one.tensor.is_contiguous() for one in arguments):
            notes.append("strided_input")
        found_sizes = self._sizes(sizes)
        _tie_indices(declared, found_sizes)
        return {
            "format": 1,
            "arguments": declared,
            "sizes": found_sizes,
            "nodes": self._nodes,
            "results": results,
            "notes": notes,
        }

    def _held(self) -> list[_Held]:
        """Inputs first, as `forward` has them, then parameters and buffers; what no result needs is left out."""
        nodes = {node.name: node for node in self._exported.graph_module.graph.nodes if node.op == "placeholder"}
        state = {**self._exported.state_dict, **self._exported.constants}
        waiting = iter(zip(self._names.leaves, tensors_in(self._opened.inputs), strict=True))
        inputs: list[_Held] = []
        others: list[_Held] = []
        for spec in self._exported.graph_signature.input_specs:
            node = nodes.get(getattr(spec.arg, "name", ""))
            if spec.kind is InputKind.USER_INPUT:
                (name, place), tensor = next(waiting)
                held = _Held(node, name, tensor, "input", place)
            else:
                part = "parameter" if spec.kind is InputKind.PARAMETER else "buffer"
                held = _Held(node, "", state[spec.target], part)
            if node is None or not node.users:
                continue
            if held.part != "input":
                held.name = self._names.free(str(spec.target).removeprefix("inner."))
            (inputs if held.part == "input" else others).append(held)
        for one in (*inputs, *others):
            if str(one.tensor.dtype).removeprefix("torch.") not in DTYPES:
                raise Untraceable(f"{one.name} is {encode.dtype_name(one.tensor.dtype)}, which a task cannot have")
        return [*inputs, *others]

    def _is_constant(self, one: _Held) -> bool:
        if not is_fake(one.tensor):
            return True  # written out in the code
        return one.part != "input" and learn.is_computed(self._opened.tape, one.tensor)

    def _square(self, arguments: list[_Held]) -> list[tuple[str, str]]:
        """Sizes that must agree because the problem mixes a matrix with its transpose: `(a + a.T) / 2`."""
        pairs = []
        for one in arguments:
            if one.part == "input" and learn.mixes_axes(self._opened.tape.steps_of(one.tensor)):
                shape, values = one.node.meta["val"].shape, tuple(map(int, one.tensor.shape))
                for place, value in enumerate(values):
                    first = values.index(value)
                    pairs += [(str(shape[place]), str(shape[first]))] if first != place else []
        return pairs

    def _size_name(self, argument: str, dim: int) -> str | None:
        one = self._by_name[argument]
        return self._names.size(one.place, dim, int(one.tensor.shape[dim]))

    def _argument(self, one: _Held, sizes: SizeNames) -> Data:
        dims = sizes.dims(one.node.meta["val"].shape)
        varies = any(isinstance(dim, str) for dim in dims)
        tape = self._opened.tape
        if one.part == "input":
            draw = learn.input_draw(tape, one.tensor, varies=varies)
        else:
            draw = learn.parameter_draw(tape, one.tensor)
        named = {"name": one.name, "dims": list(dims), "dtype": encode.dtype_name(one.tensor.dtype)}
        return {**named, "draw": draw, "part": one.part}

    def _sizes(self, sizes: SizeNames) -> list[Data]:
        allowed = {str(symbol): found for symbol, found in self._exported.range_constraints.items()}
        found = []
        for symbol, name in sizes.symbols.items():
            bounds = allowed.get(symbol)
            least = max(1, int(bounds.lower)) if bounds is not None else 1
            most = int(bounds.upper) if bounds is not None and bounds.upper < 1 << 40 else None
            found.append({"name": name, "value": sizes.values[name], "least": least, "most": most})
        return found

    def _inline(self, one: _Held) -> None:
        """A table that the problem computes from nothing becomes part of what is computed."""
        if not is_fake(one.tensor):
            self._nodes.append(encode.literals(one.tensor))
            self._places[one.node] = self._first + len(self._nodes) - 1
            return
        made = encode.RecipeWriter(first=self._first + len(self._nodes))
        made.add(self._opened.tape.steps_of(one.tensor))
        self._nodes += made.nodes
        self._places[one.node] = made.place(one.tensor)

    def _body(self) -> list[int]:
        for node in self._exported.graph_module.graph.nodes:
            if node.op == "call_function":
                self._nodes.append(encode.call(node.target, node.args, node.kwargs, self._place))
                self._places[node] = self._first + len(self._nodes) - 1
            elif node.op == "output":
                return [self._places[result] for result in node.args[0]]
        raise AssertionError("a graph ends with its output")

    def _place(self, given: Any) -> int | None:
        return self._places[given] if isinstance(given, torch.fx.Node) else None


def _rooted(pairs: list[tuple[str, str]]) -> dict[str, str]:
    """Each symbol with the one that stands for all that equal it."""
    roots: dict[str, str] = {}

    def root(symbol: str) -> str:
        while symbol in roots:
            symbol = roots[symbol]
        return symbol

    for one, other in pairs:
        if root(one) != root(other):
            roots[root(one)] = root(other)
    return {symbol: root(symbol) for symbol in roots}


DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")


def _tie_indices(arguments: Sequence[Data], sizes: Sequence[Data]) -> None:
    """Whole numbers below a size are indices into it: they follow it. Where it may be any of several, or one of a
    fixed extent, no size that had room for them gets less."""
    for argument in arguments:
        draw = argument["draw"]
        if draw["kind"] != "distribution" or draw["of"] != "integers" or draw["low"] < 0 or draw["high"] <= 2:
            continue
        fitting = [size for size in sizes if size["value"] == draw["high"]]
        if len(fitting) == 1:
            draw["high"] = fitting[0]["name"]
            continue
        for size in sizes:
            if size["value"] >= draw["high"]:
                size["least"] = max(size["least"], draw["high"])


def one_line(error: BaseException, path: Path) -> str:
    """In the author's own terms: the reason, and the line of the file from which it came."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "no message")
    known = isinstance(error, Untraceable | TaskError)
    reason = text if known else f"{type(error).__name__}: {text}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    where = f" (line {lines[-1]})" if lines and not isinstance(error, TaskError) else ""
    return reason.replace(f"{path}:", "line ")[:LONGEST] + where


def _spent() -> Data:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {"cpu_seconds": used.ru_utime + used.ru_stime, "peak_mib": used.ru_maxrss >> 10}


def main(source: Path, output: Path, call: Callable[[Path], Data] = trace) -> int:
    try:
        made: Data = {**call(source), "spent": _spent()}
        text = json.dumps(made, allow_nan=False)
    except BaseException as error:  # whatever a problem does, SystemExit included, is its fault
        text = json.dumps({"error": one_line(error, source)})
    output.write_text(text, encoding="utf-8")
    sys.stdout.flush()
    os._exit(0)  # no thread or exit handler of the problem goes on


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
