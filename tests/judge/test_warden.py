"""The warden: stops what it starts, times it from outside, and ends it whatever it does."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from kernelwright.contracts import Candidate
from kernelwright.judge import sandbox, warden
from kernelwright.judge.build import Built, build
from kernelwright.judge.nothing import empty_trial
from kernelwright.judge.runner import start_runner
from kernelwright.judge.warden import Ending, Subject
from kernelwright.tasks.model import Signature

EMPTY = Signature(())
CPUS = tuple(sorted(os.sched_getaffinity(0)))


def runner(source: str) -> Subject:
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


def _child_of(subject: Subject) -> int:
    parent = subject._process.pid
    return int(Path(f"/proc/{parent}/task/{parent}/children").read_text().split()[0])


def _threads(pid: int) -> list[str]:
    return [entry.name for entry in Path(f"/proc/{pid}/task").iterdir()]


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
        assert len(subject.log.text()) <= warden.LOG_BYTES


def test_control_characters_do_not_reach_a_terminal() -> None:
    source = '#include <stdio.h>\nvoid kernel() { fputs("\\x1b[2Jgone\\n", stderr); }'
    with runner(source) as subject:
        subject.ready()
        subject.trial("r", 5)
        assert "\x1b" not in subject.log.text() and "gone" in subject.log.text()


@pytest.mark.skipif(sandbox.capabilities().level is not sandbox.Level.full, reason="needs a user of its own")
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
    found = empty_trial(2, CPUS)
    assert 0 < found.least <= found.usual
    assert found.least < 0.02  # what is usual depends on what else the machine does


@pytest.mark.parametrize("level", [sandbox.Level.seccomp, sandbox.Level.landlock, sandbox.Level.full])
def test_every_level_of_the_sandbox_can_run_a_kernel(level: sandbox.Level) -> None:
    if not sandbox.capabilities().level.at_least(level):
        pytest.skip(f"this machine offers {sandbox.capabilities().level} only")
    sandbox.limit(level)
    try:
        with runner("void kernel() {}") as subject:
            assert subject.ready().ending is Ending.ok
            assert subject.trial("r", 5).ending is Ending.ok
    finally:
        sandbox.limit(sandbox.Level.full)
