"""The built-in rmsnorm on the sizes that the kernels and exploits of this folder were written for."""

from dataclasses import replace

from kernelwright.tasks.resolve import resolve

task = replace(
    resolve("rmsnorm"),
    public=[{"rows": 1024, "cols": 4096}, {"rows": 64, "cols": 128}],
    hidden={"rows": (30, 1200), "cols": (100, 5000)},
    cuda=None,
)
