"""One thing that `doctor` looked at."""

from __future__ import annotations

from pydantic import BaseModel


class Finding(BaseModel):
    """`fix` says how to get it where it is missing."""

    what: str
    found: str
    ok: bool
    fix: str = ""
