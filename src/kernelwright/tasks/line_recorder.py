"""Writes on every node of a trace which line of the author's code it comes from, also on those of a gradient.

make_fx copies the stack trace that is set meanwhile to each node that it makes. It is set before each call that the
reference makes to torch, and again before each step of a gradient, by what called its forward.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator
from functools import partial
from types import FrameType
from typing import Any

import torch
from torch.fx import traceback as fx_traceback
from torch.overrides import TorchFunctionMode

from kernelwright.tasks.source_lines import CALLERS, SourceMap, is_authors, is_layer

MARK = "kernelwright_line"  # of a step of autograd that says its line when it runs


class LineRecorder(TorchFunctionMode):
    """`known`: the files whose lines stand for others."""

    def __init__(self, known: SourceMap | None = None) -> None:
        super().__init__()
        self._known = known or {}

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        written = self._authors_frame(sys._getframe(1))
        if written:
            fx_traceback.set_stack_trace([written])
        result = func(*args, **(kwargs or {}))
        if written:
            _mark(result, written)
        return result

    def _authors_frame(self, frame: FrameType | None) -> str:
        layer = ""
        while frame is not None and frame.f_code.co_filename not in CALLERS:
            file = frame.f_code.co_filename
            if file in self._known or is_authors(file):
                return _written(frame)
            if not layer and is_layer(file):
                layer = _written(frame)
            frame = frame.f_back
        return layer


def _written(frame: FrameType) -> str:
    """As torch writes it."""
    file, line = frame.f_code.co_filename, frame.f_lineno
    text = linecache.getline(file, line, frame.f_globals).strip()
    return f'File "{file}", line {line}, in {frame.f_code.co_name}\n    {text}\n'


def _mark(result: Any, written: str) -> None:
    """The steps of the gradient that a call added set its line before they run."""
    left = [one.grad_fn for one in _tensors(result) if one.grad_fn is not None]
    while left:
        step = left.pop()
        known: Any = step.metadata
        if MARK not in known:
            known[MARK] = written
            step.register_prehook(partial(_set, written))
            left += [inner for inner, _ in step.next_functions if inner is not None]


def _set(written: str, gradients: Any) -> None:
    fx_traceback.set_stack_trace([written])


def _tensors(result: Any) -> Iterator[torch.Tensor]:
    parts = result if isinstance(result, tuple | list) else (result,)
    return (one for one in parts if isinstance(one, torch.Tensor))
