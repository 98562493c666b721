"""The built-in linear_relu on small workloads."""

from dataclasses import replace

from kernelwright.tasks.resolve import resolve

task = replace(
    resolve("linear_relu"),
    public=[
        {"rows": 64, "features": 128, "units": 64},
        {"rows": 8, "features": 1000, "units": 50},
        {"rows": 300, "features": 32, "units": 60},
    ],
    hidden={"rows": (1, 400), "features": (1, 1200), "units": (1, 300)},
    cuda=None,
)
