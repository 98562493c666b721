"""Lines that a compiler or a sanitizer printed about a candidate, fit to be shown: short, and without our own paths."""

from __future__ import annotations

import re

LINE = 2000  # a source decides how long a line gets, and nobody reads more of it

# Bounded: the text is a candidate's to choose, and from every slash of it a path might begin.
_FOLDERS = r"(?:/(?:[^\s/]{1,255}/){0,32})?"
_OURS = re.compile(_FOLDERS + r"(kernel\.cpp|kernel\.cu|glue\.cpp|kernelwright\.h)(?=[:,])")


def lines_said(text: str) -> list[str]:
    """Those that are not blank, with paths of the sandbox taken off."""
    return [_OURS.sub(r"\1", line[:LINE].rstrip()) for line in text.splitlines() if line.strip()]
