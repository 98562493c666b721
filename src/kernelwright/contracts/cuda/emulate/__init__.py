"""Turns a cuda candidate into host code for the emulator (docs/emulator.md). The judge builds and calls it."""
