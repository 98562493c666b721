"""What kernels that were found before are worth on this GPU, against eager PyTorch and the best of three compiles.

    python benchmarks/gpu/claims_gpu.py --sources DIR [--tasks TASK ...] [--baselines NAME ...] [--seconds N]

DIR/TASK holds candidates for a task (`:` in its name written as `_`), as files or directories: what templates_gpu.py
kept, the `best` of runs, or benchmarks/results/optimized_cuda.tar.xz to judge its kernels again. The fastest is judged
twice: on the public workload against eager, `compile-best` and, for a backward, `compile-training`; and on public and
hidden workloads, with sanitizers, against eager alone, since compiling for hidden sizes takes minutes. Writes
claims_gpu.json as it goes, and kernel and certificates into optimized_cuda.tar.xz. The judge's key is made for this and
thrown away.
"""

from __future__ import annotations

import argparse
import math
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.gpu.gpu_run import CUDA, baselines_of, in_short  # noqa: E402
from benchmarks.gpu.templates_gpu import ROWS  # noqa: E402
from benchmarks.shared.common import temporary_home  # noqa: E402
from benchmarks.shared.kept import changing, folder_of, optimized, unpacked  # noqa: E402
from benchmarks.shared.record import RESULTS, load, provenance, save  # noqa: E402

from kernelwright.contracts import Candidate  # noqa: E402
from kernelwright.contracts.registry import read_source  # noqa: E402
from kernelwright.contracts.tunables import render  # noqa: E402
from kernelwright.devices import nvidia  # noqa: E402
from kernelwright.devices.names import require  # noqa: E402
from kernelwright.errors import KernelwrightError  # noqa: E402
from kernelwright.judge import certificate  # noqa: E402
from kernelwright.judge.controller import Judge  # noqa: E402
from kernelwright.judge.settings import Settings  # noqa: E402
from kernelwright.judge.timing.measure import Sampling  # noqa: E402
from kernelwright.judge.verdict import Outcome, Verdict  # noqa: E402

LOOK = Settings((), effort=Sampling(6, 6), safety=False, public_only=True, device=CUDA)
CAREFUL = Sampling(12, 120, seconds=6.0)
PUBLIC = Settings((), effort=CAREFUL, public_only=True, safety=False, certify=True, device=CUDA)
HIDDEN = Settings(("eager",), effort=CAREFUL, certify=True, device=CUDA)


def main() -> None:
    options = _options()
    try:
        require(CUDA)
    except KernelwrightError as error:
        raise SystemExit(f"claims_gpu.py: {error}") from None
    with temporary_home("."), Judge(LOOK) as judge:  # what was compiled before need not be compiled again
        claim_all(judge, options)


def claim_all(judge: Judge, options: argparse.Namespace) -> None:
    path: Path = options.out / "claims_gpu.json"
    report = load(path)
    gpu = nvidia.probe(CUDA.index)
    report["gpu"], came = gpu.name, provenance(gpu)
    rows = report.setdefault("rows", {})
    until = time.monotonic() + options.seconds
    for ref in options.tasks:
        if time.monotonic() > until:
            print(f"{ref}: left out, no time", flush=True)
            continue
        begin = time.perf_counter()
        try:
            rows[ref] = claimed(judge, ref, options)
        except KernelwrightError as error:
            rows[ref] = {"undecided": str(error)}
        rows[ref] |= {"seconds": time.perf_counter() - begin, **came}
        save(path, report)
        print(f"{ref}: {_line(rows[ref])}", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--tasks", nargs="*", default=list(ROWS))
    parser.add_argument("--baselines", nargs="*", default=[], help="for the public workload; all by default")
    parser.add_argument("--seconds", type=float, default=math.inf, help="after which no other task is begun")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


def claimed(judge: Judge, ref: str, options: argparse.Namespace) -> dict[str, Any]:
    name = folder_of(ref)
    sources = unpacked(options.sources) / name
    paths = sorted(path for path in sources.glob("*") if path.suffix == ".cu" or path.is_dir())
    candidates = [render(read_source(path)) for path in paths]
    if not candidates:
        raise KernelwrightError(f"{options.sources / name}: has no candidate")
    looks = [judge.judge(ref, candidate).workloads for candidate in candidates] if len(candidates) > 1 else []
    times = [found[0].seconds if found and found[0].seconds else math.inf for found in looks] or [0.0]
    chosen = candidates[times.index(min(times))]
    public = judge.judge(ref, chosen, settings=replace(PUBLIC, baselines=baselines_of(ref, options.baselines)))
    found = {"public": in_short(public), "looked_us": [value * 1e6 for value in times]}
    if public.verdict is not Outcome.accepted:
        return found
    hidden = judge.judge(ref, chosen, settings=HIDDEN)
    found["hidden"] = in_short(hidden)
    if hidden.verdict is Outcome.accepted:
        found["certificates"] = keep(optimized("cuda", options.out), name, chosen, (public, hidden))
    return found


def keep(archive: Path, name: str, candidate: Candidate, verdicts: tuple[Verdict, ...]) -> list[str]:
    """Puts kernel and certificates in the place of what was claimed before; the certificates' names. Until all of it
    is written the archive stays as it is: it may hold the very sources that are judged."""
    with changing(archive) as root:
        folder = root / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "kernel.cu").write_text(candidate.source)
        names = []
        for verdict in verdicts:
            assert verdict.certificate is not None
            names.append(Path(shutil.copy(certificate.find(verdict.certificate), folder)).name)
    return names


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
