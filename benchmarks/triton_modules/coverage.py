"""What of a folder of Triton modules the `triton` contract takes: recorded, right in the interpreter, or why not.

    python benchmarks/triton_modules/coverage.py FOLDER [--table TABLE] [--only WORD] [--save NAME [--again]]

TABLE is TOML, `"file.py" = ["task", ...]` with paths from the folder, and FOLDER/kernels.toml by default. The folder is
the user's own; nothing of it is copied. Rows are printed, and with --save kept beside the other results, as they come;
a run of the same name goes on where another ended, and takes what was not right once more with --again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.shared.record import RESULTS, provenance, save

from kernelwright.contracts.candidate import CandidateError
from kernelwright.contracts.model import BuildFailure, GpuContract
from kernelwright.contracts.registry import contract_named, read_source
from kernelwright.contracts.target import HOPPER
from kernelwright.contracts.tunables import declared
from kernelwright.errors import KernelwrightError
from kernelwright.judge.emulate.check import Checker
from kernelwright.judge.wording import evidence_lines
from kernelwright.tasks.drawing import signature
from kernelwright.tasks.resolve import resolve

CONTRACT = "triton"


def modules(folder: Path, table: Path) -> Iterator[tuple[Path, str]]:
    """Files, and the tasks that they are held against."""
    for name, tasks in tomllib.loads(table.read_text()).items():
        for task in tasks:
            own = folder / task.partition(":")[0]
            yield folder / name, f"{folder / task}" if own.is_file() else task


def examined(path: Path, task: str, checker: Checker) -> dict[str, object]:
    found: dict[str, object] = {"records": False, "interpreted": "", "why": ""}
    try:
        candidate = read_source(path, CONTRACT)
        opened = resolve(task, "cuda")
    except (CandidateError, KernelwrightError) as error:
        return found | {"why": str(error).partition(": ")[2]}
    tuned = [one.name for one in declared(candidate) if one.name.endswith("_config")]
    contract = contract_named(CONTRACT)
    assert isinstance(contract, GpuContract)
    signatures = tuple(signature(opened, workload) for workload in opened.public_workloads()[:1])
    made = contract.toolchain(HOPPER).build(candidate, signatures)
    if isinstance(made, BuildFailure):
        return found | {"why": made.lines[0]}
    program = made.built[0].program
    found |= {
        "records": True,
        "seconds": round(made.seconds, 1),
        "steps": len(program.steps),
        "tensor_maps": len(program.tensor_maps),
        "autotuned": tuned,
    }
    checked = checker.check(task, candidate)
    lines = [] if checked.evidence is None or checked.outcome == "right" else evidence_lines(checked.evidence)
    why = checked.message or " | ".join((str(checked.reason or ""), *lines[:2]))
    return found | {"interpreted": str(checked.outcome), "why": "" if checked.outcome == "right" else why}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--save", default="")
    parser.add_argument("--again", action="store_true")
    given = parser.parse_args()
    target = RESULTS / f"{given.save}.json"
    kept = json.loads(target.read_text()) if given.save and target.is_file() else {"runs": [], "files": []}
    kept["runs"].append(provenance())
    rows = kept["files"]
    with Checker() as checker:
        for path, task in modules(given.folder, given.table or given.folder / "kernels.toml"):
            name = str(path.relative_to(given.folder))
            if given.only not in name:
                continue
            shown = Path(task).name if "/" in task else task
            known = next((row for row in rows if (row["file"], row["task"]) == (name, shown)), None)
            if known is not None and (known["interpreted"] == "right" or not given.again):
                continue
            if known is not None:
                rows.remove(known)
            digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
            rows.append({"file": name, "sha256": digest, "task": shown, **examined(path, task, checker)})
            print(json.dumps(rows[-1]), flush=True)
            if given.save:
                save(target, kept)
    recorded = sum(bool(row["records"]) for row in rows)
    right = sum(row["interpreted"] == "right" for row in rows)
    print(f"{len(rows)} modules, once for each task: {recorded} recorded, {right} right in the interpreter")


if __name__ == "__main__":
    main()
