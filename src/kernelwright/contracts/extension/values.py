"""What the light headers and their callers share: the numbers of dtypes, the header files, advice on torch's calls."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

INCLUDE = Path(__file__).parent / "include"
LIGHT_HEADERS = (
    *("extension.h", "call_abi.h", "scalar_types.h", "errors.h", "tensor.h"),
    *("compute.h", "accessor.h", "dispatch.h", "streams.h", "binding.h", "library_calls.h"),
)
DTYPE_NUMBERS = {  # as c10::ScalarType has them
    "uint8": 0,
    "int8": 1,
    "int16": 2,
    "int32": 3,
    "int64": 4,
    "float16": 5,
    "float32": 6,
    "float64": 7,
    "bool": 11,
    "bfloat16": 15,
    "float8_e5m2": 23,
    "float8_e4m3fn": 24,
}
_MISSING = re.compile(
    r"(?:namespace [\"'‘]?(?:torch|at)[\"'’]? has no member [\"'‘](\w+)"  # noqa: RUF001 - as compilers write it
    r"|[\"'‘](\w+)[\"'’] is not a member of [\"'‘](?:torch|at)[\"'’]"  # noqa: RUF001
    r"|(?:struct|class) [\"'‘](?:at|torch)::Tensor[\"'’] has no member (?:named )?[\"'‘](\w+))"  # noqa: RUF001
)
_LIBRARY = re.compile(
    r"[\"'‘]?\b((?:cublas|cudnn|cusparse|cusolver|cufft|curand|nccl)[A-Z]\w*)[\"'’]? "  # noqa: RUF001
    r"(?:is undefined|was not declared|has not been declared|does not name a type)"
)


def light_headers() -> tuple[tuple[str, str], ...]:
    return tuple((name, (INCLUDE / name).read_text(encoding="utf-8")) for name in LIGHT_HEADERS)


def advice_on_torch(lines: Sequence[str]) -> tuple[str, ...]:
    """For the author of what does not build: the calls of torch and of libraries that do not exist here."""
    names = dict.fromkeys(next(filter(None, found)) for line in lines for found in _MISSING.findall(line))
    called = dict.fromkeys(name for line in lines for name in _LIBRARY.findall(line))
    return (
        *(f"torch's {name} does not exist in this contract: write a kernel for it" for name in names),
        *(f"{name} is a library's and does not exist in this contract: write a kernel for it" for name in called),
    )
