"""Runs a reference without values, at any size.

Meta tensors have a shape and a dtype and no memory; under their device a reference makes such tensors itself
(`torch.arange(n)`). Fake tensors, which also know a device, serve what meta tensors do not; making the first one takes
torch seconds. Either way nothing of full size is made while a task is opened.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch._subclasses.fake_tensor import FakeTensor

from kernelwright.tasks.declarations import Scalar, TensorInput
from kernelwright.tasks.model import Task, Workload

if TYPE_CHECKING:
    from torch._subclasses.fake_tensor import FakeTensorMode

VALUE_BYTES = 64 << 20  # of a workload's tensors: beyond it, nothing is computed while a task is opened
META = torch.device("meta")


def fake_tensors() -> FakeTensorMode:
    """Operations that cannot be followed without values raise, where torch would compute them at full size."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode(allow_non_fake_inputs=True, allow_fallback_kernels=False)


@contextmanager
def followed(arguments: Mapping[str, torch.Tensor | Scalar]) -> Iterator[None]:
    """What a reference makes itself is without values, too, if its arguments are."""
    tensors = [value for value in arguments.values() if isinstance(value, torch.Tensor)]
    mode = next((value.fake_mode for value in tensors if isinstance(value, FakeTensor)), None)
    if mode is not None:
        with mode:
            yield
    elif any(value.is_meta for value in tensors):
        with META:
            yield
    else:
        yield


def needs_values(error: BaseException) -> bool:
    """Whether a reference could not be followed because it looks at values, and not for a fault of its own."""
    cause = error.__cause__ or error
    return type(cause).__module__ == FakeTensor.__module__


def declared_bytes(task: Task, workload: Workload) -> int:
    """The bytes of the tensors that the task declares, results not counted."""
    sizes = workload.size_map
    tensors = (declared for declared in task.inputs.values() if isinstance(declared, TensorInput))
    return sum(math.prod(one.shape(sizes)) * _itemsize(one.dtype or workload.dtype) for one in tensors)


def _itemsize(dtype: str) -> int:
    found = getattr(torch, dtype)
    assert isinstance(found, torch.dtype)
    return found.itemsize


def has_values(task: Task, workload: Workload) -> bool:
    """Whether a workload is small enough to be computed while a task is opened."""
    return declared_bytes(task, workload) <= VALUE_BYTES
