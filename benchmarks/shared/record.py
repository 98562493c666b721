"""Where a result comes from: the command line as it was, the commit, the day and the machine.

A script that writes a whole file puts `provenance()` at its top; one that keeps sections or rows of earlier runs puts
it into each that was measured now. A copy of the tree, without its history or with that of another commit, takes its
commit from BENCHMARK_COMMIT.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import shlex
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kernelwright.devices.cpu import probe
from kernelwright.devices.nvidia import Gpu

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
MEASURED = ("src", "benchmarks", "tests", "examples", ":(exclude)benchmarks/results")  # what a figure depends on


def provenance(gpu: Gpu | None = None) -> dict[str, Any]:
    """For scripts to take at their start: the tree may be another one when they end."""
    return {
        "command": command(sys.argv),
        **revision(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": machine(gpu),
    }


def command(words: list[str], root: Path = ROOT) -> str:
    """As it was typed, but that a path outside of the repository is given by its name alone."""
    return shlex.join(["python", _script(Path(words[0]), root), *(_shown(word, root) for word in words[1:])])


def _script(given: Path, root: Path) -> str:
    """By its place in the repository, from wherever it was called; several folders have a script of one name."""
    whole, folder = given.resolve(), root / "benchmarks"
    if whole.is_relative_to(folder) and whole.is_file():
        return str(whole.relative_to(root))
    named = sorted(folder.glob(f"*/{given.name}"))
    from_a_copy = [path for path in named if path.parent.name == whole.parent.name]
    return str(next(iter(from_a_copy or named), folder / given.name).relative_to(root))


def _shown(word: str, root: Path) -> str:
    if word.startswith("--") and "=" in word:
        option, _, value = word.partition("=")
        return f"{option}={_shown(value, root)}"
    path = Path(word)
    if not path.is_absolute():
        return word
    return str(path.relative_to(root)) if path.is_relative_to(root) else path.name


def revision(root: Path = ROOT) -> dict[str, Any]:
    """The commit, and whether what a figure depends on differed from it; None where that is unknown."""
    given = os.environ.get("BENCHMARK_COMMIT")
    head = None if given else _git(root, "rev-parse", "--short", "HEAD")
    if head is None:
        return {"commit": given or "unknown", "dirty": None}
    changed = _git(root, "status", "--porcelain", "--", *MEASURED)
    return {"commit": head, "dirty": None if changed is None else bool(changed)}


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def machine(gpu: Gpu | None = None) -> dict[str, Any]:
    cpu = probe()
    return {
        "cpu": cpu.model,
        "cores": len(cpu.cores),
        "python": platform.python_version(),
        "torch": importlib.metadata.version("torch"),
        "load_average": os.getloadavg()[0],
        **({} if gpu is None else {"gpu": gpu.name, "driver": gpu.driver}),
    }


def gpu_facts(gpu: Gpu) -> dict[str, Any]:
    """What is known of a GPU but for its serial number, which concerns no reader."""
    return {name: value for name, value in asdict(gpu).items() if name != "uuid"}


def load(path: Path) -> dict[str, Any]:
    """What was written before; nothing where there is no file."""
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def save(path: Path, report: dict[str, Any], *, sort_keys: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1, sort_keys=sort_keys) + "\n")
