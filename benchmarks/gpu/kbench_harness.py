"""Runs robust-kbench's own steps on kernels of a checkout of it, one process each, and times them from outside.

The functions are called with the arguments that its own run_kernel.py gives them; nothing of it is changed or copied.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

CORRECT = """
from robust_kbench.primitives.evaluate import correct_cuda_kernel
found = correct_cuda_kernel(
    task_dir=TASK, cuda_code_path=SOURCE, op_atol=1e-3, op_rtol=1e-3, forward=True, timeout=600
)
print("summary", found["summary"])
"""
TIME = """
import tempfile
from robust_kbench.primitives.evaluate import eval_cuda_kernel
found = eval_cuda_kernel(
    task_dir=TASK, cuda_code_path=SOURCE, warmup_time=25, repetition_time=1000, eval_type="kernelbench",
    forward=True, timeout=600, ext_dir=tempfile.mkdtemp(),
)
print("summary", found["summary"])
"""
PREFERRED = ("llama_rmsnorm", "mnist_linear", "layernorm")


def harness(checkout: Path, chosen: list[str], until: float) -> list[dict[str, Any]]:
    """For each kernel the seconds of both steps. What does not finish in time, or fails, is said."""
    found = []
    for task, source in _kernels(checkout, chosen):
        entry: dict[str, Any] = {"task": task, "source": source}
        for key, program in (("correct_s", CORRECT), ("time_s", TIME)):
            left = until - time.monotonic()
            if left < 10:
                entry["left_out"] = f"{key}: out of time"
                break
            body = program.replace("TASK", repr(task)).replace("SOURCE", repr(source))
            begin = time.perf_counter()
            try:
                done = subprocess.run(
                    [sys.executable, "-c", body],
                    cwd=checkout,
                    capture_output=True,
                    text=True,
                    timeout=left,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                entry["left_out"] = f"{key}: not done within {left:.0f} s"
                break
            entry[key] = time.perf_counter() - begin
            entry[f"{key}_said"] = (done.stdout + done.stderr).strip().splitlines()[-3:]
            if done.returncode != 0:
                entry["failed"] = f"{key}: exit code {done.returncode}"
                entry.pop(key)
                break
        found.append(entry)
    return found


def _kernels(checkout: Path, chosen: list[str]) -> list[tuple[str, str]]:
    if chosen:
        return [(task, source) for task, _, source in (one.partition(":") for one in chosen)]
    names = [path.parent.parent.name for path in sorted(checkout.glob("highlighted/*/forward/kernel.cu"))]
    names.sort(key=lambda name: PREFERRED.index(name) if name in PREFERRED else len(PREFERRED))
    return [(f"tasks/{name}", f"highlighted/{name}/forward/kernel.cu") for name in names[:2]]
