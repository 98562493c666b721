"""Evaluates a reference with every sum added up from left to right, by one accumulator: the least accurate order that
an honest kernel may choose. An error counts as large where it is above the worse of eager PyTorch's and this one's.

Short sums are really added up in this order. For long ones, and for products, the error of it is drawn: an addition
rounds by about 0.42 units of the running sum S_k, so n of them by that times the root of sum S_k^2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch._decomp import decomposition_table
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from kernelwright.judge.oracle.errors.bilinear import multiplied, multiplies, same
from kernelwright.judge.oracle.right.constants import CONSTANTS
from kernelwright.judge.oracle.right.fused import PARTS

STATISTICS = CONSTANTS.statistics
AT_ONCE = 1 << 20

Results = dict[str, torch.Tensor]

_FUSED = """
    _batch_norm_no_update _batch_norm_with_update _batch_norm_with_update_functional _fused_rms_norm
    _fused_rms_norm_backward _native_batch_norm_legit _native_batch_norm_legit_functional _safe_softmax
    batch_norm_backward binary_cross_entropy binary_cross_entropy_with_logits cudnn_batch_norm
    cudnn_batch_norm_backward huber_loss linalg_vector_norm mse_loss native_batch_norm native_group_norm
    native_group_norm_backward native_layer_norm_backward nll_loss_forward nll_loss2d_forward norm
    smooth_l1_loss soft_margin_loss std_mean
"""
FUSED = frozenset(_FUSED.split())
"""Operations that add up inside, and that torch can take apart."""


aten = torch.ops.aten


class SequentialSums(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, unit: float, seed: int, device: torch.device) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._unit = unit
        self._generator = torch.Generator(device).manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = str(func.overloadpacket.__name__)
        for steps in (PARTS.get(func), decomposition_table.get(func) if name in FUSED else None):
            if steps is not None:
                with self:
                    whole = steps(*args, **kwargs)
                if whole is not NotImplemented:
                    return whole
        result = func(*args, **kwargs)
        if multiplies(func, args):
            self._multiply(func, args, kwargs, result)
        elif name in ("sum", "mean", "cumsum") and result.is_floating_point() and args[0].is_floating_point():
            self._add(name, args, result)
        return result

    def _add(self, name: str, args: tuple[Any, ...], result: torch.Tensor) -> None:
        x = args[0]
        if name == "cumsum":
            axes: tuple[int, ...] = (args[1],)
        else:
            axes = tuple(args[1]) if len(args) > 1 and args[1] else tuple(range(x.dim()))
        if x.dim() == 0 or x.numel() == 0 or (name != "cumsum" and x.numel() == result.numel()):
            return
        terms = axes_last(x, axes).to(result.dtype if result.dtype == torch.float64 else torch.float32)
        flat = terms.reshape(-1, terms.shape[-1])
        if name == "cumsum":
            if flat.numel() <= STATISTICS.sequential_terms and not flat.is_cuda:
                result.copy_(running(flat).view(terms.shape).movedim(-1, axes[0]))
            else:
                parts = _parts(flat, STATISTICS.sequential_terms)
                squares = torch.cat([part.cumsum(1).square_().cumsum_(1) for part in parts])
                self._disturb(result, squares.sqrt_().view(terms.shape).movedim(-1, axes[0]))
            return
        count = flat.shape[1]
        if flat.numel() <= STATISTICS.sequential_terms and not flat.is_cuda:
            total = torch.cat([running(part)[:, -1] for part in _parts(flat, AT_ONCE)])
            result.copy_((total if name == "sum" else total / count).view(result.shape))
            return
        squares = torch.cat([part.cumsum(1).square_().sum(1) for part in _parts(flat, STATISTICS.sequential_terms)])
        error = squares.sqrt_() if name == "sum" else squares.sqrt_().div_(count)
        self._disturb(result, error.view(result.shape))

    def _multiply(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        squares = multiplied(func, args, kwargs, torch.square, torch.square)
        counts = multiplied(func, args, kwargs, _present, _present)
        totals = multiplied(func, args, kwargs, same, same)
        parts = result if isinstance(result, tuple | list) else (result,)
        for part, square, count, total in zip(parts, squares, counts, totals, strict=True):
            if square is not None:
                self._disturb(part, (count * (square / 2 + total.square() / 3)).clamp_min_(0).sqrt_())
        if func is aten.convolution_backward.default and parts[2] is not None:
            self._add("sum", (args[0], (0, *range(2, args[0].dim()))), parts[2])

    def _disturb(self, result: torch.Tensor, running_sums: torch.Tensor) -> None:
        noise = torch.randn(result.shape, generator=self._generator, device=result.device, dtype=torch.float32)
        error = (noise * running_sums).nan_to_num_(0.0, 0.0, 0.0).to(result.dtype)
        result.add_(error, alpha=STATISTICS.rounding * self._unit)


def _parts(rows: torch.Tensor, terms: int) -> list[torch.Tensor]:
    """Some rows at a time, so that no copy is large."""
    step = max(1, terms // rows.shape[1])
    return [rows[start : start + step] for start in range(0, rows.shape[0], step)]


def _present(value: torch.Tensor) -> torch.Tensor:
    return (value != 0).to(value.dtype)


def running(rows: torch.Tensor) -> torch.Tensor:
    """Running sums in the dtype of the terms; torch's own would be more accurate on a CPU."""
    return torch.from_numpy(np.add.accumulate(rows.contiguous().numpy(), axis=1, dtype=rows.numpy().dtype))


def axes_last(terms: torch.Tensor, axes: tuple[int, ...]) -> torch.Tensor:
    """The summed axes as one, behind the others."""
    summed = sorted({axis % terms.dim() for axis in axes})
    left = [axis for axis in range(terms.dim()) if axis not in summed]
    return terms.permute(*left, *summed).reshape(*(terms.shape[axis] for axis in left), -1)


def sequential_results(call: Callable[[], Results], unit: float, seed: int, device: torch.device) -> Results:
    """What `call`, which evaluates the reference in the precision of an honest kernel, gives with sequential sums."""
    with sdpa_kernel(SDPBackend.MATH), SequentialSums(unit, seed, device):
        return call()
