"""Rewrites `kernel<<<grid, block>>>(arguments)` as a call that a host compiler takes, line by line."""

from __future__ import annotations

import re

from kernelwright.contracts.model import NotEmulatedError

_QUALIFIED = re.compile(r"(?:\w+\s*::\s*)*\w+\s*$")
_CLOSING = {")": "(", "]": "[", "}": "{"}
MOST_LAUNCHES = 1000


def without_launches(source: str) -> str:
    """The same lines. Comments are gone already. Raises NotEmulatedError for a launch that it cannot read."""
    done = ""
    for _ in range(MOST_LAUNCHES):
        mark = source.find("<<<")
        if mark < 0:
            return done + source
        begin = _kernel_start(source, mark)
        config_end = _closing(source, mark + 3, ">>>")
        opening = re.compile(r"\s*\(").match(source, config_end + 3)
        if opening is None:
            raise NotEmulatedError("the emulator cannot read a launch: write kernel<<<grid, block>>>(arguments)")
        end = _closing(source, opening.end(), ")")
        kernel, config = source[begin:mark], source[mark + 3 : config_end]
        arguments = source[opening.end() : end]
        name = " ".join(kernel.split()).replace('"', "'")
        comma = ", " if arguments.strip() else ""
        done += source[:begin] + (
            f'::kw::launch_from_host("{name}", ::kw::Config({config}), '
            f"[&](auto... kw_given) {{ {kernel}(kw_given...); }}{comma}{arguments})"
        )
        source = source[end + 1 :]
    raise NotEmulatedError(f"the emulator takes at most {MOST_LAUNCHES} launches in a source")


def _kernel_start(source: str, mark: int) -> int:
    """Where the kernel's name begins, its template arguments included."""
    at = len(source[:mark].rstrip())
    if source[:at].endswith(">"):
        depth = 0
        while at > 0:
            at -= 1
            depth += {">": 1, "<": -1}.get(source[at], 0)
            if depth == 0:
                break
    window = source[max(0, at - 1000) : at]
    found = _QUALIFIED.search(window)
    if found is None:
        raise NotEmulatedError("the emulator cannot read a launch: a plain name stands before <<<")
    return at - len(window) + found.start()


def _closing(source: str, start: int, what: str) -> int:
    depth = 0
    for at in range(start, len(source)):
        if depth == 0 and source.startswith(what, at):
            return at
        depth += 1 if source[at] in _CLOSING.values() else -1 if source[at] in _CLOSING else 0
    raise NotEmulatedError("the emulator cannot read a launch: a bracket is not closed")
