"""What kernels that were found before are worth on this GPU, against eager PyTorch and the best of three compiles.

    python benchmarks/claims_gpu.py --sources DIR [--tasks TASK ...] [--baselines NAME ...] [--answers] [--seconds N]

DIR/TASK holds candidates for a task (`:` in its name written as `_`), as files or directories: what templates_gpu.py
kept, the `best` of runs, or the kernels in benchmarks/results/optimized/cuda to judge them again. The fastest is judged
twice: on the public workload against eager, `compile-best` and, for a backward, `compile-training`; and on public and
hidden workloads, with sanitizers, against eager alone, since compiling for hidden sizes takes minutes. Writes
claims_gpu.json as it goes, and kernel and certificates under optimized/cuda; with `--answers`, for kernels that came as
answers to prompts, claims_answers.json and optimized/answers. The judge's key is made for this and thrown away.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.gpu_run import CUDA, told, with_training  # noqa: E402
from benchmarks.revision import commit  # noqa: E402
from benchmarks.templates_gpu import ROWS  # noqa: E402

from kernelwright.contracts import Candidate, read_source  # noqa: E402
from kernelwright.contracts.tunables import render  # noqa: E402
from kernelwright.devices import nvidia  # noqa: E402
from kernelwright.devices.names import require  # noqa: E402
from kernelwright.errors import KernelwrightError  # noqa: E402
from kernelwright.judge import certificate  # noqa: E402
from kernelwright.judge.controller import Judge  # noqa: E402
from kernelwright.judge.measure import Effort  # noqa: E402
from kernelwright.judge.settings import Settings  # noqa: E402
from kernelwright.judge.verdict import Outcome, Verdict  # noqa: E402
from kernelwright.paths import cache_dir  # noqa: E402

_home = tempfile.TemporaryDirectory(prefix="kernelwright-claims-")
Path(_home.name).chmod(0o755)
(Path(_home.name) / "cache").symlink_to(cache_dir())  # what was compiled before need not be compiled again
os.environ["KERNELWRIGHT_HOME"] = _home.name

LOOK = Settings((), effort=Effort(6, 6), safety=False, public_only=True, device=CUDA)
CAREFUL = Effort(12, 120, seconds=6.0)
PUBLIC = Settings(("eager", "compile-best"), effort=CAREFUL, public_only=True, safety=False, certify=True, device=CUDA)
HIDDEN = Settings(("eager",), effort=CAREFUL, certify=True, device=CUDA)


def main() -> None:
    options = _options()
    try:
        require(CUDA)
    except KernelwrightError as error:
        raise SystemExit(f"claims_gpu.py: {error}") from None
    path: Path = options.out / f"claims_{'answers' if options.answers else 'gpu'}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    report: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    report |= {"command": "python benchmarks/claims_gpu.py " + " ".join(sys.argv[1:])}
    report["gpu"] = nvidia.probe(CUDA.index).name
    rows = report.setdefault("rows", {})
    until = time.monotonic() + options.seconds
    with Judge(LOOK) as judge:
        for ref in options.tasks:
            if time.monotonic() > until:
                print(f"{ref}: left out, no time", flush=True)
                continue
            begin = time.perf_counter()
            try:
                rows[ref] = _claimed(judge, ref, options)
            except KernelwrightError as error:
                rows[ref] = {"undecided": str(error)}
            rows[ref] |= {"seconds": time.perf_counter() - begin, "commit": commit()}
            path.write_text(json.dumps(report, indent=1) + "\n")
            print(f"{ref}: {_line(rows[ref])}", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--tasks", nargs="*", default=list(ROWS))
    parser.add_argument("--baselines", nargs="*", default=list(PUBLIC.baselines), help="for the public workload")
    parser.add_argument("--answers", action="store_true", help="kernels that came as answers to prompts")
    parser.add_argument("--seconds", type=float, default=math.inf, help="after which no other task is begun")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    return parser.parse_args()


def _claimed(judge: Judge, ref: str, options: argparse.Namespace) -> dict[str, Any]:
    name = ref.replace(":", "_")
    folder = options.out / "optimized" / ("answers" if options.answers else "cuda") / name
    paths = sorted(path for path in (options.sources / name).glob("*") if path.suffix == ".cu" or path.is_dir())
    candidates = [render(read_source(path)) for path in paths]
    if not candidates:
        raise KernelwrightError(f"{options.sources / name}: has no candidate")
    shutil.rmtree(folder, ignore_errors=True)  # what was claimed before is claimed no more
    looks = [judge.judge(ref, candidate).workloads for candidate in candidates] if len(candidates) > 1 else []
    times = [found[0].seconds if found and found[0].seconds else math.inf for found in looks] or [0.0]
    chosen = candidates[times.index(min(times))]
    public = judge.judge(ref, chosen, settings=replace(PUBLIC, baselines=with_training(ref, options.baselines)))
    if public.verdict is not Outcome.accepted:
        return {"public": told(public)}
    hidden = judge.judge(ref, chosen, settings=HIDDEN)
    if hidden.verdict is Outcome.accepted:
        _keep(folder, chosen, (public, hidden))
    return {"public": told(public), "hidden": told(hidden), "looked_us": [value * 1e6 for value in times]}


def _keep(folder: Path, candidate: Candidate, verdicts: tuple[Verdict, ...]) -> None:
    folder.mkdir(parents=True)
    (folder / "kernel.cu").write_text(candidate.source)
    for verdict in verdicts:
        assert verdict.certificate is not None
        shutil.copy(certificate.find(verdict.certificate), folder)


def _line(row: dict[str, Any]) -> str:
    if "undecided" in row:
        return f"undecided: {row['undecided']}"
    found = [row["public"], *([row["hidden"]] if "hidden" in row else [])]
    parts = []
    for verdict in found:
        times = "; ".join(_short(result) for result in verdict["workloads"])
        parts.append(f"{verdict['verdict']} ({verdict['reason']}) {times}")
    return f"{' | '.join(parts)}, {row['seconds']:.1f} s"


def _short(result: dict[str, Any]) -> str:
    if result["us"] is None:
        return "not timed"
    against = {name: f"{us:.2f} ({result['speedup'][name]['low']:.2f}x)" for name, us in result["baselines_us"].items()}
    return f"{result['us']:.2f} us {against} {result['speed']}"


if __name__ == "__main__":
    main()
