"""Baselines that are a task's reference run otherwise: attention by one backend, images in another order, TF32.

Each is a function with the reference's signature. One that cannot do a task says so in a line (`UnfitError`), and the
task is judged without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from kernelwright.judge.baseline_names import OWN, TF32
from kernelwright.judge.oracle.flags import strict_flags
from kernelwright.tasks.model import Task

Function = Callable[..., Any]
BACKENDS = {
    "sdpa-math": SDPBackend.MATH,
    "sdpa-flash": SDPBackend.FLASH_ATTENTION,
    "sdpa-efficient": SDPBackend.EFFICIENT_ATTENTION,
    "sdpa-cudnn": SDPBackend.CUDNN_ATTENTION,
}
ATTENTION = "scaled_dot_product_attention"
ORDERS = {4: torch.channels_last, 5: torch.channels_last_3d}
WORDS = 200


class UnfitError(Exception):
    """A baseline that cannot do this task, in one line."""


def variant(kind: str, task: Task) -> Function:
    """The baseline of this name for a task; compiled ones are made by their processes."""
    if kind in BACKENDS:
        return _with_backend(task.reference, kind)
    if kind.startswith(OWN):
        return _own(kind.removeprefix(OWN), task)
    if kind == "channels-last":
        return _channels_last(task.reference)
    if kind == "cudnn-benchmark":
        return _benchmarked(task.reference)
    if kind in ("eager", TF32):
        return task.reference
    from kernelwright.judge.baseline_processes.libraries import library_call

    return library_call(kind, task)


def flags(kind: str) -> AbstractContextManager[None]:
    """The numeric flags under which a baseline runs: the references', but for the one that shows what TF32 gives."""
    return _tf32() if kind == TF32 else strict_flags()


def tried(function: Function, call: Callable[[], object]) -> None:
    """A first call, in which whatever a library raises means that it cannot do this."""
    try:
        call()
    except UnfitError:
        raise
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # a library may raise anything
        raise UnfitError(_line(error)) from error
    if isinstance(function, _AttentionCall) and not function.met:
        raise UnfitError(f"the task does not call {ATTENTION}")


@contextmanager
def _tf32() -> Iterator[None]:
    with strict_flags():
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.allow_tf32 = True
        yield


class _Watch(TorchFunctionMode):
    """Notes whether attention was called, as a function or as a node of a graph."""

    met = False

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        self.met = self.met or ATTENTION in str(function)
        return function(*arguments, **(options or {}))


class _AttentionCall:
    """The reference with one backend. Only its first call is watched: watching takes time."""

    def __init__(self, reference: Function, backend: SDPBackend) -> None:
        self._reference, self._backend = reference, backend
        self.met = False

    def __call__(self, *arguments: Any) -> Any:
        with sdpa_kernel([self._backend]), nullcontext() if self.met else _Watch() as watch:
            result = self._reference(*arguments)
        self.met = self.met or (watch is not None and watch.met)
        return result


def _with_backend(reference: Function, kind: str) -> Function:
    return _AttentionCall(reference, BACKENDS[kind])


def _channels_last(reference: Function) -> Function:
    def call(*arguments: Any) -> Any:
        if not any(isinstance(one, torch.Tensor) and one.dim() in ORDERS for one in arguments):
            raise UnfitError("the task has no tensor of four or five dimensions")
        return reference(*(_reordered(one) for one in arguments))

    return call


def _reordered(value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or value.dim() not in ORDERS:
        return value
    return value.contiguous(memory_format=ORDERS[value.dim()])


def _benchmarked(reference: Function) -> Function:
    def call(*arguments: Any) -> Any:
        before = torch.backends.cudnn.benchmark
        torch.backends.cudnn.benchmark = True
        try:
            return reference(*arguments)
        finally:
            torch.backends.cudnn.benchmark = before

    return call


def _own(name: str, task: Task) -> Function:
    if name not in task.baselines:
        known = ", ".join(task.baselines) or "none"
        raise UnfitError(f"the task names no baseline {name!r} (it names {known})")
    return task.baselines[name]


def _line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:WORDS]
