"""Instructions of attention's main loop, registers and spilled bytes, as NVRTC compiles it for an H200; needs no GPU.

    python benchmarks/gpu/attention_code.py

For every task of `verdicts.py attention` in bfloat16. What a step may jump over (masks, corrections) is
counted as if it always ran. Needs Triton, whose package has NVIDIA's disassembler. Writes attention_code.json.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.gpu.verdicts import attention  # noqa: E402
from benchmarks.shared.record import RESULTS, provenance, save  # noqa: E402

from kernelwright.contracts import Candidate, nvrtc  # noqa: E402
from kernelwright.contracts.cuda.source import split  # noqa: E402
from kernelwright.contracts.cuda.toolchain.evaluate import evaluate_plans  # noqa: E402
from kernelwright.contracts.cuda.toolkit import include_directories  # noqa: E402
from kernelwright.contracts.target import HOPPER  # noqa: E402
from kernelwright.contracts.triton.toolchain.ptxas import ptxas  # noqa: E402
from kernelwright.tasks.drawing import signature  # noqa: E402
from kernelwright.tasks.resolve import resolve  # noqa: E402

LANES = 32
_FUNCTION = re.compile(r"Function : (\w+)")
_INSTRUCTION = re.compile(r"\s+/\*([0-9a-f]{4,5})\*/\s+(.*?);")
_JUMP = re.compile(r"\bBRA\b.*?(0x[0-9a-f]+)")


def main() -> int:
    came, rows = provenance(), []
    with tempfile.TemporaryDirectory() as folder:
        for entry in attention(argparse.Namespace(), Path(folder)):
            if "bfloat16" in entry.name:
                rows.append({"name": entry.name, **_measured(entry.task, entry.candidate(), Path(folder))})
                print(rows[-1], flush=True)
    save(RESULTS / "attention_code.json", {**came, "rows": rows})
    return 0


def _measured(task: str, candidate: Candidate, folder: Path) -> dict[str, Any]:
    given = resolve(task, "cuda")
    sources = split(candidate.source)
    plans = evaluate_plans(sources.plan, tuple(signature(given, one) for one in given.public_workloads()), HOPPER)
    assert isinstance(plans, tuple), plans
    options = [f"--gpu-architecture={HOPPER.architecture}", f"--std={plans[0].options.std}"]
    options += [f"-D{key}={value}" for key, value in plans[0].definitions]
    options += [f"-I{include}" for include in include_directories()]
    cubin = folder / "kernel.cubin"
    cubin.write_bytes(nvrtc.compile_cuda(sources.kernel, "kernel.cu", options, plans[0].kernels).cubin)
    own = plans[0].launches[-1]
    (usage,) = re.findall(rf"Function {own.kernel}:\s+REG:(\d+) STACK:(\d+)", _shown("-res-usage", cubin))
    loop = _main_loop(_shown("-sass", cubin), own.kernel)
    numbers = dict(plans[0].definitions)
    scores = int(numbers["TALL_0"]) * 16 * int(numbers["EACH_0"]) // LANES  # of a lane, in a step
    return {
        "launches": len(plans[0].launches),
        "instructions_of_a_step": len(loop),
        "products_of_a_step": sum("HMMA" in one for one in loop),
        "scores_of_a_lane": scores,
        "instructions_for_a_score": round(len(loop) / scores, 1),
        "registers": int(usage[0]),
        "stack_bytes": int(usage[1]),
        "shared_bytes": own.shared,
    }


def _shown(what: str, cubin: Path) -> str:
    tool = ptxas().parent / "cuobjdump"
    return subprocess.run([tool, what, cubin], capture_output=True, text=True, check=True).stdout


def _main_loop(text: str, kernel: str) -> list[str]:
    """The instructions from the target of the backward jump around all products to the jump."""
    found, inside = [], False
    for line in text.splitlines():
        if name := _FUNCTION.search(line):
            inside = name[1] == kernel
        elif inside and (one := _INSTRUCTION.match(line)):
            found.append((int(one[1], 16), one[2]))
    loops = []
    for at, instruction in found:
        jump = _JUMP.search(instruction)
        if jump and int(jump[1], 16) < at:
            loops.append([text for place, text in found if int(jump[1], 16) <= place <= at])
    return max(loops, key=lambda loop: sum("HMMA" in one for one in loop))


if __name__ == "__main__":
    raise SystemExit(main())
