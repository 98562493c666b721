"""The steps of a program that torch carries out between the candidate's launches, on the launcher's own stream.

Runs in a launcher that has torch (`with_torch`). A record names operators of a closed list and where their tensors lie;
nothing else of the candidate reaches this code.
"""

from __future__ import annotations

import ctypes
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from kernelwright.contracts.program import LibraryStep, Program, TensorView
from kernelwright.devices.driver import CudaFailure, check, driver
from kernelwright.judge.launcher.timed_queue import LIBRARY_FAILED, LIBRARY_REFUSED
from kernelwright.runtime.memory import DeviceBytes
from kernelwright.tasks.imported.operators import is_allowed

# What the dispatcher makes of modules, beside the operators that an imported task may name.
ALSO = """
native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training _native_batch_norm_legit_functional
_batch_norm_with_update _batch_norm_no_update cudnn_batch_norm _convolution _unsafe_index _weight_norm_interface
_scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention
adaptive_max_pool2d adaptive_max_pool3d _fused_rms_norm
"""
# What a launch before it did, which torch may be the first to hear of.
_OF_THE_DEVICE = {
    "an illegal memory access": "CUDA_ERROR_ILLEGAL_ADDRESS",
    "misaligned address": "CUDA_ERROR_MISALIGNED_ADDRESS",
    "CUDA error": "CUDA_ERROR_LAUNCH_FAILED",
}


class TorchSteps:
    """Of one program. What torch allocates for a call is kept until the next one, so that no later step of the call
    writes where an earlier one's result is still to be read."""

    def __init__(self, program: Program, stream: Any) -> None:
        self._program, self._stream = program, stream
        self._played = not torch.cuda.is_available()  # a driver that is played, whose memory is the host's
        self._device = "cpu" if self._played else "cuda"
        calls = (step for step in program.steps if isinstance(step, LibraryStep))
        self._calls = [_Call(step, self._device.upper()) for step in calls]
        self._tensors: dict[tuple[TensorView, int], torch.Tensor] = {}
        self._made: list[torch.Tensor] = []

    def begin(self) -> None:
        """Forgets the call before: torch finds its memory as it was when that one began."""
        self._made.clear()

    def close(self) -> None:
        self._made.clear()
        self._tensors.clear()
        if not self._played:
            torch.cuda.empty_cache()

    def carry_out(self, number: int, addresses: Sequence[int]) -> Mapping[int, int]:
        """Enqueues the step with this number among its like. The answer has the blocks that lie elsewhere from now on:
        a result that fills a block of scratch stays where torch made it, since a user's call would not copy it."""
        call = self._calls[number]
        if self._played:
            check(driver().cuStreamSynchronize(self._stream), "the launches before a step of torch")
        try:
            return self._carried_out(call, addresses)
        except torch.OutOfMemoryError as error:
            raise CudaFailure(f"torch's {call.name}", "CUDA_ERROR_OUT_OF_MEMORY") from error
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            text = next(iter(str(error).strip().splitlines()), type(error).__name__)
            name = next((name for words, name in _OF_THE_DEVICE.items() if words in text), LIBRARY_FAILED)
            raise CudaFailure(f"torch's {call.name} ({text})", name) from error

    def _carried_out(self, call: _Call, addresses: Sequence[int]) -> Mapping[int, int]:
        step = call.step
        given = [self._tensor(view, addresses) for view in step.tensors]
        targets = [self._tensor(view, addresses) for view in step.results]
        args = [_decoded(value, given) for value in call.args]
        options = {name: _decoded(value, given) for name, value in call.options.items()}
        if call.makes_anew:
            options["device"] = self._device
        movable = [self._may_move(view) for view in step.results]
        if call.into is not None and not all(movable):
            call.into(*args, **options, **dict(zip(call.result_names, targets, strict=True)))
            return {}
        found = list(_tensors_in(call.function(*args, **options)))
        if len(found) != len(targets):
            raise RuntimeError(f"it gives {len(found)} tensors and the record has {len(targets)}")
        self._made += found
        taken = {one.untyped_storage().data_ptr() for one in given}
        moved: dict[int, int] = {}
        for view, may_move, target, value in zip(step.results, movable, targets, found, strict=True):
            if value.numel() == 0 or value.data_ptr() == target.data_ptr():
                continue
            own = value.untyped_storage().data_ptr() not in taken
            if may_move and own and (value.dtype, value.stride()) == (target.dtype, view.strides):
                moved[view.block] = value.data_ptr()
            else:
                target.copy_(value)
        return moved

    def _may_move(self, view: TensorView) -> bool:
        """Whether a result is all there is in a block that no other process sees."""
        block = self._program.blocks[view.block]
        return block.fill == "poison" and view.offset == 0 and view.extent == block.extent

    def _tensor(self, view: TensorView, addresses: Sequence[int]) -> torch.Tensor:
        key = view, addresses[view.block] + view.offset
        if key not in self._tensors:
            self._tensors[key] = self._made_of(*key)
        return self._tensors[key]

    def _made_of(self, view: TensorView, address: int) -> torch.Tensor:
        dtype, count = getattr(torch, view.dtype), view.extent
        if not count:
            return torch.empty(view.sizes, dtype=dtype, device=self._device)
        if self._played:
            flat = torch.frombuffer((ctypes.c_uint8 * count).from_address(address), dtype=torch.uint8)
        else:
            flat = torch.as_tensor(DeviceBytes(address, count), device=self._device)
        return flat.view(dtype).as_strided(view.sizes, view.strides)


@dataclass
class _Call:
    step: LibraryStep
    dispatch: str  # what the dispatcher calls the device

    def __post_init__(self) -> None:
        raw = json.loads(self.step.call)
        self.op, self.args, self.options = raw["op"], raw["args"], raw["kwargs"]
        family, self.name, overload = self.op.split(".")
        if family != "aten" or not (is_allowed(self.name) or self.name in ALSO.split()):
            raise CudaFailure(f"torch's {self.name} is not on the list of operators and", LIBRARY_REFUSED)
        self.packet: Any = getattr(torch.ops.aten, self.name, None)
        found = getattr(self.packet, overload, None)
        if found is None:
            raise CudaFailure(f"{self.op} is not in PyTorch {torch.__version__} and", LIBRARY_REFUSED)
        self.function: Callable[..., Any] = found
        self.schema: Any = found._schema

    @property
    def makes_anew(self) -> bool:
        """Whether it takes no tensor, and a device in their place, which the record leaves open."""
        return not self.step.tensors and any(one.name == "device" for one in self.schema.arguments)

    @cached_property
    def into(self) -> Callable[..., Any] | None:
        """The variant that writes into tensors it is given, where the device has a kernel for it: others copy."""
        wanted = [(one.name, str(one.type)) for one in self.schema.arguments]
        for overload in self.packet.overloads():
            function = getattr(self.packet, overload)
            arguments = function._schema.arguments
            given = [(one.name, str(one.type)) for one in arguments if not one.is_out]
            outs = sum(one.is_out for one in arguments)
            name = ".".join(filter(None, (function._schema.name, function._schema.overload_name)))
            native = torch._C._dispatch_has_kernel_for_dispatch_key(name, self.dispatch)
            if given == wanted and outs == len(self.step.results) and outs and native:
                return function  # type: ignore[no-any-return]
        return None

    @cached_property
    def result_names(self) -> list[str]:
        assert self.into is not None
        return [one.name for one in self.into._schema.arguments if one.is_out]  # type: ignore[attr-defined]


def _decoded(value: Any, tensors: Sequence[torch.Tensor]) -> Any:
    """A value of `tasks.imported.traced.OperatorCall`, whose form was checked when the record came."""
    if not isinstance(value, dict):
        return value
    ((kind, given),) = value.items()
    match kind:
        case "node":
            return tensors[given]
        case "items":
            return [_decoded(one, tensors) for one in given]
        case "number":
            return {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}[given]
        case "dtype" | "memory_format":
            return getattr(torch, given)
        case "text":
            return given
    raise CudaFailure(f"a step of torch's with a value of the kind {kind}", LIBRARY_REFUSED)


def _tensors_in(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _tensors_in(one)
