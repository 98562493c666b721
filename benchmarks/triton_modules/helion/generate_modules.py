"""Writes the Triton modules that Helion makes of small kernels, for the coverage benchmark; it needs no GPU.

    python benchmarks/triton_modules/helion/generate_modules.py FOLDER

`pip install --no-deps helion` has what this needs beside torch and Triton. FOLDER gets the modules and a kernels.toml.
"""

from __future__ import annotations

import sys
from pathlib import Path

import helion
import helion.language as hl
import torch

TASKS = "benchmarks/triton_modules/tasks"


@helion.kernel(static_shapes=False)
def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size()):
        out[tile] = x[tile] + y[tile]
    return out


@helion.kernel(static_shapes=False)
def softmax(x: torch.Tensor) -> torch.Tensor:
    rows, _ = x.size()
    out = torch.empty_like(x)
    for tile in hl.tile(rows):
        values = x[tile, :].to(torch.float32)
        shifted = torch.exp(values - torch.amax(values, dim=1, keepdim=True))
        out[tile, :] = (shifted / torch.sum(shifted, dim=1, keepdim=True)).to(x.dtype)
    return out


@helion.kernel(static_shapes=False)
def rmsnorm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    rows, _ = x.size()
    out = torch.empty_like(x)
    for tile in hl.tile(rows):
        values = x[tile, :].to(torch.float32)
        scale = torch.rsqrt(torch.mean(values * values, dim=-1, keepdim=True) + eps)
        out[tile, :] = (values * scale * weight[:].to(torch.float32)).to(x.dtype)
    return out


@helion.kernel(static_shapes=False)
def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    rows, inner = x.size()
    columns, _ = weight.size()
    out = torch.empty([rows, columns], dtype=x.dtype, device=x.device)
    for row, column in hl.tile([rows, columns]):
        total = hl.zeros([row, column], dtype=torch.float32)
        for part in hl.tile(inner):
            total = torch.addmm(total, x[row, part], weight[column, part].t())
        out[row, column] = total + bias[column]
    return out


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    x, row = torch.randn(128, 256), torch.randn(256)
    made = {
        "add": (add, (x.reshape(-1), x.reshape(-1)), f"{TASKS}/add.py", [1024]),
        "softmax": (softmax, (x,), "softmax", [4]),
        "rmsnorm": (rmsnorm, (x, row, 1e-6), "rmsnorm", [4]),
        "linear": (linear, (x, torch.randn(64, 256), torch.randn(64)), "linear", [32, 32, 32]),
    }
    table = ""
    for name, (kernel, given, task, blocks) in made.items():
        text = kernel.bind(given).to_triton_code(helion.Config(block_sizes=blocks))
        (folder / f"{name}.py").write_text(text)
        table += f'"{name}.py" = ["{task}"]\n'
    (folder / "kernels.toml").write_text(table)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
