"""Example arguments of a kernel, for its self-test and its benchmark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from .dims import formula
from .kernel import LoadedKernel
from .manifest import OperationParameter, ProvedVariant


def public_sizes(variant: ProvedVariant) -> list[dict[str, int]]:
    """The workloads that it was timed on and that are public."""
    return [{name: low for name, (low, _) in one.ranges.items()} for one in variant.regions if one.exactly]


def workloads(kernel: LoadedKernel) -> Iterator[tuple[ProvedVariant, dict[str, int]]]:
    for variant in kernel.manifest.forward:
        for sizes in public_sizes(variant):
            yield variant, sizes


def arguments(kernel: LoadedKernel, variant: ProvedVariant, sizes: dict[str, int], seed: int = 0) -> list[Any]:
    """In the order of the reference's parameters."""
    generator = torch.Generator().manual_seed(seed)
    found: list[Any] = []
    for one in kernel.operation.parameters:
        found.append(_drawn(one, variant.dtype, sizes, generator).to(variant.kind) if one.is_tensor else one.value)
    return found


def called(kernel: LoadedKernel, values: list[Any]) -> list[Any]:
    """The arguments as a user passes them: under the function's own names, in its order."""
    by_name = dict(zip((one.name for one in kernel.operation.parameters), values, strict=True))
    return [one.fixed if one.reference is None else by_name[one.reference] for one in kernel.operation.call]


def _drawn(one: OperationParameter, dtype: str, sizes: dict[str, int], generator: torch.Generator) -> torch.Tensor:
    shape = [int(formula(dim)(sizes)) for dim in one.dims or ()]
    kind = getattr(torch, one.dtype or dtype)
    how, first, second = one.draw
    if how == "integers":
        low, high = (int(formula(bound)(sizes)) for bound in (first, second))  # type: ignore[arg-type]
        return torch.randint(low, high, shape, generator=generator).to(kind)
    if not kind.is_floating_point:
        return torch.randint(0, 2, shape, generator=generator).to(kind)
    if how == "uniform":
        return (torch.rand(shape, generator=generator) * (float(second) - float(first)) + float(first)).to(kind)
    return (torch.randn(shape, generator=generator) * float(second) + float(first)).to(kind)
