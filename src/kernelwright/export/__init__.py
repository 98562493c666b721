"""Kernels that leave: from a proved best to a function that can be called, and to a package that needs torch alone."""
