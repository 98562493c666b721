"""What of a robust-kbench checkout the `extension` contract takes: builds, records, right on the emulator, or why not.

    python benchmarks/robust_kbench/extension_coverage.py CHECKOUT [--save NAME]

The checkout is the user's own; nothing of it is copied. Each distinct .cu file is held against the built-in task whose
operation it does. Rows are written as they come, and a run of the same name goes on where another ended.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.shared.record import RESULTS, provenance, save

from kernelwright.contracts.candidate import CandidateError
from kernelwright.contracts.extension.toolchain.nvcc import BuiltLibrary, build_library
from kernelwright.contracts.model import BuildFailure, GpuContract
from kernelwright.contracts.registry import contract_named, read_source
from kernelwright.contracts.target import HOPPER
from kernelwright.judge.emulate.check import Checker
from kernelwright.judge.wording import evidence_lines
from kernelwright.tasks.drawing import signature
from kernelwright.tasks.resolve import resolve

MOST_ELEMENTS = 1 << 20  # of a workload that the emulator does
CONTRACT = "extension"
TASKS = {
    "layernorm": "layernorm3d",
    "linear": "linear",
    "llama_ffw": "llama_ffw",
    "llama_rmsnorm": "rmsnorm",
    "mnist_conv_relu_pool": "conv_relu_pool",
    "mnist_cross_entropy": "cross_entropy",
    "mnist_linear": "linear",
    "mnist_linear_relu": "linear_relu",
    "mnist_pool": "maxpool2d",
    "resnet_block": "resnet_block",
}


def task_of(path: Path) -> str | None:
    name = next((TASKS[part] for part in reversed(path.parts[:-1]) if part in TASKS), None)
    backward = "backward" in path.parts or path.stem == "backward"
    return None if name is None else f"{name}:backward" if backward else name


def distinct(checkout: Path) -> list[Path]:
    """The first file of every content."""
    found: dict[str, Path] = {}
    for path in sorted(checkout.rglob("*.cu")):
        found.setdefault(hash_of(path), path)
    return list(found.values())


def hash_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def examined(path: Path, task: str, checker: Checker) -> dict[str, object]:
    found: dict[str, object] = {"task": task, "builds": False, "records": False, "emulated": "", "why": ""}
    try:
        candidate = read_source(path, CONTRACT)
    except CandidateError as error:
        return found | {"why": str(error).partition(": ")[2]}
    found["builds"] = isinstance(build_library(candidate.source, HOPPER), BuiltLibrary)
    opened = resolve(task, "cuda")
    signatures = tuple(signature(opened, workload) for workload in opened.public_workloads()[:1])
    contract = contract_named(CONTRACT)
    assert isinstance(contract, GpuContract)
    made = contract.toolchain(HOPPER).build(candidate, signatures)
    if isinstance(made, BuildFailure):
        found["why"] = made.lines[0]
    else:
        found |= {"records": True, "seconds": round(made.seconds, 1), "steps": len(made.built[0].program.steps)}
    checked = checker.check(task, candidate)
    lines = [] if checked.evidence is None or checked.outcome == "right" else evidence_lines(checked.evidence)
    said = checked.message or " | ".join((str(checked.reason or ""), *lines[:3]))
    return found | {"emulated": str(checked.outcome), "evidence": said}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--save", default="extension_coverage")
    given = parser.parse_args()
    target = RESULTS / f"{given.save}.json"
    kept = json.loads(target.read_text()) if target.is_file() else {"runs": [], "files": []}
    kept["runs"].append(provenance())
    rows: list[dict[str, object]] = kept["files"]
    done = {row["sha256"] for row in rows}
    with Checker(small=1, most_elements=MOST_ELEMENTS) as checker:
        for path in distinct(given.checkout):
            name = path.relative_to(given.checkout)
            task = task_of(name)
            if task is None or hash_of(path) in done:
                continue
            rows.append({"file": str(name), "sha256": hash_of(path), **examined(path, task, checker)})
            print(json.dumps(rows[-1]), flush=True)
            save(target, kept)
    builds = sum(bool(row["builds"]) for row in rows)
    recorded = sum(bool(row["records"]) for row in rows)
    right = sum(row["emulated"] == "right" for row in rows)
    print(f"{len(rows)} distinct files: {builds} build, {recorded} recorded, {right} right on the emulator")


if __name__ == "__main__":
    main()
