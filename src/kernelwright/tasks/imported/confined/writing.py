"""Writes a traced problem: arguments and sizes by names that the author would know, and the graph's nodes."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.export.graph_signature import InputKind

from kernelwright.tasks.dims import names_in
from kernelwright.tasks.dtypes import DTYPES
from kernelwright.tasks.exporting import SizeNames, meant_equal
from kernelwright.tasks.imported.confined import encode, learn
from kernelwright.tasks.imported.confined.case import Bench, Leaf, ReferenceCase
from kernelwright.tasks.imported.confined.surgery import DRAWN
from kernelwright.tasks.imported.confined.tape import Draws, Untraceable, is_fake
from kernelwright.tasks.source_lines import line_of

Data = dict[str, Any]
_WORDS = """alignas alignof and asm auto bool case catch char class const constexpr default delete do double else enum
explicit export extern float for goto if inline int long mutable namespace new not nullptr operator or private protected
public register return short signed sizeof static struct switch template this throw try typedef typename union unsigned
using virtual void volatile while xor out kernel in from import lambda def del pass None True False global is yield
async await with raise except finally assert break continue elif nonlocal"""
RESERVED = frozenset(_WORDS.split())  # of C++ and Python, and what a kernel calls its own


class _Names:
    """Names of arguments and sizes that the author would know them by."""

    def __init__(self, case: ReferenceCase) -> None:
        self._hints = case.hints
        self._taken: set[str] = set()
        self.leaves = [(leaf, self.free(leaf.name)) for leaf in case.leaves if _is_argument(leaf)]

    def free(self, wanted: str) -> str:
        base = re.sub(r"\W+", "_", wanted, flags=re.ASCII).strip("_")[:60] or "x"
        base = f"{base}_" if base in RESERVED else f"x{base}" if base[0].isdigit() else base
        name, number = base, 2
        while name in self._taken:
            name, number = f"{base}_{number}", number + 1
        self._taken.add(name)
        return name

    def size(self, leaf: Leaf | None, dim: int, value: int) -> str | None:
        if leaf is None:
            return None
        axis = leaf.axes[dim] if leaf.axes is not None else None
        named = isinstance(axis, str) and axis.isidentifier()
        found = str(axis) if named else self._hints.name(leaf.place, dim, value)
        return None if found is None or found in self._taken or found in RESERVED else found


def _is_argument(leaf: Leaf) -> bool:
    return isinstance(leaf.value, torch.Tensor) or (leaf.told and math.isfinite(leaf.value))


def held_inputs(exported: Any, case: ReferenceCase) -> list[tuple[Any, Leaf]]:
    """The placeholders of the graph that stand for inputs, with those."""
    nodes = {node.name: node for node in exported.graph_module.graph.nodes if node.op == "placeholder"}
    specs = [one for one in exported.graph_signature.input_specs if one.kind is InputKind.USER_INPUT]
    pairs = zip(specs, case.tensors, strict=True)
    return [(nodes[spec.arg.name], leaf) for spec, leaf in pairs if getattr(spec.arg, "name", "") in nodes]


@dataclass
class _Held:
    """A placeholder of the graph, with the tensor that it stands for."""

    node: Any
    name: str
    tensor: torch.Tensor
    part: str
    leaf: Leaf | None = None
    drawn: Draws | None = None  # of random numbers that the code itself draws
    path: str = ""  # in the module


class ProblemWriter:
    def __init__(self, bench: Bench, exported: Any, case: ReferenceCase, unwritten: set[str]) -> None:
        self._bench, self._exported, self._case = bench, exported, case
        self._names, self._unwritten = _Names(case), unwritten
        self._places: dict[Any, int] = {}
        self._nodes: list[Any] = []
        self._lines: list[Data] = []
        self.declared: list[tuple[Leaf, list[int | str]]] = []  # inputs, with the sizes that they are declared with

    def problem(self, notes: list[str]) -> Data:
        held = self._held()
        inlined = [one for one in held if one.part != "parameter" and self._is_constant(one)]
        arguments = [one for one in held if one not in inlined]
        made = [one for one in arguments if one.node.name in self._unwritten and self._shape_of(one, arguments)]
        arguments = [one for one in arguments if one not in made]
        if not arguments:
            raise Untraceable("no result depends on an input")
        sizes = SizeNames(_rooted([*meant_equal(self._exported).items(), *self._agreeing(arguments)]), self._size_name)
        self._by_name = {one.name: one for one in arguments}
        for one in arguments:
            sizes.learn(one.name, one.node.meta["val"].shape, tuple(map(int, one.tensor.shape)))
        declared = [self._argument(one, sizes) for one in arguments]
        self.declared = [(one.leaf, data["dims"]) for one, data in zip(arguments, declared, strict=True) if one.leaf]
        for place, one in enumerate(arguments):
            self._places[one.node] = place
        self._first = len(arguments)
        for one in inlined:
            self._inline(one)
        for one in made:
            self._make(one, arguments)
        results = self._body()
        if any(one.part == "input" and not one.tensor.is_contiguous() for one in arguments):
            notes.append("strided_input")
        found_sizes = self._sizes(sizes)
        _tie_indices(declared, found_sizes)
        named = self._case.outputs if len(self._case.outputs) == len(results) else ()
        return {
            "format": 1,
            "arguments": declared,
            "sizes": found_sizes,
            "nodes": self._nodes,
            "lines": self._lines,
            "results": results,
            "notes": list(dict.fromkeys([*notes, *(["unwritten_input"] if made else [])])),
            "numbers": self._numbers([one.leaf for one in arguments]),
            "outputs": [self._names.free(name) for name in named] or None,
            "tolerance": self._case.tolerance,
            "initial": encode.initial(self._case.initial),
            "fixed": encode.fixed(self._case.inputs),
        }

    def _numbers(self, arguments: list[Leaf | None]) -> list[Data]:
        """Numbers that a kernel is told, at the places that they have among the arguments of the call."""
        kept = [pair for pair in self._names.leaves if pair[0].told or any(pair[0] is one for one in arguments)]
        return [
            {"name": name, "value": leaf.value, "place": place} for place, (leaf, name) in enumerate(kept) if leaf.told
        ]

    def _held(self) -> list[_Held]:
        """Inputs first, as the function has them, then parameters and buffers; what no result needs is left out."""
        nodes = {node.name: node for node in self._exported.graph_module.graph.nodes if node.op == "placeholder"}
        state = {**self._exported.state_dict, **self._exported.constants}
        waiting = iter([pair for pair in self._names.leaves if isinstance(pair[0].value, torch.Tensor)])
        inputs: list[_Held] = []
        others: list[_Held] = []
        for spec in self._exported.graph_signature.input_specs:
            node = nodes.get(getattr(spec.arg, "name", ""))
            if spec.kind is InputKind.USER_INPUT:
                leaf, name = next(waiting)
                held = _Held(node, name, leaf.value, leaf.part, leaf)
            else:
                part = "parameter" if spec.kind is InputKind.PARAMETER else "buffer"
                held = _Held(node, "", state[spec.target], part)
            if node is None or not node.users:
                continue
            if held.leaf is None:
                held.path = re.sub(r"^inner\.(kept_module\.)?", "", str(spec.target))
                held.name = self._names.free(held.path)
            elif held.part != "input":
                held.path = held.leaf.name
            (others if held.leaf is None else inputs).append(held)
        others += [self._drawn(node) for node in nodes.values() if DRAWN in node.meta]
        for one in (*inputs, *others):
            if str(one.tensor.dtype).removeprefix("torch.") not in DTYPES:
                raise Untraceable(f"{one.name} is {encode.dtype_name(one.tensor.dtype)}, which a task cannot have")
        return [*inputs, *others]

    def _drawn(self, node: Any) -> _Held:
        made = node.meta["val"]
        with self._bench.fake:
            example = torch.empty(
                [size if isinstance(size, int) else size.node.hint for size in made.shape], dtype=made.dtype
            )
        return _Held(node, self._names.free(node.name), example, "input", drawn=node.meta[DRAWN])

    def _is_constant(self, one: _Held) -> bool:
        if one.drawn is not None:
            return False
        if not is_fake(one.tensor):
            return True  # written out in the code
        return one.part != "input" and learn.is_computed(self._bench.tape, one.tensor)

    def _shape_of(self, one: _Held, arguments: list[_Held]) -> list[Any] | None:
        """Sizes as numbers, or as an argument and its axis; None where no argument has one of them."""
        found: list[Any] = []
        others = [other for other in arguments if other.node.name not in self._unwritten]
        for size in one.node.meta["val"].shape:
            pairs = [(o, axis) for o in others for axis, own in enumerate(o.node.meta["val"].shape) if own is size]
            pairs = pairs or [
                (o, axis)
                for o in others
                for axis, own in enumerate(o.node.meta["val"].shape)
                if not isinstance(own, int) and str(own) == str(size)
            ]
            if not isinstance(size, int) and not pairs:
                return None
            found.append(size if isinstance(size, int) else pairs[0])
        return found

    def _make(self, one: _Held, arguments: list[_Held]) -> None:
        """Memory for a result that the problem hands to its reference, which never reads it."""
        shape: list[Any] = []
        for size in self._shape_of(one, arguments) or ():
            if isinstance(size, int):
                shape.append(size)
                continue
            other, axis = size
            args = [{"node": self._places[other.node]}, axis]
            self._nodes.append({"kind": "call", "op": "aten.sym_size.int", "args": args})
            shape.append({"node": self._first + len(self._nodes) - 1})
        dtype = {"dtype": {"dtype": encode.dtype_name(one.tensor.dtype)}}
        self._nodes.append({"kind": "call", "op": "aten.zeros.default", "args": [{"items": shape}], "kwargs": dtype})
        self._places[one.node] = self._first + len(self._nodes) - 1

    def _agreeing(self, arguments: list[_Held]) -> list[tuple[str, str]]:
        return [*self._square(arguments), *self._named_alike(arguments)]

    def _named_alike(self, arguments: list[_Held]) -> list[tuple[str, str]]:
        """Sizes that must agree because the form gives them one name, or says how one follows from others."""
        known: dict[str, str] = {}
        pairs, following = [], []
        for one in arguments:
            axes = one.leaf.axes if one.leaf is not None else None
            for axis, size in zip(axes or (), one.node.meta["val"].shape, strict=False):
                if not isinstance(axis, str) or not str(size).isidentifier():
                    continue
                if not axis.isidentifier():
                    following.append((axis, str(size)))
                elif known.setdefault(axis, str(size)) != str(size):
                    pairs.append((str(size), known[axis]))
        for expression, symbol in following:
            if names_in(expression) <= set(known) and symbol not in known.values():
                text = re.sub(r"[A-Za-z_]\w*", lambda found: known[found[0]], expression)
                pairs.append((symbol, f"({text})"))
        return pairs

    def _square(self, arguments: list[_Held]) -> list[tuple[str, str]]:
        """Sizes that must agree because the problem mixes a matrix with its transpose: `(a + a.T) / 2`."""
        pairs = []
        for one in arguments:
            if one.part == "input" and one.drawn is None and learn.mixes_axes(self._bench.tape.steps_of(one.tensor)):
                shape, values = one.node.meta["val"].shape, tuple(map(int, one.tensor.shape))
                for place, value in enumerate(values):
                    first = values.index(value)
                    pairs += [(str(shape[place]), str(shape[first]))] if first != place else []
        return pairs

    def _size_name(self, argument: str, dim: int) -> str | None:
        one = self._by_name[argument]
        return self._names.size(one.leaf, dim, int(one.tensor.shape[dim]))

    def _argument(self, one: _Held, sizes: SizeNames) -> Data:
        dims = sizes.dims(one.node.meta["val"].shape)
        varies = any(isinstance(dim, str) for dim in dims)
        tape = self._bench.tape
        if one.drawn is not None:
            draw = learn.distribution(one.drawn.of, one.drawn.low, one.drawn.high)
        elif one.part == "input":
            draw = learn.input_draw(tape, one.tensor, varies=varies)
        else:
            draw = learn.parameter_draw(tape, one.tensor)
        named = {"name": one.name, "dims": list(dims), "dtype": encode.dtype_name(one.tensor.dtype)}
        return {**named, "draw": draw, "part": one.part, "path": one.path}

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
        made.add(self._bench.tape.steps_of(one.tensor))
        self._nodes += made.nodes
        self._places[one.node] = made.place(one.tensor)

    def _body(self) -> list[int]:
        for node in self._exported.graph_module.graph.nodes:
            if node.op == "call_function":
                self._nodes.append(encode.call(node.target, node.args, node.kwargs, self._place))
                self._places[node] = self._first + len(self._nodes) - 1
                self._note_line(node)
            elif node.op == "output":
                return [self._places[result] for result in node.args[0]]
        raise AssertionError("a graph ends with its output")

    def _note_line(self, node: Any) -> None:
        """Of one of the problem's own files, from which the last node comes."""
        line, folder = line_of(node.meta.get("stack_trace")), self._bench.folder
        if line is not None and folder is not None and Path(line.file).is_relative_to(folder):
            file = str(Path(line.file).relative_to(folder))
            self._lines.append({"node": len(self._nodes) - 1, "file": file, "line": line.line})

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
