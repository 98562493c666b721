"""What one candidate does must not reach another that runs beside it or after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelwright.contracts import Candidate
from kernelwright.contracts.host_build import Built, build
from kernelwright.isolation.levels import capabilities
from kernelwright.isolation.start import runtime_libraries
from kernelwright.isolation.warden import Ending, WardedProcess
from kernelwright.judge.cpu.runner import start_runner
from kernelwright.tasks.model import Signature

pytestmark = pytest.mark.timed

NOTHING = Signature(())

CROWD = """
#include <pthread.h>
#include <unistd.h>
static void* wait(void*) { for (;;) sleep(1000); }
__attribute__((constructor)) static void gather() {
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 65536);
  pthread_t thread;
  while (pthread_create(&thread, &small, wait, nullptr) == 0) {}
}
void kernel() {}
"""
TEAM = """
#include <pthread.h>
#include <unistd.h>
static void* leave(void*) { return nullptr; }
void kernel() {
  pthread_t team[16];
  for (pthread_t& one : team) if (pthread_create(&one, nullptr, leave, nullptr) != 0) _exit(7);
  for (pthread_t& one : team) pthread_join(one, nullptr);
}
"""


def _start(source: str) -> WardedProcess:
    built = build(Candidate("cpp", source, "kernel.cpp"), NOTHING)
    assert isinstance(built, Built), built
    return start_runner(built.library, NOTHING, [], 2, ())


@pytest.mark.skipif(not capabilities().own_user, reason="threads are not limited here")
def test_a_crowd_of_threads_in_one_runner_leaves_room_in_another() -> None:
    with _start(CROWD) as crowd, _start(TEAM) as team:
        assert crowd.ready().ending is Ending.ok
        assert team.ready().ending is Ending.ok
        assert team.trial("r", 5.0).ending is Ending.ok


def test_a_runner_sees_the_languages_run_time_and_no_other_library() -> None:
    names = {Path(path).name.split(".")[0] for path in runtime_libraries(sanitized=False)}
    assert {"libc", "libstdc++", "libgomp", "libm"} <= names
    allowed = {"libc", "libstdc++", "libgomp", "libm", "libmvec", "libgcc_s", "libdl", "libpthread", "librt", "ld"}
    assert {name for name in names if not name.startswith("ld-")} <= allowed
