"""Which variant answers a call, if any: asked for every call, so what depends on shapes alone is remembered."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from . import guards, host
from .device import DeviceLibrary, Reader
from .dims import Dim, Formula, Shapes, formula
from .manifest import OperationParameter, OperationSpec, ProvedVariant

MAX_REMEMBERED = 4096
_threads = torch.get_num_threads
_deterministic = torch.are_deterministic_algorithms_enabled


@dataclass(frozen=True)
class _OutputForm:
    dims: tuple[Formula, ...]
    dtype: str | None

    def shape(self, sizes: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(dim(sizes) for dim in self.dims)


@dataclass(eq=False)
class SelectedVariant:
    """A variant for a call of these shapes. What is asked of it again and again is worked out once."""

    library: host.HostLibrary | DeviceLibrary
    key: Any  # (shapes, dtypes, device, threads, deterministic mode): all that the choice depends on
    outputs: tuple[tuple[tuple[int, ...], torch.dtype], ...]
    sizes: dict[str, int]
    covered: bool | None = None  # whether a backward is proved for these; None: not asked yet

    def __post_init__(self) -> None:
        shapes, dtypes, device = self.key[:3]
        self.shapes = shapes, dtypes
        sizes = [math.prod(shape) * dtype.itemsize for shape, dtype in zip(shapes, dtypes, strict=True)]
        self.padded = all(size % host.SLACK == 0 for size in sizes)  # a kernel reads nothing behind the tensors
        self._device = None if device.type == "cpu" else device
        self._safe = [math.prod(shape) * dtype.itemsize % host.SLACK == 0 for shape, dtype in self.outputs]

    def run(self, arguments: Sequence[Any]) -> list[torch.Tensor]:
        if self._device is None:
            made = [
                torch.empty(shape, dtype=dtype) if safe else host.empty(shape, dtype)
                for (shape, dtype), safe in zip(self.outputs, self._safe, strict=True)
            ]
        else:
            made = [torch.empty(shape, dtype=dtype, device=self._device) for shape, dtype in self.outputs]
        if not self.padded:
            arguments = [host.readable(one) if isinstance(one, torch.Tensor) else one for one in arguments]
        self.library.call(self.shapes, arguments, made, self.sizes)
        return made


class Direction:
    """The forward or the backward: the same questions about other parameters."""

    def __init__(
        self,
        parameters: Sequence[OperationParameter],
        outputs: Sequence[tuple[str, tuple[Dim, ...], str | None]],
        work: Dim,
        variants: Sequence[ProvedVariant],
        folder: Path,
        reader: Reader | None = None,
    ) -> None:
        self._parameters = tuple(parameters)
        self.tensor_places = tuple(place for place, one in enumerate(parameters) if one.is_tensor)
        self.inout_places = tuple(place for place, one in enumerate(parameters) if one.inout)
        self.gradient_places = tuple(place for place, one in enumerate(parameters) if one.gradient)
        self._numbers = tuple((place, one.value) for place, one in enumerate(parameters) if not one.is_tensor)
        self.shapes = Shapes([one.dims or () for one in parameters if one.is_tensor])
        self._output_names = tuple(name for name, _, _ in outputs)
        self.outputs = tuple(_OutputForm(tuple(map(formula, dims)), dtype) for _, dims, dtype in outputs)
        self.differentiable_outputs: tuple[int, ...] = ()
        self._work = formula(work)
        self._variants = tuple(sorted(variants, key=lambda one: -one.speedup))
        self._dtypes = {one.dtype: self._dtypes_of(one.dtype) for one in variants}
        self._kinds = frozenset(one.kind for one in variants)
        self.alignment = max((one.alignment for one in variants), default=1)
        self._libraries = {_key(one): self._library(one, folder, reader) for one in variants}
        self._remembered: dict[Any, SelectedVariant | str] = {}
        self._allowed: frozenset[str] = frozenset()

    def _library(self, one: ProvedVariant, folder: Path, reader: Reader | None) -> host.HostLibrary | DeviceLibrary:
        path = folder / one.file
        if one.kind == "cpu":
            options = {"openmp": one.openmp, "stateless": one.stateless}
            return host.HostLibrary(path, one.sha256, threads=one.threads, **options)
        names = [*(given.name for given in self._parameters), *self._output_names]
        return DeviceLibrary(path, one.sha256, one.features[0], names, reader)

    @classmethod
    def forward(
        cls, operation: OperationSpec, variants: Sequence[ProvedVariant], folder: Path, reader: Reader | None = None
    ) -> Direction:
        outputs = [(one.name, one.dims, one.dtype) for one in operation.outputs]
        made = cls(operation.parameters, outputs, operation.work, variants, folder, reader)
        made.differentiable_outputs = tuple(i for i, one in enumerate(operation.outputs) if one.differentiable)
        return made

    @classmethod
    def backward(
        cls, operation: OperationSpec, variants: Sequence[ProvedVariant], folder: Path, reader: Reader | None = None
    ) -> Direction:
        """Takes the forward's arguments and the upstream gradients, gives a gradient for each parameter with one."""
        upstream = [
            OperationParameter(f"grad_{one.name}", one.dims, one.dtype)
            for one in operation.outputs
            if one.differentiable
        ]
        gradients = [(f"grad_{one.name}", one.dims or (), one.dtype) for one in operation.parameters if one.gradient]
        return cls([*operation.parameters, *upstream], gradients, operation.work, variants, folder, reader)

    def allow(self, allowed: frozenset[str]) -> None:
        self._allowed = allowed
        self._remembered = {}

    def load(self) -> None:
        for one in self._variants:
            if guards.of_machine(one, self._allowed) is None:
                self._libraries[_key(one)].load()

    def choose(self, arguments: Sequence[Any]) -> SelectedVariant | str:
        """The variant for these arguments, or the reason why there is none."""
        tensors = [arguments[place] for place in self.tensor_places]
        reason = self._of_tensors(tensors)
        if reason is not None:
            return reason
        for place, proved in self._numbers:
            if arguments[place] is not proved and not guards.same_number(arguments[place], proved):
                return guards.NUMBER
        key = (
            tuple([tensor.shape for tensor in tensors]),
            tuple([tensor.dtype for tensor in tensors]),
            tensors[0].device,
            _threads(),
            _deterministic(),
        )
        found = self._remembered.get(key)
        if found is None:
            found = self._found(key, tensors)
            if len(self._remembered) >= MAX_REMEMBERED:
                self._remembered = {}
            self._remembered[key] = found
        if isinstance(found, str):
            return found
        for tensor in tensors:
            if tensor.data_ptr() % self.alignment:
                return guards.ALIGNMENT
        if not found.padded and not self._readable(arguments):
            return guards.ALIGNMENT
        if self.inout_places and self._overlaps(arguments):
            return guards.IN_PLACE
        return found

    def _readable(self, arguments: Sequence[Any]) -> bool:
        """Whether a kernel may read behind every tensor, or behind a copy of it."""
        return all(
            host.readable_behind(arguments[place])
            or (place not in self.inout_places and host.is_copied(arguments[place]))
            for place in self.tensor_places
        )

    def _of_tensors(self, tensors: Sequence[Any]) -> str | None:
        first = None
        for tensor in tensors:
            if type(tensor) not in guards.PLAIN_TYPES:
                return guards.SUBCLASS
            device = tensor.device
            if first is None:
                if device.type not in self._kinds:
                    return guards.DEVICE
                first = device
            elif device != first:
                return guards.DEVICE
            if not tensor.is_contiguous():
                return guards.STRIDES
            if tensor.is_neg() or tensor.is_conj():
                return guards.NEGATED
        if guards.in_forward_mode() and any(map(guards.has_tangent, tensors)):
            return guards.TANGENT
        return None

    def _found(self, key: Any, tensors: Sequence[torch.Tensor]) -> SelectedVariant | str:
        dtypes = [dtype for dtype, wanted in self._dtypes.items() if wanted == key[1]]
        if not dtypes:
            return guards.DTYPE
        sizes = self.shapes.fitting([tuple(tensor.shape) for tensor in tensors])
        if sizes is None:
            return guards.SHAPES
        reason = guards.SIZES
        for variant in self._variants:
            if variant.dtype not in dtypes or not self._holds(variant, sizes):
                continue
            if variant.kind != key[2].type:
                continue
            fault = guards.of_machine(variant, self._allowed, key[2].index)
            fault = fault or guards.of_threads(variant, self._allowed)
            if fault is None and not self._libraries[_key(variant)].holds(sizes):
                fault = guards.SIZES
            if fault is None and key[4] and not variant.deterministic:
                fault = guards.DETERMINISTIC
            if fault is None:
                return self._chosen(variant, key, sizes)
            reason = fault
        return reason

    def _holds(self, variant: ProvedVariant, sizes: dict[str, int]) -> bool:
        if "sizes" in self._allowed and variant.domain is not None:  # wherever it is proved right
            return all(low <= sizes[name] <= high for name, (low, high) in variant.domain.items())
        work = self._work(sizes)
        return any(region.holds(sizes, work) for region in variant.regions)

    def _chosen(self, variant: ProvedVariant, key: Any, sizes: dict[str, int]) -> SelectedVariant:
        outputs = tuple(
            (tuple(int(size) for size in one.shape(sizes)), getattr(torch, one.dtype or variant.dtype))
            for one in self.outputs
        )
        return SelectedVariant(self._libraries[_key(variant)], key, outputs, sizes)

    def _dtypes_of(self, dtype: str) -> tuple[torch.dtype, ...]:
        return tuple(getattr(torch, one.dtype or dtype) for one in self._parameters if one.is_tensor)

    def _overlaps(self, arguments: Sequence[Any]) -> bool:
        """Whether a tensor that is changed shares memory with another: what is left in it then depends on the order."""
        for place in self.inout_places:
            one = arguments[place]
            for other in (arguments[other] for other in self.tensor_places if other != place):
                if _end(one) > other.data_ptr() and _end(other) > one.data_ptr():
                    return True
        return False

    def covers(self, arguments: Sequence[Any]) -> bool:
        """Whether a variant holds for the forward's arguments, where the upstream gradients are as they should be."""
        tensors = [arguments[place] for place in self.tensor_places if place < len(arguments)]
        sizes = self.shapes.read([*(tensor.shape for tensor in tensors), *self._unknown(len(tensors))])
        if any(isinstance(size, _Unknown) for size in sizes.values()):
            return False
        wanted = tuple(tensor.dtype for tensor in tensors)
        return any(
            self._dtypes[one.dtype][: len(wanted)] == wanted
            and self._holds(one, sizes)
            and guards.of_machine(one, self._allowed) is None
            and guards.of_threads(one, self._allowed) is None
            and (one.deterministic or not torch.are_deterministic_algorithms_enabled())
            for one in self._variants
        )

    def _unknown(self, known: int) -> list[list[Any]]:
        return [[_Unknown()] * rank for rank in self.shapes.ranks[known:]]

    def may_hold(self, arguments: Sequence[Any]) -> bool:
        """Whether a variant may hold for some sizes: for a trace, in which sizes must not be compared."""
        tensors = [arguments[place] for place in self.tensor_places]
        dtypes = tuple([tensor.dtype for tensor in tensors])
        ranks = tuple([tensor.dim() for tensor in tensors])
        here = all(tensor.device.type in self._kinds for tensor in tensors)
        return here and ranks == self.shapes.ranks and any(dtypes == wanted for wanted in self._dtypes.values())

    @property
    def has_variants(self) -> bool:
        return bool(self._variants)


def _key(variant: ProvedVariant) -> tuple[str, str, tuple[str, ...]]:
    return variant.sha256, variant.dtype, variant.features


class _Unknown:
    """A size that only an upstream gradient would tell, and what is computed of it."""

    def __sub__(self, other: int) -> _Unknown:
        return self

    __floordiv__ = __sub__


def _end(tensor: torch.Tensor) -> int:
    return tensor.data_ptr() + tensor.numel() * tensor.element_size()
