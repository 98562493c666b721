"""Compiles CUDA C++ with NVRTC in this process; outside cuda/, since the judge compiles its own helper kernels, too.

Hostile text is compiled only where the toolchain has confined the process.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from kernelwright.devices.driver import INSTALL
from kernelwright.errors import CannotDecide


@dataclass(frozen=True)
class Compiled:
    """A cubin, the mangled names of the kernels asked for, and what the compiler had to say."""

    cubin: bytes
    names: dict[str, str]
    log: str


class CompileError(Exception):
    """The compiler refused the source; its log says why."""

    def __init__(self, log: str) -> None:
        super().__init__(log)
        self.log = log


@cache
def bindings() -> Any:
    try:
        found = importlib.import_module("cuda.bindings.nvrtc")
        found.nvrtcVersion()
    except (ImportError, RuntimeError) as error:
        raise CannotDecide(f"NVRTC is missing ({error}): {INSTALL}") from error
    return found


@cache
def version() -> tuple[int, int]:
    answer = bindings().nvrtcVersion()
    return int(answer[1]), int(answer[2])


def available() -> str:
    """Empty if sources can be compiled here, or why not."""
    try:
        version()
    except CannotDecide as error:
        return str(error)
    return ""


def compile_cuda(source: str, name: str, options: Sequence[str], kernels: Sequence[str]) -> Compiled:
    """`kernels` are name expressions: `f`, `f<float, 4>`. Raises CompileError with the log."""
    nvrtc = bindings()
    program = _check(nvrtc.nvrtcCreateProgram(source.encode(), name.encode(), 0, [], []))
    try:
        for kernel in kernels:
            _check(nvrtc.nvrtcAddNameExpression(program, kernel.encode()))
        encoded = [option.encode() for option in options]
        status = nvrtc.nvrtcCompileProgram(program, len(encoded), encoded)[0]
        log = _text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
        if int(status) != 0:
            raise CompileError(log or str(status))
        names = {}
        for kernel in kernels:
            lowered = _check(nvrtc.nvrtcGetLoweredName(program, kernel.encode()))
            names[kernel] = lowered.decode()
        return Compiled(_bytes(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program), names, log)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _check(answer: tuple[Any, ...]) -> Any:
    if int(answer[0]) != 0:
        raise CompileError(f"NVRTC: {getattr(answer[0], 'name', answer[0])}")
    return answer[1] if len(answer) > 1 else None


def _bytes(size: Any, get: Any, program: Any) -> bytes:
    buffer = bytes(int(_check(size(program))))
    _check(get(program, buffer))
    return buffer


def _text(size: Any, get: Any, program: Any) -> str:
    return _bytes(size, get, program).rstrip(b"\0").decode("utf-8", "replace").strip()
