"""What else ran on the machine while a speed was measured, and what to do where that made it undecided."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from kernelwright.devices.names import Kind
from kernelwright.judge.timing import statistics
from kernelwright.judge.verdict import Interference, SpeedStatus, WorkloadResult

TICKS = os.sysconf("SC_CLK_TCK")
NOTICEABLE = 0.1  # cores, or the share of time that a hypervisor took
MOST_NAMED = 3
WATCHED_SECONDS = 0.3
PROC = Path("/proc")


@dataclass(frozen=True)
class _Process:
    name: str
    parent: int
    ticks: int


@dataclass(frozen=True)
class MachineUsage:
    """The processor time that the machine, and each process on it, has used so far."""

    at: float
    cores: int
    busy: int
    stolen: int
    processes: dict[int, _Process] = field(default_factory=dict)

    def ours(self) -> set[int]:
        """This process and all that descend from it: runner, baselines and oracle of a judge."""
        found, size = {os.getpid()}, 0
        while size != len(found):
            size = len(found)
            found |= {pid for pid, one in self.processes.items() if one.parent in found}
        return found


def usage() -> MachineUsage | None:
    """None where the system does not tell."""
    try:
        lines = (PROC / "stat").read_text().splitlines()
    except OSError:
        return None
    user, nice, system, _idle, _iowait, irq, softirq, stolen, *_ = map(int, lines[0].split()[1:])
    cores = sum(line.startswith("cpu") for line in lines) - 1
    processes = {int(path.name): one for path in PROC.glob("[0-9]*") if (one := _process(path)) is not None}
    return MachineUsage(time.monotonic(), cores, user + nice + system + irq + softirq, stolen, processes)


def _process(folder: Path) -> _Process | None:
    try:
        text = (folder / "stat").read_text(errors="replace")
    except OSError:  # it has ended
        return None
    head, _, tail = text.rpartition(")")
    words = tail.split()
    own_and_reaped = sum(map(int, words[11:15]))
    return _Process(head.partition("(")[2], int(words[1]), own_and_reaped)


def interference(before: MachineUsage | None, after: MachineUsage | None) -> Interference | None:
    """How many cores others kept busy between two readings, and the share of time that a hypervisor took."""
    if before is None or after is None or after.at <= before.at:
        return None
    whole = (after.at - before.at) * TICKS
    ours = sum(_used(before, after, pid) for pid in after.ours())
    others = max(0.0, (after.busy - before.busy - ours) / whole)
    stolen = max(0.0, (after.stolen - before.stolen) / (whole * max(after.cores, 1)))
    return Interference(other_cores=round(others, 2), stolen=round(min(stolen, 1.0), 3), cores=after.cores)


def _used(before: MachineUsage, after: MachineUsage, pid: int) -> int:
    earlier = before.processes.get(pid)
    return max(0, after.processes[pid].ticks - (earlier.ticks if earlier else 0)) if pid in after.processes else 0


def busiest() -> list[str]:
    """The names of other processes that keep a core busy now, the busiest first."""
    before = usage()
    time.sleep(WATCHED_SECONDS)
    after = usage()
    if before is None or after is None:
        return []
    ours = after.ours()
    watched = [pid for pid in after.processes if pid in before.processes and pid not in ours]
    shares = {pid: _used(before, after, pid) / (WATCHED_SECONDS * TICKS) for pid in watched}
    busy = sorted((pid for pid in shares if shares[pid] > NOTICEABLE), key=lambda pid: -shares[pid])
    return [f"{after.processes[pid].name} (pid {pid}, {shares[pid]:.0%} of a core)" for pid in busy[:MOST_NAMED]]


def why_noisy(results: Iterable[WorkloadResult], kind: Kind) -> list[str]:
    """Of workloads whose speed is undecided because of noise: what was found, what is allowed, and who disturbed."""
    noisy = [result for result in results if result.speed is SpeedStatus.noisy]
    lines = []
    for result in noisy:
        if result.aa is None or result.fastest_baseline is None:
            continue
        allowed = statistics.band(kind, result.fastest_baseline.seconds)
        lines.append(
            f"too noisy on {result.label}: {result.aa_baseline} timed against itself gives {result.aa.low:.2f} to "
            f"{result.aa.high:.2f}; only {allowed.low:.2f} to {allowed.high:.2f} is allowed"
        )
    found = [result.interference for result in noisy if result.interference is not None]
    if found:
        worst = max(found, key=lambda one: one.other_cores)
        stolen = max(one.stolen for one in found)
        if worst.other_cores > NOTICEABLE:
            lines.append(f"other processes kept {worst.other_cores:.1f} of {worst.cores} cores busy meanwhile")
        if stolen > NOTICEABLE:
            lines.append(f"the hypervisor took {stolen:.0%} of the processor time")
    return lines


def advice(kind: Kind, trials: int) -> str:
    """What a person can do about noise."""
    if kind == "cuda":
        return (
            "what to do: stop other work on this GPU (`nvidia-smi` lists it) and on the CPU, lock the GPU's clocks, or "
            f"run more trials (--trials {2 * trials})"
        )
    return (
        "what to do: pause other work on this machine, leave a core free for it (--threads), or run more trials "
        f"(--trials {2 * trials})"
    )
