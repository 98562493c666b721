"""The built-in rmsnorm on small workloads, for exploits that are wrong whatever the size."""

from dataclasses import replace

from kernelwright.tasks.resolve import resolve

task = replace(
    resolve("rmsnorm"),
    public=[{"rows": 256, "cols": 512}, {"rows": 32, "cols": 4000}, {"rows": 2000, "cols": 64}],
    hidden={"rows": (40, 3000), "cols": (40, 3000)},
)
