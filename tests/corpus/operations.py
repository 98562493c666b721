"""The corpus: operations, the kernels that must pass for them and those that must not, and how both are
measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from corpus import kernels
from corpus.arithmetic import DOWNCASTS, HONEST, Arithmetic, Tensor
from kernelwright.tasks import Task, cast, integers, tensor, uniform
from kernelwright.tasks.backward import derive_backward
from kernelwright.tasks.model import Workload

Kernel = Callable[..., tuple[Tensor, ...]]

NORMALISES = frozenset({"sum", "function"})
EXPONENTIATES = frozenset({"sum", "function", "inner"})
MULTIPLIES = frozenset({"product", "inner"})
SELECTS = frozenset({"move"})


@dataclass(frozen=True)
class Operation:
    """A task, the formula that computes it, what that formula consists of, and other formulas for the same.

    `silent` names downcasts that the operation does not show, each with the reason.
    """

    task: Task
    kernel: Kernel
    has: frozenset[str]
    others: Mapping[str, Kernel] = field(default_factory=dict)
    silent: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.task.name


SMALL = {"rows": 24, "cols": 400, "inner": 400, "n": 16, "c": 16, "k": 8, "height": 10}


def small(operation: Operation) -> Workload:
    """A workload on which every variant takes a moment."""
    names = operation.task.public[0]
    sizes = {name: SMALL[name] for name in names} | ({"cols": 40} if "inner" in names else {})
    return Workload(tuple(sizes.items()), operation.task.dtypes[0])


class Kind(StrEnum):
    """What is known of a variant: `honest` must pass, a `downcast` must not, `silent` is shown."""

    HONEST = "honest"
    DOWNCAST = "downcast"
    SILENT = "silent"


@dataclass(frozen=True)
class Variant:
    """One kernel of the corpus: results by name, before they are rounded to the dtype of the task."""

    name: str
    kind: Kind
    run: Callable[[Mapping[str, Any]], dict[str, Tensor]]


def variants(operation: Operation) -> Iterator[Variant]:
    for name, arithmetic in _that_differ(HONEST, operation):
        yield _variant(operation, name, Kind.HONEST, operation.kernel, arithmetic)
    for other, kernel in operation.others.items():
        for name, arithmetic in _that_differ(HONEST, operation):
            if name in ("library", "lanes", "fast-math"):
                yield _variant(operation, f"{other}, {name}", Kind.HONEST, kernel, arithmetic)
    for name, arithmetic in _that_differ(DOWNCASTS, operation):
        kind = Kind.SILENT if name in operation.silent else Kind.DOWNCAST
        yield _variant(operation, name, kind, operation.kernel, arithmetic)


def _that_differ(ways: Mapping[str, Arithmetic], operation: Operation) -> Iterator[tuple[str, Arithmetic]]:
    return ((n, a) for n, a in ways.items() if not a.needs or a.needs & operation.has)


def _variant(operation: Operation, name: str, kind: Kind, kernel: Kernel, a: Arithmetic) -> Variant:
    def run(inputs: Mapping[str, Any]) -> dict[str, Tensor]:
        loaded = [v.float() if isinstance(v, Tensor) and v.is_floating_point() else v for v in inputs.values()]
        return {n: a.store(r) for n, r in zip(operation.task.outputs, kernel(a, *loaded), strict=True)}

    return Variant(name, kind, run)


def _task(
    name: str, reference: Callable[..., Any], inputs: dict[str, Any], *sizes: dict[str, int], **more: Any
) -> Task:
    hidden = dict.fromkeys(sizes[0], (1, 8192))
    return Task(reference=reference, inputs=inputs, public=list(sizes), hidden=hidden, name=name, **more)


def _rmsnorm(x: Tensor, w: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + kernels.EPS) * w


def _layernorm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.layer_norm(x, (x.shape[-1],), w, b, kernels.EPS)


def _softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, -1)


def _linear_relu(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return torch.relu(F.linear(x, w, b))


def _conv3x3(x: Tensor, w: Tensor) -> Tensor:
    return F.conv2d(x, w, padding=1)


def _maxpool(x: Tensor) -> Tensor:
    return F.max_pool2d(x, 2)


def _rmsnorm_fp8(x: Tensor, w: Tensor, scale: Tensor) -> Tensor:
    return cast(_rmsnorm(x, w) / scale, torch.float8_e4m3fn)


def _scaled_product(x: Tensor, w: Tensor, scale: Tensor) -> Tensor:
    return (cast(x, torch.float32) @ cast(w, torch.float32).T) * scale


def _moved(x: Tensor) -> Tensor:
    return x.t().flip(0).contiguous()


ROWS = ({"rows": 64, "cols": 4096}, {"rows": 4096, "cols": 67}, {"rows": 509, "cols": 1024})
_x = tensor("rows", "cols")
_v = tensor("cols")

RMSNORM = _task("rmsnorm", _rmsnorm, {"x": _x, "w": _v}, *ROWS)
LAYERNORM = _task("layernorm", _layernorm, {"x": _x, "w": _v, "b": _v}, *ROWS)
SOFTMAX = _task("softmax", _softmax, {"x": _x}, *ROWS)
CROSS_ENTROPY = _task(
    "cross_entropy",
    F.cross_entropy,
    {"x": _x, "target": tensor("rows", draw=integers(0, "cols"), dtype="int64")},
    {"rows": 64, "cols": 10},
    *ROWS,
)
LINEAR_RELU = _task(
    "linear_relu",
    _linear_relu,
    {"x": tensor("rows", "inner"), "w": tensor("cols", "inner"), "b": tensor("cols")},
    {"rows": 64, "inner": 4096, "cols": 128},
    {"rows": 64, "inner": 128, "cols": 10},
    {"rows": 509, "inner": 512, "cols": 251},
)
CONV3X3 = _task(
    "conv3x3",
    _conv3x3,
    {"x": tensor("n", "c", "height", "height"), "w": tensor("k", "c", 3, 3)},
    {"n": 16, "c": 64, "k": 32, "height": 12},
    {"n": 16, "c": 3, "k": 16, "height": 33},
)
RMSNORM_BF16 = _task("rmsnorm bf16", _rmsnorm, {"x": _x, "w": _v}, *ROWS, dtypes=("bfloat16",))
SOFTMAX_BF16 = _task("softmax bf16", _softmax, {"x": _x}, *ROWS, dtypes=("bfloat16",))
MAXPOOL = _task("maxpool", _maxpool, {"x": tensor("n", "c", "height", "height")}, {"n": 16, "c": 16, "height": 28})

RMSNORM_FP8 = _task(
    "rmsnorm fp8", _rmsnorm_fp8, {"x": _x, "w": _v, "scale": tensor("rows", 1, draw=uniform(0.1, 1.0))}, *ROWS
)
SCALED_PRODUCT = _task(
    "scaled product fp8",
    _scaled_product,
    {
        "x": tensor("rows", "inner", dtype="float8_e4m3fn"),
        "w": tensor("cols", "inner", dtype="float8_e5m2"),
        "scale": tensor("rows", 1, draw=uniform(0.1, 1.0)),
    },
    {"rows": 64, "inner": 4096, "cols": 128},
    {"rows": 509, "inner": 512, "cols": 251},
)
MOVED = _task("moved", _moved, {"x": _x}, ROWS[0])

_AVERAGES = "one number, the mean over the rows: independent errors cancel in it"
_FINER = "finer than bf16, in which inputs and results are stored"
_BF16_SILENT = dict.fromkeys(
    (
        "inputs as TF32",
        "inputs as fp16",
        "inputs as bf16",
        "results through bf16",
    ),
    _FINER,
)

_EXACT = "8-bit floats are exact in 11 bits, and so are they in parts of them"
_FP8_SILENT = {name: _EXACT for name in DOWNCASTS if name.startswith(("inputs", "inner", "2xTF32", "bf16x", "fp16x"))}

OPERATIONS: tuple[Operation, ...] = (
    Operation(RMSNORM, kernels.rmsnorm, NORMALISES),
    Operation(derive_backward(RMSNORM), kernels.rmsnorm_backward, NORMALISES),
    Operation(
        LAYERNORM,
        kernels.layernorm,
        NORMALISES,
        {
            "one pass": kernels.layernorm_one_pass,
            "shifted one pass": kernels.layernorm_shifted,
            "Welford": kernels.layernorm_welford,
            "scale and shift": kernels.layernorm_scale_shift,
        },
    ),
    Operation(derive_backward(LAYERNORM), kernels.layernorm_backward, NORMALISES),
    Operation(
        SOFTMAX,
        kernels.softmax,
        EXPONENTIATES,
        {"exp2": kernels.softmax_exp2, "online": kernels.softmax_online},
    ),
    Operation(derive_backward(SOFTMAX), kernels.softmax_backward, EXPONENTIATES),
    Operation(
        CROSS_ENTROPY,
        kernels.cross_entropy,
        EXPONENTIATES,
        silent={name: _AVERAGES for name in DOWNCASTS if name not in ("sums in bf16", "results through bf16")},
    ),
    Operation(derive_backward(CROSS_ENTROPY), kernels.cross_entropy_backward, EXPONENTIATES),
    Operation(LINEAR_RELU, kernels.linear_relu, MULTIPLIES),
    Operation(derive_backward(LINEAR_RELU), kernels.linear_relu_backward, MULTIPLIES | {"sum"}),
    Operation(
        CONV3X3,
        kernels.conv3x3,
        MULTIPLIES,
        {
            "Winograd F(2x2)": partial(kernels.conv3x3_winograd, tile=2),
            "Winograd F(4x4)": partial(kernels.conv3x3_winograd, tile=4),
        },
    ),
    Operation(MOVED, kernels.moved, SELECTS),
    Operation(MAXPOOL, kernels.maxpool, SELECTS),
    Operation(derive_backward(MAXPOOL), kernels.maxpool_backward, SELECTS),
    Operation(RMSNORM_BF16, kernels.rmsnorm, NORMALISES, silent=_BF16_SILENT),
    Operation(SOFTMAX_BF16, kernels.softmax, EXPONENTIATES, silent=_BF16_SILENT),
    Operation(RMSNORM_FP8, kernels.rmsnorm_scaled, NORMALISES),
    Operation(SCALED_PRODUCT, kernels.scaled_product, MULTIPLIES, silent=_FP8_SILENT),
)
