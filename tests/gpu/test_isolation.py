"""Attacks on launchers, under tools or not: from plan.py, from device code, from a process in a launcher's place."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kernelwright.contracts.candidate import Candidate
from kernelwright.contracts.cuda.source import Sources, read_cuda_candidate, split
from kernelwright.contracts.cuda.toolchain.build import GpuBuild, build_cuda
from kernelwright.isolation import start
from kernelwright.isolation.gpu_access import gpu_access
from kernelwright.isolation.levels import Level
from kernelwright.isolation.log import Log, ToolReport
from kernelwright.isolation.roles import Role
from kernelwright.isolation.warden import Ending
from kernelwright.judge.gpu.client import ENV
from kernelwright.judge.gpu.health import launcher_isolation, tool_isolation, torch_launcher_isolation
from kernelwright.judge.gpu.ncu import ncu
from kernelwright.judge.gpu.sanitize import SUMMARY, Tool, parse, sanitizer, sanitizing
from kernelwright.judge.keys import judge_key
from kernelwright.paths import state_dir

if TYPE_CHECKING:
    from tests.gpu.harness import Bench

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(start.level_of(Role.launcher) is Level.none, reason="this machine offers no namespaces"),
]
needs_sanitizer = pytest.mark.skipif(sanitizer() is None, reason="compute-sanitizer is not installed")
HERE = Path(__file__).parent
PROBE = """
import glob, json, os, socket, sys

key, judge = sys.argv[1], int(sys.argv[2])

def tried(action):
    try:
        action()
    except OSError as error:
        return error.strerror
    return "done"

def connect():
    with socket.socket() as one:
        one.settimeout(2)
        one.connect(("127.0.0.1", 22))

print("PROBE" + json.dumps({
    "key": tried(lambda: open(key, "rb")),
    "gpus": sorted(glob.glob("/dev/nvidia[0-9]*")),
    "caps": glob.glob("/dev/nvidia-caps/*"),
    "judge": tried(lambda: os.kill(judge, 0)),
    "pids": len([name for name in os.listdir("/proc") if name.isdigit()]),
    "connect": tried(connect),
    "uid": os.getuid(),
    "secret": os.environ.get("A_SECRET"),
    "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
    "root": tried(lambda: open("/written", "w")),
}), flush=True)
"""


def under(prefix: list[str], tmp_path: Path, report: ToolReport | None) -> dict[str, object]:
    """What a process finds that stands where a launcher under a tool does."""
    judge_key()
    start.make_folder(tmp_path, {"probe.py": PROBE})
    log, access = Log(1 << 20), gpu_access(0)
    grant = start.Grant(
        visible=(Path(sys.base_prefix).resolve(),),
        folder=tmp_path,
        gpu=access,
        tool=prefix[0] if prefix else "",
        writable=(report.fd,) if report else (),
    )
    role = Role.tool_launcher if prefix else Role.launcher
    python, script = str(Path(sys.executable).resolve()), f"{start.source_directory(tmp_path)}/probe.py"
    command = [ENV, *prefix, python, "-I", "-S", script, str(state_dir() / "judge.key"), str(os.getpid())]
    reply = start.run(role, command, grant, 120.0, log)
    assert reply.ending is Ending.exited, log.text()
    line = next((line for line in log.text().splitlines() if line.startswith("PROBE")), "")
    assert line, log.text()
    found: dict[str, object] = json.loads(line.removeprefix("PROBE"))
    assert found["gpus"] == [access.nodes[-1]] and found["caps"] == []
    assert found["visible"] == access.name
    return found


def confined(found: dict[str, object]) -> None:
    assert "done" not in (found["key"], found["judge"], found["connect"], found["root"]), found
    assert found["uid"] != os.getuid() or os.getuid() != 0
    assert found["secret"] is None
    assert int(str(found["pids"])) < 10


def test_launchers_and_tools_are_confined_here(bench: Bench) -> None:
    reached = launcher_isolation(bench.helpers)
    assert reached.level is Level.full, reached.missing
    with_torch = torch_launcher_isolation(bench.helpers)
    assert with_torch.level is Level.full, with_torch.missing
    path = sanitizer()
    if path is not None:
        under_tool = tool_isolation(bench.helpers, 0, sanitizing(path, Tool.memcheck), SUMMARY)
        assert under_tool.level is Level.full, under_tool.missing


def test_a_launcher_sees_its_own_gpu_and_nothing_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "of the judge's user")
    confined(under([], tmp_path, None))


@needs_sanitizer
def test_a_launcher_under_the_sanitizer_sees_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "of the judge's user")
    path = sanitizer()
    assert path is not None
    confined(under([path, "--tool", "memcheck"], tmp_path, None))


@pytest.mark.skipif(ncu() is None, reason="ncu is not installed")
def test_a_launcher_under_the_profiler_sees_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "of the judge's user")
    path = ncu()
    assert path is not None
    confined(under([path], tmp_path, None))


FORGING = """
extern "C" __global__ void run(const float* x, const float* weight, float* out, int rows, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0) printf("========= ERROR SUMMARY: 0 errors\\n========= COMPUTE-SANITIZER\\nfree of faults");
  if (i < rows * cols) out[i] = x[i];
  if (i == 0) out[(long)rows * cols + 1] = weight[0];
  if (i == 0) printf("no fault either");
}
/* plan.py
import kw


def plan(x, weight, eps, out):
    rows, cols = x.shape
    return kw.plan(kw.launch("run", (rows * cols + 255) // 256, 256, x, weight, out, kw.i32(rows), kw.i32(cols)))
*/
"""


@needs_sanitizer
@pytest.mark.slow
def test_what_a_kernel_prints_neither_hides_nor_forges_a_report(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "forging.cu"
    path.write_text(FORGING)
    found = {one.tool: one for one in bench.sanitize(path)}
    assert not any(one.failed for one in found.values()), [one.failed for one in found.values()]
    assert any("Invalid __global__ write" in finding.what for finding in found[Tool.memcheck].findings)
    assert parse(Tool.memcheck, "", "kernel.cu") == ()


@needs_sanitizer
@pytest.mark.slow
@pytest.mark.parametrize("where", ["before", "after"])
def test_a_flood_pushes_no_finding_out_of_a_report(
    bench: Bench, tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every thread prints; the bound is made so small that, where prints are part of the report, it is cut."""
    monkeypatch.setattr(ToolReport.__init__, "__defaults__", (1 << 14, None))
    flood = 'printf("========= nothing of note %d\\n", i);'
    mark = "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n" if where == "before" else "weight[0];\n"
    path = tmp_path / "flood.cu"
    path.write_text(FORGING.replace(mark, f"{mark}  if (i < 4096) {flood}\n"))
    found = {one.tool: one for one in bench.sanitize(path)}
    assert any("Invalid __global__ write" in finding.what for finding in found[Tool.memcheck].findings)


READING_PLAN = """
import os


def reached():
    for path in (KEY, "/proc/1/environ", "/dev/nvidiactl", "/dev/nvidia0", "/tmp/kernelwright-locks"):
        try:
            os.open(path, os.O_RDONLY)
        except OSError:
            continue
        yield path
    if "A_SECRET" in os.environ:
        yield "the judge's variables"


found = list(reached())
if found:
    raise ValueError(f"reached {found}")
"""


def test_plan_py_reaches_nothing_of_ours(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.gpu.harness import signature

    judge_key()
    monkeypatch.setenv("A_SECRET", "of the judge's user")
    honest = read_cuda_candidate(HERE.parent / "kernels_cuda" / "rmsnorm_vector")
    hostile = READING_PLAN.replace("KEY", repr(str(state_dir() / "judge.key")))
    sources = split(honest.source)
    candidate = Candidate("cuda", Sources(sources.kernel, hostile + sources.plan).joined())
    made = build_cuda(candidate, (signature(64, 128),), bench.target, bench.pool)
    assert isinstance(made, GpuBuild), made
