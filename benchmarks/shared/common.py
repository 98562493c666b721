"""What benchmarks of the judge share: a home of their own, rmsnorm at chosen sizes, sources never seen, a stopwatch."""

from __future__ import annotations

import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from kernelwright.contracts import Candidate
from kernelwright.contracts.registry import read_source
from kernelwright.judge.timing.measure import Sampling
from kernelwright.paths import cache_dir

RANK = Sampling(least=12, most=12)  # just long enough to rank
Range = tuple[int, int]
Value = TypeVar("Value")

TASK = '''"""RMS normalisation on chosen workloads."""
import torch
from kernelwright.tasks import Task, normal, tensor

def reference(x, weight, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight

task = Task(
    reference,
    inputs={{"x": tensor("rows", "cols"), "weight": tensor("cols", draw=normal(1.0, 0.2)), "eps": 1e-6}},
    public=[{public}],
    hidden={{"rows": {rows}, "cols": {cols}}},
)
'''


@contextmanager
def temporary_home(*shared: str) -> Iterator[Path]:
    """A cache and a key that are made for this and thrown away; `shared` names parts of the usual cache to use on
    ("." is all of it), where compiling again is not what is measured."""
    usual = {part: cache_dir(part) for part in shared}
    before = os.environ.get("KERNELWRIGHT_HOME")
    with tempfile.TemporaryDirectory(prefix="kernelwright-bench-", ignore_cleanup_errors=True) as name:
        home = Path(name)
        home.chmod(0o755)  # sandboxed processes of another user pass through it
        for part, path in usual.items():
            link = home / "cache" / part
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path)
        os.environ["KERNELWRIGHT_HOME"] = name
        try:
            yield home
        finally:
            if before is None:
                del os.environ["KERNELWRIGHT_HOME"]
            else:
                os.environ["KERNELWRIGHT_HOME"] = before


def write_task(path: Path, sizes: Sequence[tuple[int, int]], rows: Range, cols: Range) -> str:
    """rmsnorm at these sizes, with hidden ones from these ranges."""
    public = ", ".join(f'{{"rows": {high}, "cols": {wide}}}' for high, wide in sizes)
    path.write_text(TASK.format(public=public, rows=rows, cols=cols))
    return str(path)


_numbers = itertools.count()


def variant(path: Path) -> Candidate:
    """The source with a comment of its own, so that it is another candidate with another build."""
    given = read_source(path)
    return Candidate(given.contract, f"// variant {next(_numbers)} {time.time_ns()}\n{given.source}", path.name)


def timed(function: Callable[[], Value]) -> tuple[float, Value]:
    begin = time.perf_counter()
    value = function()
    return time.perf_counter() - begin, value
