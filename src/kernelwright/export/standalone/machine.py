"""What this processor is, and what it can do."""

from __future__ import annotations

from functools import cache
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")


@cache
def cpu_model() -> str:
    return _field(("model name", "Model")) or "unknown"


@cache
def cpu_features() -> frozenset[str]:
    """As the kernel of the system names them; empty where it does not."""
    return frozenset(_field(("flags", "Features")).split())


def _field(names: tuple[str, ...]) -> str:
    try:
        text = CPUINFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    for line in text.splitlines():
        if line.startswith(names):
            return line.split(":", 1)[1].strip()
    return ""
