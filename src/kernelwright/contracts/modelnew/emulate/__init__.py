"""A ModelNew for `kernelwright check` (docs/emulator.md): recorded, and then run on real values in a sandbox."""
