"""Why a call is not the kernel's: what holds for a whole process or thread, and what is asked of each argument.

A reason is a sentence that ends "… , so the reference is used"; calls are counted by it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import forward_ad

from . import machine
from .manifest import ProvedVariant

PLAIN_TYPES = (torch.Tensor, torch.nn.Parameter)
SUBCLASS = "an argument is a tensor subclass"
TRANSFORM = "the call is inside a torch.func transform such as vmap"
MODE = "a dispatch mode of torch is active"
AUTOCAST = "autocast is on"
NUMBER = "a number is not the one with which the kernel was proved"
DTYPE = "no kernel was proved for these dtypes"
DEVICE = "no kernel was proved for tensors on this device"
STRIDES = "a tensor is not contiguous"
ALIGNMENT = "a tensor's memory does not begin or end where the kernel was proved to work"
SIZES = "no kernel was proved faster for these sizes"
SHAPES = "the shapes are not those of a call that was proved"
GRADIENT = "gradients are wanted, and no kernel was proved for the backward here"
IN_PLACE = "a tensor that is changed in place wants gradients, or shares memory with another argument"
DETERMINISTIC = "deterministic algorithms are demanded, and the kernel was not seen to be deterministic"
NEGATED = "a tensor is a lazy conjugate or negative"
TANGENT = "a tensor has a tangent of forward-mode differentiation"
TRACED = "the call is traced by torch.jit"

_peek = torch._C._functorch.peek_interpreter_stack
_dispatch_modes = torch._C._len_torch_dispatch_stack
_function_modes = torch._C._len_torch_function_stack
_tracing = torch._C._get_tracing_state
_autocast = torch.is_autocast_enabled
_unpack_dual: Any = forward_ad.unpack_dual  # torch has no types for it


def of_mode(kind: str, *, autocast: bool = True) -> str | None:
    """What about the state of the calling thread keeps every kernel from being used."""
    if _peek() is not None:
        return TRANSFORM
    if _dispatch_modes() or _function_modes():
        return MODE
    if _tracing() is not None:
        return TRACED
    if autocast and _autocast(kind):
        return AUTOCAST
    return None


def in_forward_mode() -> bool:
    return forward_ad._current_level >= 0


def has_tangent(tensor: torch.Tensor) -> bool:
    return _unpack_dual(tensor).tangent is not None


def of_machine(variant: ProvedVariant, allowed: frozenset[str], index: int | None = None) -> str | None:
    """What about this machine keeps a variant from being used at all. Features that a processor lacks cannot be
    allowed: the binary would end the process."""
    if variant.kind == "cuda":
        return _of_gpu(variant, allowed, index)
    lacking = sorted(set(variant.features) - machine.cpu_features())
    if lacking:
        return f"this processor lacks {', '.join(lacking[:4])}, which the kernel was built for"
    if variant.device != machine.cpu_model() and "device" not in allowed:
        return f"the speed was proved on {variant.device}, and this is {machine.cpu_model()} (allow 'device' to use it)"
    return None


def _of_gpu(variant: ProvedVariant, allowed: frozenset[str], index: int | None) -> str | None:
    """A cubin with instructions of one chip runs on that chip alone; its speed was proved on one product of it."""
    if not torch.cuda.is_available():
        return "there is no GPU here"
    major, minor = torch.cuda.get_device_capability(index)
    here = f"sm_{major}{minor}{'a' if major >= 9 else ''}"
    if here != variant.features[0]:
        return f"the kernel was built for {variant.features[0]}, and this is {here}"
    name = torch.cuda.get_device_name(index)
    if name != variant.device and "device" not in allowed:
        return f"the speed was proved on {variant.device}, and this is {name} (allow 'device' to use it)"
    return None


def of_threads(variant: ProvedVariant, allowed: frozenset[str]) -> str | None:
    """A kernel that beats torch with one thread says nothing of torch with sixteen."""
    if variant.kind == "cpu" and torch.get_num_threads() != variant.threads and "threads" not in allowed:
        return (
            f"the speed was proved with {_counted(variant.threads)}, and torch uses {torch.get_num_threads()} "
            "(torch.set_num_threads, or allow 'threads' to use it)"
        )
    return None


def _counted(threads: int) -> str:
    return "1 thread" if threads == 1 else f"{threads} threads"


def same_number(given: Any, proved: Any) -> bool:
    """As the proved one, bit for bit: 1 is 1.0, and -0.0 is not 0.0."""
    if type(given) is type(proved) and given == proved and given:
        return True
    if given is None or proved is None:
        return given is proved
    if isinstance(given, bool | int | float) and isinstance(proved, bool) == isinstance(given, bool):
        return float(given) == float(proved) and str(float(given)) == str(float(proved))
    return False
