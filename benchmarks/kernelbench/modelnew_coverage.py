"""What of public KernelBench solutions the `modelnew` contract takes: right on the emulator, or why not.

    python benchmarks/kernelbench/modelnew_coverage.py [--prompts KERNELBENCH] [--adversarial KERNELBENCH]
        [--cuda-l1 FILE.json] [--leaderboard LEADERBOARD] [--solutions FOLDER ... --problems KERNELBENCH]
        [--sample N] [--seed N] [--save NAME] [--again OUTCOME ...]

KERNELBENCH is a checkout of KernelBench, LEADERBOARD one of KernelBenchLeaderboard; FILE.json one of CUDA-L1's
`optimized_cuda_code`; the paths of the solutions in a FOLDER say level and number, as level_L_problem_P_*.py or
levelL/P_NAME/*.py do. Of the last three a sample is drawn that contains own kernels, and from FILE.json as many
again that contain none, but at most `--torch`. All of it is the user's own; nothing of it is copied. Every solution is
judged unchanged against its problem, one at a time; rows are printed and kept as they come, and a run with the same
name goes on where another ended. `--again` takes solutions that ended in one of these outcomes once more.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.shared.record import RESULTS, provenance, save

from kernelwright.contracts.registry import read_source
from kernelwright.errors import KernelwrightError
from kernelwright.judge.emulate.check import Checker
from kernelwright.judge.verdict import Stage
from kernelwright.judge.wording import evidence_lines
from kernelwright.tasks.resolve import resolve

CONTRACT = "modelnew"
LITTLE = 1 << 15  # the product of a workload's sizes
ADVERSARIAL = {  # of KernelBench's own tests, with the problem of each
    "non_default_stream_kernel.py": "level1/1_*.py",
    "result_reuse_kernel.py": "level1/1_*.py",
    "zero_out_kernel.py": "level1/1_*.py",
}


@dataclass(frozen=True)
class Solution:
    corpus: str
    name: str
    problem: Path
    path: Path

    @property
    def kind(self) -> str:
        """What its kernels are written in, as its text says."""
        text = self.path.read_text()
        return "inline" if "load_inline" in text else "triton" if "@triton.jit" in text else "torch"


def prompts(checkout: Path) -> Iterator[Solution]:
    folder = checkout / "src" / "kernelbench" / "prompts"
    for path in sorted(folder.rglob("model_new_ex_*.py")):
        name = re.sub(r"_(triton|cute|tilelang|thunderkittens|hip)$", "", path.stem.replace("model_new_ex", "model_ex"))
        problem = path.with_name(f"{name}.py")
        if problem.is_file():
            yield Solution("KernelBench prompts", str(path.relative_to(folder)), problem, path)


def adversarial(checkout: Path) -> Iterator[Solution]:
    folder = checkout / "src" / "kernelbench" / "unit_tests" / "test_kernels"
    for name, pattern in ADVERSARIAL.items():
        (problem,) = (checkout / "KernelBench").glob(pattern)
        yield Solution("KernelBench test_kernels", name, problem, folder / name)


def cuda_l1(file: Path, into: Path) -> Iterator[Solution]:
    for entry in map(json.loads, file.read_text().splitlines()):
        if entry.get("custom_code") and "class ModelNew" in entry["custom_code"]:
            name = f"level{entry['level_id']}_{entry['task_id']}"
            problem, path = into / f"problem_{name}.py", into / f"solution_{name}.py"
            problem.write_text(entry["ref_code"])
            path.write_text(entry["custom_code"])
            yield Solution(f"CUDA-L1 {file.name}", name, problem, path)


def leaderboard(checkout: Path, kernelbench: Path) -> Iterator[Solution]:
    assets = checkout / "docs" / "assets"
    for title, entries in json.loads((assets / "data.json").read_text()).items():
        found = re.match(r"Level (\d+): (\d+)_", title)
        problem = _problem(kernelbench, found[1], found[2]) if found else None
        for entry in entries if problem else ():
            path = assets / "solutions" / f"{entry['file']}.py"
            if path.is_file() and "class ModelNew" in path.read_text():
                yield Solution("KernelBenchLeaderboard", f"{entry['display_name']} {problem.stem}", problem, path)


def solutions(folder: Path, checkout: Path) -> Iterator[Solution]:
    """Level and number are read off a path; of several tries in one folder the last counts."""
    last: dict[tuple[Path, str, str], Path] = {}
    for path in sorted(folder.rglob("*.py")):
        level, number = re.search(r"level_?(\d)", str(path)), re.search(r"problem_(\d+)_|/(\d+)_[^/]*/", str(path))
        if level and number and "class ModelNew" in path.read_text(errors="replace"):
            last[path.parent, level[1], number[1] or number[2]] = path
    for (_, level_, number_), path in last.items():
        problem = _problem(checkout, level_, number_)
        if problem:
            yield Solution(folder.name, str(path.relative_to(folder)), problem, path)


def _problem(kernelbench: Path, level: str, number: str) -> Path | None:
    return next((kernelbench / "KernelBench" / f"level{level}").glob(f"{number}_*.py"), None)


def examined(one: Solution, checker: Checker) -> dict[str, object]:
    begin = time.perf_counter()
    try:
        candidate = read_source(one.path, CONTRACT)
        result = checker.check(str(one.problem), candidate)
        if result.outcome == "unchecked":  # most often too large for the emulator
            result = checker.check(f"{one.problem}@{_smaller(one.problem)}", candidate)
    except KernelwrightError as error:
        return {"outcome": "refused", "why": str(error).replace(str(one.problem), "the problem")}
    lines = evidence_lines(result.evidence) if result.evidence is not None else ()
    return {
        "outcome": str(result.outcome),
        "recorded": result.outcome == "right" or (result.stage is not Stage.build and result.reason is not None),
        "stage": str(result.stage),
        "reason": str(result.reason or ""),
        "why": result.message or (_telling(lines) if result.outcome != "right" else ""),
        "library": list(result.library),
        "workloads": [workload.label for workload in result.workloads],
        "seconds": round(time.perf_counter() - begin, 1),
    }


def _smaller(problem: Path) -> str:
    """Sizes with little work, as they are named behind a task."""
    sizes = dict(resolve(str(problem), "cuda").public[0])
    for most in (96, 48, 24, 12, 8):
        found = {name: min(size, most) for name, size in sizes.items()}
        if math.prod(found.values()) <= LITTLE:
            break
    return ",".join(f"{name}={size}" for name, size in found.items())


def _telling(lines: Sequence[str]) -> str:
    return next((line for line in lines if "error" in line), lines[0] if lines else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    for name in ("prompts", "adversarial", "cuda-l1", "leaderboard", "problems"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--solutions", type=Path, nargs="+", default=[])
    parser.add_argument("--again", nargs="+", default=[])
    for name, usual in (("sample", 20), ("torch", 5), ("seed", 1), ("small", 1)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--save", default="")
    given = parser.parse_args()
    target = RESULTS / f"{given.save}.json"
    kept = json.loads(target.read_text()) if given.save and target.is_file() else {"runs": [], "files": []}
    rows = kept["files"] = [row for row in kept["files"] if row["outcome"] not in given.again]
    done = {(row["corpus"], row["file"]) for row in rows}
    kept["runs"].append(provenance())
    with tempfile.TemporaryDirectory() as folder, Checker(small=given.small) as checker:
        for one in _chosen(given, Path(folder)):
            if (one.corpus, one.name) in done:
                continue
            digest = hashlib.sha256(one.path.read_bytes()).hexdigest()[:16]
            head = {"corpus": one.corpus, "file": one.name, "sha256": digest, "kind": one.kind}
            rows.append({**head, **examined(one, checker)})
            print(json.dumps(rows[-1]), flush=True)
            if given.save:
                save(target, kept)
    outcomes = [row["outcome"] for row in rows]
    print(f"{len(rows)} solutions: " + ", ".join(f"{outcomes.count(name)} {name}" for name in sorted(set(outcomes))))


def _chosen(given: argparse.Namespace, folder: Path) -> Iterator[Solution]:
    chance = random.Random(given.seed)
    if given.prompts:
        yield from prompts(given.prompts)
    if given.adversarial:
        yield from adversarial(given.adversarial)
    if given.cuda_l1:
        found = list(cuda_l1(given.cuda_l1, folder))
        own, other = ([one for one in found if (one.kind != "torch") == kernels] for kernels in (True, False))
        yield from chance.sample(own, min(given.sample, len(own)))
        yield from chance.sample(other, min(given.torch, len(other)))
    several = [list(solutions(folder, given.problems)) for folder in given.solutions if given.problems]
    if given.leaderboard and given.problems:
        several.append(list(leaderboard(given.leaderboard, given.problems)))
    for found in several:
        own = [one for one in found if one.kind != "torch"]
        yield from chance.sample(own, min(given.sample, len(own)))


if __name__ == "__main__":
    main()
