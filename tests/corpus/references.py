"""More references for the corpus of errors: small tasks of many kinds, beside those that come with the package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from kernelwright.tasks import Task, integers, tensor
from kernelwright.tasks.backward import derive_backward
from kernelwright.tasks.resolve import declared

_x, _y, _v = tensor("rows", "cols"), tensor("rows", "cols"), tensor("cols")


def _task(name: str, reference: Callable[..., Any], dtypes: tuple[str, ...] = ("float32",), **inputs: Any) -> Task:
    sizes = {"rows": 16, "cols": 96}
    ranges = {"rows": (1, 4096), "cols": (1, 8192)}
    return Task(reference=reference, inputs=inputs, public=[sizes], hidden=ranges, name=name, dtypes=dtypes)


def _layer_norm_gelu_linear(a: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.gelu(F.layer_norm(a, (a.shape[-1],)) @ w)


SMALL = (
    _task("gelu", lambda x: F.gelu(x), x=_x),
    _task("silu", lambda x: F.silu(x), x=_x),
    _task("sigmoid", lambda x: torch.sigmoid(x), x=_x),
    _task("exponential", lambda x: torch.exp(-x.abs()), x=_x),
    _task("scaled_sum", lambda x, y: x + 0.5 * y, x=_x, y=_y),
    _task("mse_loss", lambda x, y: F.mse_loss(x, y), x=_x, y=_y),
    _task("variance", lambda x: x.var(-1), x=_x),
    _task("logsumexp", lambda x: torch.logsumexp(x, -1), x=_x),
    _task("row_sums", lambda x: x.sum(-1), x=_x),
    _task("column_sums", lambda x: x.sum(0), x=_x),
    _task("total_mean", lambda x: x.mean(), x=_x),
    _task("running_sums", lambda x: x.cumsum(-1), x=_x),
    _task("normalize", lambda x: F.normalize(x, dim=-1), x=_x),
    _task("cosine_similarity", lambda x, y: F.cosine_similarity(x, y, dim=-1), x=_x, y=_y),
    _task(
        "binary_cross_entropy",
        lambda x, y: F.binary_cross_entropy_with_logits(x, torch.sigmoid(y)),
        x=_x,
        y=_y,
    ),
    _task(
        "attention",
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
        q=tensor("rows", "cols", 32),
        k=tensor("rows", "cols", 32),
        v=tensor("rows", "cols", 32),
    ),
    _task(
        "batch_norm",
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        x=tensor("rows", 8, "cols"),
        w=tensor(8),
        b=tensor(8),
    ),
    _task(
        "group_norm",
        lambda x, w, b: F.group_norm(x, 4, w, b),
        x=tensor("rows", 16, "cols"),
        w=tensor(16),
        b=tensor(16),
    ),
    _task("avg_pool", lambda x: F.avg_pool1d(x, 4), x=tensor("rows", 3, "cols")),
    _task("bmm", lambda a, b: a @ b, a=tensor("rows", 16, "cols"), b=tensor("rows", "cols", 24)),
    _task("matrix_vector", lambda a, b: a @ b, a=_x, b=_v),
    _task("gram", lambda a: a @ a.T, a=_x),
    _task(
        "conv1d",
        lambda x, w, b: F.conv1d(x, w, b, padding=2),
        x=tensor("rows", 12, "cols"),
        w=tensor(8, 12, 5),
        b=tensor(8),
    ),
    _task("layer_norm_gelu_linear", _layer_norm_gelu_linear, a=_x, w=tensor("cols", 32)),
    _task(
        "masked_softmax",
        lambda x, y: torch.softmax(x.masked_fill(y > 1, -torch.inf), -1).nan_to_num(0.0),
        x=_x,
        y=_y,
    ),
    _task("whole_rms_norm", lambda x: x * torch.rsqrt(x.square().mean() + 1e-5), x=_x),
    _task("whole_layer_norm", lambda x: F.layer_norm(x, x.shape), x=_x),
    _task("column_norm", lambda x: (x - x.mean(0)) * torch.rsqrt(x.var(0) + 1e-5), x=_x),
    _task("copy", lambda x: x.clone(), x=_x),
    _task("zeros", lambda x: x * 0, x=_x),
    _task(
        "embedding_mean",
        lambda w, i: F.embedding(i, w).mean(1),
        w=tensor(50, "cols"),
        i=tensor("rows", 7, draw=integers(0, 50), dtype="int64"),
    ),
    _task("softmax bf16", lambda x: torch.softmax(x, -1), ("bfloat16",), x=_x),
    _task("linear fp16", lambda x, w: x @ w, ("float16",), x=_x, w=tensor("cols", 40)),
)
SIZES: dict[str, tuple[dict[str, int], ...]] = {
    "small": ({"rows": 16, "cols": 96}, {"rows": 3, "cols": 200}),
    "tiny": ({"rows": 1, "cols": 1}, {"rows": 1, "cols": 7}, {"rows": 5, "cols": 3}),
    "long": ({"rows": 8, "cols": 2048},),
    "tall": ({"rows": 300, "cols": 33},),
}
BUILTIN: dict[str, dict[str, int]] = {
    "rmsnorm": {"rows": 64, "cols": 512},
    "rmsnorm:backward": {"rows": 64, "cols": 512},
    "layernorm": {"rows": 64, "cols": 512},
    "layernorm:backward": {"rows": 64, "cols": 512},
    "softmax": {"rows": 64, "cols": 512},
    "softmax:backward": {"rows": 64, "cols": 512},
    "cross_entropy": {"rows": 64, "classes": 100},
    "cross_entropy:backward": {"rows": 64, "classes": 100},
    "linear": {"rows": 48, "features": 256, "units": 64},
    "linear:backward": {"rows": 48, "features": 256, "units": 64},
    "linear_relu": {"rows": 48, "features": 256, "units": 64},
    "linear_relu:backward": {"rows": 48, "features": 256, "units": 64},
    "llama_ffw": {"batch": 2, "tokens": 16, "features": 128, "inner": 160},
    "llama_ffw:backward": {"batch": 2, "tokens": 16, "features": 128, "inner": 160},
    "resnet_block": {"batch": 2, "channels": 16, "height": 12, "width": 12},
    "resnet_block:backward": {"batch": 2, "channels": 16, "height": 12, "width": 12},
    "conv_relu_pool": {"batch": 4, "channels": 8, "height": 16, "width": 18, "filters": 8},
    "conv_relu_pool:backward": {"batch": 4, "channels": 8, "height": 16, "width": 18, "filters": 8},
    "adamw": {"elements": 20_000},
    "maxpool2d:backward": {},
}


def gradients() -> tuple[Task, ...]:
    return tuple(derive_backward(task) for task in SMALL if task.name in ("variance", "mse_loss", "silu", "bmm"))


def builtin(name: str) -> Task:
    return declared(name)
