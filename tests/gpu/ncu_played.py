"""A stand-in for ncu that plays the launcher, too: it answers on the channel, and writes a report as ncu does."""

from __future__ import annotations

import sys
from pathlib import Path

SCRIPT = """#!{python}
import socket, sys, time
from kernelwright.isolation.channel import Channel, ChannelClosed

mode, report, count = {mode!r}, {report!r}, {count!r}
arguments = sys.argv[1:]
with open(count, "a") as file:
    file.write(" ".join(arguments) + "\\n")
log = open(arguments[arguments.index("--log-file") + 1], "w")
channel = Channel(socket.socket(fileno=int(arguments[arguments.index("kernelwright.judge.launcher.launcher") + 1])))
try:
    while True:
        message, _ = channel.receive()
        do = message["do"]
        if mode == "broken start" or (mode == "fault" and do == "run"):
            channel.send({{"fault": {{"what": "the call", "name": "CUDA_ERROR_ILLEGAL_ADDRESS"}}}})
            break
        if mode == "hang" and do == "run":
            time.sleep(60)
        channel.send({{"ok": {{"uses": []}} if do == "open" else {{"dirty": [], "well": True}}}})
except ChannelClosed:
    pass
if mode != "silent":
    log.write(report)
log.close()
"""

COLUMNS = (
    *("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream"),
    *("Block Size", "Grid Size", "Device", "CC"),
)
VALUES = {
    "gpu__time_duration.sum": ("ns", "12,345"),
    "dram__bytes_read.sum": ("byte", "16,793,600"),
    "dram__bytes_write.sum": ("byte", "4,194,304"),
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": ("%", "81.25"),
    "lts__t_sector_hit_rate.pct": ("%", "50.31"),
    "lts__throughput.avg.pct_of_peak_sustained_elapsed": ("%", "44.1"),
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("%", "31.07"),
    "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_elapsed": ("%", "6.5"),
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed": ("%", "0"),
    "sm__warps_active.avg.pct_of_peak_sustained_active": ("%", "88.02"),
    "smsp__warps_eligible.avg.per_cycle_active": ("warp", "0.61"),
    "smsp__issue_active.avg.pct_of_peak_sustained_active": ("%", "27.9"),
    "launch__registers_per_thread": ("register/thread", "32"),
    "launch__waves_per_multiprocessor": ("", "0.97"),
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": ("", "1,000"),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": ("", "10,000"),
    "l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum": ("byte", "0"),
    "l1tex__t_bytes_pipe_lsu_mem_local_op_st.sum": ("byte", "0"),
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": ("inst", "15"),
    "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio": ("inst", "3"),
    "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio": ("inst", "2"),
    "smsp__average_warps_issue_stalled_gmma_per_issue_active.ratio": ("", "n/a"),
}


def line(*cells: str) -> str:
    return ",".join('"' + cell.replace('"', '""') + '"' for cell in cells) + "\n"


def table(*names: str, values: dict[str, tuple[str, str]] | None = None) -> str:
    """A report of one launch for each name, as `--csv --page raw --print-units base` writes it."""
    told = VALUES if values is None else values
    text = "==PROF== Connected to process 4711 (/usr/bin/python3.12)\n"
    text += "".join(f'==PROF== Profiling "{name}": 0%....50%....100% - 9 passes\n' for name in names)
    text += "==PROF== Disconnected from process 4711\n"
    text += line(*COLUMNS, *told) + line(*[""] * len(COLUMNS), *(unit for unit, _ in told.values()))
    for number, name in enumerate(names):
        what = (str(number), "4711", "python3.12", "127.0.0.1", name, "1", "13", "(256, 1, 1)", "(1024, 1, 1)")
        text += line(*what, "0", "9.0", *(value for _, value in told.values()))
    return text


DENIED = (
    "==PROF== Connected to process 4711 (/usr/bin/python3.12)\n"
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the "
    "target device 0. For instructions on enabling permissions and to get more information see "
    "https://developer.nvidia.com/ERR_NVGPUCTRPERM\n"
    "==PROF== Disconnected from process 4711\n==WARNING== No kernels were profiled.\n"
)


class PlayedNcu:
    """The command as a file. `calls` are the command lines that it was started with."""

    def __init__(self, folder: Path, report: str, mode: str = "") -> None:
        self.path, self._count = folder / "ncu", folder / "calls"
        text = SCRIPT.format(python=sys.executable, mode=mode, report=report, count=str(self._count))
        self.path.write_text(text)
        self.path.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        return self._count.read_text().splitlines() if self._count.exists() else []
