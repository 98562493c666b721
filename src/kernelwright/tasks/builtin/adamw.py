"""One step of AdamW, in place on the parameter and its two moments."""

import torch

from kernelwright.tasks import Task, custom, normal, tensor


def many_scales(
    generator: torch.Generator, shape: tuple[int, ...], dtype: torch.dtype, sizes: dict[str, int]
) -> torch.Tensor:
    """From 1e-12 to 1, evenly in the logarithm: beside large squares only, nobody would miss eps."""
    exponents = torch.rand(shape, generator=generator, device=generator.device).mul_(12).sub_(12)
    return (10.0**exponents).to(dtype)


def adamw(
    param: torch.Tensor,
    grad: torch.Tensor,
    exp_avg: torch.Tensor,
    exp_avg_sq: torch.Tensor,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    step: float,
) -> None:
    param.mul_(1 - lr * weight_decay)
    exp_avg.lerp_(grad, 1 - beta1)
    exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    denominator = (exp_avg_sq / (1 - beta2**step)).sqrt_().add_(eps)
    param.addcdiv_(exp_avg, denominator, value=-lr / (1 - beta1**step))


task = Task(
    reference=adamw,
    inputs={
        "param": tensor("elements"),
        "grad": tensor("elements"),
        "exp_avg": tensor("elements", draw=normal(0.0, 0.1)),
        "exp_avg_sq": tensor("elements", draw=custom(many_scales)),
        "lr": 0.01,
        "beta1": 0.9,
        "beta2": 0.999,
        "eps": 1e-8,
        "weight_decay": 0.1,
        "step": 10.0,
    },
    public=[{"elements": 1 << 20}, {"elements": 999_983}, {"elements": 1_500_000}],
    hidden={"elements": (400_000, 2_500_000)},
    outputs=(),
    inout=("param", "exp_avg", "exp_avg_sq"),
)
