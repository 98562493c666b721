"""Finds the products of a reference, and puts rows of one or two terms into what they multiply.

In a row with one or two terms float32 makes almost no error, and a mantissa bit that a kernel drops from its factors
shows in every element; among hundreds of terms it hides. So a few rows of every trial are such *probe rows*: full
mantissas, scales of their own, and exact zeros elsewhere, as behind a ReLU or in padding. What is held against them is
in the oracle (`probe_rows`).

Products are found by running the reference once without data: which inputs arrive at a product as they are or as a view
of themselves, and which of their axes it sums over. Images get a probe row as a whole: one pixel for every window.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from kernelwright.tasks.declarations import FamilyDraw, TensorInput, Upstream
from kernelwright.tasks.dims import TaskError
from kernelwright.tasks.model import Task, Workload
from kernelwright.tasks.reference import Argument, call_reference, storage_of

ROWS, ONE_ROW_IN = 4, 32  # of each kind at most so many rows, and one in so many
IMAGES, ONE_IMAGE_IN = 2, 16
TERMS = 2
LEAST = 8  # values of a row; shorter ones have few terms anyway
LOWEST, HIGHEST = -1.0, 10.0  # octaves: mostly far above a bias, which would hide the product
KNOWN = 64

_PRODUCTS = {"mm": (0, 1), "addmm": (1, 2), "bmm": (0, 1), "baddbmm": (1, 2), "mv": (0, 1), "dot": (0, 1)}
_CONVOLUTIONS = {"convolution": (0, 1), "convolution_backward": (0, 2)}


@dataclass(frozen=True)
class Operand:
    """An input that is multiplied, and the axes of it that are summed over. A convolution also has a window."""

    name: str
    axes: tuple[int, ...]
    window: tuple[int, ...] = ()


@dataclass(frozen=True)
class Products:
    """What a reference, or one step of it, multiplies. `depth`: terms of the longest product of values that were
    computed, `blurred`: one of them is a convolution."""

    operands: tuple[Operand, ...] = ()
    depth: int = 0
    blurred: bool = False

    @property
    def mixes(self) -> bool:
        """Whether more than the terms of a probe row itself is rounded: computed values, or a transformed image."""
        return self.depth > 0 or any(max(operand.window, default=1) > 1 for operand in self.operands)


Arguments = Callable[[], Mapping[str, Argument]]
_known: OrderedDict[tuple[int, Workload], tuple[Task, Products]] = OrderedDict()


def products(task: Task, workload: Workload, without_data: Arguments) -> Products:
    """The products of a reference; none where it cannot run without data. `without_data` gives its arguments."""
    key = (id(task), workload)
    if key not in _known:
        _known[key] = (task, _traced(task, workload, without_data))  # the task is kept, so that its id stays its own
        if len(_known) > KNOWN:
            _known.popitem(last=False)
    return _known[key][1]


def _traced(task: Task, workload: Workload, without_data: Arguments) -> Products:
    if workload.dtype != "float32":  # the factors of narrower tasks have few bits, and float32 factors show in a double
        return Products()
    try:
        arguments = dict(without_data())
        with _Tracer(arguments) as tracer:
            results = call_reference(task, arguments)
    except TaskError:
        return Products()
    found = tracer.needed_for(results.values())
    choices = [[one for one in product.operands if _is_drawn(task, one.name)] for product in found]
    chosen: dict[str, Operand] = {}
    for drawn in sorted(choices, key=len):  # who has no choice goes first
        free = [one for one in drawn if chosen.get(one.name, one) == one]
        if free:
            chosen[free[0].name] = free[0]
    depth = max((product.depth for product in found), default=0)
    return Products(tuple(chosen.values()), depth, any(product.blurred for product in found))


def _is_drawn(task: Task, name: str) -> bool:
    """Whether an input is data. A parameter has a distribution of its own, and a constant stays as it is."""
    declared = task.inputs[name]
    data = isinstance(declared, TensorInput | Upstream) and isinstance(declared.draw, FamilyDraw)
    return data and name not in task.constant


class _Tracer(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes each operation's products, and which storages it reads and makes."""

    def __init__(self, arguments: Mapping[str, Argument]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._inputs = {storage_of(v): (n, v) for n, v in arguments.items() if isinstance(v, torch.Tensor)}
        self._steps: list[tuple[Products | None, set[int], set[int]]] = []
        self._held: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func.overloadpacket.__name__)
        product = None
        if name in _PRODUCTS:
            product = self._product(*(args[place] for place in _PRODUCTS[name]))
        elif name in _CONVOLUTIONS:
            product = self._convolution(*(args[place] for place in _CONVOLUTIONS[name]))
        result = func(*args, **(kwargs or {}))
        read, made = _storages((args, kwargs)), _storages(result)
        if name.endswith("_"):  # an input that was written to holds something else from now on
            for storage in made:
                self._inputs.pop(storage, None)
        self._steps.append((product, read, made))
        self._held.append(result)  # so that no storage serves twice
        return result

    def needed_for(self, results: Iterable[torch.Tensor]) -> list[Products]:
        """The products on the way to some results; a backward repeats the forward's and may not need them."""
        needed = _storages(list(results))
        found = []
        for product, read, made in reversed(self._steps):
            if made & needed:
                needed |= read
                found += [product] if product is not None else []
        return found[::-1]

    def _product(self, left: torch.Tensor, right: torch.Tensor) -> Products:
        sides = (self._operand(left, left.dim() - 1), self._operand(right, max(right.dim() - 2, 0)))
        found = tuple(side for side in sides if side is not None)
        return Products(found, 0 if len(found) == 2 else left.shape[-1])

    def _convolution(self, image: torch.Tensor, weight: torch.Tensor) -> Products:
        window = tuple(weight.shape[2:])
        source = self._inputs.get(storage_of(image))
        if source is not None and source[1].shape == image.shape and source[1].stride() == image.stride():
            return Products((Operand(source[0], tuple(range(1, image.dim())), window),))
        return Products((), math.prod(weight.shape[1:]), max(window, default=1) > 1)

    def _operand(self, value: torch.Tensor, dim: int) -> Operand | None:
        """The input that a factor is a view of, with the axes of it that the factor has as its axis `dim`."""
        source = self._inputs.get(storage_of(value))
        if source is None or value.storage_offset() or value.numel() != source[1].numel():
            return None
        name, whole = source
        size, stride = value.shape[dim], value.stride(dim)
        for last in reversed(range(whole.dim())):
            for first in range(last, -1, -1):
                if whole.stride(last) == stride and math.prod(whole.shape[first : last + 1]) == size:
                    return Operand(name, tuple(range(first, last + 1)))
        return None


def _storages(tree: Any) -> set[int]:
    return {storage_of(leaf) for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)}


def with_probe_rows(found: Products, name: str, value: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """The drawn values of an input, with a few probe rows at random places if it is the operand of a product."""
    for operand in found.operands:
        if operand.name == name and value.dtype == torch.float32:
            _plant(operand, value, generator, _few(operand, value, generator))
    return value


def wide_products(found: Products, drawn: dict[str, Argument], generator: torch.Generator, octaves: float) -> bool:
    """Makes every row of the operands a probe row and gives every other value a scale of its own, up to
    2^+-octaves; False where the reference has no products of its inputs alone."""
    if not found.operands or found.mixes:
        return False
    operands = {operand.name: operand for operand in found.operands}
    for name, value in drawn.items():
        if not isinstance(value, torch.Tensor) or value.dtype != torch.float32:
            continue
        if name in operands:
            axes = operands[name].axes
            rows = value.numel() // math.prod(value.shape[axis] for axis in axes)
            _plant(operands[name], value, generator, torch.arange(rows, device=value.device))
        else:
            exponents = torch.rand(value.shape, generator=generator, device=value.device)
            value.mul_(exponents.mul_(2 * octaves).sub_(octaves).exp2_())
    return True


def _few(operand: Operand, value: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Which rows; in a tensor of few rows one, and only as often as one row in all trials comes to."""
    length = math.prod(value.shape[axis] for axis in operand.axes)
    rows = value.numel() // length
    most, one_in = (IMAGES, ONE_IMAGE_IN) if operand.window else (TERMS * ROWS, ONE_ROW_IN // TERMS)
    count = min(most, rows // one_in)
    if count == 0:
        count = int(generator.initial_seed() % one_in < rows)
    if length < LEAST:
        count = 0
    return torch.randint(rows, (count,), generator=generator, device=generator.device)


def _plant(operand: Operand, value: torch.Tensor, generator: torch.Generator, rows: torch.Tensor) -> None:
    if not rows.numel():
        return
    strides, shape = value.stride(), value.shape
    kept = [axis for axis in range(value.dim()) if axis not in operand.axes]
    base = _offsets(rows, [shape[axis] for axis in kept], [strides[axis] for axis in kept])
    sizes, steps = [shape[axis] for axis in operand.axes], [strides[axis] for axis in operand.axes]
    length = math.prod(sizes)
    along = _offsets(torch.arange(length, device=value.device), sizes, steps)
    flat = value.view(-1)
    places = base.unsqueeze(1) + along
    if operand.window:
        flat[places] = _pixels(generator, rows.numel(), sizes, operand.window)
        return
    terms = torch.randint(length, (rows.numel(), TERMS), generator=generator, device=value.device)
    values = _full(generator, (rows.numel(), TERMS))
    values[::2, 1:] = values[::2, :1]
    terms[::2, 1:] = terms[::2, :1]  # every other row has one term
    flat[places] = 0.0
    flat[places.gather(1, terms)] = values


def _offsets(numbers: torch.Tensor, sizes: list[int], strides: list[int]) -> torch.Tensor:
    """Where in memory the numbered places of some axes begin."""
    offsets = torch.zeros_like(numbers)
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        offsets = offsets + numbers % size * stride
        numbers = numbers // size
    return offsets


def _pixels(generator: torch.Generator, count: int, sizes: list[int], window: tuple[int, ...]) -> torch.Tensor:
    """Images with one channel of single pixels, each alone under its window."""
    device = generator.device
    images = torch.zeros(count, *sizes, device=device)
    steps = zip(sizes[1:], window, strict=True)
    grid: tuple[slice, ...] = tuple(slice(size // 2 % step, None, step) for size, step in steps)
    channels = torch.randint(sizes[0], (count,), generator=generator, device=device)
    shape = images[:, 0][(slice(None), *grid)].shape
    scales = _full(generator, (count, *(1 for _ in grid))).abs_()
    drawn = torch.randn(shape, generator=generator, device=device) * scales
    planes = torch.zeros_like(images[:, 0])
    planes[(slice(None), *grid)] = drawn
    images[(torch.arange(count, device=device), channels)] = planes
    return images.view(count, -1)


def _full(generator: torch.Generator, shape: tuple[int, ...]) -> torch.Tensor:
    """Normal values with all their bits, each with a scale of its own."""
    exponents = torch.rand(shape, generator=generator, device=generator.device)
    scales = exponents.mul_(HIGHEST - LOWEST).add_(LOWEST).exp2_()
    return torch.randn(shape, generator=generator, device=generator.device).mul_(scales)


def probe_rows_of(operand: Operand, value: torch.Tensor) -> torch.Tensor:
    """Which rows of an operand are probe rows, wherever they come from; in a shape that broadcasts against `value`."""
    count = (value != 0).sum(operand.axes, keepdim=True)
    if operand.window:
        pixels = (-(-value.shape[axis] // step) for axis, step in zip(operand.axes[1:], operand.window, strict=True))
        return count <= math.prod(pixels)
    long = math.prod(value.shape[axis] for axis in operand.axes) >= LEAST
    return (count <= TERMS) & long
