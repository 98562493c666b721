"""Kernels that must pass and kernels that must not, on which the judge's tolerance is fixed."""
