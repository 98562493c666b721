"""What a portable kernel needs at run time: Python's standard library and torch, and nothing of Kernelwright.

`kernelwright.load` uses these files where they are; an exported package has a copy of them (`_runtime`). So imports in
here are relative, and a test holds them to it.
"""
