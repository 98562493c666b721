"""How much of KernelBench `templates` covers, and how much of that is right, without a GPU.

    python benchmarks/kernelbench/coverage.py CHECKOUT [--levels 1 2 3] [--only 2/39 ...] [--save]

CHECKOUT is the folder with level1, level2, ... Each problem is shrunk, captured, covered by both contracts, and the
candidates compiled and compared with float64: `cpp` as it is, `cuda` by the emulator, from its own source.
With --save a run that was interrupted continues. The limit for one problem is of processor time, its compilers'
included: a busy machine does not change what is covered.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch
import torch._inductor  # for tracing; imported once, before processes fork
from benchmarks.kernelbench.problem import report
from benchmarks.shared.record import RESULTS, load, provenance, save

CONTRACTS = ("cpp", "cuda")
MEMORY = 8 << 30  # of address space; torch alone maps several
TICK = 1.0
MOST_WALL = 20  # times the processor time, for what waits and computes nothing
CLOCK = os.sysconf("SC_CLK_TCK")
TARGET = RESULTS / "kernelbench_coverage.json"


def number_of(path: Path) -> int:
    return int(path.stem.partition("_")[0])


def examined(path: Path, folder: Path, contracts: list[str], seconds: float) -> dict[str, Any]:
    """In a process of its own, which has torch already."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    worker = context.Process(target=_child, args=(there, path, folder, contracts))
    worker.start()
    there.close()
    assert worker.pid is not None
    until = time.monotonic() + MOST_WALL * seconds
    try:
        while not here.poll(TICK):
            if processor_seconds(worker.pid) > seconds or time.monotonic() > until:
                return {"captured": False, "line": f"not done within {seconds:.0f} s of processor time"}
        found: dict[str, Any] = here.recv()
        return found
    except EOFError:
        worker.join()
        return {"captured": False, "line": f"the process ended with exit code {worker.exitcode}"}
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGKILL)  # compilers too
        worker.kill()
        worker.join()


def _child(there: Connection, path: Path, folder: Path, contracts: list[str]) -> None:
    os.setsid()
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, most))  # the sandbox sets limits of its own
    there.send(report(path, folder, contracts))


def processor_seconds(session: int) -> float:
    """Of all processes of a session, and of those that they have waited for."""
    ticks = 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[3]) == session:
            ticks += sum(map(int, fields[11:15]))
    return ticks / CLOCK


def share(rows: dict[str, Any], contracts: list[str]) -> dict[str, Any]:
    counts: dict[str, Any] = {"problems": len(rows), "captured": sum(row["captured"] for row in rows.values())}
    for contract in contracts:
        for what in ("covered", "right"):
            counts[f"{contract}_{what}"] = sum(bool(row.get(contract, {}).get(what)) for row in rows.values())
    return counts


def shown(row: dict[str, Any], contracts: list[str]) -> str:
    if not row["captured"]:
        return f"not captured: {row['line']}"
    said = []
    for contract in contracts:
        entry = row[contract]
        state = "right" if entry["right"] else "wrong" if entry["covered"] else "not covered"
        said.append(f"{contract} {state}{': ' + entry['line'] if 'line' in entry else ''}")
    return "; ".join(said)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--levels", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--only", nargs="+", default=[], help="problems as LEVEL/NUMBER")
    parser.add_argument("--contracts", nargs="*", default=list(CONTRACTS))
    parser.add_argument("--seconds", type=float, default=300.0, help="of processor time for one problem")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="folder for task files and candidates")
    parser.add_argument("--save", action="store_true", help=f"write {TARGET.name}")
    options = parser.parse_args()
    torch.set_num_threads(1)
    about = provenance()
    with tempfile.TemporaryDirectory() as made, ThreadPoolExecutor(options.jobs) as pool:
        folder = options.keep or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        for level in options.levels:
            paths = sorted((options.checkout / f"level{level}").glob("*.py"), key=number_of)
            if options.only:
                paths = [path for path in paths if f"{level}/{number_of(path)}" in options.only]
            rows: dict[str, Any] = of_commit(level, about) if options.save else {}
            paths = [path for path in paths if path.stem not in rows]
            ask = [pool.submit(examined, path, folder, options.contracts, options.seconds) for path in paths]
            for path, waiting in zip(paths, ask, strict=True):
                rows[path.stem] = waiting.result()
                print(f"{level}/{path.stem}: {shown(rows[path.stem], options.contracts)}", flush=True)
                if options.save:
                    keep(level, path.stem, rows[path.stem], about)
            print(f"level {level}: {share(rows, options.contracts)}", flush=True)


def of_commit(level: int, about: dict[str, Any]) -> dict[str, Any]:
    """Rows that a run of this very commit has saved: they are not examined again."""
    rows = load(TARGET).get("levels", {}).get(str(level), {}).get("rows", {})
    return {} if about["dirty"] else {name: row for name, row in rows.items() if row["commit"] == about["commit"]}


def keep(level: int, name: str, row: dict[str, Any], about: dict[str, Any]) -> None:
    """Beside what earlier runs found of other problems; each row says which commit it is of."""
    found = load(TARGET)
    levels = found.setdefault("levels", {})
    rows = levels.get(str(level), {}).get("rows", {}) | {name: {"commit": about["commit"], **row}}
    rows = dict(sorted(rows.items(), key=lambda item: int(item[0].partition("_")[0])))
    levels[str(level)] = {**share(rows, list(CONTRACTS)), "rows": rows}
    save(TARGET, {"provenance": about, "levels": dict(sorted(levels.items()))})


if __name__ == "__main__":
    main()
