"""Timing a process through the gate, with a stand-in that plays the launcher without a GPU."""

from __future__ import annotations

import sys
import textwrap
import time

import pytest

from kernelwright.errors import CannotDecide
from kernelwright.isolation import start
from kernelwright.isolation.roles import Role
from kernelwright.judge.gpu.gated import Faulted, FaultKind, GatedProcess, Timing

STAND_IN = """
import mmap, os, socket, sys, time
from kernelwright.isolation.channel import Channel, ChannelClosed
from kernelwright.judge.launcher.timed_queue import DONE, GATE_BYTES, GO, READY

channel = Channel(socket.socket(fileno=int(sys.argv[1])))
_, descriptors = channel.receive()
words = memoryview(mmap.mmap(descriptors[0], GATE_BYTES)).cast("Q")
channel.send({"ok": {}})
try:
    while True:
        message, _ = channel.receive()
        how = message["how"]
        if how == "die":
            os._exit(3)
        if how == "refuse":
            channel.send({"fault": {"what": "launch of f", "name": "CUDA_ERROR_INVALID_VALUE"}})
            break
        channel.send({"ok": {"armed": True}})
        words[READY // 8] = message["go"]
        while words[GO // 8] != message["go"]:
            pass
        time.sleep(0.02)
        if how == "fault":
            channel.send({"fault": {"what": "the call", "name": "CUDA_ERROR_ILLEGAL_ADDRESS"}})
            break
        if how == "shut":
            channel.send({"fault": {"what": "the gate of a timed call", "name": "it was not opened in time"}})
            break
        if how == "broken":
            channel.send({"fault": {"what": "the call", "name": "CUDA_ERROR_ECC_UNCORRECTABLE"}})
            break
        if how == "hang":
            time.sleep(60)
        words[DONE // 8] = message["done"]
        if how == "early":
            time.sleep(0.1)
        channel.send({"ok": {"over": True}})
        channel.send({"ok": {"seconds": 0.02}})
except ChannelClosed:
    pass
"""


class Played(GatedProcess):
    def __init__(self) -> None:
        command = [sys.executable, "-c", textwrap.dedent(STAND_IN), start.CHANNEL]
        super().__init__(Role.baseline, command, start.NOTHING_MORE, b"helpers")

    def timing(self, how: str, deadline: float = 5.0) -> Timing:
        return self._gated({"how": how}, deadline)[1]

    def call(self, how: str, deadline: float = 5.0) -> float:
        return self.timing(how, deadline).outside


def test_a_call_is_timed_from_the_opened_gate_to_the_word_done() -> None:
    with Played() as process:
        seconds = [process.call("right") for _ in range(5)]
        assert min(seconds) >= 0.02
        assert min(seconds) < 0.2  # the least of them, because a loaded machine may delay the others
        assert process.alive


@pytest.mark.parametrize(
    ("how", "kind"),
    [
        ("refuse", FaultKind.launch_failed),
        ("fault", FaultKind.illegal_access),
        ("hang", FaultKind.timed_out),
        ("die", FaultKind.gone),
    ],
)
def test_every_way_to_fail_has_a_kind(how: str, kind: FaultKind) -> None:
    begin = time.monotonic()
    with Played() as process:
        with pytest.raises(Faulted) as caught:
            process.call(how, deadline=0.3)
        assert caught.value.kind is kind and caught.value.message
        assert not process.alive
    assert time.monotonic() - begin < 10


def test_a_fault_of_the_machine_is_not_the_candidates() -> None:
    with Played() as process:
        with pytest.raises(CannotDecide, match="not the candidate"):
            process.call("broken")
        assert not process.alive


def test_a_gate_that_was_not_opened_is_not_the_candidates_fault() -> None:
    with Played() as process:
        with pytest.raises(CannotDecide, match="too busy"):
            process.call("shut")
        assert not process.alive


def test_a_word_that_is_written_early_does_not_bring_the_answer_forward() -> None:
    with Played() as process:
        honest = min((process.timing("right") for _ in range(5)), key=lambda one: one.answer)
        early = process.timing("early")
    assert honest.outside <= honest.answer < 0.1
    assert early.outside < 0.1 <= early.answer
