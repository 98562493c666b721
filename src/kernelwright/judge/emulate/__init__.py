"""Checks CUDA source without a GPU: compiled for the host, every CUDA thread a fiber. It can never say how fast."""
