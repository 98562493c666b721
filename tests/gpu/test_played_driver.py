"""Our launcher and NVIDIA's bindings as they are, on a driver that is played: what the driver is asked, and in what
order. Nothing here says that a kernel ran on a GPU."""

from __future__ import annotations

import mmap
import os
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from kernelwright.contracts.layout import BASE, SPAN, Access, lay_out
from kernelwright.contracts.program import Argument, Block, Copy, Memset, Pointer, Program, ProgramStep, TensorMap
from kernelwright.isolation import gpu_access
from kernelwright.isolation.levels import Level
from kernelwright.judge.gpu import gated, inspectors
from kernelwright.judge.gpu.ahead import SpareLaunchers
from kernelwright.judge.gpu.client import COPIES, FaultKind, LauncherProcess
from kernelwright.judge.gpu.gated import Faulted, GatedProcess
from kernelwright.judge.gpu.inspectors import Inspectors
from kernelwright.judge.gpu.sanitize import Tool
from kernelwright.tasks.model import Signature, TensorSpec
from tests.gpu import driver
from tests.gpu.played import GPU

pytest.importorskip("cuda.bindings.driver", reason="the CUDA bindings are missing: pip install -e '.[cuda]'")

COUNT = 1000
SIGNATURE = Signature(
    (TensorSpec("x", "float32", (COUNT,), (1,), "input"), TensorSpec("out", "float32", (COUNT,), (1,), "output"))
)
LAYOUT = lay_out(SIGNATURE, (("scratch", 4096), ("work", 256), ("zeros", 100)))
FILLS = ("received", "output", "poison", "workspace", "zero")
WORD = 0x7FF17FF2
TOOL = """\
#!/bin/sh
# A sanitizer that is played: it finds nothing, and says so where it is told to.
while [ $# -gt 0 ]; do
  case "$1" in
    --tool) export PLAYED_TOOL="$2"; shift 2 ;;
    --log-file) report="$2"; shift 2 ;;
    --*) case "$2" in no|100|analysis) shift ;; esac; shift ;;
    *) break ;;
  esac
done
"$@"
echo "========= ERROR SUMMARY: 0 errors" > "$report"
"""


def pointer(block: int) -> Argument:
    return Argument("00" * 8, (Pointer(0, block, 0),))


NUMBER = Argument(struct.pack("<i", COUNT).hex())


def launch(name: str, *more: Argument, **how: object) -> ProgramStep:
    return ProgramStep(0, name, (4, 1, 1), (256, 1, 1), (pointer(0), pointer(1), NUMBER, *more), **how)  # type: ignore[arg-type]


def program(*steps: ProgramStep | Memset | Copy, maps: tuple[TensorMap, ...] = ()) -> Program:
    places = (*LAYOUT.tensors, *LAYOUT.private)
    blocks = tuple(
        Block(place.name, place.base, place.bytes, place.offset, place.extent, place.access is Access.write, fill)
        for place, fill in zip(places, FILLS, strict=True)
    )
    return Program(BASE, SPAN, blocks, steps, maps, 1)


@dataclass
class Arena:
    """What the oracle has of it: a file for each tensor, as a driver exports them."""

    files: list[int]

    def __post_init__(self) -> None:
        x, self.out = (mmap.mmap(file, place.bytes) for file, place in zip(self.files, LAYOUT.tensors, strict=True))
        begin = LAYOUT.tensors[0].offset
        x[begin : begin + 4 * COUNT] = struct.pack(f"<{COUNT}f", *range(COUNT))

    @property
    def results(self) -> tuple[float, ...]:
        begin = LAYOUT.tensors[1].offset
        return struct.unpack(f"<{COUNT}f", self.out[begin : begin + 4 * COUNT])


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return driver.build(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def arena(library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Arena]:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    monkeypatch.setattr(gpu_access.nvidia, "probe", lambda index: GPU)
    files = [os.memfd_create(place.name) for place in LAYOUT.tensors]
    for file, place in zip(files, LAYOUT.tensors, strict=True):
        os.ftruncate(file, place.bytes)
    made = Arena(files)
    yield made
    for file in files:
        os.close(file)


def asked(launcher: LauncherProcess) -> list[str]:
    """What the driver was asked, once the process has ended."""
    launcher.end(10.0)
    return launcher.log.text().splitlines()


def called(arena: Arena, what: Program, *, exact: bool, filled: bool = False, word: int = WORD) -> list[str]:
    with LauncherProcess(b"helpers", level=Level.none) as launcher:
        launcher.open(what, [b"cubin"], arena.files, exact=exact)
        launcher.run(word, 5.0, filled=filled)
        return asked(launcher)


def test_a_launcher_that_is_held_asks_the_driver_for_nothing(arena: Arena) -> None:
    with LauncherProcess(b"helpers", level=Level.none, held=True) as launcher:
        assert launcher.alive and not asked(launcher)
    with LauncherProcess(b"helpers", level=Level.none, held=True) as launcher:
        assert launcher.well()  # to be asked begins
        assert asked(launcher)


def spare_launchers(levels: list[Level]) -> SpareLaunchers:
    """Which know as their level the last of the list."""
    return SpareLaunchers(lambda level: LauncherProcess(b"helpers", level=level, held=True), lambda: levels[-1], 1)


def test_a_spare_launcher_serves_once_and_another_takes_the_place_of_one_that_ended(arena: Arena) -> None:
    spares = spare_launchers([Level.none])
    spares.refill()
    ((_, waiting),) = spares._waiting
    with spares.take() as launcher:
        assert launcher is waiting and launcher.well() and not spares._waiting
    spares.refill()
    ((_, gone),) = spares._waiting
    gone.close()
    with spares.take() as launcher:
        assert launcher is not gone and launcher.well()
    spares.refill()
    spares.close()
    assert not spares._waiting


def test_a_spare_launcher_of_another_level_is_not_used(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    levels = [Level.none]
    spares = spare_launchers(levels)
    spares.refill()
    ((_, waiting),) = spares._waiting
    levels.append(Level.full)
    started: list[Level] = []

    class Fresh:
        def begin(self) -> None:
            started.append(Level.full)

    monkeypatch.setattr(spares, "_start", lambda level: Fresh())
    spares.take()
    assert started == [Level.full] and not waiting.alive


def test_a_call_is_timed_and_its_results_are_in_the_arena(arena: Arena) -> None:
    with LauncherProcess(b"helpers", level=Level.none) as launcher:
        assert launcher.well()
        (use,) = launcher.open(program(launch("twice", shared=100_000)), [b"cubin"], arena.files)
        timing = launcher.trial(WORD, 5.0)
        said = asked(launcher)
    assert arena.results == tuple(2.0 * i for i in range(COUNT))
    assert (use.function, use.dynamic_shared) == ("twice", 100_000) and 0 < timing.device < timing.outside
    assert said.count("twice: attribute 8 is 100000") == 2  # the module was loaded again before the call


def test_attributes_tensor_maps_and_memsets_reach_the_driver_as_the_program_has_them(arena: Arena) -> None:
    of_map = TensorMap(0, 0, "BFLOAT16", (64, 8), (256,), (32, 8), (1, 1), "NONE", "128B", "L2_128B", "NONE")
    steps = (
        *(Memset(2, 0, 64, (1 << 8 * width) - 1, width) for width in (1, 2, 4)),
        Copy(2, 64, 0, 0, 128),
        launch("twice", cluster=(16, 1, 1), cooperative=True, dependent=True),
        ProgramStep(0, "mapped", (4, 1, 1), (256, 1, 1), (Argument(tensor_map=0), pointer(1), NUMBER)),
    )
    said = called(arena, program(*steps, maps=(of_map,)), exact=False)
    assert [line for line in said if line.startswith("memset of 64")] == [
        f"memset of 64 bytes to {value}" for value in ("0xff", "0xffff", "0xffffffff")
    ]
    assert "twice: attribute 14 is 1" in said  # a cluster that is larger than every GPU has
    (extended,) = (line for line in said if "attributes" in line)
    assert extended.endswith("attributes 4:16,1,1 2:1,0,0 6:1,0,0")
    (encoded,) = (line for line in said if line.startswith("map "))
    assert encoded.split(" ", 2)[2] == "type 9 rank 2 64/0/32/1 8/256/8/1 0 3 2 0"


def test_under_a_tool_nothing_but_the_copies_is_there_while_a_kernel_runs(arena: Arena) -> None:
    said = called(arena, program(launch("twice")), exact=True)
    assert arena.results == tuple(2.0 * i for i in range(COUNT))
    before = said[: next(i for i, line in enumerate(said) if line.startswith("launch twice"))]
    assert before.count("cuMemMap 2097152") == before.count("cuMemUnmap 2097152") == 1  # the input, to be copied
    assert before.count("cuMemAddressReserve 2097152") == before.count("cuMemAddressFree 2097152") == 1
    assert not any(str(SPAN) in line for line in said)
    assert (
        "cuMemHostUnregister" in before and "launch twice grid 4,1,1 block 256,1,1 shared 0 stream 0 mapped 5" in said
    )


def test_the_arena_can_stay_mapped_under_a_tool(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(COPIES, "beside")
    said = called(arena, program(launch("twice")), exact=True)
    assert arena.results == tuple(2.0 * i for i in range(COUNT))
    assert f"cuMemAddressReserve {SPAN}" in said and not any(line.startswith("cuMemUnmap") for line in said)


def test_a_fill_covers_outputs_and_scratch_and_leaves_canaries_alone(arena: Arena) -> None:
    out = LAYOUT.tensors[1]
    arena.out[: out.offset] = b"c" * out.offset
    said = called(arena, program(_nothing()), exact=False, filled=True, word=0xFBFBFBFB)
    assert arena.out[: out.offset] == b"c" * out.offset and arena.out[out.tail :] == bytes(out.bytes - out.tail)
    assert set(arena.out[out.offset : out.tail]) == {0xFB}
    assert said.count("memset of 2097152 bytes to 0xfbfbfbfb") == 2


def _nothing() -> ProgramStep:
    return ProgramStep(0, "kw_empty", (1, 1, 1), (32, 1, 1), ())


@pytest.fixture
def tools(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Inspectors]:
    path = tmp_path / "sanitizer"
    path.write_text(TOOL)
    path.chmod(0o755)
    monkeypatch.setattr(inspectors, "sanitizer", lambda: str(path))
    made = Inspectors(b"helpers", 0, 0, nullcontext, lambda: Level.none)
    yield made
    made.close()


def test_a_tool_that_does_not_end_is_left_at_its_deadline_and_the_others_have_said_their_word(
    arena: Arena, tools: Inspectors
) -> None:
    begin = time.monotonic()
    found = tools.inspect(tuple(Tool), program(launch("twice_slowly")), [b"cubin"], arena.files, WORD, 4.0, "kernel.cu")
    took = time.monotonic() - begin
    assert [one.fault.kind if one.fault else None for one in found] == [None, None, FaultKind.timed_out]
    assert not any(one.failed or one.findings for one in found) and 4.0 <= took < 25.0
    assert arena.results == tuple(2.0 * i for i in range(COUNT))


def test_initcheck_is_not_waited_for_long_once_the_others_have_ended(
    arena: Arena, tools: Inspectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspectors, "LEAST_PATIENCE", 1.0)
    monkeypatch.setattr(inspectors, "MOST_SLOWER", 1.0)
    begin = time.monotonic()
    found = tools.inspect(
        tuple(Tool), program(launch("twice_slowly")), [b"cubin"], arena.files, WORD, 500.0, "kernel.cu"
    )
    assert [one.fault.kind if one.fault else None for one in found] == [None, None, FaultKind.timed_out]
    assert time.monotonic() - begin < 100.0


def test_nobody_waits_for_a_process_that_cannot_be_ended(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gated, "KILL_SECONDS", 0.2)
    launcher = LauncherProcess(b"helpers", level=Level.none)
    launcher.ready()
    kill, pid = os.killpg, launcher._process.pid
    monkeypatch.setattr(os, "killpg", lambda *_: None)  # as one that the driver holds in the kernel
    stop = subprocess.run(["kill", "-STOP", str(pid)], check=True)
    begin = time.monotonic()
    launcher.close()
    assert stop.returncode == 0 and time.monotonic() - begin < 5.0
    kill(pid, 9)


def test_a_tool_that_outlives_its_process_is_late_and_no_fault_of_the_candidate(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gated, "END_SECONDS", 0.2)
    launcher = LauncherProcess(b"helpers", level=Level.none)
    launcher.ready()
    ended = launcher._process
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as outliving:
        launcher._process = outliving
        ended.kill()
        ended.wait()
        with pytest.raises(Faulted) as fault:
            launcher.run(WORD, 5.0)
        assert fault.value.kind is FaultKind.timed_out
    assert isinstance(launcher, GatedProcess)
