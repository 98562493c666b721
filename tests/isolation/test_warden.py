"""The warden: stops what it starts, times it from outside, and ends it whatever it does."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from kernelwright.contracts import Candidate
from kernelwright.contracts.host_build import Built, build
from kernelwright.errors import CannotDecide
from kernelwright.isolation import levels, log, start
from kernelwright.isolation.levels import Level
from kernelwright.isolation.native import program
from kernelwright.isolation.warden import Ending, WardedProcess
from kernelwright.judge.cpu import runner as cpu_runner
from kernelwright.judge.cpu.overhead import Overheads, overhead_of
from kernelwright.judge.cpu.runner import start_runner
from kernelwright.tasks.model import Signature

pytestmark = pytest.mark.timed

EMPTY = Signature(())
CPUS = tuple(sorted(os.sched_getaffinity(0)))


def runner(source: str) -> WardedProcess:
    built = build(Candidate("cpp", source), EMPTY)
    assert isinstance(built, Built), built
    return start_runner(built.library, EMPTY, [], 2, CPUS)


def test_a_trial_is_timed_from_outside() -> None:
    source = "#include <time.h>\nvoid kernel() { timespec t{0, 20000000}; nanosleep(&t, nullptr); }"
    with runner(source) as subject:
        assert subject.ready().ending is Ending.ok
        seconds = [subject.trial("r", 5).seconds for _ in range(3)]
    assert min(seconds) >= 0.02
    assert min(seconds) < 1  # the least of them, because a loaded machine may delay the others


def test_it_is_stopped_between_trials() -> None:
    """A thread counts all the time; between trials its count must stand still."""
    source = """
    #include <atomic>
    #include <thread>
    static std::atomic<long> count{0};
    static long seen = 0;
    static bool started = false;
    void kernel() {
      if (!started) { started = true; std::thread([] { for (;;) ++count; }).detach(); }
      else if (count - seen > 2000000000L) __builtin_trap();
      seen = count;
    }"""
    with runner(source) as subject:
        assert subject.ready().ending is Ending.ok
        first = subject.trial("r", 5)
        assert first.ending is Ending.ok
        pid = _child_of(subject)
        states = {Path(f"/proc/{pid}/task/{t}/stat").read_text().rsplit(")", 1)[1].split()[0] for t in _threads(pid)}
        assert states == {"T"}
        time.sleep(0.3)
        assert subject.trial("r", 5).ending is Ending.ok


def _child_of(subject: WardedProcess) -> int:
    """The runner; the warden's other child, which is older, is its rehearsal."""
    parent = subject._process.pid
    return int(Path(f"/proc/{parent}/task/{parent}/children").read_text().split()[-1])


def _threads(pid: int) -> list[str]:
    return [entry.name for entry in Path(f"/proc/{pid}/task").iterdir()]


SPINNING = """
    #include <thread>
    #include <unistd.h>
    static bool started = false;
    void kernel() {
      if (!started) { started = true; std::thread([] { BODY }).detach(); }
    }"""


@pytest.mark.parametrize("body", ["for (;;) {}", "usleep(50000); _exit(0);"])
def test_one_that_is_continued_between_trials_ran_while_stopped(body: str) -> None:
    with runner(SPINNING.replace("BODY", body)) as subject:
        assert subject.ready().ending is Ending.ok
        assert subject.trial("r", 5).ending is Ending.ok
        os.kill(_child_of(subject), signal.SIGCONT)
        time.sleep(0.1)
        assert subject.trial("r", 5).ending is Ending.ran_while_stopped


def test_one_that_stops_again_in_time_is_told_by_its_processor_time() -> None:
    with runner(SPINNING.replace("BODY", "for (;;) {}")) as subject:
        assert subject.ready().ending is Ending.ok
        assert subject.trial("r", 5).ending is Ending.ok
        for number in (signal.SIGCONT, signal.SIGSTOP):
            os.kill(_child_of(subject), number)
            time.sleep(0.1)
        reply = subject.trial("r", 5)
    assert reply.ending is Ending.ran_while_stopped
    assert reply.value > 1_000_000


def test_one_that_was_killed_while_it_was_stopped_is_not_to_blame() -> None:
    """As the kernel does when the machine's memory ends; what is stopped runs nothing that could have asked for it."""
    with runner("void kernel() {}") as subject:
        assert subject.ready().ending is Ending.ok
        assert subject.trial("r", 5).ending is Ending.ok
        os.kill(_child_of(subject), signal.SIGKILL)
        with pytest.raises(CannotDecide, match=r"memory ended, or another process killed .* \d+ MiB"):
            subject.trial("r", 5)
        assert not subject.alive


def test_one_that_was_killed_in_a_trial_is_not_to_blame() -> None:
    with runner("void kernel() { for (;;) {} }") as subject:
        assert subject.ready().ending is Ending.ok
        end = threading.Timer(0.3, os.kill, (_child_of(subject), signal.SIGKILL))
        end.start()
        with pytest.raises(CannotDecide, match="memory ended"):
            subject.trial("r", 30)
        end.join()


def test_one_that_had_a_lot_of_memory_may_have_wanted_to_be_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a candidate could exhaust the memory where it would be found out, and be judged again."""
    monkeypatch.setattr(start, "MODEST", 32 << 20)
    source = """
    #include <stdlib.h>
    void kernel() {
      volatile char* taken = static_cast<volatile char*>(malloc(64 << 20));
      for (long i = 0; i < 64 << 20; i += 4096) taken[i] = 1;
      free(const_cast<char*>(taken));  // the most that it ever had is what counts
    }"""
    with runner(source) as subject:
        assert subject.ready().ending is Ending.ok
        assert subject.trial("r", 5).ending is Ending.ok
        os.kill(_child_of(subject), signal.SIGKILL)
        reply = subject.trial("r", 5)
    assert (reply.ending, reply.value) == (Ending.killed, signal.SIGKILL)


def _may_cover_files() -> bool:
    """Whether a file can be put over /proc/vmstat, in a mount namespace of its own."""
    command = ["unshare", "-m", "mount", "--bind", os.devnull, "/proc/vmstat"]
    return shutil.which("unshare") is not None and subprocess.run(command, capture_output=True).returncode == 0


@pytest.mark.skipif(not _may_cover_files(), reason="needs to put a file over /proc/vmstat")
@pytest.mark.parametrize(
    ("modest", "counted", "code", "answer"),
    [
        (1 << 30, 8, 1, "taken"),
        (1 << 30, 7, 1, "exited 1"),  # the kernel took nothing
        (1 << 30, 8, 0, "exited 0"),  # it took something else
        (1 << 10, 8, 1, "exited 1"),  # it had a lot
    ],
)
def test_a_builder_that_fails_while_memory_ends_is_not_to_blame(
    modest: int, counted: int, code: int, answer: str, tmp_path: Path
) -> None:
    events = tmp_path / "vmstat"
    events.write_text("nr_free_pages 1000\noom_kill 7\n")
    covered = ["unshare", "-m", "sh", "-c", f'mount --bind {events} /proc/vmstat && exec "$@"', "sh"]
    builder = ["/bin/sh", "-c", f"echo oom_kill {counted} > {events}; exit {code}"]
    command = [*covered, str(program("warden")), "run", "--modest", str(modest), "--", *builder]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(answer)


@pytest.mark.parametrize(
    ("body", "ending"),
    [
        ("for (;;) {}", Ending.timeout),
        ("_exit(0);", Ending.exited),
        ("abort();", Ending.exited),
        ("*(volatile int*)8 = 1;", Ending.killed),
        ("throw 1;", Ending.exited),
        ("close(4); for (int fd = 3; fd < 64; ++fd) close(fd);", Ending.exited),
    ],
)
def test_however_it_ends_the_warden_says_so(body: str, ending: Ending) -> None:
    with runner(f"#include <stdlib.h>\n#include <unistd.h>\nvoid kernel() {{ {body} }}") as subject:
        assert subject.ready().ending is Ending.ok
        assert subject.trial("r", 0.5 if ending is Ending.timeout else 30).ending is ending
        assert not subject.alive


def test_words_said_in_advance_answer_nothing() -> None:
    """A runner that says done many times at once still has each trial waited for."""
    source = """
    #include <unistd.h>
    #include <time.h>
    void kernel() {
      for (int fd = 3; fd < 32; ++fd) if (write(fd, "dddddddd", 8)) {}
      timespec t{0, 30000000}; nanosleep(&t, nullptr);
    }"""
    with runner(source) as subject:
        assert subject.ready().ending is Ending.ok
        cpu_or_wall = [subject.trial("r", 5) for _ in range(4)]
    assert all(reply.ending is Ending.ok for reply in cpu_or_wall)


def test_output_is_bounded() -> None:
    source = """
    #include <stdio.h>
    void kernel() { for (int i = 0; i < 200000; ++i) puts("forged verdict: accepted"); fflush(stdout); }"""
    with runner(source) as subject:
        assert subject.ready().ending is Ending.ok
        assert subject.trial("r", 10).ending is Ending.ok
        assert len(subject.log.text()) <= log.LOG_BYTES


def test_control_characters_do_not_reach_a_terminal() -> None:
    source = '#include <stdio.h>\nvoid kernel() { fputs("\\x1b[2Jgone\\n", stderr); }'
    with runner(source) as subject:
        subject.ready()
        subject.trial("r", 5)
        assert "\x1b" not in subject.log.text() and "gone" in subject.log.text()


@pytest.mark.skipif(levels.capabilities().level is not Level.full, reason="needs a user of its own")
def test_threads_are_limited() -> None:
    source = """
    #include <pthread.h>
    #include <unistd.h>
    static void* wait_for_ever(void*) { for (;;) sleep(1); }
    void kernel() {
      pthread_t thread;
      for (int i = 0; i < 400; ++i) if (pthread_create(&thread, nullptr, wait_for_ever, nullptr) != 0) return;
      __builtin_trap();
    }"""
    with runner(source) as subject:
        assert subject.ready().ending is Ending.ok
        assert subject.trial("r", 5).ending is Ending.ok


def test_closing_leaves_no_process() -> None:
    with runner("void kernel() { for (;;) {} }") as subject:
        subject.ready()
        pid = _child_of(subject)
    assert not Path(f"/proc/{pid}").exists()


def test_an_empty_trial_takes_well_under_a_millisecond_or_so() -> None:
    overheads = Overheads(2, CPUS)
    first = overheads.medians()
    for _ in range(3):
        with overheads.running() as null_runners:
            null_runners.take()
    found = overhead_of(overheads.medians())
    overheads.close()
    assert overheads.medians()[: len(first)] == first and len(overheads.medians()) > len(first) > 1
    assert 0 < found.least <= found.usual <= found.most
    assert found.least < 0.02  # what is usual depends on what else the machine does


READS_MUCH = """
    #include <sys/mman.h>
    #include <cstddef>
    __attribute__((no_sanitize("address"))) void kernel() {
      const std::size_t piece = std::size_t{64} << 30, step = std::size_t{2} << 20;
      for (int count = 0; count < COUNT; ++count) {
        void* memory = mmap(nullptr, piece, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        madvise(memory, piece, 15);
        for (std::size_t at = 0; at < piece; at += step) (void)static_cast<volatile const char*>(memory)[at];
      }
    }"""


@pytest.mark.parametrize(("pieces", "ending"), [(1, Ending.ok), (64, Ending.killed)])
def test_page_tables_count_as_memory(pieces: int, ending: Ending, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that it reads is one page of zeros, mapped in many places; a piece needs 128 MiB of tables."""
    monkeypatch.setattr(cpu_runner, "HEADROOM", 512 << 20)
    built = build(Candidate("cpp", READS_MUCH.replace("COUNT", str(pieces))), EMPTY, sanitized=True)
    assert isinstance(built, Built), built
    with start_runner(built.library, EMPTY, [], 1, CPUS, sanitized=True) as subject:
        assert subject.ready().ending is Ending.ok
        assert subject.trial("r", 120).ending is ending


def test_shared_memory_that_no_limit_counts_is_refused() -> None:
    source = """
    #include <sys/mman.h>
    static bool mapped(int how) { return mmap(nullptr, 4096, PROT_READ, how | MAP_ANONYMOUS, -1, 0) != MAP_FAILED; }
    void kernel() {
      if (mapped(MAP_SHARED) || !mapped(MAP_PRIVATE)) __builtin_trap();
    }"""
    if not levels.capabilities().seccomp:
        pytest.skip("there are no filters of system calls here")
    with runner(source) as subject:
        assert subject.ready().ending is Ending.ok
        assert subject.trial("r", 5).ending is Ending.ok


def test_the_rehearsal_ends_with_the_warden() -> None:
    with runner("void kernel() {}") as subject:
        subject.ready()
        warden = subject._process.pid
        family = Path(f"/proc/{warden}/task/{warden}/children").read_text().split()
    assert len(family) == 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in family)


@pytest.mark.parametrize("level", [Level.seccomp, Level.landlock, Level.full])
def test_every_level_of_the_sandbox_can_run_a_kernel(level: Level) -> None:
    if not levels.capabilities().level.at_least(level):
        pytest.skip(f"this machine offers {levels.capabilities().level} only")
    levels.limit(level)
    try:
        with runner("void kernel() {}") as subject:
            assert subject.ready().ending is Ending.ok
            assert subject.trial("r", 5).ending is Ending.ok
    finally:
        levels.limit(Level.full)
