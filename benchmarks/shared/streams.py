"""Runs a benchmark several times side by side, each on cores of its own.

Only for what is counted (outcomes), never for what is timed. A stream has its own home, its own temporary directory
and with it its own device lock, so that streams do not wait for each other.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

CORES = 2


def side_by_side(script: str, streams: int, arguments: list[str]) -> list[dict[str, Any]]:
    """What each stream wrote to the file that `--write` names. Cores are taken from the front, two for each."""
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="kernelwright-streams-") as folder:
        Path(folder).chmod(0o755)
        running = []
        for number in range(streams):
            home = Path(folder) / str(number)
            home.mkdir()
            home.chmod(0o755)  # sandboxed processes of another user pass through it
            mine = [cores[(number * CORES + core) % len(cores)] for core in range(CORES)]
            command = [
                *("taskset", "--cpu-list", ",".join(map(str, mine)), sys.executable, script),
                *("--stream", str(number), "--write", str(home / "result.json"), *arguments),
            ]
            running.append(subprocess.Popen(command, env={**os.environ, "TMPDIR": str(home)}))
        codes = [process.wait() for process in running]
        if any(codes):
            raise SystemExit(f"{script}: streams ended with {codes}")
        return [json.loads((Path(folder) / str(number) / "result.json").read_text()) for number in range(streams)]
