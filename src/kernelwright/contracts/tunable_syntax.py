"""How a source declares tunables: a comment on a line of its own, in front of which the chosen value is defined."""

from __future__ import annotations

import re
from dataclasses import dataclass

_DECLARED = r"tunable:[ \t]*(?P<name>\w+)[ \t]*=[ \t]*(?P<values>[^\n]*)"


@dataclass(frozen=True)
class TunableSyntax:
    """`line` finds a declaration, rendered or not, with the groups name, values, defined and now.

    `rendered` is the same line with the value in force: a format of name, value and values.
    """

    line: re.Pattern[str]
    rendered: str


C_TUNABLES = TunableSyntax(
    re.compile(rf"^[ \t]*(?:\#define[ \t]+(?P<defined>\w+)[ \t]+(?P<now>\S+)[ \t]+)?//[ \t]*{_DECLARED}$", re.M),
    "#define {name} {value}  // tunable: {name} = {values}",
)
"""`#define BLOCK 64  // tunable: BLOCK = 64, 128`"""

PYTHON_TUNABLES = TunableSyntax(
    re.compile(rf"^(?:(?P<defined>\w+)[ \t]*=[ \t]*(?P<now>\S+)[ \t]+)?\#[ \t]*{_DECLARED}$", re.M),
    "{name} = {value}  # tunable: {name} = {values}",
)
"""`ROWS = 2  # tunable: ROWS = 1, 2, 4`"""
