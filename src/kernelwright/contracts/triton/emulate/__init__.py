"""A Triton module for `kernelwright check` (docs/emulator.md): recorded, and then run by Triton's interpreter."""
