"""Where Triton's interpreter differs from a GPU, put right: float32 products in TF32, and loops under NumPy 2.4."""

from __future__ import annotations

import math
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as cuda_libdevice
from triton.runtime import interpreter

_HALF, _KEPT = np.uint32(1 << 12), np.uint32(0xFFFFE000)  # of the 13 bits of a float32 that TF32 does not have


class WarmedUp:
    """Stands for the compiled kernel that `warmup` gives: of a size that fits, and to be launched."""

    n_regs, n_spills, n_max_threads = 32, 0, 1024
    metadata = types.SimpleNamespace(shared=0, num_warps=4, num_ctas=1)

    def __init__(self, function: Any) -> None:
        self._function = function

    def _init_handles(self) -> None: ...

    def __getitem__(self, grid: Any) -> Any:
        return lambda *given, **named: self._function.run(*given, grid=grid, warmup=False, **named)


def as_on_a_gpu() -> None:
    _loops()
    _numbers()
    _library()
    _products()
    run = interpreter.InterpretedFunction.run

    def warmed(self: Any, *given: Any, grid: Any, warmup: bool, **named: Any) -> Any:
        return WarmedUp(self) if warmup else run(self, *given, grid=grid, warmup=False, **named)

    interpreter.InterpretedFunction.run = warmed
    # All memory is the host's: an argument is handed over as it is, and nothing is copied back.
    interpreter.GridExecutor._init_args_hst = lambda self, args, kwargs: (args, kwargs)
    interpreter.GridExecutor._restore_args_dev = lambda *_: None


class _Running:
    """Whether a kernel is being interpreted, and not host code of the same module."""

    kernel = False


def counted(*given: Any) -> Iterator[Any]:
    """`range` for a module: a kernel counts in tensors, which have methods, as it does on a GPU."""
    for number in range(*given):
        yield interpreter._implicit_cvt(number) if _Running.kernel else number


def _loops() -> None:
    """A number in a kernel is an array of one element, which NumPy does not turn into an index any more."""
    tensors, core = interpreter._patch_lang_tensor, interpreter._patch_lang_core
    call = interpreter.GridExecutor.__call__

    def patched(tensor: Any, scope: Any) -> None:
        tensors(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.reshape(-1)[0]))

    def patched_core(lang: Any, scope: Any) -> None:
        core(lang, scope)
        plain = lang.range
        scope.set_attr(lang, "range", lambda *given, **_: map(interpreter._implicit_cvt, plain(*given)))

    def running(self: Any, *given: Any, **named: Any) -> Any:
        self.fn.__globals__.setdefault("range", counted)
        _Running.kernel = True
        try:
            return call(self, *given, **named)
        finally:
            _Running.kernel = False

    interpreter._patch_lang_tensor, interpreter._patch_lang_core = patched, patched_core
    interpreter.GridExecutor.__call__ = running


def _numbers() -> None:
    """A float that reaches a kernel is a float32, which has methods."""
    original = interpreter._implicit_cvt

    def converted(given: Any) -> Any:
        if isinstance(given, float):
            return tl.tensor(interpreter.TensorHandle(np.array([given], np.float32), tl.float32), tl.float32)
        return original(given)

    interpreter._implicit_cvt = converted


_NUMPY = {
    **{name: getattr(np, name) for name in ("sqrt", "exp", "exp2", "log", "log2", "log10", "log1p", "expm1", "tanh")},
    **{name: getattr(np, name) for name in ("sin", "cos", "tan", "sinh", "cosh", "floor", "ceil", "rint", "trunc")},
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "erf": np.vectorize(math.erf),
    "pow": np.power,
    "abs": np.abs,
    "fast_expf": np.exp,
    "fast_logf": np.log,
    "fast_tanhf": np.tanh,
    "fast_sinf": np.sin,
    "fast_cosf": np.cos,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "fma": lambda a, b, c: a * b + c,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "erfc": np.vectorize(math.erfc),
    "fabs": np.abs,
    "div_rn": np.divide,
}


def _library() -> None:
    """Functions of libdevice, of which the interpreter has the names alone."""

    def function(name: str) -> Any:
        def compute(*given: Any, **_: Any) -> Any:
            tensors = [interpreter.interpreter_semantic.to_tensor(one) for one in given]
            first = tensors[0]
            with np.errstate(all="ignore"):
                values = np.asarray(_NUMPY[name](*(one.handle.data for one in tensors)), first.handle.data.dtype)
            return tl.tensor(interpreter.TensorHandle(values, first.dtype), first.type)

        return compute

    for module in (libdevice, cuda_libdevice):
        for name in _NUMPY:
            if hasattr(module, name):
                setattr(module, name, function(name))


def _products() -> None:
    """`tl.dot` of float32 is computed in TF32 unless its author asks for more."""
    original = interpreter.InterpreterBuilder.create_dot

    def create_dot(self: Any, a: Any, b: Any, d: Any, precision: Any, imprecise: Any) -> Any:
        if a.data.dtype == np.float32 and str(precision).rpartition(".")[2] == "TF32":
            a, b = (interpreter.TensorHandle(rounded(one.data), one.dtype) for one in (a, b))
        if a.dtype.is_bf16() and a.data.dtype == np.uint16:  # bfloat16, which NumPy does not have, as bits
            a, b = (interpreter.TensorHandle(widened(one.data), tl.float32) for one in (a, b))
        return original(self, a, b, d, precision, imprecise)

    interpreter.InterpreterBuilder.create_dot = create_dot


def widened(bits: Any) -> Any:
    """bfloat16 as float32."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def rounded(values: Any) -> Any:
    """To the ten bits of mantissa that TF32 has."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    finite = np.isfinite(values)
    return np.where(finite, ((bits + _HALF) & _KEPT).view(np.float32), values)
