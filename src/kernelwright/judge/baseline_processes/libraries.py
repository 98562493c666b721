"""Kernels of libraries for built-in tasks, one line each: (baseline, task) and a function with the task's signature.

A library is imported when its function is first called, in the baseline's process and nowhere else.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from kernelwright.judge.baseline_processes.variants import Function, UnfitError
from kernelwright.tasks.model import Task
from kernelwright.tasks.resolve import BUILTIN


def library_call(kind: str, task: Task) -> Function:
    """A user's task may have a built-in's name and other arguments: only the built-in itself is looked up."""
    name = task.name.partition("@")[0]
    found = CALLS.get((kind, name)) if Path(task.origin).parent == BUILTIN else None
    if found is None:
        known = ", ".join(sorted(task for library, task in CALLS if library == kind)) or "no built-in task"
        raise UnfitError(f"{kind} has {known}; a task of yours names its own kernel in `baselines`")
    return found


def _fused_adamw(
    param: Any, grad: Any, exp_avg: Any, exp_avg_sq: Any, lr: float, beta1: float, beta2: float, eps: float,
    weight_decay: float, step: float,
) -> None:  # fmt: skip
    """The call that `torch.optim.AdamW(fused=True)` makes. It counts the step in a tensor, before it uses it."""
    steps = [torch.full((), step, dtype=torch.float32, device=param.device)]
    torch._fused_adamw_(
        [param], [grad], [exp_avg], [exp_avg_sq], [], steps, lr=lr, beta1=beta1, beta2=beta2,
        weight_decay=weight_decay, eps=eps, amsgrad=False, maximize=False,
    )  # fmt: skip


def _liger(module: str, name: str) -> Any:
    return getattr(importlib.import_module(f"liger_kernel.ops.{module}"), name)


def _cublaslt(x: Any, weight: Any, bias: Any, epilogue: str) -> Any:
    """nvmath plans once for each shape, trying what the heuristics offer, and executes that from then on."""
    advanced = importlib.import_module("nvmath.linalg.advanced")
    key = (x.shape, weight.shape, x.dtype, epilogue)
    planned = _PLANNED.get(key)
    if planned is None:
        planned = advanced.Matmul(x, weight.T)
        planned.plan(epilog=getattr(advanced.MatmulEpilog, epilogue), epilog_inputs={"bias": bias})
        planned.autotune()
        _PLANNED[key] = planned
    planned.reset_operands(a=x, b=weight.T, epilog_inputs={"bias": bias})
    return planned.execute()


_PLANNED: dict[Any, Any] = {}

CALLS: dict[tuple[str, str], Function] = {
    ("fused", "rmsnorm"): lambda x, weight, eps: F.rms_norm(x, x.shape[-1:], weight, eps),
    ("fused", "adamw"): _fused_adamw,
    ("fused", "linear_relu"): lambda x, weight, bias: torch._addmm_activation(bias, x, weight.T),
    ("liger", "rmsnorm"): lambda x, weight, eps: _liger("rms_norm", "LigerRMSNormFunction").apply(
        x, weight, eps, 0.0, "llama", False
    ),
    ("liger", "layernorm"): lambda x, weight, bias, eps: _liger("layer_norm", "LigerLayerNormFunction").apply(
        x, weight, bias, eps
    ),
    ("liger", "softmax"): lambda x: _liger("softmax", "LigerSoftmaxFunction").apply(x),
    ("cublaslt", "linear"): lambda x, weight, bias: _cublaslt(x, weight, bias, "BIAS"),
    ("cublaslt", "linear_relu"): lambda x, weight, bias: _cublaslt(x, weight, bias, "RELU_BIAS"),
}
