"""What a kernel's `#include` brings on a GPU: the constants of the very headers that NVRTC is given, and no others.

Our own headers include the host's, which bring many more. All of them are taken back before the kernel's text, so that
a constant is known here where NVRTC knows it: nowhere without its header.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from kernelwright.contracts.cuda.toolkit import OWN_HEADERS

CONSTANTS = Path(__file__).parent / "include" / "kw_constants.h"
_FILES = {name: OWN_HEADERS / name for name in ("float.h", "limits.h", "math.h", "stdint.h")}
_FILES["math_constants.h"] = CONSTANTS
_GROUPS = ("limits.h", "stdint.h")  # libcu++ brings the same with the header of cooperative groups
BRINGS = {
    **{name: (name,) for name in _FILES},
    "cfloat": ("float.h",),
    "climits": ("limits.h",),
    "cmath": ("math.h",),
    "cstdint": ("stdint.h",),
    "cooperative_groups.h": _GROUPS,
    "cooperative_groups/reduce.h": _GROUPS,
}
# What the compiler of the host has built in, and NVRTC has not.
_BUILT_IN = tuple(f"__{kind}_{what}__" for kind in ("FLT", "DBL") for what in ("MAX", "MIN", "EPSILON", "DENORM_MIN"))
_UNKNOWN = re.compile(r"(?:error: |undeclared identifier )['‘](\w+)['’]")  # noqa: RUF001 - as GCC and Clang write it
_DEFINITION = re.compile(r"^#define (\w+) .*$", re.MULTILINE)


def included(header: str) -> str:
    """The line in the place of an `#include`: empty where the header brings no constants."""
    return f'#include "{_name(header)}"' if header in BRINGS else ""


@cache
def constants() -> tuple[tuple[str, str], ...]:
    """A file of constants for each header that brings some."""
    return tuple(
        (_name(header), "#pragma once\n" + "".join(_definitions(name) for name in names))
        for header, names in BRINGS.items()
    )


@cache
def taken_back() -> str:
    names = {name for file in _FILES for name in _DEFINITION.findall(_definitions(file))}
    return "".join(f"#undef {name}\n" for name in (*sorted(names), *_BUILT_IN))


def needed_headers(lines: Iterable[str]) -> tuple[str, ...]:
    """For the author of what does not build: the header of each constant that the compiler does not know."""
    unknown = dict.fromkeys(name for line in lines for name in _UNKNOWN.findall(line))
    homes = {name: file for file in _FILES for name in _DEFINITION.findall(_definitions(file))}
    return tuple(f"{name} needs #include <{homes[name]}>" for name in unknown if name in homes)


def _name(header: str) -> str:
    return f"of_{re.sub(r'[^a-z]', '_', header)}.h"


@cache
def _definitions(name: str) -> str:
    """Without types: those of the host's headers stay."""
    text = _FILES[name].read_text(encoding="utf-8")
    return "".join(f"{match[0]}\n" for match in _DEFINITION.finditer(text))
