"""Along which axis a reference can be cut into slices: one that it carries from its inputs to every result and never
mixes, as a batch.

Found by following the reference without values: every operation says where the axis of its arguments goes, or that it
does not know it, and then there are no slices. That the reference counts the axis in its arithmetic (divides by its
length) does not show there, so that it is also tried out at a small size. An author says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from kernelwright.tasks.declarations import TensorInput
from kernelwright.tasks.dims import TaskError, names_in
from kernelwright.tasks.drawing import draw_inputs, on_any_arguments
from kernelwright.tasks.model import Task, Workload
from kernelwright.tasks.reference import Argument, call_reference, prepared, run_reference, storage_of
from kernelwright.tasks.small_sizes import trial_workload

LEAST = 6  # of the axis, where slices are held against the whole
AGREE = 1e-9  # of the largest value: how well slices must agree with the whole, in float64


@dataclass(frozen=True)
class Axes:
    """The axis of every tensor that has one, by name: of inputs, and of results."""

    inputs: Mapping[str, int]
    results: Mapping[str, int]


@dataclass(frozen=True)
class AxisPlace:
    """Where the axis is in a tensor: as the outer part of an axis, `inner` elements for each of its own."""

    axis: int
    inner: int = 1


class MixedError(Exception):
    """An operation that mixes the axis, or of which that is not known."""


ALIKE = AxisPlace(-1)  # the same along every axis: filled with one number


def separable_axes(task: Task, workload: Workload) -> Axes | None:
    """The axis along which the reference can be cut at a workload; None where there is none."""
    for given in _choices(task, workload):
        with suppress(TaskError, MixedError):
            axes = on_any_arguments(task, workload, partial(_follow, task, given))
            if _agrees(task, workload.dtype, axes):
                return axes
    return None


def _choices(task: Task, workload: Workload) -> Iterator[dict[str, int]]:
    """Axes that are declared alike, those of most bytes first; of a tensor with two such axes the first."""
    tensors = {name: one for name, one in task.inputs.items() if isinstance(one, TensorInput)}
    if not tensors or len(tensors) < _tensors(task):
        return
    elements = {name: math.prod(one.shape(workload.size_map)) for name, one in tensors.items()}
    dims = dict.fromkeys(dim for one in tensors.values() for dim in one.dims)
    alike = [{name: one.dims.index(dim) for name, one in tensors.items() if dim in one.dims} for dim in dims]
    alike += [{name: axis} for choice in alike if len(choice) > 1 for name, axis in choice.items()]
    yield from sorted(alike, key=lambda choice: -sum(elements[name] for name in choice))


def _tensors(task: Task) -> int:
    return sum(not isinstance(one, int | float | bool) for one in task.inputs.values())


def _agrees(task: Task, dtype: str, axes: Axes) -> bool:
    """Whether two slices of different length give what the whole gives, at a small size."""
    small = trial_workload(task, dtype)
    if small is None:
        return False
    name, axis = next(iter(axes.inputs.items()))
    declared = task.inputs[name]
    assert isinstance(declared, TensorInput)
    cut_sizes = names_in(declared.dims[axis])
    small = replace(
        small, sizes=tuple((one, max(LEAST, size) if one in cut_sizes else size) for one, size in small.sizes)
    )
    inputs = draw_inputs(task, small, task.families[0], torch.Generator().manual_seed(2))
    length = extent(inputs, axes)
    if length < 2:
        return False
    whole = run_reference(task, inputs, torch.float64)
    cut = max(1, length // 3)
    for start, count in ((0, cut), (cut, length - cut)):
        part = run_reference(task, sliced(inputs, axes.inputs, start, count), torch.float64)
        for name, axis in axes.results.items():
            if not _same(part[name], whole[name].narrow(axis, start, count)):
                return False
    return True


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.shape != other.shape or not one.is_floating_point():
        return torch.equal(one, other)
    reach = AGREE * float(other.abs().max()) if other.numel() else 0.0
    return bool(((one - other).abs() <= reach).all())


def extent(inputs: Mapping[str, Argument], axes: Axes) -> int:
    name, axis = next(iter(axes.inputs.items()))
    value = inputs[name]
    assert isinstance(value, torch.Tensor)
    return value.shape[axis]


def sliced(inputs: Mapping[str, Argument], axes: Mapping[str, int], start: int, count: int) -> dict[str, Argument]:
    """The arguments with the tensors that have the axis cut along it."""
    return {
        name: value.narrow(axes[name], start, count).contiguous()
        if name in axes and isinstance(value, torch.Tensor)
        else value
        for name, value in inputs.items()
    }


def _follow(task: Task, given: dict[str, int], arguments: dict[str, Argument]) -> Axes:
    arguments = prepared(task, arguments)
    tensors = {name: value for name, value in arguments.items() if isinstance(value, torch.Tensor)}
    lengths = {tensors[name].shape[axis] for name, axis in given.items()}
    if len(lengths) != 1 or min(lengths) < 2:
        raise MixedError
    follower = _Follower(lengths.pop())
    for name, axis in given.items():
        follower.put(tensors[name], AxisPlace(axis))
    with follower:
        results = call_reference(task, arguments)
    if follower.mixed:
        raise MixedError
    found = {name: follower.of(result) for name, result in results.items()}
    for name, place in found.items():
        if place is None or place is ALIKE or place.inner != 1 or place.axis == results[name].dim() - 1 > 0:
            raise MixedError  # along the last axis of a result its rows would be cut, which tolerances look at
    return Axes(given, {name: place.axis for name, place in found.items() if place is not None})


class _Follower(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, length: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.length = length
        self.mixed = False
        self._places: dict[int, tuple[torch.Tensor, AxisPlace]] = {}  # held, so that none takes another's id

    def put(self, tensor: torch.Tensor, place: AxisPlace) -> None:
        self._places[id(tensor)] = tensor, place

    def of(self, tensor: Any) -> AxisPlace | None:
        found = self._places.get(id(tensor))
        return None if found is None else found[1]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        try:
            self._saw(func, args, kwargs, result)
        except MixedError:
            self.mixed = True
        return result

    def _saw(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        made = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        name = str(func.overloadpacket.__name__)
        carries = any(self.of(tensor) is not None for tensor in tensors)
        if self.mixed or (carries and not made):  # or a value that steers Python
            raise MixedError
        if name in FILLS:
            for tensor in made:
                self.put(tensor, ALIKE)
        elif carries:
            self._carry(func, name, args, kwargs, tensors, made)

    def _carry(self, func: Any, name: str, args: Any, kwargs: Any, given: list[Any], made: list[torch.Tensor]) -> None:
        if name in ("_to_copy", "copy_", "detach", "alias", "hardswish", "log_sigmoid_forward", *SAME) or (
            torch.Tag.pointwise in func.tags
        ):
            place = self._pointwise(given, made[0].dim())
            if name.endswith("_") and self.of(args[0]) is not place and self._is_shared(args[0]):
                raise MixedError
        else:
            rule = RULES.get(name)
            if rule is None:
                raise MixedError
            place = rule(self, args, kwargs, made[0])
        for tensor in made:
            if not tensor.numel() and tensor is not made[0]:
                continue
            if place is not ALIKE and not self._fits(tensor, place):
                raise MixedError
            self.put(tensor, place)

    def _is_shared(self, changed: torch.Tensor) -> bool:
        """Whether other tensors change with it."""
        known = (tensor for tensor, _ in self._places.values() if tensor is not changed)
        return any(storage_of(tensor) == storage_of(changed) for tensor in known)

    def _fits(self, tensor: torch.Tensor, place: AxisPlace) -> bool:
        return 0 <= place.axis < tensor.dim() and tensor.shape[place.axis] == self.length * place.inner

    def _pointwise(self, given: list[torch.Tensor], dims: int) -> AxisPlace:
        """Axes are aligned at their ends. A tensor without the axis must not have an extent of its own there."""
        found: AxisPlace | None = None
        for tensor in given:
            place = self.of(tensor)
            if place is None or place is ALIKE:
                continue
            here = AxisPlace(place.axis + dims - tensor.dim(), place.inner)
            if found is not None and found != here:
                raise MixedError
            found = here
        if found is None:
            if any(self.of(tensor) is None and tensor.dim() for tensor in given):
                raise MixedError
            return ALIKE
        for tensor in given:
            axis = found.axis - dims + tensor.dim()
            if self.of(tensor) is None and axis >= 0 and tensor.shape[axis] != 1:
                raise MixedError
        return found

    def only(self, tensor: Any, others: tuple[Any, ...] = ()) -> AxisPlace:
        """The place of one argument, where no other one has the axis."""
        place = self.of(tensor)
        if place is None or place is ALIKE or any(self.of(other) is not None for other in others):
            raise MixedError
        return place


Rule = Callable[[_Follower, Any, Any, torch.Tensor], AxisPlace]


def _reduction(along: int = 1, keep: int = 2) -> Rule:
    """Over the axes that argument `along` names; argument `keep` says whether they stay, as axes of one element."""

    def rule(follower: _Follower, args: Any, kwargs: Any, made: torch.Tensor) -> AxisPlace:
        place = follower.only(args[0])
        dim = args[along] if len(args) > along else kwargs.get("dim")
        if dim is None or dim == []:
            raise MixedError
        dims = {one % args[0].dim() for one in (dim if isinstance(dim, list | tuple) else [dim])}
        kept = bool(args[keep]) if len(args) > keep else bool(kwargs.get("keepdim", False))
        if place.axis in dims:
            raise MixedError
        return place if kept else AxisPlace(place.axis - sum(one < place.axis for one in dims), place.inner)

    return rule


def _along(position: int = 1, default: int | None = None) -> Rule:
    """Over one axis, which stays as long as it is, or changes its length."""

    def rule(follower: _Follower, args: Any, kwargs: Any, made: torch.Tensor) -> AxisPlace:
        place = follower.only(args[0])
        dim = args[position] if len(args) > position else kwargs.get("dim", default)
        if dim is None or dim % args[0].dim() == place.axis:
            raise MixedError
        return place

    return rule


def _product(left: int, right: int) -> Rule:
    """Rows of the left factor, or columns of the right one; of stacks the stack as well."""

    def rule(follower: _Follower, args: Any, kwargs: Any, made: torch.Tensor) -> AxisPlace:
        one, other = (None if place is ALIKE else place for place in map(follower.of, (args[left], args[right])))
        if left and follower.of(args[0]) is not None:  # what is added
            raise MixedError
        if left and args[0].dim() == made.dim() and max(args[0].shape[:-1]) > 1:
            raise MixedError
        stacked = args[left].dim() == 3
        if one is not None and other is not None:
            if stacked and one == other and one.axis == 0:
                return one
            raise MixedError
        if one is not None and one.axis == args[left].dim() - 2:
            return one
        if other is not None and other.axis == args[right].dim() - 1 > 0 and (not left or args[0].shape[-1] == 1):
            return AxisPlace(made.dim() - 1, other.inner)
        raise MixedError

    return rule


def _leading(*others: int) -> Rule:
    """The first axis of the first argument, as the images of a convolution."""

    def rule(follower: _Follower, args: Any, kwargs: Any, made: torch.Tensor) -> AxisPlace:
        place = follower.only(args[0], tuple(args[one] for one in others if one < len(args)))
        if place.axis != 0 or place.inner != 1 or args[0].dim() < 3:
            raise MixedError
        return place

    return rule


def _batch_norm(follower: _Follower, args: Any, kwargs: Any, made: torch.Tensor) -> AxisPlace:
    place = follower.only(args[0], tuple(args[1:5]))
    if place.axis != 0 or bool(args[5]):
        raise MixedError
    return place


def _layer_norm(follower: _Follower, args: Any, kwargs: Any, made: torch.Tensor) -> AxisPlace:
    place = follower.only(args[0], (args[2], args[3]))
    if place.axis >= args[0].dim() - len(args[1]):
        raise MixedError
    return place


def _view(follower: _Follower, args: Any, kwargs: Any, made: torch.Tensor) -> AxisPlace:
    """Row-major: as many elements come before the axis as before, and it is the outer part of the one that has it."""
    place = follower.of(args[0])
    if place is ALIKE:
        return ALIKE
    place = follower.only(args[0])
    outer = math.prod(args[0].shape[: place.axis])
    for axis, size in enumerate(made.shape):
        if math.prod(made.shape[:axis]) == outer and size % follower.length == 0 and size:
            return AxisPlace(axis, size // follower.length)
    raise MixedError


def _permute(follower: _Follower, args: Any, kwargs: Any, made: torch.Tensor) -> AxisPlace:
    place = follower.only(args[0])
    return AxisPlace([one % made.dim() for one in args[1]].index(place.axis), place.inner)


def _transpose(follower: _Follower, args: Any, kwargs: Any, made: torch.Tensor) -> AxisPlace:
    place = follower.only(args[0])
    one, other = (args[1] % made.dim(), args[2] % made.dim()) if len(args) > 2 else (0, made.dim() - 1)
    return AxisPlace({one: other, other: one}.get(place.axis, place.axis), place.inner)


def _unsqueeze(follower: _Follower, args: Any, kwargs: Any, made: torch.Tensor) -> AxisPlace:
    place = follower.only(args[0])
    return AxisPlace(place.axis + (args[1] % made.dim() <= place.axis), place.inner)


def _squeeze(follower: _Follower, args: Any, kwargs: Any, made: torch.Tensor) -> AxisPlace:
    place = follower.only(args[0])
    named = args[1] if isinstance(args[1], list | tuple) else [args[1]]
    gone = [one % args[0].dim() for one in named]
    gone = [one for one in gone if args[0].shape[one] == 1]
    return AxisPlace(place.axis - sum(one < place.axis for one in gone), place.inner)


def _expand(follower: _Follower, args: Any, kwargs: Any, made: torch.Tensor) -> AxisPlace:
    place = follower.of(args[0])
    if place is ALIKE:
        return ALIKE
    place = follower.only(args[0])
    return AxisPlace(place.axis + made.dim() - args[0].dim(), place.inner)


def _select(follower: _Follower, args: Any, kwargs: Any, made: torch.Tensor) -> AxisPlace:
    place = follower.only(args[0])
    dim = args[1] % args[0].dim()
    if dim == place.axis:
        raise MixedError
    return AxisPlace(place.axis - (dim < place.axis), place.inner)


def _cat(follower: _Follower, args: Any, kwargs: Any, made: torch.Tensor) -> AxisPlace:
    places = {follower.of(tensor) for tensor in args[0]}
    dim = (args[1] if len(args) > 1 else kwargs.get("dim", 0)) % made.dim()
    place = places.pop() if len(places) == 1 else None
    if place is None or place is ALIKE or place.axis == dim:
        raise MixedError
    return place


def _embedding(follower: _Follower, args: Any, kwargs: Any, made: torch.Tensor) -> AxisPlace:
    return follower.only(args[1], (args[0],))


FILLS = frozenset(
    f"{prefix}{name}{suffix}"
    for name in ("zeros", "ones", "full", "empty")
    for prefix, suffix in (("", ""), ("", "_like"), ("new_", ""))
)
SAME = frozenset(("clone", "_conj_physical", "lift_fresh_copy"))
RULES: dict[str, Rule] = {
    **dict.fromkeys(("sum", "mean", "amax", "amin", "max", "min", "logsumexp", "any", "all", "prod"), _reduction()),
    **dict.fromkeys(("argmax", "argmin"), _reduction()),
    "linalg_vector_norm": _reduction(2, 3),
    **dict.fromkeys(("var", "std", "var_mean", "std_mean"), _reduction(1, 9)),
    **dict.fromkeys(("_softmax", "_log_softmax", "cumsum", "cumprod"), _along()),
    "glu": _along(1, -1),
    "topk": _along(2, -1),
    "sort": _along(1, -1),
    "slice": _along(1, 0),
    "mm": _product(0, 1),
    "bmm": _product(0, 1),
    "addmm": _product(1, 2),
    "baddbmm": _product(1, 2),
    "convolution": _leading(1, 2),
    **dict.fromkeys(
        ("max_pool2d_with_indices", "max_pool3d_with_indices", "avg_pool2d", "avg_pool3d", "_adaptive_avg_pool2d"),
        _leading(),
    ),
    **dict.fromkeys(("_adaptive_avg_pool3d", "upsample_nearest2d", "upsample_bilinear2d"), _leading()),
    "native_group_norm": _leading(1, 2),
    "native_batch_norm": _batch_norm,
    "_native_batch_norm_legit_no_training": _leading(1, 2, 3, 4),
    "native_layer_norm": _layer_norm,
    **dict.fromkeys(("view", "_unsafe_view", "_reshape_alias"), _view),
    "permute": _permute,
    **dict.fromkeys(("transpose", "t"), _transpose),
    "unsqueeze": _unsqueeze,
    "squeeze": _squeeze,
    "expand": _expand,
    "select": _select,
    "cat": _cat,
    "embedding": _embedding,
}
"""Where an operation takes the axis. One that is not here is taken to mix it."""
