"""How sizes follow from sizes, operation by operation: windows, slices, joins and views each have a rule.

A chain of rules says what a size deep in a large reference is in terms of the arguments' sizes, which a trace with
symbols (closed_forms.py) says too, but in minutes where a network has a hundred layers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx

from kernelwright.proposers.templates.closed_forms import ClosedForms, TracedNodes, tensor_operations, varying
from kernelwright.proposers.templates.graph import Extent, Shape, total

SIZE = re.compile(r"\{(\d+),(\d+)\}")
POWERS = (0.5, -0.5, -1.0, 0.25, -0.25)  # of a size: what scales are, where torch computes them by itself
END = 1 << 62  # what torch writes for "to the end" is larger
Samples = Mapping[Extent, tuple[int, ...]]  # what sizes of arguments are at other choices of sizes
Rule = Callable[["_Step"], Iterator[tuple[Extent, str]]]


def text(extent: Extent) -> str:
    return str(extent.literal) if extent.literal is not None else f"{{{extent.first},{extent.second}}}"


def _shape(one: Any, other: Any) -> Shape:
    return tuple(Extent(int(a), int(b)) for a, b in zip(one.shape, other.shape, strict=True))


@dataclass(frozen=True)
class _Step:
    """One operation in both traces."""

    one: torch.fx.Node
    other: torch.fx.Node

    def given(self, place: int) -> Shape:
        pair = (self.one.args[place], self.other.args[place])
        return _shape(*(node.meta["val"] for node in pair if isinstance(node, torch.fx.Node)))

    @property
    def made(self) -> Shape:
        pair = (self.one.meta["val"], self.other.meta["val"])
        return _shape(*(value[0] if isinstance(value, list | tuple) else value for value in pair))

    def argument(self, place: int, name: str, default: Any = None) -> Any:
        """A number, as an extent; a list of numbers, as a list of such; or whatever else it is."""
        found = [n.args[place] if place < len(n.args) else n.kwargs.get(name, default) for n in (self.one, self.other)]
        return _paired(*found)


def _paired(one: Any, other: Any) -> Any:
    if isinstance(one, list | tuple):
        return [_paired(a, b) for a, b in zip(one, other, strict=True)]
    if isinstance(one, int) and isinstance(other, int) and not isinstance(one, bool):
        return Extent(one, other)
    return one


@dataclass
class SizeForms:
    """What is known of sizes. A size that two rules give, and differently, is ambiguous."""

    samples: Samples
    found: ClosedForms = field(default_factory=ClosedForms)
    values: dict[Extent, tuple[int, ...]] = field(default_factory=dict)

    def known(self, extent: Extent) -> bool:
        return extent.literal is not None or extent in self.samples or extent in self.found.sizes

    def value(self, extent: Extent) -> tuple[int, ...]:
        if extent.literal is not None:
            count = len(next(iter(self.samples.values()), ()))
            return (extent.literal,) * count
        return self.samples[extent] if extent in self.samples else self.values[extent]

    def evaluated(self, form: str) -> tuple[int, ...] | None:
        parts = {name: Extent(int(name[1]), int(name[2])) for name in SIZE.finditer(form)}
        extents = list(dict.fromkeys(parts.values()))
        if not all(self.known(extent) for extent in extents):
            return None
        count = len(next(iter(self.samples.values()), ()))
        made = []
        for sample in range(count):
            at = {extent: self.value(extent)[sample] for extent in extents}
            written = SIZE.sub(lambda s, at=at: str(at[Extent(int(s[1]), int(s[2]))]), form)  # type: ignore[misc]
            made.append(int(eval(written.replace("/", "//"), {"__builtins__": {}})))  # arithmetic of our own making
        return tuple(made)

    def learn(self, extent: Extent, form: str) -> None:
        if form == text(extent):
            return
        at = [SIZE.sub(lambda s, w=which: s[w], form).replace("/", "//") for which in (1, 2)]  # type: ignore[misc]
        if [eval(one, {"__builtins__": {}}) for one in at] != [extent.first, extent.second]:
            return
        values = self.evaluated(form)
        if values is None:
            return
        if not self.known(extent):
            self.found.sizes[extent] = form
            self.values[extent] = values
        elif self.value(extent) != values:  # also a size that is only the same in both traces
            self.found.ambiguous.add(extent)

    def runs(self, shape: Shape) -> None:
        """Products of neighbouring dimensions, which views make."""
        for low in range(len(shape)):
            for high in range(low + 2, len(shape) + 1):
                run = [extent for extent in shape[low:high] if not extent.single]
                if len(run) > 1 and all(self.known(extent) for extent in run):
                    self.learn(total(tuple(run)), "(" + " * ".join(text(extent) for extent in run) + ")")


def size_forms(
    first: TracedNodes, second: TracedNodes, samples: Samples, sure: Callable[[float], bool]
) -> tuple[ClosedForms, bool]:
    """ClosedForms, and whether they say how every number follows that varies; `sure` knows numbers from scalars."""
    forms = SizeForms(samples)
    complete = True
    for one, other in zip(tensor_operations(first), tensor_operations(second), strict=False):
        rule = RULES.get(str(getattr(one.target, "overloadpacket", one.target)).rpartition(".")[2])
        if rule is not None:
            for extent, form in rule(_Step(one, other)):
                forms.learn(extent, form)
        for pair in zip(_values(one), _values(other), strict=False):
            forms.runs(_shape(*pair))
        for a, b in varying(one, other):
            complete = complete and (sure(a) or _explained(forms, a, b))
    return forms.found, complete


def _values(node: torch.fx.Node) -> list[torch.Tensor]:
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        return [value]
    return [one for one in value if isinstance(one, torch.Tensor)] if isinstance(value, list | tuple) else []


def _explained(forms: SizeForms, one: float, other: float) -> bool:
    if float(one).is_integer() and float(other).is_integer():
        extent = Extent(int(one), int(other))
        return forms.known(extent) or forms.known(Extent(extent.first + 1, extent.second + 1))
    sizes = (*forms.samples, *forms.found.sizes)
    return any(
        all(abs(n**power / v - 1) < 1e-14 for n, v in ((size.first, one), (size.second, other)) if n > 0)
        for size in sizes
        for power in POWERS
    )


def _slid(size: Extent, kernel: int, stride: int, padding: int, dilation: int) -> str:
    more = 2 * padding - dilation * (kernel - 1) - 1
    return f"(({text(size)} + ({more})) / {stride} + 1)"


def _slid_by(size: Extent, kernel: Extent, stride: int, padding: int, dilation: int) -> str:
    """By a window whose own size varies."""
    return f"(({text(size)} + {2 * padding + dilation - 1} - {dilation} * {text(kernel)}) / {stride} + 1)"


def _numbers(value: Any, rank: int) -> list[int]:
    values = [extent.first for extent in (value if isinstance(value, list) else [value]) if isinstance(extent, Extent)]
    return values * rank if len(values) == 1 else values


def _convolution(step: _Step) -> Iterator[tuple[Extent, str]]:
    source, weight, made = step.given(0), step.given(1), step.made
    rank = len(made) - 2
    stride, padding, dilation, extra = (_numbers(step.argument(place, ""), rank) for place in (3, 4, 5, 7))
    for n in range(rank):
        kernel = weight[2 + n].literal
        if kernel is None:
            if not step.one.args[6]:
                yield made[2 + n], _slid_by(source[2 + n], weight[2 + n], stride[n], padding[n], dilation[n])
        elif step.one.args[6]:
            more = dilation[n] * (kernel - 1) + extra[n] + 1 - 2 * padding[n]
            yield made[2 + n], f"(({text(source[2 + n])} - 1) * {stride[n]} + ({more}))"
        else:
            yield made[2 + n], _slid(source[2 + n], kernel, stride[n], padding[n], dilation[n])


def _pooling(step: _Step) -> Iterator[tuple[Extent, str]]:
    name = str(step.one.target)
    source, made = step.given(0), step.made
    rank = int(name.partition("_pool")[2][0])
    kernel = _numbers(step.argument(1, "kernel_size"), rank)
    stride = _numbers(step.argument(2, "stride", []), rank) or kernel
    padding = _numbers(step.argument(3, "padding", 0) or Extent(0, 0), rank) or [0] * rank
    largest = "max_pool" in name
    dilation = _numbers(step.argument(4, "dilation", 1), rank) if largest else [1] * rank
    ceil = step.argument(5 if largest else 4, "ceil_mode", False)
    for n in range(rank):
        size = source[len(source) - rank + n]
        each = (kernel[n], stride[n], padding[n], (dilation or [1] * rank)[n])
        if not ceil:
            yield made[len(made) - rank + n], _slid(size, *each)
        else:
            more = 2 * each[2] - each[3] * (each[0] - 1) - 1 + each[1] - 1
            up = f"(({text(size)} + ({more})) / {each[1]} + 1)"
            # A window that would begin in the padding behind is left out.
            over = f"((({up} - 1) * {each[1]}) / ({text(size)} + {each[2]}))"
            yield made[len(made) - rank + n], f"({up} - (1 - (1 / ({over} + 1))))" if each[1] > 1 else up


def _slice(step: _Step) -> Iterator[tuple[Extent, str]]:
    source = step.given(0)
    dim = int(step.one.args[1] if len(step.one.args) > 1 else 0) % len(source)  # type: ignore[arg-type]
    start, end, every = (step.argument(p, n, d) for p, n, d in ((2, "start", 0), (3, "end", END), (4, "step", 1)))
    size = source[dim]
    if not isinstance(every, Extent) or every.literal is None:
        return
    for place in (start, end):  # half of a size, computed from it in Python, where nothing was traced
        parts = size.first // place.first if isinstance(place, Extent) and 0 < place.first < END else 0
        if parts > 1 and place.literal is None and place * Extent(parts, parts) == size:
            yield place, f"({text(size)} / {parts})"
    begin = _from_front(size, start, "0")
    close = _from_front(size, end, text(size))
    yield step.made[dim], f"(({close} - {begin} + ({every.literal - 1})) / {every.literal})"


def _from_front(size: Extent, place: Any, default: str) -> str:
    if not isinstance(place, Extent) or place.first >= END:
        return default
    if place.first >= size.first and place.second >= size.second:
        return text(size)
    if place.first < 0:
        away = f"({place.literal})" if place.literal is not None else f"(-{text(Extent(-place.first, -place.second))})"
        return f"({text(size)} + {away})"
    return text(place)


def _cat(step: _Step) -> Iterator[tuple[Extent, str]]:
    parts, others = step.one.args[0], step.other.args[0]
    made = step.made
    dim = int(step.argument(1, "dim", 0).first) % len(made)
    assert isinstance(parts, list | tuple) and isinstance(others, list | tuple)
    pairs = [(a.meta["val"], b.meta["val"]) for a, b in zip(parts, others, strict=True)]
    shapes = [_shape(*pair) for pair in pairs if pair[0].dim() == len(made)]
    yield made[dim], "(" + " + ".join(text(shape[dim]) for shape in shapes) + ")"


def _padded(step: _Step) -> Iterator[tuple[Extent, str]]:
    source, made, amounts = step.given(0), step.made, step.argument(1, "pad")
    for number in range(len(amounts) // 2):
        dim = len(source) - 1 - number
        low, high = amounts[2 * number : 2 * number + 2]
        added = [f"({e.literal})" if e.literal is not None else text(e) for e in (low, high)]
        yield made[dim], f"({text(source[dim])} + {added[0]} + {added[1]})"


def _counted(step: _Step) -> Iterator[tuple[Extent, str]]:
    ends = [_paired(a, b) for a, b in zip(step.one.args, step.other.args, strict=True)]
    if not all(isinstance(end, Extent) for end in ends) or not step.made:
        return
    start, end = (Extent(0, 0), ends[0]) if len(ends) == 1 else (ends[0], ends[1])
    every = ends[2] if len(ends) > 2 else Extent(1, 1)
    if every.literal is not None and every.literal > 0:
        yield step.made[0], f"(({text(end)} - {text(start)} + ({every.literal - 1})) / {every.literal})"


def _viewed(step: _Step) -> Iterator[tuple[Extent, str]]:
    """A dimension that is what the others of its run leave."""
    from kernelwright.proposers.templates.nests.nest_code import matched

    given, made = step.given(0), step.made
    for outs, ins in matched(made, given):
        whole = [text(given[dim]) for dim in ins if not given[dim].single]
        for dim in outs:
            others = [text(made[one]) for one in outs if one != dim and not made[one].single]
            if whole and not made[dim].single and (others or len(whole) > 1):
                divided = f" / ({' * '.join(others)})" if others else ""
                yield made[dim], f"(({' * '.join(whole)}){divided})"


def _unfolded(step: _Step) -> Iterator[tuple[Extent, str]]:
    source = step.given(0)
    dim, size, every = (int(a) for a in step.one.args[1:4])  # type: ignore[arg-type]
    yield step.made[dim % len(source)], f"(({text(source[dim % len(source)])} - {size}) / {every} + 1)"


def _repeated(step: _Step) -> Iterator[tuple[Extent, str]]:
    source, made, times = step.given(0), step.made, step.argument(1, "repeats")
    lifted = (Extent(1, 1),) * (len(made) - len(source)) + source
    for size, count, result in zip(lifted, times, made, strict=True):
        yield result, f"({text(size)} * {text(count)})"


def _divided(step: _Step) -> Iterator[tuple[Extent, str]]:
    """split by one size: the last part is what is left."""
    source, size = step.given(0), step.argument(1, "split_size")
    dim = int(step.argument(2, "dim", 0).first) % len(source)
    if isinstance(size, Extent):
        count = len(step.one.meta["val"])
        last = _shape(step.one.meta["val"][-1], step.other.meta["val"][-1])[dim]
        yield last, f"({text(source[dim])} - {count - 1} * {text(size)})"
        if size.literal is None and source[dim].first == count * size.first:
            yield size, f"({text(source[dim])} / {count})"


RULES: dict[str, Rule] = {
    "convolution": _convolution,
    **{f"max_pool{rank}d_with_indices": _pooling for rank in (1, 2, 3)},
    **{f"avg_pool{rank}d": _pooling for rank in (1, 2, 3)},
    "slice": _slice,
    "cat": _cat,
    "constant_pad_nd": _padded,
    "arange": _counted,
    **dict.fromkeys(("view", "reshape", "_unsafe_view"), _viewed),
    "unfold": _unfolded,
    "repeat": _repeated,
    "split": _divided,
}


def samples_of(forms: Sequence[Mapping[str, tuple[int, ...]]]) -> dict[Extent, tuple[int, ...]]:
    """From the shapes of arguments at several choices of sizes, of which the first two are those of the traces."""
    found: dict[Extent, tuple[int, ...]] = {}
    for name, shape in forms[0].items():
        for dim in range(len(shape)):
            values = [form[name][dim] for form in forms]
            extent = Extent(values[0], values[1])
            if extent.literal is None:
                found.setdefault(extent, tuple(values[2:]))
    return found


__all__ = ["SizeForms", "samples_of", "size_forms", "text"]
