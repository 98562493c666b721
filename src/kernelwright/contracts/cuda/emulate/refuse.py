"""What the emulator does not have, found in the source before anything is compiled, and said in one line."""

from __future__ import annotations

import re

from kernelwright.contracts.cuda.emulate.headers import included
from kernelwright.contracts.cuda.emulate.ptx import without_known_ptx
from kernelwright.contracts.cuda.plan import Plan, PlanTensorMap
from kernelwright.contracts.model import NotEmulatedError

KNOWN_HEADERS = frozenset(
    {
        *(
            "cuda.h",
            "cuda_runtime.h",
            "cuda_fp16.h",
            "cuda_bf16.h",
            "cuda_fp8.h",
            "device_launch_parameters.h",
            "vector_types.h",
        ),
        *("cooperative_groups.h", "cooperative_groups/reduce.h", "math_constants.h"),
        *("assert.h", "cassert", "cfloat", "climits", "cmath", "cstddef", "cstdint", "cstdio", "cstdlib"),
        *("float.h", "limits.h", "math.h", "stddef.h", "stdint.h", "stdio.h", "stdlib.h"),
    }
)
MOST_MEMORY = 1 << 30
_UNKNOWN = (
    (r"\basm\b|__asm__", "inline PTX"),
    (r"\bwmma\b|\bmma_sync\b|\bnvcuda\b|\bwgmma\b", "tensor cores"),
    (r"\bCUtensorMap\b", "tensor maps"),
    (r"(?<![\w:])cuda::(?!std\b)", "libcu++"),
    (r"\b__activemask\b|\bcoalesced_threads\b|\bbinary_partition\b", "the mask of lanes that happen to be active"),
    (r"\b__(?:pipeline_\w+)", "asynchronous copies"),
    (r"<<<", "launches from the device"),
)
# Comments, and what can hold the signs of one without being one. What has no end goes on to the end of its line or of
# the text, so that nothing is looked at twice: a source may be as hostile as it likes.
_COMMENT = re.compile(
    r"""
    (?P<comment>//(?:\\\n|[^\n])*+|/\*.*?(?:\*/|\Z))
  | \bR"(?P<mark>[^()\\\s]{0,16})\(.*?(?:\)(?P=mark)"|\Z)
  | "(?:\\.|[^"\\\n])*+"?
  | (?<!\w)\d(?:'?[\w.])*+
  | '(?:\\.|[^'\\\n])*+'?
""",
    re.VERBOSE | re.DOTALL,
)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"\n]+)[>\"][^\n]*", re.MULTILINE)


def without_comments(source: str) -> str:
    """The same lines, with a space where comments were."""
    return _COMMENT.sub(_uncommented, source)


def _uncommented(found: re.Match[str]) -> str:
    text = found.group(0)
    return text if found["comment"] is None else "\n" * text.count("\n") or " "


def without_includes(source: str) -> str:
    """Every header that the emulator knows is there already, but for its constants."""
    return _INCLUDE.sub(lambda match: included(match[1]), source)


def refuse_source(source: str) -> None:
    """`source` has no comments any more."""
    for header in _INCLUDE.findall(source):
        if header not in KNOWN_HEADERS:
            raise NotEmulatedError(f"the emulator has no {header}: judge this kernel on a GPU")
    text = without_known_ptx(source)
    for pattern, what in _UNKNOWN:
        if found := re.search(pattern, text):
            line = text.count("\n", 0, found.start()) + 1
            raise NotEmulatedError(f"kernel.cu:{line}: the emulator has no {what}: judge this kernel on a GPU")


def refuse_plan(plan: Plan) -> None:
    if any(isinstance(argument, PlanTensorMap) for launch in plan.launches for argument in launch.arguments):
        raise NotEmulatedError("plan.py: the emulator has no tensor maps: judge this kernel on a GPU")
    if sum(block.bytes for block in plan.scratch) > MOST_MEMORY:
        raise NotEmulatedError(f"plan.py: the emulator gives at most {MOST_MEMORY:,} bytes of scratch")
