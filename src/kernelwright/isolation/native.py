"""The judge's own small programs (warden, runner and others), by name."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

from kernelwright.devices.compiler import compiled

SOURCES = Path(__file__).parent / "native_sources"
SANITIZERS = ("-fsanitize=address,undefined", "-fno-omit-frame-pointer")

_FLAGS: dict[str, tuple[str, ...]] = {
    "warden": ("-O2",),
    "runner": ("-O2", "-ldl"),
    # Exporting symbols lets the runner answer for what a candidate would tell the sanitizers.
    "runner-sanitized": ("-O1", *SANITIZERS, "-rdynamic", "-DKW_SANITIZED", "-ldl"),
    "flush.so": ("-O2", "-shared", "-fPIC"),
    "libraries.so": ("-fopenmp", "-shared", "-fPIC", "-Wl,--no-as-needed", "-lm", "-lpthread"),
}


@cache
def program(name: str) -> Path:
    """The path of a native program, compiled on first use."""
    source = SOURCES / f"{name.split('-')[0].removesuffix('.so')}.cpp"
    flags = _FLAGS[name]
    if name == "flush.so" and platform.machine() == "x86_64":
        flags = (*flags, "-mclflushopt")
    return compiled(source, name, flags)
