"""Turns an extension into host code for the emulator (docs/emulator.md): its host code runs, its kernels are fibers."""
