"""Named sets of tasks. A suite has every task in both directions."""

from __future__ import annotations

from kernelwright.tasks.dims import TaskError
from kernelwright.tasks.naming import BACKWARD


def _both(*names: str) -> tuple[str, ...]:
    return tuple(ref for name in names for ref in (name, f"{name}:{BACKWARD}"))


SUITES: dict[str, tuple[str, ...]] = {
    # the operations of robust-kbench
    "robust": _both(
        "layernorm3d",
        "rmsnorm",
        "llama_ffw",
        "conv_relu_pool",
        "cross_entropy",
        "linear",
        "linear_relu",
        "maxpool2d",
        "resnet_block",
        "unet_conv2d",
        "unet_linear",
    ),
}


def suite(name: str) -> tuple[str, ...]:
    """The tasks of a suite, as names that `resolve` takes."""
    if name not in SUITES:
        raise TaskError(f"{name!r} is no suite: there is {', '.join(SUITES)}")
    return SUITES[name]
