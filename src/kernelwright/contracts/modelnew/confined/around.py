"""What of torch means something else here: compilers are left out, dropout too, and CUDA graphs are refused.

A compiler of torch makes kernels that are torch's, and what it wraps is recorded as it is written. A problem's dropout
is left out when it becomes a task, because no two implementations draw the same numbers.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import torch
from kw_confined.refusal import Refusals

GRAPHS = ("CUDAGraph", "graph", "make_graphed_callables", "graph_pool_handle", "is_current_stream_capturing_graph")


def put_right(refusals: Refusals, load_inline: Callable[..., Any], load: Callable[..., Any]) -> None:
    _extensions(refusals, load_inline, load)
    torch.compile = _wrapped  # type: ignore[assignment]
    for name in ("script", "trace", "freeze", "optimize_for_inference"):
        setattr(torch.jit, name, _wrapped)
    names = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
    for name in names:
        setattr(torch.nn.functional, name, lambda given, *_, **__: given)
    torch.dropout = torch.feature_dropout = torch.alpha_dropout = lambda given, *_, **__: given

    def graph(*_: Any, **__: Any) -> Any:
        raise refusals.refuse("host code replays a CUDA graph: every call is launched anew, on values never seen")

    for name in GRAPHS:
        setattr(torch.cuda, name, graph)


def _wrapped(given: Any = None, *_: Any, **__: Any) -> Any:
    return given if given is not None else lambda function: function


def _extensions(refusals: Refusals, load_inline: Callable[..., Any], load: Callable[..., Any]) -> None:
    """torch.utils.cpp_extension without its compiler."""

    def refused(*_: Any, **__: Any) -> Any:
        raise refusals.refuse("host code builds by setuptools: give all sources to load_inline, as strings")

    made = types.ModuleType("torch.utils.cpp_extension")
    made.load_inline, made.load = load_inline, load  # type: ignore[attr-defined]
    for name in ("CUDAExtension", "CppExtension", "BuildExtension"):
        setattr(made, name, refused)
    made.CUDA_HOME = "/usr/local/cuda"  # type: ignore[attr-defined]
    made.include_paths = made.library_paths = lambda *_, **__: []  # type: ignore[attr-defined]
    sys.modules[made.__name__] = made
    torch.utils.cpp_extension = made  # type: ignore[attr-defined]
