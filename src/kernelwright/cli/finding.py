"""One thing that `doctor` looked at."""

from __future__ import annotations

from pydantic import BaseModel


class Finding(BaseModel):
    """`fix` says how to get it where it is missing. What is `absent` is not there and not needed, which is ok, too."""

    what: str
    found: str
    ok: bool
    fix: str = ""
    absent: bool = False
