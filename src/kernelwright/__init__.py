"""Takes a PyTorch operation and returns a faster kernel, with proof that it is right and how fast it is."""

from kernelwright.version import __version__

__all__ = ["__version__"]
