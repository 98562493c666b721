"""Small tasks in the forms of other benchmarks, written for the tests."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

SCALED_FUNCTION = """
import torch
import torch.nn as nn

{top}

def forward_fn(x, weight, bias, eps):
    mean = x.mean(-1, keepdim=True)
    return (x - mean) / (x.var(-1, keepdim=True, unbiased=False) + eps).sqrt() * weight + bias

class Model(nn.Module):
    def __init__(self, features=8, eps=1e-5, init_method="standard"):
        super().__init__()
        make = torch.ones if init_method == "standard" else torch.randn
        self.weight = nn.Parameter(make(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x, fn=forward_fn):
        return {returned}

def get_inputs(batch=4, features=8):
    return [torch.randn(batch, features)]

input_names = ["x"]
"""
CALLED = "fn(x, self.weight, self.bias, self.eps)"


def config(single: dict[str, Any] | None = None, **multi: Any) -> dict[str, Any]:
    """Lists of options by name, `input=[{"batch": 2}]`; the rest has none."""
    found = {f"single_{name}_configs": [(single or {}).get(name, {})] for name in ("input", "init", "shared")}
    return found | {f"multi_{name}_configs": multi.get(name, [{}]) for name in ("input", "init", "shared")}


def robust(
    folder: Path, options: dict[str, Any], *, direction: str = "forward", returned: str = CALLED, top: str = ""
) -> Path:
    folder.mkdir(exist_ok=True)
    source = textwrap.dedent(SCALED_FUNCTION).format(returned=returned, top=top)
    (folder / f"func_{direction}.py").write_text(source)
    (folder / f"config_{direction}.json").write_text(json.dumps(options))
    return folder


def definition(
    folder: Path,
    body: str,
    inputs: dict[str, tuple[list[str] | None, str]],
    *,
    axes: dict[str, Any],
    workloads: list[dict[str, Any]] | None = None,
    outputs: tuple[str, ...] = ("y",),
    top: str = "",
    **more: Any,
) -> Path:
    """`axes`: a number is constant, a text an expression, None varies."""
    kinds = {int: ("const", "value"), str: ("expr", "expression")}
    written = {
        name: {"type": "var"} if axis is None else {"type": kinds[type(axis)][0], kinds[type(axis)][1]: axis}
        for name, axis in axes.items()
    }
    said = {
        "name": "made_up",
        "axes": written,
        "inputs": {name: {"shape": shape, "dtype": dtype} for name, (shape, dtype) in inputs.items()},
        "outputs": {name: {"shape": [], "dtype": "float32"} for name in outputs},
        "reference": f"import torch\n{top}\n@torch.no_grad()\ndef run({', '.join(inputs)}):\n"
        + textwrap.indent(textwrap.dedent(body).strip(), "    "),
        **more,
    }
    folder.mkdir(exist_ok=True)
    (folder / "definition.json").write_text(json.dumps(said))
    if workloads is not None:
        (folder / "workload.jsonl").write_text("\n".join(map(json.dumps, workloads)))
    return folder


def gpu_mode(folder: Path, reference: str, settings: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "task.yml").write_text(settings)
    (folder / "task.py").write_text("input_t = tuple\noutput_t = object\n")
    (folder.parent / "utils.py").write_text("def make_match_reference(function, **_):\n    return function\n")
    (folder / "reference.py").write_text(
        "import torch\nfrom task import input_t, output_t\nfrom utils import make_match_reference\n"
        + textwrap.dedent(reference)
        + "\ncheck_implementation = make_match_reference(ref_kernel, rtol=1e-3)\n"
    )
    return folder
