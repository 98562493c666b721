"""One call of a stranger's reference: the function, what it is given without data, and what is known of that."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._pytree import GetAttrKey, MappingKey, SequenceKey, tree_flatten_with_path

from kernelwright.tasks.imported.confined.placing import Generator, OnCpu, module_stays, module_to
from kernelwright.tasks.imported.confined.tape import Tape
from kernelwright.tasks.imported.form import SizeHints

ANYWHERE = 1 << 30  # the place of a tensor that the inputs' own function does not make


@dataclass(frozen=True)
class BundleFiles:
    """What came with the bundle, in one folder."""

    folder: Path
    main: Path

    def read(self, name: str) -> bytes | None:
        path = self.folder / name
        return path.read_bytes() if path.is_file() else None


@dataclass(frozen=True)
class Leaf:
    """A tensor or number among the inputs. `axes` are the names of its sizes, where the form says them: a text varies,
    a number is fixed, None is up to the trace; `place` is its place in what the problem's own function makes."""

    name: str
    value: Any
    part: str = "input"
    place: int = ANYWHERE
    axes: tuple[str | int | None, ...] | None = None
    told: bool = False  # a number that kernels are told


@dataclass(frozen=True)
class ReferenceCase:
    """`hints` name sizes; `same_function` says that all settings call one function and differ in its inputs alone."""

    function: Callable[..., Any]
    inputs: tuple[Any, ...]
    leaves: tuple[Leaf, ...]
    hints: SizeHints
    same_function: bool = True
    outputs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    tolerance: Mapping[str, Any] | None = None
    initial: Any = None  # what the constructor of its module takes

    @property
    def tensors(self) -> list[Leaf]:
        return [leaf for leaf in self.leaves if isinstance(leaf.value, torch.Tensor)]


@dataclass(frozen=True)
class Setting:
    """A way to make a case, which costs something and may fail. `stretched` makes it with no size of 1 where its form
    lets sizes vary: torch takes 1 for fixed."""

    make: Callable[[], ReferenceCase]
    stretched: Callable[[], ReferenceCase] | None = None


@dataclass
class Bench:
    """Where cases are made: without data, and on the tape. `folder` has the problem's files."""

    folder: Path | None = None
    fake: FakeTensorMode = field(
        default_factory=lambda: FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())
    )
    tape: Tape = field(default_factory=Tape)

    @contextmanager
    def making(self) -> Iterator[None]:
        with self.fake, self.tape, placed(), mock.patch.object(torch.nn.init, "_no_grad_trunc_normal_", _truncated):
            yield


def with_numbers(case: ReferenceCase, bench: Bench) -> ReferenceCase | None:
    """Buffers of one number, `torch.tensor(1e-5)`, as that number, for a function that takes them for one. None where
    there are none that are known."""
    known: dict[int, Any] = {}
    with bench.making():
        for leaf in case.tensors:
            if leaf.part == "buffer" and not leaf.value.dim() and any(leaf.value is one for one in case.inputs):
                known[id(leaf.value)] = leaf.value.item()
    if not known:
        return None
    inputs = tuple(known.get(id(value), value) for value in case.inputs)
    leaves = [
        replace(leaf, value=known[id(leaf.value)], told=True) if id(leaf.value) in known else leaf
        for leaf in case.leaves
    ]
    return replace(case, inputs=inputs, leaves=tuple(leaves))


@contextmanager
def placed() -> Iterator[None]:
    """A device that the code names is the one on which it is traced, and generators draw nothing here."""
    modules = mock.patch.multiple(torch.nn.Module, to=module_to, cuda=module_stays, cpu=module_stays)
    with OnCpu(), mock.patch.object(torch, "Generator", Generator), modules:
        yield


def _truncated(
    tensor: torch.Tensor, mean: float, std: float, a: float, b: float, generator: Any = None
) -> torch.Tensor:
    """torch draws again until all values lie within, which needs values to look at."""
    with torch.no_grad():
        return tensor.normal_(mean, std).clamp_(a, b)


def leaves_of(inputs: Sequence[Any], names: Sequence[str], **options: Any) -> tuple[Leaf, ...]:
    """The leaves of nested inputs, named by where they are: `pair_0`, `weights_gate`."""
    found = []
    for place, value in enumerate(inputs):
        top = names[place] if place < len(names) else f"x{place}"
        for path, leaf in tree_flatten_with_path(value)[0]:
            found.append(Leaf("_".join([top, *map(_key, path)]).strip("_"), leaf, place=place, **options))
    return tuple(found)


def _key(key: Any) -> str:
    match key:
        case SequenceKey(idx=index):
            return str(index)
        case MappingKey(key=name):
            return str(name)
        case GetAttrKey(name=name):
            return str(name)
    return "part"


def parameter_names(function: Callable[..., Any]) -> list[str]:
    given = inspect.signature(function).parameters.values()
    return [one.name for one in given if one.kind is not one.VAR_KEYWORD]
