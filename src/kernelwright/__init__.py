"""Takes a PyTorch operation and returns a faster kernel, with proof that it is right and how fast it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelwright.version import __version__

if TYPE_CHECKING:
    from kernelwright.api import Benchmarked, Optimized, bench, build_fast_path, load, optimize

__all__ = ["Benchmarked", "Optimized", "__version__", "bench", "build_fast_path", "load", "optimize"]


def __getattr__(name: str) -> object:
    """The search is imported when it is used: processes of the judge import this package too, and stay light."""
    if name in ("Benchmarked", "Optimized", "bench", "build_fast_path", "load", "optimize"):
        from kernelwright import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
