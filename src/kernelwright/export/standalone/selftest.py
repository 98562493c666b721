"""`python -m NAME.selftest`: does the installed kernel compute what the reference does, and is it used?

Errors are measured against the reference in float64, beside those of the reference in the kernel's own dtype.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from .dims import formula
from .kernel import FallbackWarning, LoadedKernel
from .manifest import OperationParameter, ProvedVariant

WORST = 8.0  # times the reference's own error
LEAST = 4.0  # units in the last place of the largest value


def main(kernel: LoadedKernel) -> int:
    """0: right everywhere and used. 1: wrong somewhere. 3: right, and the reference answered on this machine."""
    wrong = unused = 0
    warnings.simplefilter("ignore", FallbackWarning)
    for variant, sizes in workloads(kernel):
        values = arguments(kernel, variant, sizes)
        reason = kernel.why_not(*called(kernel, values))
        copies = [one.clone() if isinstance(one, torch.Tensor) else one for one in values]
        with torch.no_grad():
            got = _results(kernel, copies, kernel(*called(kernel, copies)))
            faults = _faults(kernel, values, got)
        said = ", ".join(faults) or "right"
        print(
            f"{variant.dtype} {_shown(sizes)}: {said}, by the {'kernel' if reason is None else f'reference: {reason}'}"
        )
        wrong, unused = wrong + bool(faults), unused + (reason is not None)
    if not wrong and kernel.manifest.backward:
        wrong += _gradients(kernel)
    return 1 if wrong else 3 if unused else 0


def _faults(kernel: LoadedKernel, values: Sequence[Any], got: Sequence[torch.Tensor]) -> list[str]:
    plain, exact = _reference(kernel, values, None), _reference(kernel, values, torch.float64)
    return [f"output {n} is wrong" for n, parts in enumerate(zip(got, plain, exact, strict=True)) if not _close(*parts)]


def _gradients(kernel: LoadedKernel) -> int:
    variant, sizes = next(workloads(kernel))
    values = arguments(kernel, variant, sizes)
    found = []
    for ours in (True, False):
        given = [one.clone() if isinstance(one, torch.Tensor) else one for one in values]
        leaves = [given[place].requires_grad_() for place in kernel.forward_direction.gradient_places]
        outputs = kernel(*called(kernel, given)) if ours else kernel.reference(*given)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        wanted = [outputs[place] for place in kernel.forward_direction.differentiable_outputs]
        found.append(torch.autograd.grad([one.square().sum() for one in wanted], leaves))
    right = all(torch.allclose(a, b, rtol=1e-3, atol=1e-3 * float(b.abs().max())) for a, b in zip(*found, strict=True))
    print(f"gradients at {_shown(sizes)}: {'right' if right else 'wrong'}")
    return not right


def _reference(kernel: LoadedKernel, values: Sequence[Any], dtype: torch.dtype | None) -> list[torch.Tensor]:
    given = [
        (one.to(dtype or one.dtype, copy=True) if one.is_floating_point() else one.clone())
        if isinstance(one, torch.Tensor)
        else one
        for one in values
    ]
    return _results(kernel, given, kernel.reference(*given))


def _results(kernel: LoadedKernel, given: Sequence[Any], returned: Any) -> list[torch.Tensor]:
    outputs = [] if returned is None else list(returned) if isinstance(returned, tuple | list) else [returned]
    return [*(given[place] for place in kernel.forward_direction.inout_places), *outputs]


def _close(got: torch.Tensor, plain: torch.Tensor, exact: torch.Tensor) -> bool:
    if got.shape != plain.shape or got.dtype != plain.dtype:
        return False
    if not got.is_floating_point():
        return bool(torch.equal(got, plain))
    if got.numel() == 0:
        return True
    error, usual = (float((one.double() - exact.double()).abs().max()) for one in (got, plain))
    step = float(exact.abs().max()) * torch.finfo(got.dtype).eps
    return error <= max(WORST * usual, LEAST * step)


def _shown(sizes: dict[str, int]) -> str:
    return " ".join(f"{name}={size}" for name, size in sizes.items())


# --- example arguments, also for the benchmark -----------------------------------------------------------------------


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
